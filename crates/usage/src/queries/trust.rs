//! Numbers in two parts: proven receipts, whose keys were an operator's, and unproven ones.

use super::purposes::UsageByPurpose;
use super::source::count;

/// A number of receipts, or of something that receipts name, by trust.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByTrust {
    /// With proven receipts.
    pub proven: u64,
    /// With unproven receipts.
    pub unproven: u64,
}

impl ByTrust {
    /// Parts of a sum of receipts.
    pub(super) fn of_sums(receipts: i64, proven: i64) -> Self {
        Self {
            proven: count(proven),
            unproven: count(receipts - proven),
        }
    }

    /// Both parts of a number of receipts.
    #[must_use]
    pub fn total(self) -> u64 {
        self.proven + self.unproven
    }
}

/// Totals of the proven receipts, or of the unproven ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartTotals {
    /// Distinct receipts.
    pub total_receipts: u64,
    /// Distinct clients with such receipts.
    pub unique_clients: u64,
    /// Receipts per purpose.
    pub usage_by_purpose: UsageByPurpose,
}

impl PartTotals {
    /// Both parts of `receipts`, of which `proven` are proven, with each part's clients.
    pub(super) fn parts(
        receipts: i64,
        proven: i64,
        usage: UsageByPurpose,
        proven_usage: UsageByPurpose,
        clients: ByTrust,
    ) -> [Self; 2] {
        let receipts = ByTrust::of_sums(receipts, proven);
        [
            Self {
                total_receipts: receipts.proven,
                unique_clients: clients.proven,
                usage_by_purpose: proven_usage,
            },
            Self {
                total_receipts: receipts.unproven,
                unique_clients: clients.unproven,
                usage_by_purpose: usage.without(proven_usage),
            },
        ]
    }
}
