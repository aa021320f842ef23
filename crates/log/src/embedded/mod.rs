//! The embedded log: one partition in segment files under one directory, no server.

mod config;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use thiserror::Error;

pub use self::config::{DirectIo, EmbeddedConfig};
use crate::{
    record::{LoggedRecord, Position, Record},
    traits::{
        AppendError, Commit, CommitError, ConsumeError, InspectError, LogConsumer, LogInspector, LogWriter,
        PartitionState, PollLimits, Polled,
    },
};

/// Why a log was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Settings that contradict each other.
    #[error("the log's settings don't fit: {}", .0.join("; "))]
    Config(Vec<String>),
    /// Another process (or another part of this one) has the log open.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// The directory holds no log (only when opening read-only).
    #[error("{0} holds no log")]
    Missing(PathBuf),
    /// A file that a crash can't explain: records that were acknowledged are lost or changed. Needs a person.
    #[error("the log is damaged: {} at byte {at}: {detail}", file.display())]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file, in bytes.
        at: u64,
        /// What is wrong there.
        detail: String,
    },
    /// A file or directory could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Why a group got no consumer.
#[derive(Debug, Error)]
pub enum GroupError {
    /// Names are 1 to 128 of `A-Z a-z 0-9 . _ -` and don't start with a dot.
    #[error("{0:?} is not a group name: 1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot")]
    Name(String),
    /// The group could not be stored.
    #[error("the group can't be stored: {0}")]
    Unavailable(String),
}

/// The embedded log, open for writing. Clones are the same log.
#[derive(Clone, Debug)]
pub struct EmbeddedLog {
    _shared: Arc<()>,
}

impl EmbeddedLog {
    /// Opens the log in `dir`, creating it if there is none: takes the lock, recovers a torn tail.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(_dir: &Path, config: EmbeddedConfig) -> Result<Self, OpenError> {
        config.validate().map_err(OpenError::Config)?;
        Ok(Self { _shared: Arc::new(()) })
    }

    /// Looks into a log that another process may be writing: takes no lock, changes nothing.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open_read_only(_dir: &Path) -> Result<ReadOnlyLog, OpenError> {
        Ok(ReadOnlyLog {})
    }

    /// The one active consumer of `group`; the group's earlier consumer is fenced. Blocks on the disk
    /// the first time a group is seen.
    ///
    /// # Errors
    /// [`GroupError`]
    pub fn consumer(&self, group: &str) -> Result<EmbeddedConsumer, GroupError> {
        Err(GroupError::Name(group.to_owned()))
    }

    /// Takes no more records, writes what is queued, and gives up the lock. Blocks on the disk.
    pub fn close(&self) {}
}

impl LogWriter for EmbeddedLog {
    fn append(&self, _record: Record) -> BoxFuture<'_, Result<Position, AppendError>> {
        Box::pin(async { Err(AppendError::Closed) })
    }

    fn writable(&self) -> Result<(), String> {
        Err("not built yet".to_owned())
    }
}

impl LogInspector for EmbeddedLog {
    fn partitions(&self, _group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read(
        &self,
        _partition: u32,
        _offset: u64,
        _bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// The active consumer of one group.
#[derive(Debug)]
pub struct EmbeddedConsumer {}

impl LogConsumer for EmbeddedConsumer {
    fn poll(&mut self, _limits: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>> {
        Box::pin(async { Ok(Polled::default()) })
    }

    fn commit(&mut self, _commits: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A log opened for looking only.
#[derive(Clone, Debug)]
pub struct ReadOnlyLog {}

impl LogInspector for ReadOnlyLog {
    fn partitions(&self, _group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read(
        &self,
        _partition: u32,
        _offset: u64,
        _bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
