//! Trust in the answers: each number beside its proven and its unproven part.

use serde::Serialize;
use usage::PartTotals;
use utoipa::ToSchema;
use warehouse::Trust;

use crate::routes::PurposeCounts;

/// A number by trust. Receipts are in one part. Clients and entries can be in both.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(crate) struct ByTrust {
    /// With receipts whose key was an operator's on arrival.
    pub(crate) proven: u64,
    /// With other receipts.
    pub(crate) unproven: u64,
}

impl From<usage::ByTrust> for ByTrust {
    fn from(usage::ByTrust { proven, unproven }: usage::ByTrust) -> Self {
        Self { proven, unproven }
    }
}

/// Totals by trust.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct TotalsByTrust {
    /// Of receipts whose key was an operator's on arrival.
    pub(crate) proven: TrustTotals,
    /// Of other receipts.
    pub(crate) unproven: TrustTotals,
}

/// Totals of one part.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrustTotals {
    pub(crate) total_receipts: u64,
    /// Clients with receipts of this part.
    pub(crate) unique_clients: u64,
    pub(crate) usage_by_purpose: PurposeCounts,
}

impl From<PartTotals> for TrustTotals {
    fn from(part: PartTotals) -> Self {
        Self {
            total_receipts: part.total_receipts,
            unique_clients: part.unique_clients,
            usage_by_purpose: part.usage_by_purpose.into(),
        }
    }
}

impl TotalsByTrust {
    pub(crate) fn new(proven: PartTotals, unproven: PartTotals) -> Self {
        Self {
            proven: proven.into(),
            unproven: unproven.into(),
        }
    }
}

/// Signer: the key, and the operator whose key it was on arrival.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Signer {
    /// SHA-256 of the key's SPKI in hexadecimal; null if it was erased.
    #[schema(required = true)]
    pub(crate) key_fingerprint: Option<String>,
    /// The operator's domain; null for unproven receipts.
    #[schema(required = true)]
    pub(crate) operator: Option<String>,
    /// `proven` or `unproven`.
    #[schema(pattern = "^(proven|unproven)$")]
    pub(crate) trust: &'static str,
}

impl Signer {
    pub(crate) fn new(key_fingerprint: &[u8; 32], operator: String) -> Self {
        Self {
            key_fingerprint: (*key_fingerprint != [0; 32]).then(|| hex::encode(key_fingerprint)),
            trust: Trust::of(&operator).as_str(),
            operator: Some(operator).filter(|operator| !operator.is_empty()),
        }
    }
}
