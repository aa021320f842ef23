//! Why a log was not opened, and why a group got no consumer.

use std::{
    io,
    path::{Path, PathBuf},
};

use config::ConfigError;
use thiserror::Error;

/// Why a log was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Settings that contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another process (or another part of this one) has the log open.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The directory holds no log (only when opening read-only).
    #[error("{} holds no log", .0.display())]
    Missing(PathBuf),
    /// A file that no crash explains: records that were acknowledged are lost or changed. Needs a
    /// person.
    #[error(
        "the log is damaged: {} at byte {at}: {detail}. It is not opened, because records that were acknowledged are lost \
         or changed. To go on without them, move the log's directory aside (keep it: receipts acknowledged and not yet \
         verified are only there) and start again: a new log with a new epoch begins, and what was verified stays in the \
         warehouse. `receipts audit` can then hold the old epoch's ledger only against the tables, and `receipts repair` \
         can't rebuild its rows",
        file.display()
    )]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// Position in the file, in bytes.
        at: u64,
        /// Damage that was found.
        detail: String,
    },
    /// A group's stored position can't be read. The log itself isn't touched by that.
    #[error(
        "the committed position in {} is damaged: {detail}. Remove the file and start again: the verifier finds from the \
         ledger how far it has come (other groups read from the log's beginning)",
        file.display()
    )]
    DamagedPosition {
        /// The position file.
        file: PathBuf,
        /// Damage that was found.
        detail: String,
    },
    /// A position that isn't in the log.
    #[error("the group {group} can't be set to offset {next_offset}: the log holds offsets {begin} to {end}")]
    Position {
        /// The group.
        group: String,
        /// The wanted position.
        next_offset: u64,
        /// The oldest stored offset.
        begin: u64,
        /// Offset behind the newest record.
        end: u64,
    },
    /// A file or directory could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl OpenError {
    /// Wraps a system's error with the path it is about.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn damaged(file: &Path, at: u64, detail: impl Into<String>) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            at,
            detail: detail.into(),
        }
    }
}

/// Why a group got no consumer.
#[derive(Debug, Error)]
pub enum GroupError {
    /// Names are 1 to 128 of `A-Z a-z 0-9 . _ -` and don't start with a dot.
    #[error("{0:?} is not a group name: 1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot")]
    Name(String),
    /// The group could not be stored, or the log is closed.
    #[error("the group can't be stored: {0}")]
    Unavailable(String),
}
