//! The log on the engine that the configuration names: `[kafka] brokers` given means Kafka, otherwise the embedded log.

use std::{path::Path, sync::Arc};

use thiserror::Error;

use crate::{
    DeadLetters, EmbeddedConfig, EmbeddedLog, GroupError, KafkaConfig, KafkaLog, KafkaOpenError, LogConsumer,
    LogInspector, LogWriter, OpenError,
};

/// Why a log was not opened, or gave no consumer.
#[derive(Debug, Error)]
pub enum LogOpenError {
    /// The embedded log.
    #[error(transparent)]
    Embedded(#[from] OpenError),
    /// A consumer of the embedded log.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Kafka's.
    #[error(transparent)]
    Kafka(#[from] KafkaOpenError),
}

/// An open log. Clones are the same log.
#[derive(Clone, Debug)]
pub enum Log {
    /// In files under one directory, this process's own.
    Embedded(EmbeddedLog),
    /// A topic of Kafka's, any number of processes'.
    Kafka(KafkaLog),
}

impl Log {
    /// Opens Kafka's log if `kafka.brokers` is given, or else the embedded one in `dir`. Either is created if there is none.
    /// Blocks on the brokers or the disk.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn open(kafka: &KafkaConfig, embedded: &EmbeddedConfig, dir: &Path) -> Result<Self, LogOpenError> {
        Ok(if kafka.is_given() {
            Self::Kafka(KafkaLog::open(kafka.clone())?)
        } else {
            Self::Embedded(EmbeddedLog::open(dir, embedded.clone())?)
        })
    }

    /// Opens the same log to look at it, beside the processes that write and consume it: takes no lock, creates nothing.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn open_to_look(kafka: &KafkaConfig, dir: &Path) -> Result<Arc<dyn LogInspector>, LogOpenError> {
        Ok(if kafka.is_given() {
            Arc::new(KafkaLog::open_to_look(kafka.clone())?)
        } else {
            Arc::new(EmbeddedLog::open_read_only(dir)?)
        })
    }

    /// Appends to it.
    ///
    /// # Errors
    /// No producer can be made.
    pub fn writer(&self) -> Result<Arc<dyn LogWriter>, LogOpenError> {
        Ok(match self {
            Self::Embedded(log) => Arc::new(log.clone()),
            Self::Kafka(log) => {
                log.ready_to_write()?;
                Arc::new(log.clone())
            }
        })
    }

    /// A consumer of `group`: the only active one of the embedded log, one of many of Kafka's. Blocks.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn consumer(&self, group: &str) -> Result<Box<dyn LogConsumer>, LogOpenError> {
        Ok(match self {
            Self::Embedded(log) => Box::new(log.consumer(group)?),
            Self::Kafka(log) => Box::new(log.consumer(group)?),
        })
    }

    /// Where copies of rejected receipts go, if the engine has a place for them. Blocks on the brokers.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn dead_letters(&self) -> Result<Option<Arc<dyn DeadLetters>>, LogOpenError> {
        Ok(match self {
            Self::Embedded(_) => None,
            Self::Kafka(log) => Some(log.dead_letters()?),
        })
    }

    /// Looks at it.
    #[must_use]
    pub fn inspector(&self) -> Arc<dyn LogInspector> {
        match self {
            Self::Embedded(log) => Arc::new(log.clone()),
            Self::Kafka(log) => Arc::new(log.clone()),
        }
    }

    /// Takes no more records, answers for those it has, lets go of locks and groups. Blocks.
    pub fn close(&self) {
        match self {
            Self::Embedded(log) => log.close(),
            Self::Kafka(log) => log.close(),
        }
    }
}
