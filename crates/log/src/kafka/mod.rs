//! The log on Apache Kafka 4, through librdkafka. Nothing outside this module knows that.
//!
//! A record is one message ([`headers`]) without a key, in a topic ([`log_topic`]) that [`plan`]
//! describes and [`topic`] makes and checks.
//!
//! - The way in to `receipts` is [`writer`], an idempotent producer; [`delivery`] brings the
//!   acknowledgement back.
//! - The way out is [`consumer`], which sends requests to the thread of [`member`]. That learns of
//!   [`rebalances`] and commits what [`commits`] describes.
//! - A [`processor`] is a consumer of `receipts` that appends to `verdicts`, in [`transactions`]
//!   that move its positions. [`processing`] explains why nothing is lost or stored twice.
//! - [`inspect`] and [`reader`] read from outside any group, each on the thread of an [`actor`];
//!   [`rewind`] sets positions of a group without members.
//!
//! Durability is Kafka's replication: a broker syncs lazily, so what is acknowledged survives the
//! loss of `min_insync_replicas - 1` brokers at once, and not the power loss of all of them.

mod actor;
mod client;
mod commits;
mod consumer;
mod delivery;
mod headers;
mod inspect;
mod inspected_topic;
mod log_topic;
mod member;
mod meters;
mod offsets;
mod plan;
mod processing;
mod processor;
mod producer;
mod reader;
mod rebalances;
mod rewind;
mod role;
mod topic;
mod transactions;
mod writer;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use config::Section;
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use rdkafka::{
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
};

use self::{
    client::Events,
    consumer::Membership,
    inspect::Inspector,
    log_topic::{Appends, LogTopic},
    member::GroupMember,
    plan::TopicPlan,
    role::Role,
    topic::Topics,
    transactions::Transactions,
    writer::Writer,
};
pub use self::{consumer::KafkaConsumer, processor::KafkaProcessor};
use crate::{
    Topic,
    kafka_config::{KafkaConfig, KafkaOpenError},
    record::{Appended, LoggedRecord, Record},
    traits::{AppendError, InspectError, LogInspector, LogWriter, PartitionState},
};

/// Purpose of a client; the label `client` of the metrics.
const WRITER: &str = "writer";
const MEMBER: &str = "member";
const INSPECTOR: &str = "inspector";
const PROCESSOR: &str = "processor";

/// The log on Kafka. Clones are the same log; when the last one is dropped it is closed, which
/// waits for the brokers.
#[derive(Clone)]
pub struct KafkaLog {
    open: Arc<OpenTopic>,
}

struct OpenTopic {
    config: Arc<KafkaConfig>,
    topic: Arc<LogTopic>,
    epoch: Arc<AtomicU32>,
    topics: Arc<Topics>,
    // Made when they are first needed: a process is a gateway, a verifier or an analytics API, and
    // seldom all.
    writer: OnceLock<Result<Arc<Writer>, String>>,
    inspector: OnceLock<Result<Inspector, String>>,
    members: Mutex<Vec<Membership>>,
    closed: AtomicBool,
}

impl std::fmt::Debug for KafkaLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaLog")
            .field("config", &self.open.config)
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

impl KafkaLog {
    /// Opens the log of receipts: finds the brokers, creates the topic if it is missing (and
    /// `create_topic`), checks the settings of one that exists. Blocks on the brokers, at most a
    /// few times `request_wait_ms_max`.
    ///
    /// # Errors
    /// [`KafkaOpenError`]; none of them changes a topic that exists.
    pub fn open(config: KafkaConfig) -> Result<Self, KafkaOpenError> {
        Self::open_topic(Topic::Receipts, config)
    }

    /// Opens the log of `topic` in the same way.
    ///
    /// # Errors
    /// [`KafkaOpenError`]; none of them changes a topic that exists.
    pub fn open_topic(topic: Topic, config: KafkaConfig) -> Result<Self, KafkaOpenError> {
        Self::open_as(topic, config, true)
    }

    /// Opens the log of receipts for reading: creates nothing.
    ///
    /// # Errors
    /// [`KafkaOpenError`]
    pub fn open_to_look(config: KafkaConfig) -> Result<Self, KafkaOpenError> {
        Self::open_topic_to_look(Topic::Receipts, config)
    }

    /// Opens the log of `topic` for reading: creates nothing.
    ///
    /// # Errors
    /// [`KafkaOpenError`]
    pub fn open_topic_to_look(topic: Topic, config: KafkaConfig) -> Result<Self, KafkaOpenError> {
        Self::open_as(topic, config, false)
    }

    /// Shortest time for which the topic keeps records, in milliseconds.
    pub(crate) fn retention_ms(&self) -> u64 {
        self.open.topic.retention_ms
    }

    fn open_as(topic: Topic, config: KafkaConfig, may_create: bool) -> Result<Self, KafkaOpenError> {
        config.checked("kafka")?;
        let topics = Topics::new(&config)?;
        let may_create = may_create && config.create_topic;
        let topic = LogTopic::new(topic, &config);
        let epoch = Lookup::new(&config, &topic)?.ensure(&topics, &topic.plan, may_create)?;
        let epoch = epoch.unwrap_or_default();
        tracing::info!(
            brokers = config.brokers,
            topic = topic.name,
            epoch,
            "the log on Kafka is open"
        );
        Ok(Self {
            open: Arc::new(OpenTopic {
                config: Arc::new(config),
                topic: Arc::new(topic),
                epoch: Arc::new(AtomicU32::new(epoch)),
                topics: Arc::new(topics),
                writer: OnceLock::new(),
                inspector: OnceLock::new(),
                members: Mutex::default(),
                closed: AtomicBool::new(false),
            }),
        })
    }

    /// A new member of `group`: gets its share of the partitions with its first polls. A new group
    /// starts with the oldest stored record.
    ///
    /// # Errors
    /// [`KafkaOpenError::Client`]
    pub fn consumer(&self, group: &str) -> Result<KafkaConsumer, KafkaOpenError> {
        self.join(group, None)
    }

    /// A new member of `group`, as [`Self::consumer`], which appends to `verdicts` in the
    /// transactions that move its positions.
    ///
    /// # Errors
    /// [`KafkaOpenError::Client`]
    pub fn processor(&self, group: &str, verdicts: &Self) -> Result<KafkaProcessor, KafkaOpenError> {
        let transactions = Transactions::new(&verdicts.open.config, &verdicts.open.topic, group);
        Ok(KafkaProcessor::new(self.join(group, Some(transactions))?))
    }

    fn join(&self, group: &str, transactions: Option<Transactions>) -> Result<KafkaConsumer, KafkaOpenError> {
        let open = &self.open;
        let hurry = Arc::new(AtomicBool::new(false));
        let member = GroupMember::join(
            &open.config,
            &open.topic,
            group,
            self.epoch(),
            Arc::clone(&open.topics),
            Arc::clone(&hurry),
            transactions,
        )?;
        let started = KafkaConsumer::start(member, hurry);
        let (consumer, membership) = started.map_err(|error| KafkaOpenError::Client(error.to_string()))?;
        let mut members = open.members.lock();
        members.retain(|membership| !membership.is_over());
        members.push(membership);
        Ok(consumer)
    }

    /// Sets positions of `group` (partition, next offset), also backwards. Kafka refuses it while
    /// the group has members: waits until the session of stopped ones has ended. Blocks.
    ///
    /// # Errors
    /// [`KafkaOpenError`]
    pub fn rewind(&self, group: &str, positions: &[(u32, u64)]) -> Result<(), KafkaOpenError> {
        rewind::rewind(&self.open.config, &self.open.topic, self.epoch(), group, positions)
    }

    /// The epoch of the topic: a recreated one has another.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.open.epoch.load(Ordering::Relaxed)
    }

    /// Makes the producer now rather than with the first append.
    ///
    /// # Errors
    /// [`KafkaOpenError::Client`]
    pub fn ready_to_write(&self) -> Result<(), KafkaOpenError> {
        self.writer().map(|_| ()).map_err(KafkaOpenError::Client)
    }

    /// Takes no more records, waits until every record is answered, and until the consumers have
    /// left their groups.
    pub fn close(&self) {
        self.open.close();
    }

    fn writer(&self) -> Result<&Arc<Writer>, String> {
        let open = &self.open;
        if open.topic.appends == Appends::Transactional {
            return Err(format!(
                "records of {} are appended by a processor only, in its transactions",
                open.topic.name
            ));
        }
        let made = open.writer.get_or_init(|| {
            Writer::open(&open.config, &open.topic, Arc::clone(&open.epoch)).map_err(|error| error.to_string())
        });
        made.as_ref().map_err(Clone::clone)
    }

    fn inspector(&self) -> Result<&Inspector, InspectError> {
        let open = &self.open;
        let made = open.inspector.get_or_init(|| {
            Inspector::start(&open.config, &open.topic, &open.epoch, Arc::clone(&open.topics))
                .map_err(|error| error.to_string())
        });
        made.as_ref().map_err(|error| InspectError::Unavailable(error.clone()))
    }
}

impl OpenTopic {
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Some(Ok(writer)) = self.writer.get() {
            writer.close();
        }
        let members = std::mem::take(&mut *self.members.lock());
        let wait_max = Duration::from_millis(self.config.request_wait_ms_max);
        members.into_iter().for_each(|membership| membership.end(wait_max));
    }
}

impl Drop for OpenTopic {
    fn drop(&mut self) {
        self.close();
    }
}

impl LogWriter for KafkaLog {
    fn append(&self, record: Record) -> BoxFuture<'_, Result<Appended, AppendError>> {
        if self.open.closed.load(Ordering::Relaxed) {
            return ready(Err(AppendError::Closed)).boxed();
        }
        match self.writer() {
            Ok(writer) => writer.append(record),
            Err(reason) => ready(Err(AppendError::Unavailable(reason))).boxed(),
        }
    }

    fn writable(&self) -> Result<(), String> {
        self.writer()?.writable()
    }
}

impl LogInspector for KafkaLog {
    fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        match self.inspector() {
            Ok(inspector) => inspector.partitions(group),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn read(
        &self,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        match self.inspector() {
            Ok(inspector) => inspector.read(partition, offset, bytes_max),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn last(&self, partition: u32) -> BoxFuture<'_, Result<Option<LoggedRecord>, InspectError>> {
        match self.inspector() {
            Ok(inspector) => inspector.last(partition),
            Err(error) => ready(Err(error)).boxed(),
        }
    }
}

/// Finds topics, for opening; says what librdkafka complains about.
struct Lookup {
    client: BaseConsumer<Events>,
    brokers: String,
    wait_max: Duration,
}

impl Lookup {
    fn new(config: &KafkaConfig, topic: &LogTopic) -> Result<Self, KafkaOpenError> {
        let settings = client::base(config, "opening");
        let role = Role {
            client: "opening",
            topic: topic.topic,
        };
        let client = BaseConsumer::from_config_and_context(&settings, Events::new(role));
        Ok(Self {
            client: client.map_err(|error| KafkaOpenError::Client(error.to_string()))?,
            brokers: config.brokers.clone(),
            wait_max: Duration::from_millis(config.request_wait_ms_max),
        })
    }

    /// Makes sure that the topic is there and as it must be; its epoch.
    fn ensure(&self, topics: &Topics, plan: &TopicPlan, may_create: bool) -> Result<Option<u32>, KafkaOpenError> {
        let mut created = false;
        let started = std::time::Instant::now();
        loop {
            let metadata = self.client.fetch_metadata(Some(&plan.name), self.wait_max);
            let metadata = metadata.map_err(|error| KafkaOpenError::Unreachable {
                brokers: self.brokers.clone(),
                detail: client::explain(&self.client, &error),
            })?;
            let found = metadata.topics().iter().find(|topic| topic.name() == plan.name);
            let found = found.filter(|topic| topic.error().is_none() && !topic.partitions().is_empty());
            match found {
                Some(found) => return topics.check(plan, found),
                None if !may_create => return Err(topics.missing(plan)),
                None if !created => {
                    topics.create(plan)?;
                    created = true;
                }
                // A moment passes until every broker knows of it.
                None if started.elapsed() < self.wait_max => pause(),
                None => return Err(topics.missing(plan)),
            }
        }
    }
}

#[allow(clippy::disallowed_methods)] // opening blocks on the brokers anyway
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
