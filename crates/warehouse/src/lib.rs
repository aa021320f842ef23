//! ClickHouse: schema, row writer, queries, and the embedded engine behind the same HTTP protocol.
//!
//! - [`config`]: the `[warehouse]` section
//! - [`client`]: [`Warehouse`], the one way in: inserts, queries, migrations, over HTTP
//! - [`connector`]: the stream below HTTP, a Unix socket or TCP
//! - [`row`]: rows of ledger and replays; `arrow`: verdicts and rows in Arrow's columns
//! - `touched`: hours of publishers that a ledger row's receipts touch
//! - [`fence`]: which process may change a shard's tables; [`progress`]: how far it has come
//! - [`migrations`]: the schema, version by version; `schema`: its tables
//! - [`server`]: what is asked of a server before it is relied on; `tls`: how it is spoken to
//! - [`queries`]: what publishers, the audit and the load tests ask, one file per noun
//! - [`engine`]: libchdb in this process, behind `endpoint`, which speaks ClickHouse's HTTP protocol
//! - `statements`: the threads and connections between the two; `engine_files`: library, directory, configuration
//! - `chdb`: the only `unsafe` code of the project: libchdb's C functions, and the writes it fails to check
//!
//! Services see only [`Warehouse`]; whether a server or the engine in this process answers is a matter of
//! configuration.

mod arrow;
mod chdb;
pub mod client;
pub mod config;
pub mod connector;
mod endpoint;
pub mod engine;
mod engine_files;
pub mod error;
pub mod fence;
mod frame;
pub mod migrations;
pub mod progress;
pub mod queries;
pub mod row;
mod schema;
pub mod server;
mod statements;
mod threads;
mod tls;
mod touched;

pub use client::{Call, Warehouse};
pub use config::{Password, WarehouseConfig};
pub use connector::Target;
pub use engine::EmbeddedEngine;
pub use error::{EngineError, Remedy, WarehouseError};
pub use fence::WriterEpoch;
pub use progress::{PartitionProgress, ShardProgress, VerdictsPosition};
pub use queries::{
    ARRIVALS_MAX, AuditFinding, AuditPartition, AuditState, AuditSums, AuditedSection, Below, CommittedOffset,
    ExportedReceipt, FINAL_SETTINGS, Filter, Irreplaceable, LogBegin, MetadataErasure, MetadataRows, NewOffsets,
    NewestCursor, Part, REFUSED_BY_POLICY, REFUSED_BY_WAREHOUSE, ReceiptCursor, ReceiptFacts, Refusal, RefusalCursor,
    RefusalFilter, RefusalStats, Rejected, RejectedCursor, RejectedFilter, RejectedOrder, RejectedReceipt, Replay,
    Scope, SectionOffsets, StandingPayload, StandingRejection, StoredReceipt, StreamChanges, StreamPosition, Totals,
};
pub use row::{LedgerRow, ReplayRow};
pub use touched::Touched;
