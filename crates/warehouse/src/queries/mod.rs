//! What publishers, the audit and the load tests ask, one file per noun.
//!
//! Every number is over `FINAL`. What comes from a user is always a bound server-side parameter, never part of the
//! SQL text. A publisher's question is scoped to the domains of its key.

mod audit;
mod broken;
mod damage;
mod erasure;
mod export;
mod ledger;
mod listing;
mod live;
mod parts;
mod receipt;
mod refusals;
mod refused;
mod rejected;
mod scope;
mod totals;

use crate::Call;
use uuid::Uuid;

pub use audit::{AuditFinding, AuditPartition, AuditState, AuditSums, AuditedSection, CommittedOffset, SectionOffsets};
pub(crate) use damage::names_a_part;
pub use erasure::{MetadataErasure, MetadataRows};
pub use export::{ExportedReceipt, ReceiptCursor};
pub use listing::NewestCursor;
pub use live::{ARRIVALS_MAX, NewOffsets, StreamChanges, StreamPosition};
pub use parts::{Irreplaceable, LogBegin, Part};
pub use receipt::{ReceiptFacts, RejectedReceipt, StoredReceipt};
pub use refusals::{Refusal, RefusalCursor, RefusalFilter, RefusalStats};
pub use refused::{REFUSED_BY_POLICY, REFUSED_BY_WAREHOUSE};
pub use rejected::{
    Rejected, RejectedCursor, RejectedFilter, RejectedOrder, Replay, StandingPayload, StandingRejection,
};
pub use scope::{Below, Scope};
pub use totals::Totals;

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
    /// Only this `usage.modelId`; the empty text for receipts that name none.
    pub model_id: Option<String>,
}

/// What `DateTime64` can hold: 1900 to 2299.
const TIME_MS_MIN: i64 = -2_208_988_800_000;
const TIME_MS_MAX: i64 = 10_413_791_999_999;

/// The end of every query over `FINAL`. Rows with equal keys have equal timestamps, so they never stand in two
/// partitions. The bloom index is over a member of the key, so that a skipped granule holds no row of a key that
/// another granule has. And ClickHouse moves only conditions over the key before the merge, which halves the time.
pub const FINAL_SETTINGS: &str =
    "SETTINGS do_not_merge_across_partitions_select_final = 1, use_skip_indexes_if_final = 1,
    optimize_move_to_prewhere_if_final = 1";

/// The same over `rejected`, but not over its bloom index: `receipt_id` is no member of its key, so a skipped granule
/// might hold another version of a row.
const REJECTED_SETTINGS: &str = "SETTINGS do_not_merge_across_partitions_select_final = 1,
    optimize_move_to_prewhere_if_final = 1";

/// The `WHERE` of a publisher's question over `receipts`.
fn receipts_condition(scope: &Scope, filter: &Filter) -> String {
    let mut condition = format!(
        "{}
        AND timestamp >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC')
        AND timestamp < fromUnixTimestamp64Milli({{to_ms:Int64}}, 'UTC')",
        scope.condition()
    );
    condition.push_str(&narrowing(filter));
    condition
}

/// Conditions of a filter's optional members; `usage` has columns of the same names.
fn narrowing(filter: &Filter) -> String {
    let wanted = [
        (filter.purpose.is_some(), " AND purpose = {purpose:String}"),
        (filter.client_id.is_some(), " AND client_id = {client_id:UUID}"),
        (filter.entry_id.is_some(), " AND entry_id = {entry_id:UUID}"),
        (filter.model_id.is_some(), " AND model_id = {model_id:String}"),
    ];
    wanted
        .iter()
        .filter(|(wanted, _)| *wanted)
        .map(|(_, text)| *text)
        .collect()
}

/// A call with the parameters of [`receipts_condition`] bound.
fn scoped(sql: String, scope: &Scope, filter: &Filter) -> Call {
    let mut call = scope
        .bind(Call::new(sql))
        .with("from_ms", filter.from_ms.clamp(TIME_MS_MIN, TIME_MS_MAX))
        .with("to_ms", filter.to_ms.clamp(TIME_MS_MIN, TIME_MS_MAX));
    if let Some(purpose) = &filter.purpose {
        call = call.with("purpose", purpose.clone());
    }
    if let Some(client_id) = filter.client_id {
        call = call.with("client_id", client_id.to_string());
    }
    if let Some(entry_id) = filter.entry_id {
        call = call.with("entry_id", entry_id.to_string());
    }
    if let Some(model_id) = &filter.model_id {
        call = call.with("model_id", model_id.clone());
    }
    call
}
