//! Storage in ClickHouse: schema, inserts, ledger, audit, lookups, lists, erasure, export.
//!
//! - [`warehouse`]: [`Warehouse`], the tables of one shard or of all
//! - `insert`: inserts; [`row`]: rows of the ledger; `arrow`: verdicts and rows in Arrow's
//!   columns
//! - `touched`: hours of publishers that a ledger row's receipts touch
//! - [`fence`]: which process may change a shard's tables; [`progress`]: how far it has come
//! - [`migrations`]: the schema, version by version; `schema`: its tables
//! - [`server`]: checks of a server before it is used
//! - [`queries`]: what publishers, the audit and the load tests ask, one file per noun
//! - [`engine`]: the embedded engine with our tables
//!
//! Connections, errors and the engine itself are in `receipt_clickhouse`.

#![forbid(unsafe_code)]

mod arrow;
pub mod engine;
pub mod fence;
mod insert;
pub mod migrations;
pub mod progress;
pub mod queries;
pub mod row;
mod schema;
pub mod server;
mod touched;
pub mod warehouse;

pub use engine::EmbeddedEngine;
pub use fence::WriterEpoch;
pub use progress::{PartitionProgress, ShardProgress, VerdictsPosition};
pub use queries::{
    ARRIVALS_MAX, AuditFinding, AuditPartition, AuditState, AuditSums, AuditedSection, BeforeVerification, Below,
    CommittedOffset, DataPart, ErasedPerson, EvidencePage, ExportLimits, ExportPage, ExportedReceipt, FINAL_SETTINGS,
    Filter, Irreplaceable, LogBegin, LogRanges, MemberFilter, MetadataErasure, MetadataRows, NewOffsets, NewestCursor,
    OPERATOR, PayloadCursor, PayloadTotals, QueryScope, REFUSED_BY_POLICY, REFUSED_BY_WAREHOUSE, REFUSED_CLIENTS_MAX,
    ReasonSummary, ReattributedPublisher, Reattribution, ReceiptCursor, ReceiptFacts, ReceiptRejection, ReceiptsOf,
    Refusal, RefusalCursor, RefusalFilter, RefusalStats, Rejected, RejectedCursor, RejectedFilter, RejectedOrder,
    SectionOffsets, SenderOccurrence, SenderOutcome, SenderPage, StampColumns, StandingRejection, StoredBatchSignature,
    StoredEvidence, StoredReceipt, StreamChanges, StreamPosition, Totals, Trust, UnlistedDay, VERIFIED,
};
pub use receipt_clickhouse::{
    ClickHouseClient, EngineError, Remedy, SqlStatement, Target, WarehouseConfig, WarehouseError,
};
pub use row::LedgerRow;
pub use touched::Touched;
pub use warehouse::Warehouse;
