//! The receipt log: the one place where an acknowledged receipt lives until the warehouse has it.
//!
//! - [`record`]: what a record is and where it stands
//! - [`traits`]: writing, consuming and inspecting a log, shaped so that Kafka fits

#![forbid(unsafe_code)]

pub mod record;
pub mod traits;

pub use record::{LoggedRecord, Position, Record, RecordKind};
pub use traits::{
    AppendError, Assignment, Commit, CommitError, Committed, ConsumeError, InspectError, LogConsumer, LogInspector,
    LogWriter, PartitionState, PollLimits, Polled,
};
