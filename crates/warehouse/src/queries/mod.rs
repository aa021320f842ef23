//! Queries of publishers, the audit and the load tests, one file per noun.
//!
//! Every number is over `FINAL`. What comes from a user is always a bound server-side parameter,
//! never part of the SQL text. A publisher's question is scoped to the domains of its key.

mod audit;
mod broken;
mod damage;
mod erasure;
mod evidence;
mod export;
mod ledger;
mod listing;
mod live;
mod part;
mod parts;
mod reattribution;
mod receipt;
mod refusals;
mod refused;
mod rejected;
mod scope;
mod sender;
mod totals;
mod unlisted;

use crate::SqlStatement;
use uuid::Uuid;

pub use audit::{AuditFinding, AuditPartition, AuditState, AuditSums, AuditedSection, CommittedOffset, SectionOffsets};
pub use erasure::{MetadataErasure, MetadataRows};
pub use evidence::{EvidencePage, StoredBatchSignature, StoredEvidence};
pub use export::{ExportedReceipt, ReceiptCursor};
pub use listing::NewestCursor;
pub use live::{ARRIVALS_MAX, NewOffsets, StreamChanges, StreamPosition};
pub use part::DataPart;
pub(crate) use part::names_a_part;
pub use parts::{Irreplaceable, LogBegin};
pub use reattribution::{ReattributedPublisher, Reattribution};
pub use receipt::{PayloadCursor, PayloadTotals, ReceiptFacts, ReceiptRejection, ReceiptsOf, StoredReceipt};
pub use refusals::{Refusal, RefusalCursor, RefusalFilter, RefusalStats};
pub use refused::{REFUSED_BY_POLICY, REFUSED_BY_WAREHOUSE};
pub use rejected::{Rejected, RejectedCursor, RejectedFilter, RejectedOrder, StandingRejection};
pub use scope::{Below, QueryScope};
pub use sender::{LogRanges, ReasonSummary, SenderOccurrence, SenderOutcome, SenderPage};
pub use totals::Totals;
pub use unlisted::UnlistedDay;

/// Filter of receipts: a half-open range of timestamps, and optional members.
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
    /// Only this `usage.modelId`; the empty text for receipts that name none.
    pub model_id: Option<String>,
    /// Only receipts that are proven, or only those that aren't.
    pub trust: Option<Trust>,
    /// Only receipts whose key was this operator's, a domain.
    pub operator: Option<String>,
    /// Operators whose receipts are proven; all operators' are if this is empty.
    pub trusted: Vec<String>,
    /// Only receipts signed with this key, SHA-256 of its SPKI.
    pub key_fingerprint: Option<[u8; 32]>,
    /// Receipts that arrived before anybody had verified the publisher's domain.
    pub before_verification: BeforeVerification,
}

/// Whether a query counts receipts that arrived before anybody had verified the publisher's domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum BeforeVerification {
    /// Only the others.
    #[default]
    Exclude,
    /// All receipts.
    Include,
    /// No others.
    Only,
}

/// Whether the key of a receipt was a trusted operator's when the receipt arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The key was a trusted operator's.
    Proven,
    /// The key was another operator's, or nobody's.
    Unproven,
}

impl Trust {
    /// The word of the APIs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Unproven => "unproven",
        }
    }

    /// Trust in a receipt with this operator, the empty text for none, where only these are
    /// trusted; all are if there are none.
    #[must_use]
    pub fn of(operator: &str, trusted: &[String]) -> Self {
        if operator.is_empty() || !(trusted.is_empty() || trusted.iter().any(|one| one == operator)) {
            Self::Unproven
        } else {
            Self::Proven
        }
    }
}

/// Range of `DateTime64`: 1900 to 2299.
const TIME_MS_MIN: i64 = -2_208_988_800_000;
const TIME_MS_MAX: i64 = 10_413_791_999_999;

/// The end of every query over `FINAL`. Rows with equal keys have equal timestamps, so they never
/// are in two partitions. The bloom index is over a member of the key, so that a skipped granule
/// holds no row of a key that another granule has. And ClickHouse moves only conditions over the
/// key before the merge, which halves the time.
pub const FINAL_SETTINGS: &str =
    "SETTINGS do_not_merge_across_partitions_select_final = 1, use_skip_indexes_if_final = 1,
    optimize_move_to_prewhere_if_final = 1";

/// Settings of queries over `rejected FINAL`, without its bloom index: `receipt_id` is no member of
/// its key, so a skipped granule might hold another version of a row.
const REJECTED_SETTINGS: &str = "SETTINGS do_not_merge_across_partitions_select_final = 1,
    optimize_move_to_prewhere_if_final = 1";

/// The `WHERE` of a publisher's question over `receipts`.
fn receipts_condition(scope: &QueryScope, filter: &Filter) -> String {
    let mut condition = format!(
        "{}
        AND timestamp >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC')
        AND timestamp < fromUnixTimestamp64Milli({{to_ms:Int64}}, 'UTC')",
        scope.condition()
    );
    for member in filter.conditions("", STAMP) {
        condition.push_str(" AND ");
        condition.push_str(&member);
    }
    condition
}

/// The operator of a row of `receipts`.
pub const OPERATOR: &str = "tupleElement(stamp, 2)";
/// Whether the publisher of a row of `receipts` was verified.
pub const VERIFIED: &str = "tupleElement(stamp, 3)";

/// Expressions of a row's stamp.
#[derive(Debug, Clone, Copy)]
pub struct StampColumns {
    /// The operator.
    pub operator: &'static str,
    /// Whether the publisher was verified.
    pub verified: &'static str,
}

const STAMP: StampColumns = StampColumns {
    operator: OPERATOR,
    verified: VERIFIED,
};

impl Filter {
    /// Conditions of the optional members over rows of `receipts` or `usage`, which
    /// [`bind`](Self::bind) fills. Names of columns get the prefix.
    #[must_use]
    pub fn conditions(&self, prefix: &str, stamp: StampColumns) -> Vec<String> {
        let StampColumns { operator, verified } = stamp;
        let wanted = [
            (self.purpose.is_some(), "purpose = {purpose:String}"),
            (self.client_id.is_some(), "client_id = {client_id:UUID}"),
            (self.entry_id.is_some(), "entry_id = {entry_id:UUID}"),
            (self.model_id.is_some(), "model_id = unhex({model_id:String})"),
            (
                self.key_fingerprint.is_some(),
                "key_fingerprint = toFixedString(unhex({key_fingerprint:String}), 32)",
            ),
        ];
        let columns = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
        let columns = columns.map(|(_, condition)| format!("{prefix}{condition}"));
        let trust = self.trust.map(|trust| match trust {
            Trust::Proven => self.proven(operator),
            Trust::Unproven => format!("NOT ({})", self.proven(operator)),
        });
        let operator = self
            .operator
            .as_ref()
            .map(|_| format!("{operator} = {{operator:String}}"));
        let verified = match self.before_verification {
            BeforeVerification::Exclude => Some(verified.to_owned()),
            BeforeVerification::Include => None,
            BeforeVerification::Only => Some(format!("NOT {verified}")),
        };
        columns.chain(trust).chain(operator).chain(verified).collect()
    }

    /// Expression over an operator: whether its receipts are proven. [`bind`](Self::bind) fills it.
    #[must_use]
    pub fn proven(&self, operator: &str) -> String {
        if self.trusted.is_empty() {
            format!("{operator} != ''")
        } else {
            format!("has({{trusted:Array(String)}}, toString({operator}))")
        }
    }

    /// The call with the parameters of [`conditions`](Self::conditions) bound.
    #[must_use]
    pub fn bind(&self, mut call: SqlStatement) -> SqlStatement {
        if let Some(purpose) = &self.purpose {
            call = call.with("purpose", purpose.clone());
        }
        if let Some(client_id) = self.client_id {
            call = call.with("client_id", client_id.to_string());
        }
        if let Some(entry_id) = self.entry_id {
            call = call.with("entry_id", entry_id.to_string());
        }
        if let Some(model_id) = &self.model_id {
            // A receipt's text may have any character, and a parameter no NUL.
            call = call.with("model_id", hex::encode(model_id));
        }
        if let Some(operator) = &self.operator {
            call = call.with("operator", operator.clone());
        }
        if let Some(key) = &self.key_fingerprint {
            call = sender::bind_key(call, key);
        }
        if !self.trusted.is_empty() {
            call = call.with("trusted", self.trusted.clone());
        }
        call
    }
}

/// A call with the parameters of [`receipts_condition`] bound.
fn scoped(sql: String, scope: &QueryScope, filter: &Filter) -> SqlStatement {
    let call = scope
        .bind(SqlStatement::new(sql))
        .with("from_ms", filter.from_ms.clamp(TIME_MS_MIN, TIME_MS_MAX))
        .with("to_ms", filter.to_ms.clamp(TIME_MS_MIN, TIME_MS_MAX));
    filter.bind(call)
}
