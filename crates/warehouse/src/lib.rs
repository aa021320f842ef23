//! ClickHouse: schema, row writer, queries, and the embedded engine behind the same HTTP protocol.
//!
//! - [`config`]: the `[warehouse]` section
//! - [`client`]: [`Warehouse`], the one way in: inserts, queries, migrations, over HTTP
//! - [`connector`]: the stream below HTTP, a Unix socket or TCP
//! - [`row`]: rows of the tables, encoded by hand into RowBinary; `native`: into the columns in which they travel
//! - `arrow`: verdicts as Arrow streams of the tables' columns
//! - [`fence`]: which process may change a shard's tables; [`progress`]: how far it has come
//! - [`migrations`]: the schema, version by version; `schema`: its tables, on one server or a cluster
//! - [`server`]: what is asked of a server before it is relied on; `tls`: how it is spoken to
//! - [`rollup`]: hours counted ahead, and which of them may be believed
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
mod native;
#[cfg(test)]
mod on_a_cluster;
pub mod progress;
pub mod queries;
pub mod rollup;
pub mod row;
mod schema;
pub mod server;
mod statements;
mod threads;
mod tls;

pub use client::Warehouse;
pub use config::{Password, WarehouseConfig};
pub use connector::Target;
pub use engine::EmbeddedEngine;
pub use error::{EngineError, Remedy, WarehouseError};
pub use fence::WriterEpoch;
pub use progress::{PartitionProgress, ShardProgress, VerdictsPosition};
pub use queries::{
    ARRIVALS_MAX, AuditFinding, AuditSums, Below, ClientStats, ClientUsage, CommittedOffset, ContentStats,
    DashboardStats, EntryUsage, ExportedReceipt, Filter, GroupBy, Irreplaceable, LedgerRun, LogBegin, LogPlace,
    MetadataErasure, MetadataRows, Metric, NewestCursor, Part, REFUSED_BY_POLICY, REFUSED_BY_WAREHOUSE, Ranking,
    ReceiptCursor, ReceiptFacts, Refusal, RefusalCursor, RefusalFilter, RefusalStats, Rejected, RejectedCursor,
    RejectedFilter, RejectedOrder, RejectedReceipt, Replay, Scope, Share, StandingPayload, StandingRejection,
    StoredReceipt, TimeseriesPoint, TopClient, TopContent, Totals, TouchedHours, Usage, UsageByPurpose,
};
pub use rollup::{
    CleanFrom, Hours, MarkRow, OffBucket, RollBounds, RollPlan, RollStep, Rolled, RollupStanding, RollupView, Touched,
};
pub use row::{LedgerRow, ReceiptRow, RejectedRow, ReplayRow};
