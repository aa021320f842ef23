//! Receipts by purpose.

use super::source::count;

/// Receipts per purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageByPurpose {
    /// `training`.
    pub training: u64,
    /// `inference`.
    pub inference: u64,
    /// `research`.
    pub research: u64,
}

impl UsageByPurpose {
    /// Receipts of all purposes.
    #[must_use]
    pub fn total(self) -> u64 {
        self.training + self.inference + self.research
    }

    /// Sums of [`PER_PURPOSE`](super::source::PER_PURPOSE).
    pub(super) fn of_sums(training: i64, inference: i64, research: i64) -> Self {
        Self {
            training: count(training),
            inference: count(inference),
            research: count(research),
        }
    }
}
