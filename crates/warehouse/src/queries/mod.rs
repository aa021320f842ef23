//! What publishers, the audit and the load tests ask, one file per noun.
//!
//! Every number is over `FINAL`. What comes from a user is always a bound server-side parameter, never part of the
//! SQL text. A publisher's question is scoped to the domains of its key.

mod audit;
mod client;
mod content;
mod dashboard;
mod receipt;
mod refusals;
mod timeseries;
mod totals;

use uuid::Uuid;

pub use audit::{AuditFinding, AuditSums, CommittedOffset};
pub use client::ClientStats;
pub use content::{ContentStats, TopClient};
pub use dashboard::{DashboardStats, TopContent, UsageByPurpose};
pub use receipt::{ReceiptFacts, RejectedReceipt, StoredReceipt};
pub use refusals::{Refusal, RefusalStats};
pub use timeseries::{GroupBy, Metric, TimeseriesPoint};
pub use totals::Totals;

/// Whose receipts are asked for: the verified domains of a key. Empty means nothing is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Domains in lower case.
    pub publishers: Vec<String>,
}

/// Which of them: a half-open range of receipt timestamps, and optional members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Inclusive, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// Exclusive, milliseconds since the Unix epoch.
    pub to_ms: i64,
    /// Only this `usage.purpose`.
    pub purpose: Option<String>,
    /// Only this `client.id`.
    pub client_id: Option<Uuid>,
    /// Only this `content.entryId`.
    pub entry_id: Option<Uuid>,
}
