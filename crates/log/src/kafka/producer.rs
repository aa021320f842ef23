//! An idempotent producer with acks=all, whose deliveries come back one by one.

use std::sync::Arc;

use rdkafka::{
    ClientConfig, ClientContext, Message, Statistics, Timestamp,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::KafkaError,
    producer::{DeliveryResult, ProducerContext, ThreadedProducer},
};

use super::{
    client::{self, Events},
    delivery::Delivery,
    role::Role,
};
use crate::kafka_config::{KafkaConfig, message_bytes_max};

/// The producer, with the thread that serves its deliveries.
pub(super) type Producer<H> = ThreadedProducer<Deliveries<H>>;

/// Receives the result of each record, on the thread that serves deliveries.
pub(super) trait Heard: Send + Sync + 'static {
    /// The record is stored, or isn't.
    fn heard(&self, events: &Events, delivery: &Delivery, outcome: Result<Stored, &KafkaError>);
}

/// Word of the broker that it has a record.
pub(super) struct Stored {
    pub(super) partition: u32,
    pub(super) offset: u64,
    /// By the broker's clock; none if the topic has times of its producers.
    pub(super) appended_at_ms: Option<i64>,
}

/// Takes what librdkafka says.
pub(super) struct Deliveries<H> {
    pub(super) events: Events,
    heard: Arc<H>,
}

impl<H: Heard> ClientContext for Deliveries<H> {
    fn log(&self, level: RDKafkaLogLevel, kind: &str, message: &str) {
        self.events.log(level, kind, message);
    }

    fn stats(&self, statistics: Statistics) {
        self.events.stats(statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.events.error(error, reason);
    }
}

impl<H: Heard> ProducerContext for Deliveries<H> {
    type DeliveryOpaque = Arc<Delivery>;

    fn delivery(&self, result: &DeliveryResult<'_>, delivery: Arc<Delivery>) {
        let outcome = match result {
            Ok(message) => Ok(Stored {
                partition: u32::try_from(message.partition()).unwrap_or(0),
                offset: u64::try_from(message.offset()).unwrap_or(0),
                appended_at_ms: match message.timestamp() {
                    Timestamp::LogAppendTime(at_ms) => Some(at_ms),
                    Timestamp::CreateTime(_) | Timestamp::NotAvailable => None,
                },
            }),
            Err((error, _)) => Err(error),
        };
        self.heard.heard(&self.events, &delivery, outcome);
    }
}

/// A producer's settings.
pub(super) fn settings(config: &KafkaConfig, role: &str, record_bytes_max: usize) -> ClientConfig {
    let message_bytes_max = message_bytes_max(record_bytes_max);
    let mut settings = client::base(config, role);
    let kib = config.queue_bytes_max.max(message_bytes_max).div_ceil(1024);
    settings
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("compression.type", config.compression.name())
        .set("linger.ms", config.linger_ms.to_string())
        .set("message.max.bytes", message_bytes_max.to_string())
        .set("message.timeout.ms", config.delivery_wait_ms_max.to_string())
        .set("queue.buffering.max.messages", config.queue_records_max.to_string())
        .set("queue.buffering.max.kbytes", kib.to_string());
    settings
}

/// Connects, in the background: a broker that is away now is no fault.
pub(super) fn connect<H: Heard>(
    settings: &ClientConfig,
    role: Role,
    heard: &Arc<H>,
) -> Result<Producer<H>, KafkaError> {
    let context = Deliveries {
        events: Events::new(role),
        heard: Arc::clone(heard),
    };
    Producer::from_config_and_context(settings, context)
}
