//! Inspecting Kafka's log from outside any group, on two threads: one for partitions and commits,
//! which the watermark requests many times a second, one for reading records. Each has connections
//! of its own and retains them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::AtomicU32},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::future::{BoxFuture, FutureExt};
use rdkafka::{Offset, consumer::Consumer, error::KafkaError};

use super::{
    actor::{Actor, ActorState},
    client::{self, serve_events},
    inspected_topic::{
        InspectedTopic, InspectorClient, PolledEvent, assign_at, next_record, partitions_of, unavailable,
    },
    log_topic::LogTopic,
    offsets,
    reader::{InspectorReader, NewestRecord, ReadRecords},
    topic::Topics,
};
use crate::{
    kafka_config::{KafkaConfig, KafkaOpenError},
    traits::{Committed, InspectError, LogInspector, PartitionState},
};

/// Groups whose connections are reused.
const GROUPS_MAX: usize = 4;
/// Age at which the topic's epoch is read again.
const EPOCH_AGE_MAX: Duration = Duration::from_secs(10);

type States = Result<Vec<PartitionState>, InspectError>;

/// Both threads; they end when this is dropped.
pub(super) struct Inspector {
    partitions: Actor<PartitionInspector>,
    records: Actor<InspectorReader>,
}

impl Inspector {
    pub(super) fn start(
        config: &Arc<KafkaConfig>,
        topic: &Arc<LogTopic>,
        epoch: &Arc<AtomicU32>,
        topics: Arc<Topics>,
    ) -> Result<Self, KafkaOpenError> {
        let view = InspectedTopic::new(Arc::clone(config), Arc::clone(topic), Arc::clone(epoch));
        let partitions = PartitionInspector {
            view: view.clone(),
            topics,
            epoch_read: Instant::now(),
            groups: Vec::new(),
            times: HashMap::new(),
        };
        let client = view.client("receipts-inspector", config.fetch_partition_bytes_max)?;
        Ok(Self {
            partitions: Actor::start("log-kafka-look", partitions)?,
            records: Actor::start("log-kafka-read", InspectorReader::new(view, client))?,
        })
    }
}

impl LogInspector for Inspector {
    fn partitions(&self, group: &str) -> BoxFuture<'_, States> {
        let group = group.to_owned();
        self.partitions
            .ask(move |inspector| inspector.partitions(&group))
            .boxed()
    }

    fn read(&self, partition: u32, offset: u64, bytes_max: usize) -> BoxFuture<'_, ReadRecords> {
        let read = move |reader: &mut InspectorReader| reader.read(partition, offset, bytes_max);
        self.records.ask(read).boxed()
    }

    fn last(&self, partition: u32) -> BoxFuture<'_, NewestRecord> {
        self.records.ask(move |reader| reader.last(partition)).boxed()
    }
}

/// Looks at partitions and commits.
struct PartitionInspector {
    view: InspectedTopic,
    topics: Arc<Topics>,
    epoch_read: Instant,
    /// Clients for the groups that were requested, the latest last.
    groups: Vec<(String, InspectorClient)>,
    /// The first record behind the commit of a partition, once it had to be read.
    times: HashMap<u32, Following>,
}

/// The first record at or behind an offset.
#[derive(Debug, Clone, Copy)]
struct Following {
    offset: u64,
    first: FirstRecord,
}

#[derive(Debug, Clone, Copy)]
enum FirstRecord {
    /// A record, appended then.
    AppendedAt(i64),
    /// No record before this offset: only markers of transactions.
    NoneBefore(u64),
}

impl Following {
    /// Whether it still says what is between `offset` and `end_offset`.
    fn covers(&self, offset: u64, end_offset: u64) -> bool {
        self.offset == offset
            && match self.first {
                FirstRecord::AppendedAt(_) => true,
                FirstRecord::NoneBefore(end) => end_offset <= end,
            }
    }
}

impl ActorState for PartitionInspector {
    fn after_request(&mut self) {
        if self.epoch_read.elapsed() > EPOCH_AGE_MAX {
            self.read_epoch();
        }
        self.groups.iter().for_each(|(_, client)| serve_events(client));
    }

    fn idle(&mut self) {
        self.after_request();
    }
}

impl PartitionInspector {
    /// The topic may have been recreated under us.
    fn read_epoch(&mut self) {
        self.epoch_read = Instant::now();
        match self.topics.epoch(self.view.topic()) {
            Ok(Some(epoch)) if epoch != self.view.set_epoch(epoch) => {
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
        match self.groups.iter().position(|(existing, _)| existing == group) {
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

pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Append times of the first uncommitted records of the partitions in `waiting` (first uncommitted
/// offset, end): as remembered, or read, all at once. None where only markers are left.
fn first_times(
    client: &InspectorClient,
    view: &InspectedTopic,
    waiting: &BTreeMap<u32, (u64, u64)>,
    remembered: &mut HashMap<u32, Following>,
) -> Result<HashMap<u32, i64>, InspectError> {
    let mut unknown = waiting.clone();
    unknown.retain(|partition, &mut (offset, end)| {
        !remembered
            .get(partition)
            .is_some_and(|following| following.covers(offset, end))
    });
    if !unknown.is_empty() {
        let deadline = Instant::now() + view.wait_max();
        let explain = |error: KafkaError| unavailable(client::explain(client, &error));
        let starts = unknown.iter().map(|(&partition, &(offset, _))| (partition, offset));
        assign_at(client, view.topic(), starts).map_err(explain)?;
        let mut read = || {
            while !unknown.is_empty() {
                let (partition, first) = match next_record(client, view.epoch(), deadline).map_err(explain)? {
                    PolledEvent::Record(record) => (record.position.partition, Some(record.appended_at_ms)),
                    PolledEvent::End(partition) => (partition, None),
                    PolledEvent::Nothing => {
                        return Err(unavailable(
                            "the first records that aren't committed could not be read in time",
                        ));
                    }
                };
                if let Some((offset, end)) = unknown.remove(&partition) {
                    let first = first.map_or(FirstRecord::NoneBefore(end), FirstRecord::AppendedAt);
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
        FirstRecord::AppendedAt(at_ms) => Some((*partition, at_ms)),
        FirstRecord::NoneBefore(_) => None,
    };
    Ok(waiting.iter().filter_map(time).collect())
}
