//! Parts that all clients of librdkafka have in common: addresses, security, and their events.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, ClientContext, Statistics,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{meters::ClientMeters, role::Role};
use crate::kafka_config::KafkaConfig;

/// Pause between two equal kinds of librdkafka's log lines.
const LOG_PAUSE: Duration = Duration::from_secs(10);
/// Events served at one time.
const EVENTS_MAX: usize = 32;
/// Kinds of log lines distinguished; librdkafka has fewer.
const LOG_KINDS_MAX: usize = 64;

/// The settings of a client, before what its role adds.
pub(super) fn base(config: &KafkaConfig, role: &str) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set_log_level(RDKafkaLogLevel::Notice);
    client
        .set("bootstrap.servers", &config.brokers)
        .set("client.id", format!("receipts-{role}"))
        .set("socket.timeout.ms", config.request_wait_ms_max.to_string())
        .set("socket.keepalive.enable", "true")
        .set("socket.nagle.disable", "true")
        .set("reconnect.backoff.max.ms", "1000")
        .set("topic.metadata.refresh.interval.ms", "10000")
        .set("allow.auto.create.topics", "false")
        .set("statistics.interval.ms", config.statistics_interval_ms.to_string())
        .set("security.protocol", config.security_protocol.name());
    if config.security_protocol.has_tls() {
        let files = [
            ("ssl.ca.location", &config.ssl_ca),
            ("ssl.certificate.location", &config.ssl_certificate),
            ("ssl.key.location", &config.ssl_key),
        ];
        for (key, path) in files.into_iter().filter(|(_, path)| !path.is_empty()) {
            client.set(key, path);
        }
        if config.ssl_ca.is_empty() {
            // The vendored OpenSSL knows no system's store by itself.
            client.set("ssl.ca.location", "probe");
        }
    }
    if config.security_protocol.has_login() {
        client
            .set("sasl.mechanism", config.sasl_mechanism.name())
            .set("sasl.username", &config.sasl_username)
            .set("sasl.password", config.sasl_password.reveal());
    }
    client
}

/// Serves log lines, errors and statistics of a client that reads nothing now.
pub(super) fn serve_events<C: ConsumerContext>(client: &BaseConsumer<C>) {
    // A poll ends after an event as it does without one, so there is no telling when none is left.
    for _ in 0..EVENTS_MAX {
        client.poll(Duration::ZERO);
    }
}

/// Takes a client's log lines, errors and statistics.
pub(super) struct Events {
    role: Role,
    meters: ClientMeters,
    last_error: Mutex<Option<String>>,
    logged: Mutex<HashMap<String, Logged>>,
}

struct Logged {
    at: Instant,
    left_out: u64,
}

impl Events {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            meters: ClientMeters::new(role),
            last_error: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// Returns the last error that librdkafka reported.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// All is well again.
    pub(super) fn forget_error(&self) {
        *self.last_error.lock() = None;
    }

    /// `error`, with the reason that librdkafka gave for it, which is the one a person can act on.
    pub(super) fn explain(&self, error: &KafkaError) -> String {
        match self.last_error() {
            Some(reason) => format!("{error} ({reason})"),
            None => error.to_string(),
        }
    }

    /// Whether a line of this kind may be written, and how many were left out before it.
    fn may_log(&self, kind: &str) -> Option<u64> {
        let mut logged = self.logged.lock();
        if let Some(existing) = logged.get_mut(kind) {
            if existing.at.elapsed() < LOG_PAUSE {
                existing.left_out += 1;
                return None;
            }
            existing.at = Instant::now();
            return Some(std::mem::take(&mut existing.left_out));
        }
        if logged.len() < LOG_KINDS_MAX {
            let at = Instant::now();
            logged.insert(kind.to_owned(), Logged { at, left_out: 0 });
        }
        Some(0)
    }
}

impl ClientContext for Events {
    fn log(&self, level: RDKafkaLogLevel, kind: &str, message: &str) {
        let Some(left_out) = self.may_log(kind) else { return };
        let (client, log) = (self.role.client, self.role.topic.name());
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::error!(client, log, kind, left_out, "kafka: {message}");
            }
            RDKafkaLogLevel::Warning => tracing::warn!(client, log, kind, left_out, "kafka: {message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(client, log, kind, left_out, "kafka: {message}")
            }
            RDKafkaLogLevel::Debug => tracing::debug!(client, log, kind, left_out, "kafka: {message}"),
        }
    }

    fn stats(&self, statistics: Statistics) {
        self.meters.take(&statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // "All brokers down" says less than what came before it.
        if code != Some(RDKafkaErrorCode::AllBrokersDown) || self.last_error.lock().is_none() {
            *self.last_error.lock() = Some(reason.to_owned());
        }
        if let Some(left_out) = self.may_log(&format!("{code:?}")) {
            tracing::warn!(
                client = self.role.client,
                log = self.role.topic.name(),
                left_out,
                "kafka: {reason}"
            );
        }
    }
}

impl ConsumerContext for Events {}

/// Explains a failed request to the brokers, for people.
pub(super) fn explain(client: &BaseConsumer<Events>, error: &KafkaError) -> String {
    serve_events(client);
    client.context().explain(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topic;

    #[test]
    fn a_kind_of_line_is_written_once_in_a_while() {
        let (client, topic) = ("test", Topic::Receipts);
        let events = Events::new(Role { client, topic });
        assert_eq!(events.may_log("FAIL"), Some(0));
        assert_eq!(events.may_log("FAIL"), None);
        assert_eq!(events.may_log("other"), Some(0));
        for number in 0..2 * LOG_KINDS_MAX {
            events.may_log(&number.to_string());
        }
        assert_eq!(events.logged.lock().len(), LOG_KINDS_MAX);
    }
}
