//! The section `[verifier]`.

use serde::{Deserialize, Serialize};
use service::config::{Faults, Validate};

/// How blocks are made and retried.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifierConfig {
    /// A block is closed this long after its first record came, in milliseconds.
    pub block_wait_ms_max: u64,
    /// A block is closed when the bodies in it reach this size, in bytes.
    pub block_bytes_max: usize,
    /// A block is closed when it holds this many records.
    pub block_records_max: usize,
    /// Parsed public keys kept.
    pub key_cache_entries_max: usize,
    /// Answers kept about clients' keys, and as many about entries, where `[policy]` asks for them.
    pub policy_cache_entries_max: usize,
    /// The first pause after the warehouse or the log failed, in milliseconds; it doubles up to `retry_wait_ms_max`.
    pub retry_wait_ms_min: u64,
    /// The longest pause between two tries, in milliseconds.
    pub retry_wait_ms_max: u64,
    /// How long a stopping verifier may take to finish the blocks in hand, in milliseconds.
    pub drain_ms_max: u64,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self {
            block_wait_ms_max: 150,
            block_bytes_max: 16 << 20,
            block_records_max: 20_000,
            key_cache_entries_max: 10_000,
            policy_cache_entries_max: 100_000,
            retry_wait_ms_min: 50,
            retry_wait_ms_max: 5_000,
            drain_ms_max: 20_000,
        }
    }
}

impl Validate for VerifierConfig {
    fn validate(&self, faults: &mut Faults) {
        let mut at_least_one = |key: &str, value: u64| {
            if value == 0 {
                faults.push(key, "must be at least 1");
            }
        };
        at_least_one("block_wait_ms_max", self.block_wait_ms_max);
        at_least_one("block_bytes_max", self.block_bytes_max as u64);
        at_least_one("block_records_max", self.block_records_max as u64);
        at_least_one("key_cache_entries_max", self.key_cache_entries_max as u64);
        at_least_one("policy_cache_entries_max", self.policy_cache_entries_max as u64);
        at_least_one("retry_wait_ms_min", self.retry_wait_ms_min);
        if self.retry_wait_ms_max < self.retry_wait_ms_min {
            faults.push("retry_wait_ms_max", "must not be below retry_wait_ms_min");
        }
    }
}
