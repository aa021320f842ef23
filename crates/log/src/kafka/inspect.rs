//! Looking at Kafka's log from outside any group, on two threads: one for partitions and commits,
//! which the watermark requests many times a second, one for reading records. Each has connections
//! of its own and keeps them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use futures_util::future::{BoxFuture, FutureExt};
use rdkafka::{
    Offset, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};
use tokio::sync::oneshot;

use super::{
    INSPECTOR,
    client::{self, Events, Role, serve_events},
    headers,
    log_topic::{Appends, LogTopic},
    offsets,
    reader::Reader,
    topic::Topics,
};
use crate::{
    kafka_config::{KafkaConfig, KafkaOpenError},
    record::LoggedRecord,
    traits::{Committed, InspectError, LogInspector, PartitionState},
};

/// Questions that may wait for each thread; beyond it they are answered `Unavailable`.
const WAITING_MAX: usize = 64;
/// Groups whose connections are kept.
const GROUPS_MAX: usize = 4;
/// Interval at which a thread without requests serves librdkafka's events.
pub(super) const IDLE: Duration = Duration::from_secs(1);
/// Age at which the topic's epoch is read again.
const EPOCH_AGE_MAX: Duration = Duration::from_secs(10);

pub(super) type Client = BaseConsumer<Events>;
type States = Result<Vec<PartitionState>, InspectError>;
pub(super) type Records = Result<Vec<LoggedRecord>, InspectError>;
pub(super) type Newest = Result<Option<LoggedRecord>, InspectError>;

struct Look {
    group: String,
    answer: oneshot::Sender<States>,
}

pub(super) enum Read {
    Records {
        partition: u32,
        offset: u64,
        bytes_max: usize,
        answer: oneshot::Sender<Records>,
    },
    Last {
        partition: u32,
        answer: oneshot::Sender<Newest>,
    },
}

/// Both threads; they end when this is dropped.
pub(super) struct Inspector {
    looks: Sender<Look>,
    reads: Sender<Read>,
}

impl Inspector {
    pub(super) fn start(
        config: &Arc<KafkaConfig>,
        topic: &Arc<LogTopic>,
        epoch: &Arc<AtomicU32>,
        topics: Arc<Topics>,
    ) -> Result<Self, KafkaOpenError> {
        let (looks, asked_looks) = bounded(WAITING_MAX);
        let (reads, asked_reads) = bounded(WAITING_MAX);
        let view = View {
            config: Arc::clone(config),
            topic: Arc::clone(topic),
            epoch: Arc::clone(epoch),
        };
        let looker = Looker {
            view: view.clone(),
            topics,
            epoch_read: Instant::now(),
            groups: Vec::new(),
            times: HashMap::new(),
        };
        let client = view.client("receipts-inspector", config.fetch_partition_bytes_max)?;
        let reader = Reader::new(view, client);
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
            spawned.map_err(|error| KafkaOpenError::Client(error.to_string()))
        };
        spawn("log-kafka-look", Box::new(move || looker.serve(&asked_looks)))?;
        spawn("log-kafka-read", Box::new(move || reader.serve(&asked_reads)))?;
        Ok(Self { looks, reads })
    }
}

/// Asks a thread and waits for its answer.
async fn ask<Q, T>(
    to: &Sender<Q>,
    question: Q,
    answered: oneshot::Receiver<Result<T, InspectError>>,
) -> Result<T, InspectError> {
    let refused = match to.try_send(question) {
        Ok(()) => {
            return answered
                .await
                .unwrap_or_else(|_| Err(unavailable("the thread that looks stopped")));
        }
        Err(TrySendError::Full(_)) => "too many questions are waiting",
        Err(TrySendError::Disconnected(_)) => "the log is closed",
    };
    Err(unavailable(refused))
}

impl LogInspector for Inspector {
    fn partitions(&self, group: &str) -> BoxFuture<'_, States> {
        let (answer, answered) = oneshot::channel();
        let group = group.to_owned();
        ask(&self.looks, Look { group, answer }, answered).boxed()
    }

    fn read(&self, partition: u32, offset: u64, bytes_max: usize) -> BoxFuture<'_, Records> {
        let (answer, answered) = oneshot::channel();
        let question = Read::Records {
            partition,
            offset,
            bytes_max,
            answer,
        };
        ask(&self.reads, question, answered).boxed()
    }

    fn last(&self, partition: u32) -> BoxFuture<'_, Newest> {
        let (answer, answered) = oneshot::channel();
        ask(&self.reads, Read::Last { partition, answer }, answered).boxed()
    }
}

pub(super) fn unavailable(detail: impl Into<String>) -> InspectError {
    InspectError::Unavailable(detail.into())
}

/// State that both threads share.
#[derive(Clone)]
pub(super) struct View {
    config: Arc<KafkaConfig>,
    topic: Arc<LogTopic>,
    epoch: Arc<AtomicU32>,
}

impl View {
    /// A client that reads what it is told and belongs to no group; `group` is whose commits it
    /// requests.
    fn client(&self, group: &str, fetch_bytes_max: usize) -> Result<Client, KafkaOpenError> {
        let mut settings = client::base(&self.config, INSPECTOR);
        settings
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", self.topic.isolation_level())
            // At the end of a partition there may be only markers, which nobody gets.
            .set(
                "enable.partition.eof",
                (self.topic.appends == Appends::Transactional).to_string(),
            )
            .set("check.crcs", "true")
            .set("max.partition.fetch.bytes", fetch_bytes_max.to_string())
            .set(
                "queued.max.messages.kbytes",
                self.config.fetch_queue_bytes_max.div_ceil(1024).to_string(),
            )
            .set("fetch.queue.backoff.ms", "10")
            // A fetch at the end of a partition must not keep the next question's waiting.
            .set("fetch.wait.max.ms", "10");
        let role = Role {
            client: INSPECTOR,
            topic: self.topic.topic,
        };
        let client = Client::from_config_and_context(&settings, Events::new(role));
        client.map_err(|error| KafkaOpenError::Client(error.to_string()))
    }

    pub(super) fn wait_max(&self) -> Duration {
        Duration::from_millis(self.config.request_wait_ms_max)
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic.name
    }

    pub(super) fn appends(&self) -> Appends {
        self.topic.appends
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }
}

/// The partitions that the topic has now.
pub(super) fn partitions_of(client: &Client, view: &View) -> Result<Vec<u32>, KafkaError> {
    let metadata = client.fetch_metadata(Some(view.topic()), view.wait_max())?;
    let topic = metadata.topics().iter().find(|topic| topic.name() == view.topic());
    let topic = topic.ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))?;
    if let Some(error) = topic.error() {
        return Err(KafkaError::MetadataFetch(error.into()));
    }
    let mut partitions: Vec<u32> = topic
        .partitions()
        .iter()
        .filter_map(|partition| u32::try_from(partition.id()).ok())
        .collect();
    partitions.sort_unstable();
    Ok(partitions)
}

pub(super) fn assign_at(
    client: &Client,
    topic: &str,
    starts: impl IntoIterator<Item = (u32, u64)>,
) -> Result<(), KafkaError> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in starts {
        let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        list.add_partition_offset(topic, i32::try_from(partition).unwrap_or(i32::MAX), offset)?;
    }
    client.assign(&list)
}

fn is_out_of_range(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
    )
}

/// The next event of a client's assignment.
pub(super) enum Next {
    Record(LoggedRecord),
    /// Of this partition there are no more records: its end was reached since it was assigned.
    End(u32),
    /// No event within the wait.
    Nothing,
}

/// Waits for the next record until `deadline`; errors that librdkafka tries again over are passed
/// over.
pub(super) fn next_record(client: &Client, epoch: u32, deadline: Instant) -> Result<Next, KafkaError> {
    loop {
        let wait = deadline.saturating_duration_since(Instant::now());
        match client.poll(wait) {
            Some(Ok(message)) => return Ok(Next::Record(headers::record_of(&message, epoch))),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                return Ok(Next::End(u32::try_from(partition).unwrap_or(u32::MAX)));
            }
            Some(Err(error)) if is_out_of_range(&error) => return Err(error),
            Some(Err(_)) | None => {}
        }
        if wait.is_zero() {
            return Ok(Next::Nothing);
        }
    }
}

/// Looks at partitions and commits.
struct Looker {
    view: View,
    topics: Arc<Topics>,
    epoch_read: Instant,
    /// Clients for the groups that were requested, the latest last.
    groups: Vec<(String, Client)>,
    /// The first record behind the commit of a partition, once it had to be read.
    times: HashMap<u32, Following>,
}

/// The first record at or behind an offset.
#[derive(Debug, Clone, Copy)]
struct Following {
    offset: u64,
    first: First,
}

#[derive(Debug, Clone, Copy)]
enum First {
    /// A record, appended then.
    AppendedAt(i64),
    /// No record before this offset: only markers of transactions.
    NoneBefore(u64),
}

impl Following {
    /// Whether it still says what is between `offset` and `end_offset`.
    fn is_known(&self, offset: u64, end_offset: u64) -> bool {
        self.offset == offset
            && match self.first {
                First::AppendedAt(_) => true,
                First::NoneBefore(end) => end_offset <= end,
            }
    }
}

impl Looker {
    fn serve(mut self, asked: &Receiver<Look>) {
        loop {
            match asked.recv_timeout(IDLE) {
                Ok(Look { group, answer }) => drop(answer.send(self.partitions(&group))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.epoch_read.elapsed() > EPOCH_AGE_MAX {
                self.read_epoch();
            }
            self.groups.iter().for_each(|(_, client)| serve_events(client));
        }
    }

    /// The topic may have been recreated under us.
    fn read_epoch(&mut self) {
        self.epoch_read = Instant::now();
        match self.topics.epoch(self.view.topic()) {
            Ok(Some(epoch)) if epoch != self.view.epoch.swap(epoch, Ordering::Relaxed) => {
                tracing::warn!(
                    epoch,
                    "the topic has another epoch: it was recreated, or its delete.retention.ms was changed"
                );
                self.times.clear();
            }
            Ok(Some(_)) => {}
            Ok(None) => tracing::error!("the topic has no epoch any more: its delete.retention.ms was taken away"),
            Err(error) => tracing::debug!(%error, "the topic's epoch can't be read"),
        }
    }

    fn connect(&mut self, group: &str) -> Result<(), InspectError> {
        match self.groups.iter().position(|(known, _)| known == group) {
            Some(at) => {
                let used = self.groups.remove(at);
                self.groups.push(used);
            }
            None => {
                let client = self
                    .view
                    .client(group, 64 << 10)
                    .map_err(|error| unavailable(error.to_string()))?;
                if self.groups.len() == GROUPS_MAX {
                    self.groups.remove(0);
                }
                self.groups.push((group.to_owned(), client));
            }
        }
        Ok(())
    }

    /// The order of the looks matters: the instant first, then the commits, then the ends. Whatever
    /// is acknowledged before the instant is before its end, and a commit is never ahead of an end
    /// that was read later.
    fn partitions(&mut self, group: &str) -> States {
        let now_ms = now_ms();
        self.connect(group)?;
        let Some((_, client)) = self.groups.last() else {
            return Err(unavailable("no client"));
        };
        let explain = |error: KafkaError| unavailable(client::explain(client, &error));
        let (view, topic, wait_max) = (&self.view, self.view.topic(), self.view.wait_max());
        let epoch = view.epoch();
        let partitions = partitions_of(client, view).map_err(explain)?;
        let committed = offsets::committed(client, topic, &partitions, epoch, wait_max).map_err(explain)?;
        let begins = offsets::at(client, topic, &partitions, Offset::Beginning, wait_max).map_err(explain)?;
        let ends = offsets::at(client, topic, &partitions, Offset::End, wait_max).map_err(explain)?;
        let mut states = Vec::with_capacity(partitions.len());
        for (((&partition, committed), begin_offset), end_offset) in
            partitions.iter().zip(committed).zip(begins).zip(ends)
        {
            let next_offset = next_of(committed.as_ref(), begin_offset);
            if next_offset > end_offset {
                let detail = format!(
                    "damaged: offset {next_offset} of partition {partition} was committed, but records end at {end_offset}"
                );
                return Err(unavailable(detail));
            }
            states.push(PartitionState {
                partition,
                epoch,
                begin_offset,
                end_offset,
                committed,
                complete_through_ms: now_ms,
            });
        }
        let waiting = states.iter().filter_map(|state| {
            let next_offset = next_of(state.committed.as_ref(), state.begin_offset);
            (next_offset < state.end_offset).then_some((state.partition, (next_offset, state.end_offset)))
        });
        let waiting: BTreeMap<u32, (u64, u64)> = waiting.collect();
        let times = first_times(client, view, &waiting, &mut self.times)?;
        for state in &mut states {
            if let Some(&appended_at_ms) = times.get(&state.partition) {
                state.complete_through_ms = appended_at_ms;
            }
        }
        client.context().forget_error();
        Ok(states)
    }
}

fn next_of(committed: Option<&Committed>, begin_offset: u64) -> u64 {
    committed.map_or(0, |made| made.next_offset).max(begin_offset)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Append times of the first uncommitted records of the partitions in `waiting` (first uncommitted
/// offset, end): as remembered, or read, all at once. None where only markers are left.
fn first_times(
    client: &Client,
    view: &View,
    waiting: &BTreeMap<u32, (u64, u64)>,
    remembered: &mut HashMap<u32, Following>,
) -> Result<HashMap<u32, i64>, InspectError> {
    let mut unknown = waiting.clone();
    unknown.retain(|partition, &mut (offset, end)| {
        !remembered
            .get(partition)
            .is_some_and(|following| following.is_known(offset, end))
    });
    if !unknown.is_empty() {
        let deadline = Instant::now() + view.wait_max();
        let explain = |error: KafkaError| unavailable(client::explain(client, &error));
        let starts = unknown.iter().map(|(&partition, &(offset, _))| (partition, offset));
        assign_at(client, view.topic(), starts).map_err(explain)?;
        let mut read = || {
            while !unknown.is_empty() {
                let (partition, first) = match next_record(client, view.epoch(), deadline).map_err(explain)? {
                    Next::Record(record) => (record.position.partition, Some(record.appended_at_ms)),
                    Next::End(partition) => (partition, None),
                    Next::Nothing => {
                        return Err(unavailable(
                            "the first records that aren't committed could not be read in time",
                        ));
                    }
                };
                if let Some((offset, end)) = unknown.remove(&partition) {
                    let first = first.map_or(First::NoneBefore(end), First::AppendedAt);
                    remembered.insert(partition, Following { offset, first });
                }
            }
            Ok(())
        };
        let outcome = read();
        client.unassign().map_err(explain)?;
        outcome?;
    }
    let time = |(partition, _): (&u32, &(u64, u64))| match remembered.get(partition)?.first {
        First::AppendedAt(at_ms) => Some((*partition, at_ms)),
        First::NoneBefore(_) => None,
    };
    Ok(waiting.iter().filter_map(time).collect())
}
