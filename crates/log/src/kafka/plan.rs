//! Requirements of a topic.
//!
//! **The epoch** of the log is the topic's `delete.retention.ms`. That setting does something on
//! compacted topics only, ours is never one; it is written once, when the topic is created, as the
//! Unix time in seconds, and it lives and dies with the topic. So a topic that was deleted and
//! created again has another epoch, and no position is ever used twice.

use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rdkafka::admin::{ConfigResource, ConfigSource};

use crate::kafka_config::{KafkaConfig, KafkaOpenError, WrongSetting, message_bytes_max};

/// The setting that carries the epoch.
const EPOCH: &str = "delete.retention.ms";
/// Kafka's default for it: a topic that has no epoch.
const NO_EPOCH: &str = "86400000";
const EPOCH_REASON: &str = "it is the log's epoch, any number up to 2147483647 that no topic of this name had before";

/// A topic's wanted settings.
#[derive(Debug, Clone)]
pub(super) struct TopicPlan {
    pub(super) name: String,
    /// Of a created topic.
    pub(super) partitions: u32,
    /// Of one that exists.
    pub(super) partitions_min: u32,
    pub(super) replication_factor: u32,
    settings: Vec<TopicSetting>,
}

/// Limits of one topic, each with the reason that an operator reads if the topic has another.
struct TopicLimits {
    record_bytes: (&'static str, usize),
    retention_ms: (&'static str, u64),
    retention_bytes: (&'static str, u64),
}

#[derive(Debug, Clone)]
struct TopicSetting {
    name: &'static str,
    wanted: Wanted,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Exactly(&'static str),
    /// At least so much; -1 means without a limit where that is a value of the setting.
    AtLeast(i64),
}

impl Wanted {
    fn accepts(&self, found: &str) -> bool {
        match self {
            Self::Exactly(value) => found == *value,
            Self::AtLeast(-1) => found == "-1",
            Self::AtLeast(least) => found.parse().is_ok_and(|found: i64| found == -1 || found >= *least),
        }
    }

    fn value(&self) -> String {
        match self {
            Self::Exactly(value) => (*value).to_owned(),
            Self::AtLeast(least) => least.to_string(),
        }
    }
}

impl TopicPlan {
    /// The log of receipts. One that exists may have any number of partitions.
    pub(super) fn receipts(config: &KafkaConfig) -> Self {
        let limits = TopicLimits {
            record_bytes: (
                "the largest batch must fit: kafka.record_bytes_max and a frame",
                config.record_bytes_max,
            ),
            retention_ms: ("kafka.retention_ms_max says so", config.retention_ms_max),
            retention_bytes: ("kafka.retention_bytes_max says so", config.retention_bytes_max),
        };
        let reason = "compaction would drop records that nobody has verified";
        Self::new(config, &config.topic, config.partitions, reason, &limits)
    }

    /// The log of verdicts. One that exists must have a partition for each logical shard.
    pub(super) fn verdicts(config: &KafkaConfig) -> Self {
        let limits = TopicLimits {
            record_bytes: (
                "the largest block must fit: kafka.verdicts_bytes_max and a frame",
                config.verdicts_bytes_max,
            ),
            retention_ms: (
                "kafka.verdicts_retention_ms_max says so",
                config.verdicts_retention_ms_max,
            ),
            retention_bytes: (
                "kafka.verdicts_retention_bytes_max says so",
                config.verdicts_retention_bytes_max,
            ),
        };
        let reason = "compaction would drop verdicts that nobody has stored";
        Self {
            partitions_min: config.verdicts_partitions,
            ..Self::new(
                config,
                &config.verdicts_topic,
                config.verdicts_partitions,
                reason,
                &limits,
            )
        }
    }

    fn new(
        config: &KafkaConfig,
        name: &str,
        partitions: u32,
        no_compaction: &'static str,
        limits: &TopicLimits,
    ) -> Self {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let setting = |name, wanted, reason| TopicSetting { name, wanted, reason };
        let retention_bytes = match limits.retention_bytes.1 {
            0 => -1,
            bytes => number(bytes),
        };
        let message_bytes_max = message_bytes_max(limits.record_bytes.1);
        let settings = vec![
            setting("cleanup.policy", Wanted::Exactly("delete"), no_compaction),
            setting(
                "message.timestamp.type",
                Wanted::Exactly("LogAppendTime"),
                "completeThrough counts in the time of the append",
            ),
            setting(
                "unclean.leader.election.enable",
                Wanted::Exactly("false"),
                "a replica that fell behind must not lead: acknowledged records would be lost",
            ),
            setting(
                "min.insync.replicas",
                Wanted::AtLeast(config.min_insync_replicas.into()),
                "kafka.min_insync_replicas copies must exist before a record is acknowledged",
            ),
            setting(
                "max.message.bytes",
                Wanted::AtLeast(number(message_bytes_max as u64)),
                limits.record_bytes.0,
            ),
            setting(
                "retention.ms",
                Wanted::AtLeast(number(limits.retention_ms.1)),
                limits.retention_ms.0,
            ),
            setting(
                "retention.bytes",
                Wanted::AtLeast(retention_bytes),
                limits.retention_bytes.0,
            ),
        ];
        Self {
            name: name.to_owned(),
            partitions,
            partitions_min: 1,
            replication_factor: config.replication_factor,
            settings,
        }
    }

    /// Settings with which the topic is created.
    pub(super) fn given(&self) -> Vec<(&'static str, String)> {
        let mut given: Vec<_> = self
            .settings
            .iter()
            .map(|setting| (setting.name, setting.wanted.value()))
            .collect();
        given.push((EPOCH, fresh_epoch().to_string()));
        given
    }

    pub(super) fn creating_command(&self, brokers: &str) -> String {
        let settings: String = self
            .given()
            .iter()
            .map(|(name, value)| format!(" --config {name}={value}"))
            .collect();
        format!(
            "kafka-topics.sh --bootstrap-server {brokers} --create --topic {} --partitions {} --replication-factor {}{settings}",
            self.name, self.partitions, self.replication_factor
        )
    }

    /// The topic's wrong settings, and the command that sets them.
    pub(super) fn faults(&self, found: &ConfigResource, brokers: &str) -> Option<KafkaOpenError> {
        let mut wrong = Vec::new();
        for setting in &self.settings {
            // A broker that doesn't know a setting can't break it.
            let Some(value) = found.get(setting.name).and_then(|entry| entry.value.as_deref()) else {
                continue;
            };
            if !setting.wanted.accepts(value) {
                wrong.push(WrongSetting {
                    name: setting.name.to_owned(),
                    found: value.to_owned(),
                    wanted: setting.wanted.value(),
                    reason: setting.reason,
                });
            }
        }
        if epoch_of(found).is_none() {
            let value = found.get(EPOCH).and_then(|entry| entry.value.as_deref());
            wrong.push(WrongSetting {
                name: EPOCH.to_owned(),
                found: value.unwrap_or(NO_EPOCH).to_owned(),
                wanted: fresh_epoch().to_string(),
                reason: EPOCH_REASON,
            });
        }
        if wrong.is_empty() {
            return None;
        }
        let settings: Vec<String> = wrong
            .iter()
            .map(|wrong| format!("{}={}", wrong.name, wrong.wanted))
            .collect();
        let command = format!(
            "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics --entity-name {} --add-config {}",
            self.name,
            settings.join(",")
        );
        Some(KafkaOpenError::Settings {
            topic: self.name.clone(),
            wrong,
            command,
        })
    }
}

fn fresh_epoch() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs() & 0x7fff_ffff).unwrap_or(1).max(1)
}

/// Waits until the second of the epoch is over: a topic created now, used, deleted and created
/// again has another one.
#[allow(clippy::disallowed_methods)] // opening blocks on the brokers anyway
pub(super) fn outlive(epoch: u32) {
    while fresh_epoch() == epoch {
        thread::sleep(Duration::from_millis(20));
    }
}

/// The epoch that the topic was given; none if it only has the broker's default.
pub(super) fn epoch_of(topic: &ConfigResource) -> Option<u32> {
    let entry = topic
        .get(EPOCH)
        .filter(|entry| entry.source == ConfigSource::DynamicTopic)?;
    let epoch: u32 = entry.value.as_deref()?.parse().ok()?;
    (1..=0x7fff_ffff).contains(&epoch).then_some(epoch)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rdkafka::admin::{ConfigEntry, OwnedResourceSpecifier};

    use super::*;

    fn topic(plan: &TopicPlan, changed: &[(&str, &str)], source: fn() -> ConfigSource) -> ConfigResource {
        let entries = plan.given().into_iter().map(|(name, value)| {
            let change = changed.iter().find(|(of, _)| *of == name);
            ConfigEntry {
                name: name.to_owned(),
                value: Some(change.map_or(value, |(_, value)| (*value).to_owned())),
                source: source(),
                is_read_only: false,
                is_default: false,
                is_sensitive: false,
            }
        });
        ConfigResource {
            specifier: OwnedResourceSpecifier::Topic(plan.name.clone()),
            entries: entries.collect(),
        }
    }

    #[test]
    fn what_is_created_is_what_is_checked() {
        let config = KafkaConfig::default();
        for plan in [TopicPlan::receipts(&config), TopicPlan::verdicts(&config)] {
            let found = topic(&plan, &[], || ConfigSource::DynamicTopic);
            assert!(plan.faults(&found, "b:1").is_none());
        }
        let plan = TopicPlan::receipts(&config);
        let generous = [
            ("retention.ms", "-1"),
            ("max.message.bytes", "99999999"),
            ("min.insync.replicas", "3"),
        ];
        assert!(
            plan.faults(&topic(&plan, &generous, || ConfigSource::DynamicTopic), "b:1")
                .is_none()
        );
    }

    #[test]
    fn every_wrong_setting_is_reported_with_the_command_that_fixes_it() {
        let plan = TopicPlan::receipts(&KafkaConfig::default());
        let changed = [
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "1000"),
            ("max.message.bytes", "1048588"),
        ];
        let reported = plan
            .faults(&topic(&plan, &changed, || ConfigSource::DynamicTopic), "b:1")
            .unwrap()
            .to_string();
        for part in [
            "cleanup.policy is compact,delete, must be delete",
            "retention.ms is 1000, must be 604800000",
            "kafka-configs.sh --bootstrap-server b:1 --alter --entity-type topics --entity-name receipts --add-config",
            "cleanup.policy=delete,max.message.bytes=8455168,retention.ms=604800000",
        ] {
            assert!(reported.contains(part), "{part}: {reported}");
        }
        assert!(!reported.contains("delete.retention.ms"), "{reported}");
    }

    #[test]
    fn a_default_is_no_epoch() {
        let plan = TopicPlan::receipts(&KafkaConfig::default());
        let reported = plan
            .faults(&topic(&plan, &[], || ConfigSource::Default), "b:1")
            .unwrap()
            .to_string();
        assert!(reported.contains("delete.retention.ms"), "{reported}");
        for value in ["0", "-1", "2147483648", "x"] {
            let found = topic(&plan, &[("delete.retention.ms", value)], || ConfigSource::DynamicTopic);
            assert_eq!(epoch_of(&found), None, "{value}");
        }
    }
}
