//! The log on the engine that the configuration names: `[kafka] brokers` given means Kafka,
//! otherwise the embedded log.

use std::{path::Path, sync::Arc};

#[cfg(not(feature = "kafka"))]
use config::{ConfigError, ConfigFault};
use thiserror::Error;

#[cfg(feature = "kafka")]
use crate::KafkaLog;
#[cfg(not(feature = "kafka"))]
use crate::kafka_config::WITHOUT_KAFKA;
use crate::{
    EmbeddedConfig, EmbeddedLog, GroupError, KafkaConfig, KafkaOpenError, LogConsumer, LogInspector, LogProcessor,
    LogWriter, OpenError, Topic,
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
    /// A processor's two logs can't be stored together.
    #[error("the logs of receipts and of verdicts are on different engines; open both with the same [kafka]")]
    DifferentEngines,
}

/// An open log. Clones are the same log.
#[derive(Clone, Debug)]
pub enum Log {
    /// In files under one directory, this process's own.
    Embedded(EmbeddedLog),
    /// A topic of Kafka's, any number of processes'.
    #[cfg(feature = "kafka")]
    Kafka(KafkaLog),
}

impl Log {
    /// Opens the log of receipts: Kafka's if `kafka.brokers` is given, or else the embedded one in
    /// `dir`. Either is created if there is none. Blocks on the brokers or the disk.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn open(kafka: &KafkaConfig, embedded: &EmbeddedConfig, dir: &Path) -> Result<Self, LogOpenError> {
        Self::open_topic(Topic::Receipts, kafka, embedded, dir)
    }

    /// Opens the log of verdicts on the same engine. `embedded` and `dir` are its own, not those of
    /// the log of receipts. Blocks on the brokers or the disk.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn open_verdicts(kafka: &KafkaConfig, embedded: &EmbeddedConfig, dir: &Path) -> Result<Self, LogOpenError> {
        Self::open_topic(Topic::Verdicts, kafka, embedded, dir)
    }

    fn open_topic(
        topic: Topic,
        kafka: &KafkaConfig,
        embedded: &EmbeddedConfig,
        dir: &Path,
    ) -> Result<Self, LogOpenError> {
        if kafka.is_shared() {
            #[cfg(feature = "kafka")]
            return Ok(Self::Kafka(KafkaLog::open_topic(topic, kafka.clone())?));
            #[cfg(not(feature = "kafka"))]
            return Err(without_kafka());
        }
        Ok(Self::Embedded(EmbeddedLog::open_topic(topic, dir, embedded.clone())?))
    }

    /// Opens the log of receipts for reading, beside the processes that write and consume it: takes
    /// no lock, creates nothing.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn open_to_look(kafka: &KafkaConfig, dir: &Path) -> Result<Arc<dyn LogInspector>, LogOpenError> {
        Self::open_topic_to_look(Topic::Receipts, kafka, dir)
    }

    /// Opens the log of verdicts for reading; `dir` is its own directory.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn open_verdicts_to_look(kafka: &KafkaConfig, dir: &Path) -> Result<Arc<dyn LogInspector>, LogOpenError> {
        Self::open_topic_to_look(Topic::Verdicts, kafka, dir)
    }

    fn open_topic_to_look(
        #[cfg_attr(not(feature = "kafka"), expect(unused_variables, reason = "a directory has one log"))] topic: Topic,
        kafka: &KafkaConfig,
        dir: &Path,
    ) -> Result<Arc<dyn LogInspector>, LogOpenError> {
        if kafka.is_shared() {
            #[cfg(feature = "kafka")]
            return Ok(Arc::new(KafkaLog::open_topic_to_look(topic, kafka.clone())?));
            #[cfg(not(feature = "kafka"))]
            return Err(without_kafka());
        }
        Ok(Arc::new(EmbeddedLog::open_read_only(dir)?))
    }

    /// Appends to it.
    ///
    /// # Errors
    /// No producer can be made.
    pub fn writer(&self) -> Result<Arc<dyn LogWriter>, LogOpenError> {
        Ok(match self {
            Self::Embedded(log) => Arc::new(log.clone()),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => {
                log.ready_to_write()?;
                Arc::new(log.clone())
            }
        })
    }

    /// A consumer of `group`: the only active one of the embedded log, one of many of Kafka's.
    /// Blocks.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn consumer(&self, group: &str) -> Result<Box<dyn LogConsumer>, LogOpenError> {
        Ok(match self {
            Self::Embedded(log) => Box::new(log.consumer(group)?),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => Box::new(log.consumer(group)?),
        })
    }

    /// Forgets a group that has no consumer any more, so that retention doesn't wait for it.
    /// Kafka's retention waits for no group. Blocks.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn forget_group(&self, group: &str) -> Result<(), LogOpenError> {
        match self {
            Self::Embedded(log) => log.forget_group(group)?,
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => {}
        }
        Ok(())
    }

    /// A consumer of `group` that appends to `verdicts` and moves its positions in this log
    /// together. Blocks.
    ///
    /// # Errors
    /// [`LogOpenError`]; also if the two logs are on different engines.
    pub fn processor(&self, group: &str, verdicts: &Self) -> Result<Box<dyn LogProcessor>, LogOpenError> {
        Ok(match (self, verdicts) {
            (Self::Embedded(log), Self::Embedded(verdicts)) => Box::new(log.processor(group, verdicts)?),
            #[cfg(feature = "kafka")]
            (Self::Kafka(log), Self::Kafka(verdicts)) => Box::new(log.processor(group, verdicts)?),
            #[cfg(feature = "kafka")]
            _ => return Err(LogOpenError::DifferentEngines),
        })
    }

    /// Sets positions of `group` in the log of receipts (partition, next offset), also backwards,
    /// which commits never do. The embedded log must not be open, and on Kafka the group must have
    /// no members. Blocks.
    ///
    /// # Errors
    /// [`LogOpenError`]
    pub fn rewind(kafka: &KafkaConfig, dir: &Path, group: &str, positions: &[(u32, u64)]) -> Result<(), LogOpenError> {
        if kafka.is_shared() {
            #[cfg(feature = "kafka")]
            return Ok(KafkaLog::open_to_look(kafka.clone())?.rewind(group, positions)?);
            #[cfg(not(feature = "kafka"))]
            return Err(without_kafka());
        }
        for &(_, next_offset) in positions {
            EmbeddedLog::rewind(dir, group, next_offset)?;
        }
        Ok(())
    }

    /// Looks at it.
    #[must_use]
    pub fn inspector(&self) -> Arc<dyn LogInspector> {
        match self {
            Self::Embedded(log) => Arc::new(log.clone()),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => Arc::new(log.clone()),
        }
    }

    /// Whether other processes append to the log and consume it, too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Embedded(_))
    }

    /// Time after which it may delete a record that a group hasn't consumed yet, in milliseconds.
    /// `None`: never, as in the embedded log.
    #[must_use]
    pub fn deletes_after_ms(&self) -> Option<u64> {
        match self {
            Self::Embedded(_) => None,
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => Some(log.retention_ms()),
        }
    }

    /// Takes no more records, answers for those it has, releases locks and groups. Blocks.
    pub fn close(&self) {
        match self {
            Self::Embedded(log) => log.close(),
            #[cfg(feature = "kafka")]
            Self::Kafka(log) => log.close(),
        }
    }
}

/// The fault of settings that name brokers, in a build without Kafka.
#[cfg(not(feature = "kafka"))]
fn without_kafka() -> LogOpenError {
    let location = "kafka.brokers".to_owned();
    let what = WITHOUT_KAFKA.to_owned();
    let faults = vec![ConfigFault { location, what }];
    KafkaOpenError::Config(ConfigError { faults }).into()
}
