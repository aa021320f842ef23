//! Settings of the log on Kafka, and why it was not opened. Every build reads them, also one
//! without Kafka, which refuses them.

mod error;
mod security;

use config::{ConfigFaults, Secret, Section};
use serde::{Deserialize, Serialize};

pub use error::{KafkaOpenError, WrongSetting};
pub use security::{SaslMechanism, SecurityProtocol};

/// Bytes around a record in a batch of Kafka's: the batch's header, the record's own lengths.
/// Generous.
#[cfg(feature = "kafka")]
const BATCH_FRAME_BYTES: usize = 1024;
/// Bytes of a block of verdicts beside a record that was rejected whole: header, schema, and the
/// row's other columns. More than they take.
const VERDICTS_FRAME_BYTES: usize = 256 << 10;
/// Bytes of a record beside its body: more than its headers take.
const RECORD_FRAME_BYTES: usize = 4 << 10;
/// Whether this build can open a log on Kafka.
const HAS_KAFKA: bool = cfg!(feature = "kafka");
/// Fault of brokers in a build that can't.
pub(crate) const WITHOUT_KAFKA: &str = "is given, but this program was built without Kafka (the demo's is): take a release \
                             build or the images, build with the default features (make build), or leave it empty";
/// librdkafka looks for messages whose time is over once a second.
const TIMEOUT_SCAN_MS: u64 = 1_000;

/// Compression of record batches on the way to the broker and on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KafkaCompression {
    /// Not at all.
    None,
    /// Cheap for the gateway.
    #[default]
    Lz4,
    /// Smallest on disk and wire.
    Zstd,
}

impl KafkaCompression {
    #[cfg(feature = "kafka")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Settings of the log on Kafka (`[kafka]` in the configuration file). Given `brokers`, the log is
/// Kafka's, otherwise the embedded one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaConfig {
    /// `host:port`, several with commas between. Empty: the embedded log.
    pub brokers: String,
    /// The topic that is the log.
    pub topic: String,
    /// The topic of verdicts: what the verifiers make of the log, and the writers store.
    pub verdicts_topic: String,
    /// Whether to create a topic that doesn't exist.
    pub create_topic: bool,
    /// Partitions of a created topic: the most verifiers that share the work.
    pub partitions: u32,
    /// Partitions of the topic of verdicts, at least: one for each logical shard.
    pub verdicts_partitions: u32,
    /// Copies of each record, at least.
    pub replication_factor: u32,
    /// Copies that must exist before a record is acknowledged, at least.
    pub min_insync_replicas: u32,
    /// Shortest time that records are retained, in milliseconds.
    pub retention_ms_max: u64,
    /// Least part of a partition that is retained, in bytes; 0: no limit.
    pub retention_bytes_max: u64,
    /// Time that verdicts are retained, at least, in milliseconds.
    pub verdicts_retention_ms_max: u64,
    /// Bytes of a partition of verdicts that are retained, at least; 0: no limit.
    pub verdicts_retention_bytes_max: u64,
    /// The largest record in bytes: a batch of 8 MiB and what stands beside it.
    pub record_bytes_max: usize,
    /// The largest record of verdicts in bytes: the verdicts on one batch, which are larger than
    /// the batch.
    pub verdicts_bytes_max: usize,
    /// Compression of record batches.
    pub compression: KafkaCompression,
    /// Time for which the producer gathers records before it sends them.
    pub linger_ms: u64,
    /// Most records that wait for an acknowledgement; beyond it appends are `Busy`.
    pub queue_records_max: usize,
    /// Most bytes that wait for an acknowledgement; beyond it appends are `Busy`.
    pub queue_bytes_max: usize,
    /// A record that isn't acknowledged by then is given up. At least a second less than the
    /// gateway waits, so that nothing is delivered after a client got the answer that it isn't.
    pub delivery_wait_ms_max: u64,
    /// A verifier's transaction that takes longer is aborted, by the verifier or, if that is
    /// gone, by the broker. Until then the verdicts of other verifiers behind it are invisible,
    /// too.
    pub transaction_wait_ms_max: u64,
    /// A verifier that isn't heard of for so long loses its partitions.
    pub session_wait_ms_max: u64,
    /// A verifier that doesn't request records for so long loses its partitions, although its
    /// process lives.
    pub poll_interval_ms_max: u64,
    /// Most bytes fetched ahead of what a consumer was given, over all partitions (one fetch may go
    /// over it).
    pub fetch_queue_bytes_max: usize,
    /// Most bytes one fetch takes of one partition (or one batch of records, if that is larger).
    pub fetch_partition_bytes_max: usize,
    /// Longest time of a request to a broker.
    pub request_wait_ms_max: u64,
    /// Interval at which librdkafka's statistics become metrics.
    pub statistics_interval_ms: u64,
    /// Security of connections.
    pub security_protocol: SecurityProtocol,
    /// Whether the login's password may go to another machine without TLS.
    pub allow_plaintext: bool,
    /// PEM file with the authorities to trust; empty: the system's.
    pub ssl_ca: String,
    /// PEM file with the client's certificate; empty: none.
    pub ssl_certificate: String,
    /// PEM file with the client's key.
    pub ssl_key: String,
    /// Mechanism of the login.
    pub sasl_mechanism: SaslMechanism,
    /// The login's name.
    pub sasl_username: String,
    /// The login's password.
    pub sasl_password: Secret,
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            brokers: String::new(),
            topic: "receipts".to_owned(),
            verdicts_topic: "verdicts".to_owned(),
            create_topic: true,
            partitions: 12,
            verdicts_partitions: 1,
            replication_factor: 3,
            min_insync_replicas: 2,
            retention_ms_max: 7 * 24 * 3_600_000,
            retention_bytes_max: 0,
            verdicts_retention_ms_max: 3 * 24 * 3_600_000,
            verdicts_retention_bytes_max: 0,
            record_bytes_max: (8 << 20) + (64 << 10),
            verdicts_bytes_max: 32 << 20,
            compression: KafkaCompression::Lz4,
            linger_ms: 1,
            queue_records_max: 65_536,
            queue_bytes_max: 64 << 20,
            delivery_wait_ms_max: 3_500,
            transaction_wait_ms_max: 10_000,
            session_wait_ms_max: 10_000,
            poll_interval_ms_max: 120_000,
            fetch_queue_bytes_max: 32 << 20,
            fetch_partition_bytes_max: 1 << 20,
            request_wait_ms_max: 10_000,
            statistics_interval_ms: 5_000,
            security_protocol: SecurityProtocol::Plaintext,
            allow_plaintext: false,
            ssl_ca: String::new(),
            ssl_certificate: String::new(),
            ssl_key: String::new(),
            sasl_mechanism: SaslMechanism::ScramSha512,
            sasl_username: String::new(),
            sasl_password: Secret::default(),
        }
    }
}

impl Section for KafkaConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.require("brokers", HAS_KAFKA || !self.is_shared(), WITHOUT_KAFKA);
        let brokers = self.brokers.split(',').map(str::trim);
        for broker in brokers.filter(|broker| !broker.is_empty() && !is_broker(broker)) {
            let fault = format!("`{broker}` isn't HOST:PORT, as in kafka-0.example.com:9092,kafka-1.example.com:9092");
            faults.push("brokers", fault);
        }
        faults.require("topic", is_topic_name(&self.topic), TOPIC_NAME);
        faults.require("verdicts_topic", is_topic_name(&self.verdicts_topic), TOPIC_NAME);
        let apart = self.topic != self.verdicts_topic;
        faults.require("verdicts_topic", apart, "must be another topic than kafka.topic");
        faults.range("partitions", self.partitions, 1..=10_000);
        faults.range("verdicts_partitions", self.verdicts_partitions, 1..=10_000);
        faults.range("replication_factor", self.replication_factor, 1..=100);
        let insync = (1..=self.replication_factor).contains(&self.min_insync_replicas);
        faults.require("min_insync_replicas", insync, "must be 1 to kafka.replication_factor");
        faults.range("retention_ms_max", self.retention_ms_max, 60_000..=1 << 53);
        faults.range("retention_bytes_max", self.retention_bytes_max, 0..=1 << 53);
        let verdicts_ms = self.verdicts_retention_ms_max;
        faults.range("verdicts_retention_ms_max", verdicts_ms, 60_000..=1 << 53);
        let verdicts_bytes = self.verdicts_retention_bytes_max;
        faults.range("verdicts_retention_bytes_max", verdicts_bytes, 0..=1 << 53);
        faults.range("record_bytes_max", self.record_bytes_max, 1024..=512 << 20);
        let verdicts = self.record_bytes_max.saturating_add(VERDICTS_FRAME_BYTES)..=512 << 20;
        faults.require(
            "verdicts_bytes_max",
            verdicts.contains(&self.verdicts_bytes_max),
            "must be kafka.record_bytes_max and 262144 more, to 536870912: a record that is rejected whole is one row",
        );
        faults.range("linger_ms", self.linger_ms, 0..=100);
        faults.range("queue_records_max", self.queue_records_max, 1..=10_000_000);
        let queue = self.record_bytes_max..=64 << 30;
        faults.require(
            "queue_bytes_max",
            queue.contains(&self.queue_bytes_max),
            "must be kafka.record_bytes_max to 68719476736",
        );
        faults.range("delivery_wait_ms_max", self.delivery_wait_ms_max, 100..=300_000);
        faults.require(
            "delivery_wait_ms_max",
            self.delivery_wait_ms_max > self.linger_ms,
            "must be more than kafka.linger_ms",
        );
        faults.range("transaction_wait_ms_max", self.transaction_wait_ms_max, 1_000..=900_000);
        faults.range("session_wait_ms_max", self.session_wait_ms_max, 1_000..=1_800_000);
        faults.require(
            "poll_interval_ms_max",
            (self.session_wait_ms_max..=86_400_000).contains(&self.poll_interval_ms_max),
            "must be kafka.session_wait_ms_max to 86400000",
        );
        faults.range("fetch_queue_bytes_max", self.fetch_queue_bytes_max, 64 << 10..=2 << 30);
        let fetch = self.fetch_partition_bytes_max;
        faults.range("fetch_partition_bytes_max", fetch, 4096..=512 << 20);
        faults.range("request_wait_ms_max", self.request_wait_ms_max, 1_000..=60_000);
        faults.range("statistics_interval_ms", self.statistics_interval_ms, 100..=3_600_000);
        self.check_security(faults);
    }
}

impl KafkaConfig {
    /// Whether the log is Kafka's, which other processes append to and consume, too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.brokers.trim().is_empty()
    }

    fn check_security(&self, faults: &mut ConfigFaults) {
        let protocol = self.security_protocol;
        let mut brokers = self.brokers.split(',').map(str::trim);
        let is_here = brokers.all(|broker| {
            let host = broker.rsplit_once(':').map_or(broker, |(host, _)| host);
            matches!(host, "" | "localhost" | "127.0.0.1" | "[::1]")
        });
        faults.require(
            "security_protocol",
            protocol != SecurityProtocol::SaslPlaintext || is_here || self.allow_plaintext,
            "must be sasl_ssl where a password goes to another machine; allow_plaintext = true allows it without TLS",
        );
        for (key, path) in [
            ("ssl_ca", &self.ssl_ca),
            ("ssl_certificate", &self.ssl_certificate),
            ("ssl_key", &self.ssl_key),
        ] {
            let used = path.is_empty() || protocol.has_tls();
            faults.require(key, used, "is given, but kafka.security_protocol is without TLS");
        }
        faults.require(
            "ssl_key",
            self.ssl_certificate.is_empty() == self.ssl_key.is_empty(),
            "kafka.ssl_certificate and kafka.ssl_key belong together",
        );
        let user = !self.sasl_username.is_empty();
        faults.require(
            "sasl_username",
            user || !protocol.has_login(),
            "is missing: kafka.security_protocol wants a login",
        );
        faults.require(
            "sasl_username",
            !user || protocol.has_login(),
            "is given, but kafka.security_protocol is without a login",
        );
        faults.require(
            "sasl_password",
            !self.sasl_password.is_empty() || !protocol.has_login(),
            "is missing: kafka.security_protocol wants a login",
        );
    }

    /// Checks what must fit the gateway: `gateway.append_wait_ms_max`, because nothing may be
    /// delivered after its request was answered, and `limits.batch_bytes_max`, because the log must
    /// take what the gateway takes.
    pub fn check_gateway(&self, append_wait_ms_max: u64, batch_bytes_max: usize, faults: &mut ConfigFaults) {
        if !self.is_shared() {
            return;
        }
        if self.delivery_wait_ms_max.saturating_add(TIMEOUT_SCAN_MS) > append_wait_ms_max {
            let fault = format!(
                "is {}, must be at least {TIMEOUT_SCAN_MS} less than gateway.append_wait_ms_max ({append_wait_ms_max}): a \
                 record must not be delivered after its request was answered 503",
                self.delivery_wait_ms_max
            );
            faults.push("kafka.delivery_wait_ms_max", fault);
        }
        faults.at_least(
            "kafka.record_bytes_max",
            self.record_bytes_max,
            batch_bytes_max.saturating_add(RECORD_FRAME_BYTES),
            &format!("limits.batch_bytes_max and {RECORD_FRAME_BYTES} bytes more"),
        );
    }
}

/// The largest batch of records that a topic must take.
#[cfg(feature = "kafka")]
pub(crate) fn message_bytes_max(record_bytes_max: usize) -> usize {
    record_bytes_max + BATCH_FRAME_BYTES
}

/// Whether a text is a host with a port, without a scheme.
fn is_broker(broker: &str) -> bool {
    broker.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = !host.is_empty() && !host.contains('/') && (!host.contains(':') || host.ends_with(']'));
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

const TOPIC_NAME: &str = "must be 1 to 249 of A-Z a-z 0-9 . _ -, and neither . nor ..";

/// Kafka's own rule (`Topic.validate`).
fn is_topic_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use config::ConfigFault;

    use super::*;

    fn faults(config: &KafkaConfig) -> Vec<ConfigFault> {
        config.faults("kafka")
    }

    #[test]
    fn brokers_need_a_build_with_kafka() {
        let config = KafkaConfig {
            brokers: "127.0.0.1:9092".to_owned(),
            ..KafkaConfig::default()
        };
        let faults = faults(&config);
        let is_refused = faults
            .iter()
            .any(|fault| fault.location == "kafka.brokers" && fault.what.contains("make build"));
        assert_eq!(is_refused, !cfg!(feature = "kafka"), "{faults:?}");
    }

    #[test]
    fn a_broker_is_a_host_and_a_port() {
        for good in ["kafka:9092", "10.0.0.1:1", "[::1]:9092", "a-b.example.com:65535"] {
            assert!(is_broker(good), "{good}");
        }
        for bad in [
            "kafka",
            "kafka:",
            ":9092",
            "kafka:0",
            "kafka:99999",
            "http://kafka:9092",
            "::1:9092",
            "a:b:1",
        ] {
            assert!(!is_broker(bad), "{bad}");
        }
        let config = KafkaConfig {
            brokers: "kafka-0:9092, http://kafka-1:9092".to_owned(),
            ..KafkaConfig::default()
        };
        assert!(
            faults(&config)
                .iter()
                .any(|fault| fault.location == "kafka.brokers" && fault.what.contains("`http://kafka-1:9092`"))
        );
    }

    #[test]
    fn the_defaults_fit_and_a_password_is_never_shown() {
        assert_eq!(faults(&KafkaConfig::default()), []);
        let config = KafkaConfig {
            sasl_password: "hunter2".into(),
            ..KafkaConfig::default()
        };
        assert!(!format!("{config:?}").contains("hunter2"));
        let shown = serde_json::to_value(&config).unwrap();
        assert_eq!(
            (&shown["sasl_password"], &shown["sasl_mechanism"]),
            (&"***".into(), &"SCRAM-SHA-512".into())
        );
    }

    #[test]
    fn a_password_goes_to_another_machine_in_tls() {
        let mut config = KafkaConfig {
            brokers: "127.0.0.1:9092, [::1]:9092,localhost:9092".to_owned(),
            security_protocol: SecurityProtocol::SaslPlaintext,
            sasl_username: "u".to_owned(),
            sasl_password: "hunter2".into(),
            ..KafkaConfig::default()
        };
        assert_eq!(faults(&config), []);
        config.brokers += ",kafka:9092";
        let locations: Vec<String> = faults(&config).into_iter().map(|fault| fault.location).collect();
        assert_eq!(locations, ["kafka.security_protocol"]);
        config.allow_plaintext = true;
        assert_eq!(faults(&config), []);
    }

    #[test]
    fn every_fault_is_reported_with_its_key() {
        let config = KafkaConfig {
            topic: "a/b".to_owned(),
            verdicts_topic: "a/b".to_owned(),
            min_insync_replicas: 4,
            verdicts_bytes_max: 8 << 20,
            transaction_wait_ms_max: 999,
            poll_interval_ms_max: 9_999,
            security_protocol: SecurityProtocol::SaslPlaintext,
            ssl_ca: "ca.pem".to_owned(),
            ..KafkaConfig::default()
        };
        let keys: Vec<String> = faults(&config).into_iter().map(|fault| fault.location).collect();
        let expected = [
            "kafka.topic",
            "kafka.verdicts_topic",
            "kafka.verdicts_topic",
            "kafka.min_insync_replicas",
            "kafka.verdicts_bytes_max",
            "kafka.transaction_wait_ms_max",
            "kafka.poll_interval_ms_max",
            "kafka.ssl_ca",
            "kafka.sasl_username",
            "kafka.sasl_password",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_delivery_must_end_before_the_request_does_and_a_batch_must_fit() {
        let config = KafkaConfig {
            brokers: "kafka:9092".to_owned(),
            delivery_wait_ms_max: 4_000,
            ..KafkaConfig::default()
        };
        let found = |config: &KafkaConfig, append_wait_ms_max, batch_bytes_max| {
            let mut faults = ConfigFaults::new("");
            config.check_gateway(append_wait_ms_max, batch_bytes_max, &mut faults);
            faults.into_vec().len()
        };
        assert_eq!(found(&config, 5_000, 8 << 20), 0);
        assert_eq!(found(&config, 4_999, 8 << 20), 1);
        assert_eq!(found(&config, 4_999, 9 << 20), 2);
        assert_eq!(
            found(&KafkaConfig::default(), 1, 9 << 20),
            0,
            "the embedded log has limits of its own"
        );
    }
}
