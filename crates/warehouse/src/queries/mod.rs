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
mod receipt_key;
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
pub use erasure::{ErasedPerson, MetadataErasure, MetadataRows};
pub use evidence::{EvidencePage, StoredBatchSignature, StoredEvidence};
pub use export::{ExportLimits, ExportPage, ExportedReceipt};
pub use listing::NewestCursor;
pub use live::{ARRIVALS_MAX, NewOffsets, StreamChanges, StreamPosition};
pub use part::DataPart;
pub(crate) use part::names_a_part;
pub use parts::{Irreplaceable, LogBegin};
pub use reattribution::{ReattributedPublisher, Reattribution};
pub use receipt::{PayloadCursor, PayloadTotals, ReceiptFacts, ReceiptRejection, ReceiptsOf, StoredReceipt};
pub use receipt_key::ReceiptCursor;
pub use refusals::{REFUSED_CLIENTS_MAX, Refusal, RefusalCursor, RefusalFilter, RefusalStats};
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
    /// `usage.purpose`.
    pub purpose: MemberFilter<String>,
    /// `client.id`.
    pub client_id: MemberFilter<Uuid>,
    /// `content.entryId`.
    pub entry_id: MemberFilter<Uuid>,
    /// `usage.modelId`; the empty text of receipts that name none.
    pub model_id: MemberFilter<String>,
    /// Only receipts that are proven, or only those that aren't.
    pub trust: Option<Trust>,
    /// The operator whose key it was, a domain; the empty text of nobody's.
    pub operator: MemberFilter<String>,
    /// Operators whose receipts are proven; all operators' are if this is empty.
    pub trusted: Vec<String>,
    /// The key that receipts were signed with, SHA-256 of its SPKI.
    pub key_fingerprint: MemberFilter<[u8; 32]>,
    /// Receipts that arrived before anybody had verified the publisher's domain.
    pub before_verification: BeforeVerification,
}

/// Values of a member that receipts must have one of, or none of; any value if there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFilter<T> {
    values: Vec<T>,
    is_excluding: bool,
}

impl<T> Default for MemberFilter<T> {
    fn default() -> Self {
        Self::among(Vec::new())
    }
}

impl<T> MemberFilter<T> {
    /// Receipts with one of these values.
    #[must_use]
    pub fn among(values: Vec<T>) -> Self {
        Self {
            values,
            is_excluding: false,
        }
    }

    /// Receipts with none of these values.
    #[must_use]
    pub fn except(values: Vec<T>) -> Self {
        Self {
            values,
            is_excluding: true,
        }
    }

    /// Whether it selects all receipts.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.values.is_empty()
    }

    /// A condition on a column; `values` is an expression of the array of values.
    fn condition(&self, column: &str, values: &str) -> Option<String> {
        let operator = if self.is_excluding { "NOT IN" } else { "IN" };
        (!self.is_any()).then(|| format!("{column} {operator} {values}"))
    }

    /// The call with the values bound, each in this form.
    fn bind(&self, call: SqlStatement, name: &'static str, form: impl Fn(&T) -> String) -> SqlStatement {
        if self.is_any() {
            return call;
        }
        call.with(name, self.values.iter().map(form).collect::<Vec<String>>())
    }
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
        // A receipt's text may have any character, and a parameter no NUL.
        let models = "arrayMap(one -> unhex(one), {model_id:Array(String)})";
        let keys = "arrayMap(one -> toFixedString(unhex(one), 32), {key_fingerprint:Array(String)})";
        let column = |name: &str| format!("{prefix}{name}");
        let members = [
            self.purpose.condition(&column("purpose"), "{purpose:Array(String)}"),
            self.client_id
                .condition(&column("client_id"), "{client_id:Array(UUID)}"),
            self.entry_id.condition(&column("entry_id"), "{entry_id:Array(UUID)}"),
            self.model_id.condition(&column("model_id"), models),
            self.key_fingerprint.condition(&column("key_fingerprint"), keys),
            self.operator.condition(operator, "{operator:Array(String)}"),
        ];
        let trust = self.trust.map(|trust| match trust {
            Trust::Proven => self.proven(operator),
            Trust::Unproven => format!("NOT ({})", self.proven(operator)),
        });
        let verified = match self.before_verification {
            BeforeVerification::Exclude => Some(verified.to_owned()),
            BeforeVerification::Include => None,
            BeforeVerification::Only => Some(format!("NOT {verified}")),
        };
        members.into_iter().flatten().chain(trust).chain(verified).collect()
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
        call = self.purpose.bind(call, "purpose", String::clone);
        call = self.client_id.bind(call, "client_id", Uuid::to_string);
        call = self.entry_id.bind(call, "entry_id", Uuid::to_string);
        call = self.model_id.bind(call, "model_id", |model| hex::encode(model));
        call = self.operator.bind(call, "operator", String::clone);
        call = self
            .key_fingerprint
            .bind(call, "key_fingerprint", |key| hex::encode(key));
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
