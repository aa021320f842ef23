//! The receipt log: the one place where an acknowledged receipt lives until the warehouse has it.
//!
//! - [`record`]: what a record is and where it stands
//! - [`traits`]: writing, consuming and inspecting a log, shaped so that Kafka fits
//! - [`receipt_position`]: one receipt's place, as people write it
//! - [`dead_letters`]: rejected receipts for other programs
//! - [`embedded`]: the segment log, in files under one directory, with no server
//! - [`kafka`]: the log as a topic of Apache Kafka
//! - [`open`]: whichever of the two the configuration names

#![forbid(unsafe_code)]

pub mod dead_letters;
pub mod embedded;
pub mod kafka;
pub mod open;
pub mod receipt_position;
pub mod record;
pub mod traits;

pub use dead_letters::{DeadLetter, DeadLetters, PublishError};
pub use embedded::{DirectIo, EmbeddedConfig, EmbeddedConsumer, EmbeddedLog, GroupError, OpenError, ReadOnlyLog};
pub use kafka::{KafkaConfig, KafkaConsumer, KafkaLog, KafkaOpenError};
pub use open::{Log, LogOpenError};
pub use receipt_position::{NoPosition, ReceiptPosition};
pub use record::{LoggedRecord, Position, Record, RecordKind, TraceText};
pub use traits::{
    AppendError, Assignment, Commit, CommitError, Committed, ConsumeError, InspectError, LogConsumer, LogInspector,
    LogWriter, PartitionState, PollLimits, Polled,
};
