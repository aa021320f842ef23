//! Settings of the log on Kafka, and why it was not opened. Every build reads them, also one
//! without Kafka, which refuses them.

mod error;
mod security;

use serde::{Deserialize, Serialize};

pub use error::{KafkaOpenError, WrongSetting};
pub use security::{SaslMechanism, SecretText, SecurityProtocol};

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
const WITHOUT_KAFKA: &str = "is given, but this program was built without Kafka (the demo's is): take a release \
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
    /// Shortest time that records are kept, in milliseconds.
    pub retention_ms_max: u64,
    /// Least part of a partition that is kept, in bytes; 0: no limit.
    pub retention_bytes_max: u64,
    /// Time that verdicts are kept, at least, in milliseconds.
    pub verdicts_retention_ms_max: u64,
    /// Bytes of a partition of verdicts that are kept, at least; 0: no limit.
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
    pub sasl_password: SecretText,
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
            verdicts_retention_ms_max: 30 * 24 * 3_600_000,
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
            sasl_password: SecretText::default(),
        }
    }
}

impl KafkaConfig {
    /// Whether the log is Kafka's.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !self.brokers.trim().is_empty()
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// Each fault with the key it is about.
    pub fn validate(&self) -> Result<(), Vec<(&'static str, String)>> {
        let mut faults = Vec::new();
        let mut check = |key: &'static str, fine: bool, fault: &str| {
            if !fine {
                faults.push((key, fault.to_owned()));
            }
        };
        check("brokers", HAS_KAFKA || !self.is_given(), WITHOUT_KAFKA);
        let brokers = self.brokers.split(',').map(str::trim);
        for broker in brokers.filter(|broker| !broker.is_empty() && !is_broker(broker)) {
            let fault = format!("`{broker}` isn't HOST:PORT, as in kafka-0.example.com:9092,kafka-1.example.com:9092");
            check("brokers", false, &fault);
        }
        check("topic", is_topic_name(&self.topic), TOPIC_NAME);
        check("verdicts_topic", is_topic_name(&self.verdicts_topic), TOPIC_NAME);
        let apart = self.topic != self.verdicts_topic;
        check("verdicts_topic", apart, "must be another topic than kafka.topic");
        let in_range = |value: u64, allowed: std::ops::RangeInclusive<u64>| allowed.contains(&value);
        check(
            "partitions",
            in_range(self.partitions.into(), 1..=10_000),
            "must be 1 to 10000",
        );
        check(
            "verdicts_partitions",
            in_range(self.verdicts_partitions.into(), 1..=10_000),
            "must be 1 to 10000",
        );
        let replicas = in_range(self.replication_factor.into(), 1..=100);
        check("replication_factor", replicas, "must be 1 to 100");
        let insync = in_range(self.min_insync_replicas.into(), 1..=self.replication_factor.into());
        check("min_insync_replicas", insync, "must be 1 to kafka.replication_factor");
        check(
            "retention_ms_max",
            in_range(self.retention_ms_max, 60_000..=1 << 53),
            "must be at least 60000",
        );
        check(
            "retention_bytes_max",
            self.retention_bytes_max <= 1 << 53,
            "must be at most 2^53",
        );
        check(
            "verdicts_retention_ms_max",
            in_range(self.verdicts_retention_ms_max, 60_000..=1 << 53),
            "must be at least 60000",
        );
        check(
            "verdicts_retention_bytes_max",
            self.verdicts_retention_bytes_max <= 1 << 53,
            "must be at most 2^53",
        );
        let record = in_range(self.record_bytes_max as u64, 1024..=512 << 20);
        check("record_bytes_max", record, "must be 1024 to 536870912");
        let verdicts = self.record_bytes_max.saturating_add(VERDICTS_FRAME_BYTES)..=512 << 20;
        check(
            "verdicts_bytes_max",
            verdicts.contains(&self.verdicts_bytes_max),
            "must be kafka.record_bytes_max and 262144 more, to 536870912: a record that is rejected whole is one row",
        );
        check("linger_ms", self.linger_ms <= 100, "must be at most 100");
        let records = in_range(self.queue_records_max as u64, 1..=10_000_000);
        check("queue_records_max", records, "must be 1 to 10000000");
        let queue = self.queue_bytes_max >= self.record_bytes_max && self.queue_bytes_max <= 64 << 30;
        check(
            "queue_bytes_max",
            queue,
            "must be kafka.record_bytes_max to 68719476736",
        );
        let delivery = in_range(self.delivery_wait_ms_max, 100..=300_000);
        check("delivery_wait_ms_max", delivery, "must be 100 to 300000");
        check(
            "delivery_wait_ms_max",
            self.delivery_wait_ms_max > self.linger_ms,
            "must be more than kafka.linger_ms",
        );
        let transaction = in_range(self.transaction_wait_ms_max, 1_000..=900_000);
        check("transaction_wait_ms_max", transaction, "must be 1000 to 900000");
        let session = in_range(self.session_wait_ms_max, 1_000..=1_800_000);
        check("session_wait_ms_max", session, "must be 1000 to 1800000");
        let interval = in_range(self.poll_interval_ms_max, self.session_wait_ms_max..=86_400_000);
        check(
            "poll_interval_ms_max",
            interval,
            "must be kafka.session_wait_ms_max to 86400000",
        );
        let ahead = in_range(self.fetch_queue_bytes_max as u64, 64 << 10..=2 << 30);
        check("fetch_queue_bytes_max", ahead, "must be 65536 to 2147483648");
        let fetch = in_range(self.fetch_partition_bytes_max as u64, 4096..=512 << 20);
        check("fetch_partition_bytes_max", fetch, "must be 4096 to 536870912");
        let request = in_range(self.request_wait_ms_max, 1_000..=60_000);
        check("request_wait_ms_max", request, "must be 1000 to 60000");
        let statistics = in_range(self.statistics_interval_ms, 100..=3_600_000);
        check("statistics_interval_ms", statistics, "must be 100 to 3600000");
        self.check_security(&mut check);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn check_security(&self, check: &mut impl FnMut(&'static str, bool, &str)) {
        let protocol = self.security_protocol;
        let mut brokers = self.brokers.split(',').map(str::trim);
        let is_here = brokers.all(|broker| {
            let host = broker.rsplit_once(':').map_or(broker, |(host, _)| host);
            matches!(host, "" | "localhost" | "127.0.0.1" | "[::1]")
        });
        check(
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
            check(key, used, "is given, but kafka.security_protocol is without TLS");
        }
        let pair = self.ssl_certificate.is_empty() == self.ssl_key.is_empty();
        check(
            "ssl_key",
            pair,
            "kafka.ssl_certificate and kafka.ssl_key belong together",
        );
        let user = !self.sasl_username.is_empty();
        check(
            "sasl_username",
            user || !protocol.has_login(),
            "is missing: kafka.security_protocol wants a login",
        );
        check(
            "sasl_username",
            !user || protocol.has_login(),
            "is given, but kafka.security_protocol is without a login",
        );
        let password = !self.sasl_password.reveal().is_empty();
        check(
            "sasl_password",
            password || !protocol.has_login(),
            "is missing: kafka.security_protocol wants a login",
        );
    }

    /// Checks what must fit the gateway: `gateway.append_wait_ms_max`, because nothing may be
    /// delivered after its request was answered, and `limits.batch_bytes_max`, because the log must
    /// take what the gateway takes.
    ///
    /// # Errors
    /// A setting that doesn't fit.
    pub fn fits(&self, append_wait_ms_max: u64, batch_bytes_max: usize) -> Result<(), String> {
        if !self.is_given() {
            return Ok(());
        }
        if self.delivery_wait_ms_max.saturating_add(TIMEOUT_SCAN_MS) > append_wait_ms_max {
            return Err(format!(
                "kafka.delivery_wait_ms_max is {}, must be at least {TIMEOUT_SCAN_MS} less than gateway.append_wait_ms_max \
                 ({append_wait_ms_max}): a record must not be delivered after its request was answered 503",
                self.delivery_wait_ms_max
            ));
        }
        let needed = batch_bytes_max.saturating_add(RECORD_FRAME_BYTES);
        if self.record_bytes_max < needed {
            return Err(format!(
                "kafka.record_bytes_max is {}, must be at least {needed}: limits.batch_bytes_max and {RECORD_FRAME_BYTES} bytes more",
                self.record_bytes_max
            ));
        }
        Ok(())
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

    use super::*;

    #[test]
    fn brokers_need_a_build_with_kafka() {
        let config = KafkaConfig {
            brokers: "127.0.0.1:9092".to_owned(),
            ..KafkaConfig::default()
        };
        let faults = config.validate().err().unwrap_or_default();
        let is_refused = faults
            .iter()
            .any(|(key, fault)| *key == "brokers" && fault.contains("make build"));
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
        let faults = config.validate().unwrap_err();
        assert!(
            faults
                .iter()
                .any(|(key, fault)| *key == "brokers" && fault.contains("`http://kafka-1:9092`"))
        );
    }

    #[test]
    fn the_defaults_fit_and_a_password_is_never_shown() {
        assert_eq!(KafkaConfig::default().validate(), Ok(()));
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
        assert_eq!(config.validate(), Ok(()));
        config.brokers += ",kafka:9092";
        let faults = config.validate().unwrap_err();
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].0, "security_protocol");
        config.allow_plaintext = true;
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn every_fault_is_told_with_its_key() {
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
        let keys: Vec<&str> = config.validate().unwrap_err().into_iter().map(|(key, _)| key).collect();
        let expected = [
            "topic",
            "verdicts_topic",
            "verdicts_topic",
            "min_insync_replicas",
            "verdicts_bytes_max",
            "transaction_wait_ms_max",
            "poll_interval_ms_max",
            "ssl_ca",
            "sasl_username",
            "sasl_password",
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
        assert!(config.fits(5_000, 8 << 20).is_ok());
        assert!(config.fits(4_999, 8 << 20).is_err());
        assert!(config.fits(5_000, 9 << 20).is_err());
        assert!(
            KafkaConfig::default().fits(1, 9 << 20).is_ok(),
            "the embedded log has limits of its own"
        );
    }
}
