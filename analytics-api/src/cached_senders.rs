//! Keys that have sent receipts, as far as answers to their requests have shown.

use quick_cache::sync::Cache;

/// Keys that are cached, of 32 bytes; unused ones are evicted first.
const KEYS_MAX: usize = 100_000;

/// Fingerprints of cached keys.
pub(crate) struct CachedSenders(Cache<[u8; 32], ()>);

impl Default for CachedSenders {
    fn default() -> Self {
        Self(Cache::new(KEYS_MAX))
    }
}

impl CachedSenders {
    /// Adds a key whose answer shows receipts.
    pub(crate) fn learn(&self, key_fingerprint: [u8; 32]) {
        self.0.insert(key_fingerprint, ());
    }

    /// Whether an answer has shown receipts of the key.
    pub(crate) fn contains(&self, key_fingerprint: &[u8; 32]) -> bool {
        self.0.get(key_fingerprint).is_some()
    }
}
