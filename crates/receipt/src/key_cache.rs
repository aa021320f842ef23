//! A bounded cache of parsed keys: parsing a key costs as much as a good part of a verification.

use quick_cache::sync::Cache;

use crate::spki::PEM_BYTES_MAX;
use crate::{KeyError, PublicKey};

/// Parsed keys by the text of their PEM. Keys that can't be used are remembered too.
///
/// Holds at most `entries_max` keys of up to 1 KiB of text each; a longer PEM can't be good, and
/// isn't retained.
#[derive(Debug)]
pub struct KeyCache {
    keys: Cache<Box<str>, Result<PublicKey, KeyError>>,
}

impl KeyCache {
    /// An empty cache for `entries_max` keys.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        Self {
            keys: Cache::new(entries_max.max(1)),
        }
    }

    /// The key that a PEM holds.
    ///
    /// # Errors
    /// As [`PublicKey::from_pem`].
    pub fn get(&self, pem: &str) -> Result<PublicKey, KeyError> {
        if pem.len() > PEM_BYTES_MAX {
            return PublicKey::from_pem(pem);
        }
        if let Some(key) = self.keys.get(pem) {
            return key;
        }
        let key = PublicKey::from_pem(pem);
        self.keys.insert(pem.into(), key.clone());
        key
    }
}
