//! The section `[writer]`.

use config::{ConfigFaults, Section};
use serde::{Deserialize, Serialize};

/// Settings of batches and retries.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WriterConfig {
    /// Interval between two inserts, in milliseconds. Longer costs less CPU and makes numbers
    /// older.
    pub insert_interval_ms: u64,
    /// A batch is inserted when it holds this many receipts.
    pub batch_receipts_max: usize,
    /// A batch is inserted when its records reach this size, in bytes.
    pub batch_bytes_max: usize,
    /// The first pause after ClickHouse or the log failed, in milliseconds; it doubles up to
    /// `retry_wait_ms_max`.
    pub retry_wait_ms_min: u64,
    /// The longest pause between two attempts, in milliseconds.
    pub retry_wait_ms_max: u64,
    /// Pause between two looks for requests to rebuild `usage`, in milliseconds.
    pub rebuild_poll_interval_ms: u64,
    /// Whether the exact bytes of accepted receipts are stored, so that they can be verified again
    /// after the log's retention. Takes about 190 bytes a receipt on disk.
    pub evidence: bool,
    /// Interval between two inserts of evidence, in milliseconds.
    pub evidence_interval_ms: u64,
    /// Evidence is inserted earlier when its records reach this size, in bytes.
    pub evidence_bytes_max: usize,
    /// Time that a stopping writer has to insert the batch in flight, in milliseconds.
    pub drain_ms_max: u64,
}

impl Default for WriterConfig {
    fn default() -> Self {
        Self {
            insert_interval_ms: 500,
            batch_receipts_max: 50_000,
            batch_bytes_max: 32 << 20,
            retry_wait_ms_min: 50,
            retry_wait_ms_max: 5_000,
            rebuild_poll_interval_ms: 5_000,
            evidence: true,
            evidence_interval_ms: 10_000,
            evidence_bytes_max: 16 << 20,
            drain_ms_max: 20_000,
        }
    }
}

impl Section for WriterConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.at_least("insert_interval_ms", self.insert_interval_ms, 1, "");
        faults.at_least("batch_receipts_max", self.batch_receipts_max, 1, "");
        faults.at_least("batch_bytes_max", self.batch_bytes_max, 1, "");
        faults.at_least("retry_wait_ms_min", self.retry_wait_ms_min, 1, "");
        faults.at_least("evidence_interval_ms", self.evidence_interval_ms, 1, "");
        faults.at_least("evidence_bytes_max", self.evidence_bytes_max, 1, "");
        faults.at_least("rebuild_poll_interval_ms", self.rebuild_poll_interval_ms, 1, "");
        faults.at_least(
            "retry_wait_ms_max",
            self.retry_wait_ms_max,
            self.retry_wait_ms_min,
            "retry_wait_ms_min",
        );
    }
}
