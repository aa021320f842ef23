//! Mails about an account's numbers: weekly and monthly reports, and alerts.
//!
//! The analytics API computes the numbers and queues a mail, once for each occasion. The recipient
//! is read when it is sent. Each member chooses their mails in each account
//! (`subscription.rs`); `queue.rs` has the mails.

mod queue;
pub(crate) mod subscription;

use serde::{Deserialize, Serialize};

/// Contents of a mail about numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MailedReport {
    /// The numbers of a week.
    Weekly(PeriodReport),
    /// The numbers of a month.
    Monthly(PeriodReport),
    /// An operator that wasn't seen for long.
    NewOperator {
        /// The operator's domain.
        operator: String,
        /// Uses by the operator since `from_ms`.
        uses: u64,
        /// From when on they are counted, in milliseconds since the Unix epoch.
        from_ms: i64,
    },
    /// More of a day's uses are unproven than the reader's limit.
    Unproven {
        /// Begin of the day (UTC), in milliseconds since the Unix epoch.
        from_ms: i64,
        /// Uses on the day.
        uses: u64,
        /// The unproven ones of them.
        unproven: u64,
        /// The reader's limit.
        percent: u8,
    },
    /// No receipts for as long as the reader's limit.
    Silence {
        /// Time of the last use, in milliseconds since the Unix epoch.
        last_ms: i64,
        /// The reader's limit.
        hours: u16,
    },
}

/// Numbers of a period, and of the one before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodReport {
    /// Inclusive, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// Exclusive.
    pub to_ms: i64,
    /// Receipts.
    pub uses: u64,
    /// Receipts of the period before.
    pub uses_before: u64,
    /// The unproven receipts.
    pub unproven: u64,
    /// Clients, pairs of ID and key.
    pub services: u64,
    /// Clients of the period before.
    pub services_before: u64,
    /// Operators that weren't seen for long before the period, those with the most uses first.
    pub new_operators: Vec<ReportedUse>,
    /// Number of all of them.
    pub new_operators_total: u64,
    /// The clients with the most uses.
    pub top_services: Vec<ReportedUse>,
    /// The entries with the most uses.
    pub top_content: Vec<ReportedUse>,
}

/// A name and its uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedUse {
    /// Name of a client or operator, or title of an entry. It may be any text.
    pub name: String,
    /// Uses.
    pub uses: u64,
    /// Whether all of them are proven.
    pub is_proven: bool,
}
