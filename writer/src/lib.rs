//! The writer: reads the log `verdicts` and inserts it into ClickHouse. One process owns each
//! shard.
//!
//! - [`pipeline`]: read -> deduplicated -> inserted -> committed, for one shard
//! - [`consuming`]: the shards that this process owns, and their records
//! - [`reading`]: records of `verdicts`, decoded and gathered into batches
//! - [`sequence`]: the check that no source record is missing or occurs twice
//! - [`inserting`]: a batch into the tables, in the order that a crash may interrupt
//! - [`counting`]: accepted rows in the table `usage`
//! - [`evidence`]: the exact bytes of accepted receipts, by a consumer group of its own
//! - [`rebuilding`]: requested rebuilds of `usage`, between batches
//! - [`refusing`]: rows that a table doesn't accept, as rejected ones
//! - [`resumption`]: where a shard continues after an assignment
//! - [`repair`]: lost rows, inserted again from the log
//! - [`continuity`]: whether the log still continues what is stored
//! - `shard_database`: the database of a shard
//! - [`error`], [`config`]: what the stages share
//!
//! The writer has no state that can't be rebuilt from ClickHouse. It resumes from the ledger, not
//! from the consumer's offset.

#![forbid(unsafe_code)]

pub mod config;
pub mod consuming;
pub mod continuity;
pub mod counting;
pub mod error;
pub mod evidence;
mod horizon;
pub mod inserting;
pub mod pipeline;
pub mod reading;
pub mod rebuilding;
pub mod refusing;
pub mod repair;
pub mod resumption;
pub mod sequence;
mod shard_database;

pub use self::config::WriterConfig;
pub use consuming::{Deps, run};
pub use error::WriterError;

/// The consumer group that all writers share.
pub const GROUP: &str = "writer";
/// The consumer group of the writers' evidence.
pub const EVIDENCE_GROUP: &str = "evidence";
