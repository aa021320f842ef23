//! The text of an API key: `rcpt_<key id>_<secret>_<checksum>`, in lower-case hexadecimal.
//!
//! The prefix lets secret scanners find a leaked key; the checksum (CRC-32C of all before it) lets
//! a typo be refused without a look into the store. The secret has 256 random bits, so a single
//! SHA-256 is enough at rest: there is nothing to guess.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Prefix of every key.
const PREFIX: &str = "rcpt_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
/// The whole text's length.
const TEXT_BYTES: usize = PREFIX.len() + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES + 1 + 8;

/// A key taken apart. Its `Debug` doesn't show the secret.
#[derive(Clone)]
pub struct ApiKey {
    id: String,
    secret: [u8; SECRET_BYTES],
}

/// SHA-256 of a secret. Its `Debug` shows nothing.
#[derive(Clone, Copy)]
pub(crate) struct SecretHash([u8; 32]);

impl ApiKey {
    /// A new one from the system's randomness.
    ///
    /// # Errors
    /// The system has none.
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self {
            id: hex::encode(id),
            secret,
        })
    }

    /// A key's text taken apart, or `None` if it isn't one: another length, prefix or alphabet, or
    /// a wrong checksum.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != TEXT_BYTES {
            return None;
        }
        let (covered, checksum) = text.rsplit_once('_')?;
        let (id, secret) = covered.strip_prefix(PREFIX)?.split_once('_')?;
        if id.len() != 2 * ID_BYTES || checksum != checksum_of(covered) || !is_lower_hex(id) || !is_lower_hex(secret) {
            return None;
        }
        let mut bytes = [0; SECRET_BYTES];
        hex::decode_to_slice(secret, &mut bytes).ok()?;
        Some(Self {
            id: id.to_owned(),
            secret: bytes,
        })
    }

    /// The public half: names the key in lists and logs.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole text, secret included: shown once, to whom it belongs.
    #[must_use]
    pub fn reveal(&self) -> String {
        let covered = format!("{PREFIX}{}_{}", self.id, hex::encode(self.secret));
        let checksum = checksum_of(&covered);
        format!("{covered}_{checksum}")
    }

    pub(crate) fn secret_hash(&self) -> SecretHash {
        SecretHash::of(&self.secret)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ApiKey({})", self.id)
    }
}

impl SecretHash {
    /// Hash that an unknown key is compared with, so that the check takes as long as for a known
    /// key.
    pub(crate) const NONE: SecretHash = SecretHash([0; 32]);

    pub(crate) fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Whether they are equal, in a time that doesn't depend on where they differ.
    pub(crate) fn matches(&self, other: &SecretHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// As it is stored.
    pub(crate) fn to_text(self) -> String {
        hex::encode(self.0)
    }
}

impl FromStr for SecretHash {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretHash")
    }
}

fn checksum_of(covered: &str) -> String {
    format!("{:08x}", crc32c::crc32c(covered.as_bytes()))
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_and_back() {
        let key = ApiKey::generate().unwrap();
        let text = key.reveal();
        assert_eq!(text.len(), TEXT_BYTES);
        let back = ApiKey::parse(&text).unwrap();
        assert_eq!((back.id(), back.reveal()), (key.id(), text.clone()));
        assert!(back.secret_hash().matches(&key.secret_hash()));
        assert!(
            !format!("{key:?}").contains(&text[22..]),
            "the secret stays out of logs"
        );
        assert_ne!(ApiKey::generate().unwrap().reveal(), text);
    }

    #[test]
    fn a_fixed_key_keeps_its_text() {
        let key = ApiKey {
            id: "00112233445566aa".to_owned(),
            secret: [0xab; 32],
        };
        let text = format!("rcpt_00112233445566aa_{}_", "ab".repeat(32));
        assert!(key.reveal().starts_with(&text), "{}", key.reveal());
        assert_eq!(&key.reveal()[text.len()..], checksum_of(&text[..text.len() - 1]));
        // CRC-32C's own check value (RFC 3720, B.4, and the usual "123456789").
        assert_eq!(checksum_of("123456789"), "e3069283");
    }

    proptest! {
        /// A changed, dropped or added character is always noticed.
        #[test]
        fn a_typo_is_refused(at in 0..TEXT_BYTES, to in "[0-9a-zA-Z_ ]") {
            let text = ApiKey::generate().unwrap().reveal();
            let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
            prop_assert_eq!(ApiKey::parse(&changed).is_some(), changed == text);
            let shorter = format!("{}{}", &text[..at], &text[at + 1..]);
            prop_assert!(ApiKey::parse(&shorter).is_none());
            let longer = format!("{}{to}{}", &text[..at], &text[at..]);
            prop_assert!(ApiKey::parse(&longer).is_none());
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,120}") {
            prop_assert!(ApiKey::parse(&text).is_none());
        }
    }
}
