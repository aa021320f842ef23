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
    /// Difference of the totals and the proven part.
    pub(super) fn unproven(all: UsageByPurpose, proven: UsageByPurpose, unique_clients: u64) -> Self {
        let usage_by_purpose = UsageByPurpose {
            training: all.training - proven.training,
            inference: all.inference - proven.inference,
            research: all.research - proven.research,
        };
        Self {
            total_receipts: usage_by_purpose.total(),
            unique_clients,
            usage_by_purpose,
        }
    }

    pub(super) fn proven(usage_by_purpose: UsageByPurpose, unique_clients: u64) -> Self {
        Self {
            total_receipts: usage_by_purpose.total(),
            unique_clients,
            usage_by_purpose,
        }
    }
}
