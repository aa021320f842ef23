//! Completeness of an answer.

use serde::Serialize;
use utoipa::ToSchema;
use web::rfc3339_ms;

/// `completeThrough`, and `incomplete` where it doesn't hold.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Completeness {
    /// Everything acknowledged before this instant (RFC 3339) is counted.
    #[schema(format = DateTime)]
    pub complete_through: String,
    /// The last check of the ledger against the tables found receipts missing, or there too often:
    /// the numbers may be off by them, whatever `completeThrough` says. Only there when true.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

impl Completeness {
    pub(crate) fn new(complete_ms: i64, incomplete: bool) -> Self {
        Self {
            complete_through: rfc3339_ms(complete_ms),
            incomplete,
        }
    }
}
