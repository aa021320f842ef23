//! Appending: an idempotent producer with acks=all, one delivery callback, no task for a record.
//!
//! A record that isn't acknowledged within `delivery_wait_ms_max` is given up and answered
//! `Unavailable`. It may be in the log all the same, if a broker took it and the answer was lost;
//! the client's retry then makes a duplicate, which is counted as one.
//!
//! Once no broker has answered for as long as a record may wait, records are refused at once:
//! waiting would only tell the client later. Partitions without a leader don't count, because the
//! others take records.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::{Mutex, RwLock};
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, Producer as _},
};

use super::{
    WRITER,
    client::Events,
    delivery::{Delivered, Delivery},
    headers,
    inspect::now_ms,
    log_topic::LogTopic,
    meters::WriterMeters,
    producer::{self, Heard, Producer, Stored},
    role::Role,
};
use crate::{
    kafka_config::{KafkaConfig, KafkaOpenError},
    record::{Appended, Position, Record},
    traits::{AppendError, LogWriter},
};

/// Pause between two checks whether the topic takes records.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// Longest time that the brokers may take to answer.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(2);

/// State that outlives a producer that had to be replaced.
struct ProducerState {
    epoch: Arc<AtomicU32>,
    record_bytes_max: usize,
    meters: WriterMeters,
    /// Why the log takes nothing at the moment.
    refusal: Mutex<Option<String>>,
    /// Whether no broker has answered for as long as a record may wait.
    away: AtomicBool,
    closed: AtomicBool,
}

impl ProducerState {
    fn refuse(&self, reason: String) {
        let mut refusal = self.refusal.lock();
        if refusal.is_none() {
            tracing::warn!(reason, "the log takes no records");
        }
        *refusal = Some(reason);
        self.meters.writable.set(0.0);
    }

    fn accept(&self) {
        if self.refusal.lock().take().is_some() {
            tracing::info!("the log takes records again");
        }
        self.meters.writable.set(1.0);
    }
}

impl Heard for ProducerState {
    fn heard(&self, events: &Events, delivery: &Delivery, outcome: Result<Stored, &KafkaError>) {
        match outcome {
            Ok(stored) => {
                self.meters.appends.increment(1);
                self.meters.append_bytes.increment(delivery.bytes as u64);
                self.meters
                    .delivery_seconds
                    .record(delivery.since.elapsed().as_secs_f64());
                delivery.end(Ok(Appended {
                    position: Position {
                        epoch: self.epoch.load(Ordering::Relaxed),
                        partition: stored.partition,
                        offset: stored.offset,
                    },
                    appended_at_ms: stored.appended_at_ms.unwrap_or_else(now_ms),
                }));
            }
            Err(error) => {
                self.meters.failures.increment(1);
                let failed = self.failed(error, delivery.bytes, || events.explain(error));
                // The probe says when it is over.
                if let AppendError::Unavailable(reason) = &failed {
                    self.refuse(reason.clone());
                }
                delivery.end(Err(failed));
            }
        }
    }
}

impl ProducerState {
    fn failed(&self, error: &KafkaError, bytes: usize, explain: impl FnOnce() -> String) -> AppendError {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => AppendError::Busy,
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize) => {
                AppendError::TooLarge {
                    size: bytes,
                    max: self.record_bytes_max,
                }
            }
            Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)
                if self.closed.load(Ordering::Relaxed) =>
            {
                AppendError::Closed
            }
            _ => AppendError::Unavailable(explain()),
        }
    }
}

/// The producer of a log on Kafka.
pub(super) struct Writer {
    settings: ClientConfig,
    role: Role,
    topic: String,
    shared: Arc<ProducerState>,
    delivery_wait_max: Duration,
    min_insync_replicas: usize,
    client: RwLock<Producer<ProducerState>>,
    watch: Mutex<Option<Watch>>,
}

struct Watch {
    stop: Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Writer {
    /// Connects, in the background: a broker that is away now is no fault.
    pub(super) fn open(
        config: &KafkaConfig,
        topic: &LogTopic,
        epoch: Arc<AtomicU32>,
    ) -> Result<Arc<Self>, KafkaOpenError> {
        let settings = producer::settings(config, WRITER, topic.record_bytes_max);
        let role = Role {
            client: WRITER,
            topic: topic.topic,
        };
        let shared = Arc::new(ProducerState {
            epoch,
            record_bytes_max: topic.record_bytes_max,
            meters: WriterMeters::new(topic.topic),
            refusal: Mutex::default(),
            away: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        shared.accept();
        let client = producer::connect(&settings, role, &shared);
        let client = client.map_err(|error| KafkaOpenError::Client(error.to_string()))?;
        let writer = Arc::new(Self {
            settings,
            role,
            topic: topic.name.clone(),
            shared,
            delivery_wait_max: Duration::from_millis(config.delivery_wait_ms_max),
            min_insync_replicas: config.min_insync_replicas as usize,
            client: RwLock::new(client),
            watch: Mutex::default(),
        });
        let (stop, stopped) = bounded(0);
        let watched = Arc::downgrade(&writer);
        let watching = move || {
            let mut answered = Instant::now();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PROBE_PAUSE) {
                let Some(writer) = watched.upgrade() else { return };
                let asked = Instant::now();
                if writer.probe() {
                    answered = asked;
                }
                let away = answered.elapsed() > writer.delivery_wait_max + PROBE_PAUSE;
                writer.shared.away.store(away, Ordering::Relaxed);
            }
        };
        let thread = thread::Builder::new()
            .name("log-kafka-watch".to_owned())
            .spawn(watching);
        let thread = thread.map_err(|error| KafkaOpenError::Client(error.to_string()))?;
        *writer.watch.lock() = Some(Watch { stop, thread });
        Ok(writer)
    }

    fn send(&self, record: &Record) -> Result<Delivered, AppendError> {
        let bytes = headers::encoded_len_max(record);
        let max = self.shared.record_bytes_max;
        if bytes > max {
            return Err(AppendError::TooLarge { size: bytes, max });
        }
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(AppendError::Closed);
        }
        if self.shared.away.load(Ordering::Relaxed)
            && let Err(reason) = self.writable()
        {
            return Err(AppendError::Unavailable(reason));
        }
        let delivery = Delivery::new(bytes);
        let message = BaseRecord::<(), [u8], _>::with_opaque_to(&self.topic, Arc::clone(&delivery))
            .payload(&record.body)
            .headers(headers::headers_of(record));
        let client = self.client.read();
        match client.send(message) {
            Ok(()) => Ok(Delivered(delivery)),
            Err((error, _)) => {
                let events = &client.context().events;
                Err(self.shared.failed(&error, bytes, || events.explain(&error)))
            }
        }
    }

    /// Asks a broker whether every partition has a leader and enough copies, and replaces a
    /// producer that gave up. Returns whether a broker answered.
    fn probe(&self) -> bool {
        let client = self.client.read().clone();
        if let Some((code, reason)) = client.client().fatal_error() {
            self.shared.refuse(format!("{code}: {reason}"));
            match producer::connect(&self.settings, self.role, &self.shared) {
                // What the old one still holds, it has answered, or does when it is dropped.
                Ok(fresh) => *self.client.write() = fresh,
                Err(error) => tracing::error!(%error, "no new producer can be made"),
            }
            return true;
        }
        let metadata = match client.client().fetch_metadata(Some(&self.topic), PROBE_WAIT_MAX) {
            Ok(metadata) => metadata,
            Err(error) => {
                self.shared.refuse(client.context().events.explain(&error));
                return false;
            }
        };
        match self.unwritable(metadata.topics()) {
            Some(reason) => self.shared.refuse(reason),
            None => {
                client.context().events.forget_error();
                self.shared.accept();
            }
        }
        true
    }

    fn unwritable(&self, topics: &[rdkafka::metadata::MetadataTopic]) -> Option<String> {
        let topic = topics.iter().find(|topic| topic.name() == self.topic)?;
        if let Some(error) = topic.error() {
            return Some(format!("topic {}: {}", self.topic, RDKafkaErrorCode::from(error)));
        }
        let leaderless = |partition: &rdkafka::metadata::MetadataPartition| partition.leader() < 0;
        let partitions = topic.partitions();
        let without = partitions.iter().filter(|partition| leaderless(partition)).count();
        if without > 0 {
            return Some(format!(
                "{without} of {} partitions of {} have no leader",
                partitions.len(),
                self.topic
            ));
        }
        let short =
            |partition: &&rdkafka::metadata::MetadataPartition| partition.isr().len() < self.min_insync_replicas;
        let short = partitions.iter().filter(short).count();
        (short > 0).then(|| {
            format!(
                "{short} of {} partitions of {} have fewer than {} copies in sync",
                partitions.len(),
                self.topic,
                self.min_insync_replicas
            )
        })
    }

    /// Takes no more records, and waits until each one that was taken is answered.
    pub(super) fn close(&self) {
        if self.shared.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(Watch { stop, thread }) = self.watch.lock().take() {
            drop(stop);
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("the thread that watches the brokers died");
            }
        }
        // A second more than librdkafka takes to give a record up.
        let wait_max = self.delivery_wait_max + Duration::from_secs(2);
        if let Err(error) = self.client.read().flush(wait_max) {
            tracing::warn!(%error, "records were still under way when the log was closed");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl LogWriter for Writer {
    /// The record is handed over at once, not when the future is first polled; dropping the future
    /// doesn't take it back.
    fn append(&self, record: Record) -> BoxFuture<'_, Result<Appended, AppendError>> {
        match self.send(&record) {
            Ok(delivered) => delivered.boxed(),
            Err(refused) => ready(Err(refused)).boxed(),
        }
    }

    fn writable(&self) -> Result<(), String> {
        self.shared.refusal.lock().clone().map_or(Ok(()), Err)
    }
}
