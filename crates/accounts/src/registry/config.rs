//! Limits of the registry's cache: the last keys of the section `[policy]`.

/// Limits of [`RegistryCache`](crate::RegistryCache).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryConfig {
    /// Interval between two reads of the registry's versions, in milliseconds.
    pub refresh_ms: u64,
    /// Age of the last successful read up to which cached answers are used while the account store
    /// is unavailable, in milliseconds.
    pub stale_ms_max: u64,
    /// Cached client keys, and as many cached entries.
    pub cache_entries_max: usize,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            refresh_ms: 1_000,
            stale_ms_max: 300_000,
            cache_entries_max: 100_000,
        }
    }
}
