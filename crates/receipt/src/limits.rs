//! Limits of a receipt and a batch. Every limit is configurable; the defaults are in
//! receipts.example.toml.

use config::{ConfigFaults, Section};
use serde::{Deserialize, Serialize};

/// Wide enough for every year of RFC 3339, and far from overflow.
const EVER_MS: u64 = 1 << 60;

/// Limits of the format check. Sizes are in bytes, times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The longest receipt, alone or in a batch; also what a batch's own members may take together.
    pub receipt_bytes_max: usize,
    /// The longest batch, after any Content-Encoding is undone.
    pub batch_bytes_max: usize,
    /// The most receipts in one batch. At most 65,535: a receipt's index in its record has 16 bits.
    pub batch_receipts_max: usize,
    /// The deepest nesting of arrays and objects; the outermost value is depth 1.
    pub depth_max: usize,
    /// The longest `content.url`, decoded.
    pub url_bytes_max: usize,
    /// The longest of any other string, member names included, decoded.
    pub string_bytes_max: usize,
    /// Largest time by which a receipt's timestamp may be after its arrival.
    pub timestamp_ahead_ms_max: u64,
    /// Largest time by which a receipt's timestamp may be before its arrival.
    pub timestamp_behind_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            receipt_bytes_max: 64 * 1024,
            batch_bytes_max: 8 * 1024 * 1024,
            batch_receipts_max: 10_000,
            depth_max: 32,
            url_bytes_max: 2_048,
            string_bytes_max: 4_096,
            timestamp_ahead_ms_max: 5 * 60 * 1000,
            timestamp_behind_ms_max: 30 * 24 * 60 * 60 * 1000,
        }
    }
}

impl Limits {
    /// Returns limits within which the receipts of any deployment are, whatever its own limits:
    /// a receipt may be of any age, and as long as a batch.
    #[must_use]
    pub fn of_any_deployment() -> Self {
        let defaults = Self::default();
        let bytes_max = defaults.batch_bytes_max;
        // Without `..`, so that a new limit is decided on here too.
        Self {
            receipt_bytes_max: bytes_max,
            batch_bytes_max: bytes_max,
            batch_receipts_max: defaults.batch_receipts_max,
            depth_max: 128,
            url_bytes_max: bytes_max,
            string_bytes_max: bytes_max,
            timestamp_ahead_ms_max: EVER_MS,
            timestamp_behind_ms_max: EVER_MS,
        }
    }

    /// Returns the same limits for receipts of any age.
    #[must_use]
    pub fn of_any_age(self) -> Self {
        Self {
            timestamp_ahead_ms_max: EVER_MS,
            timestamp_behind_ms_max: EVER_MS,
            ..self
        }
    }
}

impl Section for Limits {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.range("receipt_bytes_max", self.receipt_bytes_max, 1..=self.batch_bytes_max);
        faults.range("batch_bytes_max", self.batch_bytes_max, 1..=1 << 30);
        // A receipt's index in its record has 16 bits.
        faults.range("batch_receipts_max", self.batch_receipts_max, 1..=65_535);
        faults.range("depth_max", self.depth_max, 1..=128);
        faults.at_least("url_bytes_max", self.url_bytes_max, 1, "");
        faults.at_least("string_bytes_max", self.string_bytes_max, 1, "");
        // 12 hours: a shard map is known a day ahead.
        faults.range("timestamp_ahead_ms_max", self.timestamp_ahead_ms_max, 0..=43_200_000);
    }
}
