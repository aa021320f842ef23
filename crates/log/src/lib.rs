//! The two logs of the pipeline: `receipts`, where an acknowledged receipt lives until it is
//! verified, and `verdicts`, the source of truth for everything behind the verifier.
//!
//! - [`record`]: what a record is and where it stands
//! - [`topic`]: which of the two logs
//! - [`traits`]: writing, consuming, processing and inspecting a log, shaped so that Kafka fits
//! - [`receipt_position`]: one receipt's position, as people write it
//! - [`embedded`]: the segment log, in files under one directory, with no server
//! - [`kafka_config`]: settings of the log on Kafka, and why it was not opened
//! - `kafka`: the log as a topic of Apache Kafka; absent without the cargo feature `kafka`
//! - [`open`]: whichever of the two the configuration names

#![forbid(unsafe_code)]

pub mod embedded;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod kafka_config;
pub mod open;
pub mod receipt_position;
pub mod record;
pub mod topic;
pub mod traits;

pub use embedded::{
    EmbeddedConfig, EmbeddedConsumer, EmbeddedLog, EmbeddedProcessor, GroupError, OpenError, ReadOnlyLog,
    VerdictsConfig,
};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaConsumer, KafkaLog, KafkaProcessor};
pub use kafka_config::{KafkaConfig, KafkaOpenError};
pub use open::{Log, LogOpenError};
pub use receipt_position::{NoPosition, ReceiptPosition};
pub use record::{Appended, LoggedRecord, Position, Record, RecordKind, TraceText};
pub use topic::Topic;
pub use traits::{
    AppendError, Assignment, Commit, CommitError, Committed, ConsumeError, InspectError, LogConsumer, LogInspector,
    LogProcessor, LogWriter, PartitionState, PollLimits, Polled,
};
