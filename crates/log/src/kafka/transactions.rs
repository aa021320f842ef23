//! A processor's producer: one transaction at a time, each ended within a time limit.
//!
//! The transactional ID is the processor's own and random. Every producer that replaces a failed
//! one uses it again: making a producer ready ends the transaction that the one before has left
//! open, and nothing of it is stored afterwards. When the process is gone, the coordinator aborts
//! its transaction after `transaction_wait_ms_max`.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, TopicPartitionList,
    consumer::ConsumerGroupMetadata,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, Producer as _},
};
use uuid::Uuid;

use super::{
    PROCESSOR,
    client::Events,
    delivery::Delivery,
    headers,
    log_topic::LogTopic,
    meters::TransactionMeters,
    producer::{self, Heard, Producer, Stored},
    role::Role,
};
use crate::kafka_config::KafkaConfig;
use crate::record::Record;

/// An abort that takes longer is left to the next producer, which is made with it.
const ABORT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Between two tries of what may be tried again at once.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A step that failed.
#[derive(Debug)]
pub(super) struct FailedStep {
    pub(super) code: Option<RDKafkaErrorCode>,
    pub(super) reason: String,
}

impl FailedStep {
    pub(super) fn new(code: Option<RDKafkaErrorCode>, reason: String) -> Self {
        Self { code, reason }
    }
}

/// A transaction that wasn't committed, as far as it is known.
#[derive(Debug)]
pub(super) enum UncommittedTransaction {
    /// A transaction of which nothing is stored, and nothing will be.
    NotStored(FailedStep),
    /// A transaction whose commit was requested and not acknowledged.
    Unknown(FailedStep),
}

/// The first record of a transaction that wasn't delivered.
#[derive(Default)]
struct Undelivered(Mutex<Option<FailedStep>>);

impl Heard for Undelivered {
    fn heard(&self, events: &Events, _: &Delivery, outcome: Result<Stored, &KafkaError>) {
        if let Err(error) = outcome {
            let failed = || FailedStep::new(error.rdkafka_error_code(), events.explain(error));
            self.0.lock().get_or_insert_with(failed);
        }
    }
}

type ProcessorClient = Producer<Undelivered>;

/// The transactions of one processor.
pub(super) struct Transactions {
    settings: ClientConfig,
    role: Role,
    topic: Arc<LogTopic>,
    wait_max: Duration,
    undelivered: Arc<Undelivered>,
    meters: TransactionMeters,
    /// The producer; none before the first transaction, and after a failure that it can't recover
    /// from.
    client: Option<ProcessorClient>,
    /// Whether the client may begin transactions.
    is_ready: bool,
}

impl Transactions {
    /// Connects later, when it is made ready.
    pub(super) fn new(config: &KafkaConfig, topic: &Arc<LogTopic>, group: &str) -> Self {
        let wait_ms = config.transaction_wait_ms_max;
        let mut settings = producer::settings(config, PROCESSOR, topic.record_bytes_max);
        settings
            .set("transactional.id", format!("{group}-{}", Uuid::new_v4()))
            .set("transaction.timeout.ms", wait_ms.to_string())
            .set("message.timeout.ms", wait_ms.to_string())
            .set("socket.timeout.ms", config.request_wait_ms_max.min(wait_ms).to_string())
            // The records of a transaction come all at once.
            .set("linger.ms", "0");
        Self {
            settings,
            role: Role {
                client: PROCESSOR,
                topic: topic.topic,
            },
            topic: Arc::clone(topic),
            wait_max: Duration::from_millis(wait_ms),
            undelivered: Arc::default(),
            meters: TransactionMeters::new(topic.topic),
            client: None,
            is_ready: false,
        }
    }

    pub(super) fn record_bytes_max(&self) -> usize {
        self.topic.record_bytes_max
    }

    /// Makes a producer if there is none, and ends what an earlier one has left open.
    pub(super) fn make_ready(&mut self) -> Result<(), FailedStep> {
        self.ready().map(drop)
    }

    fn ready(&mut self) -> Result<ProcessorClient, FailedStep> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => {
                let made = producer::connect(&self.settings, self.role, &self.undelivered);
                let made = made.map_err(|error| FailedStep::new(None, error.to_string()))?;
                self.client = Some(made.clone());
                made
            }
        };
        if !self.is_ready {
            let deadline = Instant::now() + self.wait_max;
            if let Err(error) = until(deadline, |wait| client.init_transactions(wait)) {
                let failed = explain(&client, &error);
                // One that is still at it may continue with the next call.
                if !is_retriable(&error) {
                    self.replace();
                }
                return Err(failed);
            }
            client.context().events.forget_error();
            self.is_ready = true;
        }
        Ok(client)
    }

    /// Appends `records` and moves the group's `positions` in one transaction, for the `membership`
    /// that is read within it. Blocks at most three times `transaction_wait_ms_max`: to make a
    /// producer ready, to fill the transaction, and to end it.
    pub(super) fn run(
        &mut self,
        records: &[(u32, Record)],
        positions: &TopicPartitionList,
        membership: impl FnOnce() -> Result<ConsumerGroupMetadata, FailedStep>,
    ) -> Result<(), UncommittedTransaction> {
        let started = Instant::now();
        let client = self.ready().map_err(|failed| {
            self.meters.aborted.increment(1);
            UncommittedTransaction::NotStored(failed)
        })?;
        *self.undelivered.0.lock() = None;
        if let Err(failed) = self.fill(&client, records, positions, membership) {
            self.abort(&client);
            self.meters.aborted.increment(1);
            return Err(UncommittedTransaction::NotStored(failed));
        }
        let deadline = Instant::now() + self.wait_max;
        if let Err(error) = until(deadline, |wait| client.commit_transaction(wait)) {
            let failed = explain(&client, &error);
            self.replace();
            self.meters.unknown.increment(1);
            return Err(UncommittedTransaction::Unknown(failed));
        }
        client.context().events.forget_error();
        let meters = &self.meters;
        meters.committed.increment(1);
        meters.seconds.record(started.elapsed().as_secs_f64());
        meters.appends.increment(records.len() as u64);
        let bytes = records
            .iter()
            .map(|(_, record)| headers::encoded_len_max(record) as u64);
        meters.append_bytes.increment(bytes.sum());
        Ok(())
    }

    /// Everything but the commit: afterwards the records are delivered and the positions added.
    fn fill(
        &self,
        client: &ProcessorClient,
        records: &[(u32, Record)],
        positions: &TopicPartitionList,
        membership: impl FnOnce() -> Result<ConsumerGroupMetadata, FailedStep>,
    ) -> Result<(), FailedStep> {
        let deadline = Instant::now() + self.wait_max;
        let explain = |error: KafkaError| explain(client, &error);
        client.begin_transaction().map_err(explain)?;
        for (partition, record) in records {
            self.send(client, *partition, record, deadline)?;
        }
        let membership = membership()?;
        until(deadline, |wait| {
            client.send_offsets_to_transaction(positions, &membership, wait)
        })
        .map_err(explain)?;
        client.flush(left(deadline)).map_err(explain)?;
        match self.undelivered.0.lock().take() {
            Some(failed) => Err(failed),
            None => Ok(()),
        }
    }

    fn send(
        &self,
        client: &ProcessorClient,
        partition: u32,
        record: &Record,
        deadline: Instant,
    ) -> Result<(), FailedStep> {
        let delivery = Delivery::new(record.body.len());
        loop {
            let message = BaseRecord::<(), [u8], _>::with_opaque_to(&self.topic.name, Arc::clone(&delivery))
                .partition(i32::try_from(partition).unwrap_or(i32::MAX))
                .payload(&record.body)
                .headers(headers::headers_of(record));
            match client.send(message) {
                Ok(()) => return Ok(()),
                Err((error, _))
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) && Instant::now() < deadline =>
                {
                    pause();
                }
                Err((error, _)) => return Err(explain(client, &error)),
            }
        }
    }

    /// Aborts a transaction whose commit was never requested. If that fails, the next producer
    /// does.
    fn abort(&mut self, client: &ProcessorClient) {
        let deadline = Instant::now() + ABORT_WAIT_MAX.min(self.wait_max);
        if let Err(error) = until(deadline, |wait| client.abort_transaction(wait)) {
            tracing::debug!(%error, "a transaction could not be aborted; the next producer does it");
            self.replace();
        }
    }

    /// Gives the producer up; the next transaction makes another of the same transactional ID.
    fn replace(&mut self) {
        self.is_ready = false;
        if let Some(client) = self.client.take() {
            // It may wait for a broker that is away.
            thread::spawn(move || drop(client));
        }
    }
}

fn explain(client: &ProcessorClient, error: &KafkaError) -> FailedStep {
    let reason = client.context().events.explain(error);
    FailedStep::new(error.rdkafka_error_code(), reason)
}

fn is_retriable(error: &KafkaError) -> bool {
    matches!(error, KafkaError::Transaction(error) if error.is_retriable())
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Repeats `step` while librdkafka says that it may be repeated, until `deadline`.
fn until(deadline: Instant, mut step: impl FnMut(Duration) -> Result<(), KafkaError>) -> Result<(), KafkaError> {
    loop {
        match step(left(deadline)) {
            Err(error) if is_retriable(&error) && Instant::now() < deadline => pause(),
            outcome => return outcome,
        }
    }
}

#[allow(clippy::disallowed_methods)] // on a member's thread, which blocks on brokers anyway
fn pause() {
    thread::sleep(RETRY_PAUSE);
}
