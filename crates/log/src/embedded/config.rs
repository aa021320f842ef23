//! The embedded log's settings.

use config::{ConfigFaults, Section};
use serde::{Deserialize, Serialize};

/// The smallest segment that makes sense: its header block and a few blocks of records.
const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// Settings of one embedded log (`[log]` in the configuration file for `receipts`). Every limit is
/// a hard one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddedConfig {
    /// Size of one segment file in bytes, preallocated. A multiple of 4096 and larger than one
    /// record.
    pub segment_bytes: u64,
    /// The largest encoded record in bytes. In `receipts` a batch of 8 MiB and its headers; in
    /// `verdicts` the verdicts on such a batch.
    pub record_bytes_max: usize,
    /// Most encoded bytes that wait for the disk or are being written; beyond it appends are
    /// `Busy`.
    pub queue_bytes_max: usize,
    /// Most records that wait for the disk or are being written; beyond it appends are `Busy`.
    pub queue_records_max: usize,
    /// Most bytes that one write and one sync take together (or one record, if that is larger).
    pub group_bytes_max: usize,
    /// After a write, wait at most so many microseconds for the producers it answered, so that they
    /// share the next write. A lone producer never waits; 0 turns it off.
    pub gather_us_max: u64,
    /// Sealed segments beyond so many bytes are deleted, oldest first, once every group has
    /// committed them.
    pub retention_bytes_max: u64,
    /// Sealed segments whose newest record is older are deleted, once every group has committed
    /// them.
    pub retention_ms_max: u64,
    /// Most bytes of bodies cached for consumers that keep up.
    pub tail_cache_bytes_max: usize,
    /// The log refuses records while its file system has fewer bytes free.
    pub min_free_bytes: u64,
    /// When opening, so many bytes of the newest sealed segments are checked record by record,
    /// beside the last segment, which always is. Older ones are checked when they are read.
    pub open_check_bytes_max: u64,
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 256 << 20,
            record_bytes_max: 9 << 20,
            queue_bytes_max: 64 << 20,
            queue_records_max: 65_536,
            group_bytes_max: 4 << 20,
            gather_us_max: 500,
            retention_bytes_max: 64 << 30,
            retention_ms_max: 7 * 24 * 3_600_000,
            tail_cache_bytes_max: 64 << 20,
            min_free_bytes: 256 << 20,
            open_check_bytes_max: 1 << 30,
        }
    }
}

impl EmbeddedConfig {
    /// Defaults of the log of verdicts. A record holds the verdicts on one batch, which are larger
    /// than the batch, and one append holds a block of the verifier.
    #[must_use]
    pub fn verdicts() -> Self {
        Self {
            record_bytes_max: 32 << 20,
            queue_bytes_max: 128 << 20,
            retention_ms_max: 3 * 24 * 3_600_000,
            ..Self::default()
        }
    }
}

impl Section for EmbeddedConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.range("segment_bytes", self.segment_bytes, SEGMENT_BYTES_MIN..=1 << 40);
        faults.require(
            "segment_bytes",
            self.segment_bytes.is_multiple_of(4096),
            "must be a multiple of 4096",
        );
        faults.range("record_bytes_max", self.record_bytes_max, 1024..=1 << 30);
        faults.at_least(
            "segment_bytes",
            self.segment_bytes,
            self.record_bytes_max as u64 + 8192,
            "record_bytes_max and 8192 bytes more",
        );
        faults.at_least(
            "queue_bytes_max",
            self.queue_bytes_max,
            self.record_bytes_max,
            "record_bytes_max",
        );
        faults.at_least("queue_records_max", self.queue_records_max, 1, "");
        faults.range("group_bytes_max", self.group_bytes_max, 4096..=1 << 30);
        faults.range("gather_us_max", self.gather_us_max, 0..=100_000);
        faults.at_least("retention_ms_max", self.retention_ms_max, 1, "");
    }
}

/// The section `[verdicts]`: the embedded log of verdicts, with defaults of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VerdictsConfig(pub EmbeddedConfig);

impl Default for VerdictsConfig {
    fn default() -> Self {
        Self(EmbeddedConfig::verdicts())
    }
}

impl Section for VerdictsConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        self.0.check(faults);
    }
}
