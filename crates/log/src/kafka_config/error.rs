//! Why Kafka's log was not opened.

use std::fmt;

use config::ConfigError;
use thiserror::Error;

/// A setting of a topic that isn't as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongSetting {
    /// Name of the setting.
    pub name: String,
    /// Value of the topic.
    pub found: String,
    /// Required value.
    pub wanted: String,
    /// Why.
    pub reason: &'static str,
}

impl fmt::Display for WrongSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            found,
            wanted,
            reason,
        } = self;
        write!(f, "\n  {name} is {found}, must be {wanted}: {reason}")
    }
}

/// Why Kafka's log was not opened.
#[derive(Debug, Error)]
pub enum KafkaOpenError {
    /// Settings that contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// librdkafka takes the settings not, or no client can be made from them (a certificate that
    /// can't be read, say).
    #[error("no Kafka client can be made: {0}")]
    Client(String),
    /// No broker answers, or none takes our login.
    #[error("no Kafka broker of {brokers} can be used: {detail}")]
    Unreachable {
        /// `kafka.brokers`.
        brokers: String,
        /// Text of librdkafka.
        detail: String,
    },
    /// The topic doesn't exist, and isn't to be created here.
    #[error("the Kafka topic {topic} doesn't exist; kafka.create_topic creates it, or:\n  {command}")]
    Missing {
        /// The topic.
        topic: String,
        /// Command that creates it.
        command: String,
    },
    /// A group's positions can't be set while it has members.
    #[error("positions of the group {0} can't be set while it has members: stop them, and try again")]
    GroupInUse(String),
    /// A group's positions can't be set.
    #[error("positions of the group {group} can't be set: {detail}")]
    Group {
        /// The group.
        group: String,
        /// The broker's message.
        detail: String,
    },
    /// The topic could not be created or read.
    #[error("the Kafka topic {topic} can't be {what}: {detail}")]
    Refused {
        /// The topic.
        topic: String,
        /// `created` or `described`.
        what: &'static str,
        /// The broker's message.
        detail: String,
    },
    /// The topic exists with other settings.
    #[error("the Kafka topic {topic} has other settings than it must have:{}\nThis sets them:\n  {command}", .wrong.iter().map(ToString::to_string).collect::<String>())]
    Settings {
        /// The topic.
        topic: String,
        /// Each wrong one.
        wrong: Vec<WrongSetting>,
        /// Command that sets them right.
        command: String,
    },
}
