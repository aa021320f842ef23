//! Numbers in two parts: proven receipts, whose keys were an operator's, and unproven ones.

use serde::Deserialize;

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

/// Columns of [`TrustSums`], called `sums`, over rows called `client`. `over` is empty, or a window
/// of them.
pub(super) fn trust_sums(over: &str) -> String {
    format!(
        "(sum(client.receipts){over}, sum(client.proven){over}, countIf(client.proven > 0){over},
            countIf(client.receipts > client.proven){over}, sumForEach(client.by_purpose){over},
            sumForEach(client.proven_by_purpose){over}) AS sums"
    )
}

/// Sums over clients: receipts, the proven ones of them, clients with proven and with unproven
/// receipts, receipts by purpose, and the proven ones of them.
#[derive(Debug, Deserialize)]
pub(super) struct TrustSums((i64, i64, u64, u64, Vec<i64>, Vec<i64>));

/// Receipts in total, by purpose, and in two parts.
pub(super) struct UsageTotals {
    pub(super) receipts: u64,
    pub(super) by_purpose: UsageByPurpose,
    pub(super) proven: PartTotals,
    pub(super) unproven: PartTotals,
}

impl TrustSums {
    pub(super) fn totals(&self) -> UsageTotals {
        let Self((receipts, proven, proven_clients, unproven_clients, by_purpose, proven_by_purpose)) = self;
        let parts = ByTrust::of_sums(*receipts, *proven);
        let by_purpose = UsageByPurpose::of_sums(by_purpose);
        let proven_by_purpose = UsageByPurpose::of_sums(proven_by_purpose);
        UsageTotals {
            receipts: count(*receipts),
            by_purpose,
            proven: PartTotals {
                total_receipts: parts.proven,
                unique_clients: *proven_clients,
                usage_by_purpose: proven_by_purpose,
            },
            unproven: PartTotals {
                total_receipts: parts.unproven,
                unique_clients: *unproven_clients,
                usage_by_purpose: by_purpose.without(proven_by_purpose),
            },
        }
    }
}
