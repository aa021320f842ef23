//! The section `[verifier]`.

use config::{ConfigFaults, Section};
use serde::{Deserialize, Serialize};

/// Limits and intervals of blocks and retries.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifierConfig {
    /// A block is closed this long after its first record was polled, in milliseconds.
    pub block_wait_ms_max: u64,
    /// A block is closed when the bodies in it reach this size, in bytes.
    pub block_bytes_max: usize,
    /// A block is closed when it holds this many records.
    pub block_records_max: usize,
    /// Parsed public keys cap.
    pub key_cache_entries_max: usize,
    /// Values of one record of `verdicts`, in bytes. The verdicts on one source record always fit
    /// into one record.
    pub record_bytes_max: usize,
    /// Rejected receipts of one key, publisher and UTC day that are stored with their bytes.
    /// Further ones are only counted.
    pub rejected_stored_per_day_max: u32,
    /// Bytes of rejected receipts of a UTC day that are stored, of all senders. In one half, those
    /// that stored most are the first whose further ones are only counted; the other is for the
    /// first rejections of each key.
    pub rejected_bytes_per_day_max: u64,
    /// Pause between idle records of a partition, in milliseconds.
    pub idle_interval_ms: u64,
    /// The first pause after a log failed, in milliseconds; it doubles up to `retry_wait_ms_max`.
    pub retry_wait_ms_min: u64,
    /// The longest pause between two tries, in milliseconds.
    pub retry_wait_ms_max: u64,
    /// Time that a stopping verifier has to finish the blocks in flight, in milliseconds.
    pub drain_ms_max: u64,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self {
            block_wait_ms_max: 50,
            block_bytes_max: 16 << 20,
            block_records_max: 20_000,
            key_cache_entries_max: 10_000,
            record_bytes_max: 1 << 20,
            rejected_stored_per_day_max: 10_000,
            rejected_bytes_per_day_max: 1 << 30,
            idle_interval_ms: 5_000,
            retry_wait_ms_min: 50,
            retry_wait_ms_max: 5_000,
            drain_ms_max: 20_000,
        }
    }
}

impl Section for VerifierConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.at_least("block_wait_ms_max", self.block_wait_ms_max, 1, "");
        faults.at_least("block_bytes_max", self.block_bytes_max, 1, "");
        faults.at_least("block_records_max", self.block_records_max, 1, "");
        faults.at_least("key_cache_entries_max", self.key_cache_entries_max, 1, "");
        faults.at_least("record_bytes_max", self.record_bytes_max, 1, "");
        faults.at_least("idle_interval_ms", self.idle_interval_ms, 1, "");
        faults.at_least("retry_wait_ms_min", self.retry_wait_ms_min, 1, "");
        faults.at_least(
            "retry_wait_ms_max",
            self.retry_wait_ms_max,
            self.retry_wait_ms_min,
            "retry_wait_ms_min",
        );
    }
}
