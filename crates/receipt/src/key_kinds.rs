//! The kinds of the keys met last: a client's receipts carry one key, and reading its PEM costs as
//! much as reading the rest.

use crate::Algorithm;
use crate::spki::{PEM_BYTES_MAX, Spki};

/// A power of two. With the longest PEM, all of them take 16 KiB.
const ENTRIES: usize = 16;

/// Algorithm of the key in a PEM, or what is wrong with the PEM.
type KeyKind = Result<Algorithm, String>;

/// Kinds by the whole text of their PEM; texts that share an entry displace each other.
#[derive(Debug, Default)]
pub(crate) struct KeyKinds {
    entries: [Option<(Box<str>, KeyKind)>; ENTRIES],
}

impl KeyKinds {
    /// Result of [`Spki::from_pem`] for a PEM.
    pub(crate) fn of(&mut self, pem: &str) -> KeyKind {
        let read = || Spki::from_pem(pem).map(|spki| spki.algorithm);
        if pem.len() > PEM_BYTES_MAX {
            return read();
        }
        let entry = &mut self.entries[entry_of(pem.as_bytes())];
        if let Some((existing, kind)) = entry
            && **existing == *pem
        {
            return kind.clone();
        }
        let kind = read();
        *entry = Some((pem.into(), kind.clone()));
        kind
    }
}

/// By eight characters from the middle, which are the key's own in every kind of PEM.
fn entry_of(pem: &[u8]) -> usize {
    let middle = pem.len() / 2;
    let own = pem.get(middle..middle + 8).unwrap_or_default();
    own.iter()
        .fold(0, |hash: usize, &byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
        % ENTRIES
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::{KeyKinds, entry_of};
    use crate::spki::Spki;
    use crate::{Algorithm, SigningKey};

    #[test]
    fn says_what_reading_says_in_any_order() {
        let mut pems: Vec<String> = Vec::new();
        for algorithm in [Algorithm::Ed25519, Algorithm::EcdsaP256] {
            pems.extend((0..40).map(|_| SigningKey::generate(algorithm).unwrap().public_key_pem().to_owned()));
        }
        // As long as another one, and the same in the middle.
        let other_end = pems[0].replace("END", "DNE");
        pems.extend([String::new(), "x".repeat(2_000), other_end]);
        let mut kinds = KeyKinds::default();
        for _ in 0..2 {
            for pem in pems.iter().chain(pems.iter().rev()) {
                assert_eq!(kinds.of(pem), Spki::from_pem(pem).map(|spki| spki.algorithm), "{pem}");
            }
        }
    }

    #[test]
    fn keys_spread_over_the_entries() {
        for algorithm in [Algorithm::Ed25519, Algorithm::EcdsaP256] {
            let key = || SigningKey::generate(algorithm).unwrap();
            let met: HashSet<usize> = (0..400).map(|_| entry_of(key().public_key_pem().as_bytes())).collect();
            assert_eq!(met.len(), super::ENTRIES, "{algorithm}");
        }
    }
}
