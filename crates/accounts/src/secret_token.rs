//! Tokens of sessions, login links and invitations: 256 random bits, stored as a hash.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::AccountsError;
use crate::api_key::SecretHash;

const BYTES: usize = 32;

/// The secret of a session, a login link or an invitation. Its text has 64 lower-case hexadecimal
/// digits; its `Debug` shows nothing.
#[derive(Clone)]
pub struct SecretToken([u8; BYTES]);

impl SecretToken {
    /// A new one from the system's randomness.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> Result<Self, AccountsError> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| AccountsError::Randomness(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// A token from its text; `None` if the text can't be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; BYTES];
        let is_lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
    }

    /// The text, for its owner alone.
    #[must_use]
    pub fn reveal(&self) -> String {
        hex::encode(self.0)
    }

    /// A secret that follows from this one and from `purpose`, and from which neither this one nor
    /// that of another purpose can be computed.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let digest = Sha256::new().chain_update(b"receipts ").chain_update(purpose);
        // Of fixed length, so that no two purposes meet.
        digest.chain_update(b"\0").chain_update(self.0).finalize().into()
    }

    /// Whether `text` is the secret for `purpose`, in hexadecimal digits, in a time that doesn't
    /// depend on where they differ.
    #[must_use]
    pub fn confirms(&self, purpose: &str, text: &[u8]) -> bool {
        hex::encode(self.derive(purpose)).as_bytes().ct_eq(text).into()
    }

    /// The hash as it is stored.
    pub(crate) fn stored_hash(&self) -> String {
        SecretHash::of(&self.0).to_text()
    }
}

impl PartialEq for SecretToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretToken {}

impl fmt::Debug for SecretToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretToken")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_is_its_text_and_nothing_else_is() {
        let token = SecretToken::generate().unwrap();
        let text = token.reveal();
        let again = SecretToken::parse(&text).unwrap();
        assert_eq!((text.len(), again.stored_hash()), (64, token.stored_hash()));
        assert!(!format!("{token:?}").contains(&text));
        assert_ne!(token.stored_hash(), text);
        for wrong in [
            "",
            "00",
            &text[1..],
            &format!("{text}0"),
            &"A".repeat(64),
            &"g".repeat(64),
        ] {
            assert!(SecretToken::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn derived_secrets_differ_by_token_and_purpose() {
        let (one, two) = (SecretToken([1; 32]), SecretToken([2; 32]));
        assert_eq!(one.derive("a"), one.derive("a"));
        assert_ne!(one.derive("a"), one.derive("b"));
        assert_ne!(one.derive("a"), two.derive("a"));
        assert_ne!(hex::encode(one.derive("")), one.stored_hash());
        let text = hex::encode(one.derive("a"));
        assert!(one.confirms("a", text.as_bytes()));
        assert!(!one.confirms("b", text.as_bytes()) && !two.confirms("a", text.as_bytes()) && !one.confirms("a", b""));
    }
}
