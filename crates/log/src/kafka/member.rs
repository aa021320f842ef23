//! Member of a consumer group, on a thread of its own.
//! The transactions of a processor are in [`super::processing`].
//!
//! librdkafka is polled only while the caller polls: whoever stops asking is taken for stuck after
//! `poll_interval_ms_max`, leaves the group and loses its partitions, although its process, and
//! librdkafka's heartbeat, live on. Polls and commits come one after the other, and librdkafka
//! reports a rebalance only within a poll; so no commit is ever in progress while a partition is
//! given up, and none is made for it afterwards, because it is in `held` no more. Whoever was put
//! out of the group without knowing it commits with an old generation, which the broker refuses.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::bounded;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    MEMBER, client,
    commits::{self, METADATA_BYTES_MAX},
    headers,
    log_topic::{Appends, LogTopic},
    meters::MemberMeters,
    offsets,
    rebalances::{RebalanceChange, Rebalances},
    topic::Topics,
    transactions::Transactions,
};
use crate::{
    kafka_config::{KafkaConfig, KafkaOpenError},
    record::LoggedRecord,
    traits::{Assignment, Commit, CommitError, ConsumeError, PollLimits, Polled},
};

/// The longest single wait in librdkafka, so that a caller in a hurry isn't delayed.
const SLICE: Duration = Duration::from_millis(100);

type MemberClient = BaseConsumer<Rebalances>;

/// A partition of ours.
pub(super) struct AssignedPartition {
    /// The first offset not yet handed to the caller.
    next_offset: u64,
    /// The last commit, ours or an earlier owner's.
    pub(super) committed: Option<u64>,
}

/// The member.
pub(super) struct GroupMember {
    pub(super) consumer: Arc<MemberClient>,
    settings: ClientConfig,
    topics: Arc<Topics>,
    topic: Arc<LogTopic>,
    epoch: u32,
    wait_max: Duration,
    meters: MemberMeters,
    pub(super) held: BTreeMap<u32, AssignedPartition>,
    /// Of a processor.
    pub(super) transactions: Option<Transactions>,
    /// Partitions given to us whose start isn't known yet.
    unsettled: Vec<u32>,
    /// A record too large for the poll that met it.
    left_over: Option<LoggedRecord>,
    /// Error of the next poll.
    failed: Option<ConsumeError>,
    /// Whether a broker has refused to let this process read since partitions were last assigned.
    is_refused: bool,
    /// Partitions that the next poll says are gone.
    gone: Vec<u32>,
    /// Set by a caller who wants the poll in progress to end.
    hurry: Arc<AtomicBool>,
}

/// A client that is about to join.
fn connect(settings: &ClientConfig, topic: &LogTopic) -> Result<Arc<MemberClient>, KafkaError> {
    let consumer = MemberClient::from_config_and_context(settings, Rebalances::new(topic))?;
    consumer.subscribe(&[&topic.name])?;
    Ok(Arc::new(consumer))
}

impl GroupMember {
    pub(super) fn join(
        config: &KafkaConfig,
        topic: &Arc<LogTopic>,
        group: &str,
        epoch: u32,
        topics: Arc<Topics>,
        hurry: Arc<AtomicBool>,
        transactions: Option<Transactions>,
    ) -> Result<Self, KafkaOpenError> {
        let mut settings = client::base(config, MEMBER);
        settings
            .set("group.id", group)
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // Where to start, `settle` says; an offset that is gone must be an error and never a
            // jump.
            .set("auto.offset.reset", "error")
            // Of `receipts` too, which has no transactions: with this level a committed position is
            // read only once no transaction is open that may move it. A partition's next owner must
            // not start while the last one's commit is on its way.
            .set("isolation.level", "read_committed")
            .set("check.crcs", "true")
            .set("session.timeout.ms", config.session_wait_ms_max.to_string())
            .set("heartbeat.interval.ms", (config.session_wait_ms_max / 4).to_string())
            .set("max.poll.interval.ms", config.poll_interval_ms_max.to_string())
            .set(
                "queued.max.messages.kbytes",
                config.fetch_queue_bytes_max.div_ceil(1024).to_string(),
            )
            .set(
                "max.partition.fetch.bytes",
                config.fetch_partition_bytes_max.to_string(),
            )
            .set("fetch.queue.backoff.ms", "10")
            .set("fetch.wait.max.ms", "100");
        let consumer = connect(&settings, topic).map_err(|error| KafkaOpenError::Client(error.to_string()))?;
        Ok(Self {
            consumer,
            settings,
            topics,
            topic: Arc::clone(topic),
            epoch,
            wait_max: Duration::from_millis(config.request_wait_ms_max),
            meters: MemberMeters::new(topic.topic),
            held: BTreeMap::new(),
            transactions,
            unsettled: Vec::new(),
            left_over: None,
            failed: None,
            is_refused: false,
            gone: Vec::new(),
            hurry,
        })
    }

    pub(super) fn poll(&mut self, limits: PollLimits) -> Result<Polled, ConsumeError> {
        let mut polled = Polled {
            revoked: std::mem::take(&mut self.gone),
            ..Polled::default()
        };
        let gathered = match self.failed.take() {
            Some(failed) => Err(failed),
            None => self.gather(limits, &mut polled),
        };
        match gathered {
            // What came before a failure is reported first, or it would be passed over.
            Err(failed) if has_news(&polled) => self.failed = Some(failed),
            Err(failed) => return Err(failed),
            Ok(()) => {}
        }
        Ok(polled)
    }

    fn gather(&mut self, limits: PollLimits, polled: &mut Polled) -> Result<(), ConsumeError> {
        let started = Instant::now();
        let mut bytes = 0;
        while let Some(record) = self.left_over.take() {
            if !self.take(record, limits, polled, &mut bytes)? {
                return Ok(());
            }
        }
        let mut trouble = None;
        loop {
            let wait = match has_news(polled) {
                true => Duration::ZERO,
                false => limits.wait_max.saturating_sub(started.elapsed()).min(SLICE),
            };
            let came = match self.consumer.poll(wait) {
                Some(Ok(message)) => Ok(Some(headers::record_of(&message, self.epoch))),
                Some(Err(error)) => Err(error),
                None => Ok(None),
            };
            self.rebalance(polled);
            if let Err(failed) = self.settle(polled) {
                // What was taken from the queue is handed out all the same, by the next poll.
                if let Ok(Some(record)) = came {
                    self.left_over = Some(record);
                }
                return Err(failed);
            }
            match came {
                Ok(Some(record)) => {
                    if !self.take(record, limits, polled, &mut bytes)? {
                        return Ok(());
                    }
                }
                Ok(None) => {
                    let over = started.elapsed() >= limits.wait_max || self.hurry.load(Ordering::Relaxed);
                    if over || (wait.is_zero() && has_news(polled)) {
                        if std::mem::take(&mut self.is_refused) && !self.held.is_empty() {
                            self.read_again()?;
                        }
                        return trouble.filter(|_| !has_news(polled)).map_or(Ok(()), Err);
                    }
                }
                Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PollExceeded) => {
                    tracing::warn!("this process didn't poll in time, and the group continued without it");
                    polled.records.clear();
                    polled.assigned.clear();
                    self.resign();
                    polled.revoked.append(&mut self.gone);
                    return Ok(());
                }
                // Troubles queue up while brokers are away, with rebalances and records behind
                // them: one a poll, with the pause that a caller makes after each, would keep the
                // whole group waiting long after they are back.
                Err(error) => {
                    self.is_refused |= error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed);
                    match self.fault(&error) {
                        Ok(()) => {}
                        Err(damaged @ ConsumeError::Damaged { .. }) => return Err(damaged),
                        Err(unavailable) => trouble = Some(unavailable),
                    }
                }
            }
        }
    }

    /// Starts reading again what brokers refuse to let this process read: librdkafka reports a
    /// refusal once, and is silent afterwards, however long it lasts.
    fn read_again(&self) -> Result<(), ConsumeError> {
        let explain = |error: KafkaError| ConsumeError::Unavailable(self.consumer.context().events.explain(&error));
        let mut reading = TopicPartitionList::new();
        for (&partition, held) in &self.held {
            let number = i32::try_from(partition).unwrap_or(i32::MAX);
            let raw = Offset::Offset(i64::try_from(held.next_offset).unwrap_or(i64::MAX));
            reading
                .add_partition_offset(&self.topic.name, number, raw)
                .map_err(explain)?;
        }
        self.consumer.incremental_unassign(&reading).map_err(explain)?;
        self.consumer.incremental_assign(&reading).map_err(explain)
    }

    /// Gives everything up and joins the group again, after the group has gone on without this
    /// member.
    ///
    /// librdkafka notices that by itself, but not while a rebalance of its own waits for our
    /// answer, and until then it would continue as if nothing had happened. Nor does it forget what
    /// it was given when it unsubscribes in the middle of one: the group would give it the same
    /// partitions again, and it would say that nothing is new. So the new member is a new client.
    pub(super) fn resign(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.meters.lost.increment(held.len() as u64);
        self.gone.extend(held.into_keys());
        self.unsettled.clear();
        self.left_over = None;
        match connect(&self.settings, &self.topic) {
            Ok(consumer) => {
                let left = std::mem::replace(&mut self.consumer, consumer);
                // It may wait for a broker that is away.
                thread::spawn(move || drop(left));
            }
            Err(error) => self.failed = Some(ConsumeError::Unavailable(error.to_string())),
        }
    }

    /// Puts a record into the poll's result; `false` if the poll is full, and the record waits for
    /// the next one.
    fn take(
        &mut self,
        record: LoggedRecord,
        limits: PollLimits,
        polled: &mut Polled,
        bytes: &mut usize,
    ) -> Result<bool, ConsumeError> {
        let (partition, offset) = (record.position.partition, record.position.offset);
        // Of a partition that went away, or from before a seek.
        let Some(held) = self.held.get_mut(&partition) else {
            return Ok(true);
        };
        if offset < held.next_offset {
            return Ok(true);
        }
        if offset > held.next_offset && self.topic.appends == Appends::Single {
            return Err(ConsumeError::Damaged {
                partition,
                offset: held.next_offset,
                detail: format!("the next record that Kafka has is {offset}"),
            });
        }
        let size = record.record.body.len();
        let first = polled.records.is_empty();
        if !first && (polled.records.len() >= limits.records_max || *bytes + size > limits.bytes_max) {
            self.left_over = Some(record);
            return Ok(false);
        }
        held.next_offset = offset + 1;
        *bytes += size;
        polled.records.push(record);
        Ok(polled.records.len() < limits.records_max && *bytes < limits.bytes_max)
    }

    /// Takes over what librdkafka reported about rebalances during a poll.
    fn rebalance(&mut self, polled: &mut Polled) {
        let changes = self.consumer.context().take();
        for change in changes {
            match change {
                RebalanceChange::Assigned(partitions) => {
                    tracing::info!(?partitions, "partitions were assigned to this process");
                    self.meters.assigned.increment(partitions.len() as u64);
                    self.unsettled.extend(partitions);
                }
                RebalanceChange::Revoked { partitions, lost } => {
                    tracing::info!(?partitions, lost, "partitions were revoked from this process");
                    let meter = if lost { &self.meters.lost } else { &self.meters.revoked };
                    meter.increment(partitions.len() as u64);
                    for partition in partitions {
                        self.give_up(partition, polled);
                    }
                }
            }
        }
        #[allow(clippy::cast_precision_loss)] // a gauge
        self.meters.partitions.set(self.held.len() as f64);
    }

    fn give_up(&mut self, partition: u32, polled: &mut Polled) {
        self.unsettled.retain(|unsettled| *unsettled != partition);
        self.left_over.take_if(|record| record.position.partition == partition);
        polled.records.retain(|record| record.position.partition != partition);
        if self.held.remove(&partition).is_none() {
            return;
        }
        let assigned_before = polled.assigned.len();
        polled.assigned.retain(|assigned| assigned.partition != partition);
        if polled.assigned.len() == assigned_before {
            polled.revoked.push(partition);
        }
    }

    /// Starts reading partitions that are new, behind their last commit.
    fn settle(&mut self, polled: &mut Polled) -> Result<(), ConsumeError> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        let unavailable = |reason: String| ConsumeError::Unavailable(reason);
        match self
            .topics
            .epoch(&self.topic.name)
            .map_err(|error| unavailable(error.to_string()))?
        {
            Some(epoch) if epoch == self.epoch => {}
            other => {
                return Err(ConsumeError::Damaged {
                    partition: self.unsettled[0],
                    offset: 0,
                    detail: format!(
                        "the topic {} isn't the one that this process started with (epoch {}, now {other:?}): it was \
                         recreated, or its delete.retention.ms was changed. Start again",
                        self.topic.name, self.epoch
                    ),
                });
            }
        }
        // Ends what an earlier producer of this process may have left open.
        if let Some(transactions) = &mut self.transactions {
            transactions.make_ready().map_err(|failed| unavailable(failed.reason))?;
        }
        let explain = |error: KafkaError| unavailable(self.consumer.context().events.explain(&error));
        let partitions = std::mem::take(&mut self.unsettled);
        let found = offsets::starts(&self.consumer, &self.topic.name, &partitions, self.epoch, self.wait_max);
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.unsettled = partitions;
                return Err(explain(error));
            }
        };
        let mut reading = TopicPartitionList::new();
        for (&partition, start) in partitions.iter().zip(&found) {
            let raw = i64::try_from(start.next_offset()).unwrap_or(i64::MAX);
            let number = i32::try_from(partition).unwrap_or(i32::MAX);
            reading
                .add_partition_offset(&self.topic.name, number, Offset::Offset(raw))
                .map_err(explain)?;
        }
        if let Err(error) = self.consumer.incremental_assign(&reading) {
            self.unsettled = partitions;
            return Err(explain(error));
        }
        for (partition, start) in partitions.into_iter().zip(found) {
            let next_offset = start.next_offset();
            let held = AssignedPartition {
                next_offset,
                committed: start.committed.as_ref().map(|made| made.next_offset),
            };
            self.held.insert(partition, held);
            polled.assigned.push(Assignment {
                partition,
                epoch: self.epoch,
                next_offset,
                committed: start.committed,
                begin_offset: start.begin_offset,
            });
        }
        Ok(())
    }

    /// Meaning of an error among the messages; most pass by themselves.
    fn fault(&self, error: &KafkaError) -> Result<(), ConsumeError> {
        let context = self.consumer.context();
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                Err(self.out_of_range(error))
            }
            Some(
                RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed,
            ) => Err(ConsumeError::Unavailable(context.events.explain(error))),
            _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => {
                Err(ConsumeError::Unavailable(context.events.explain(error)))
            }
            // One broker away, leaders moving: librdkafka tries again, and has written it into the
            // log.
            _ => Ok(()),
        }
    }

    /// A partition is to be read where it has no records any more: they were deleted before they
    /// were verified.
    fn out_of_range(&self, error: &KafkaError) -> ConsumeError {
        for (&partition, held) in &self.held {
            let number = i32::try_from(partition).unwrap_or(i32::MAX);
            let marks = self.consumer.fetch_watermarks(&self.topic.name, number, self.wait_max);
            let Ok((begin, end)) = marks.map(|(begin, end)| (begin.unsigned_abs(), end.unsigned_abs())) else {
                continue;
            };
            let detail = if held.next_offset < begin {
                format!(
                    "it is no longer stored; the oldest is {begin}: retention deleted records before they were verified"
                )
            } else if held.next_offset > end {
                format!("the partition ends at {end}: it was set back, or recreated")
            } else {
                continue;
            };
            return ConsumeError::Damaged {
                partition,
                offset: held.next_offset,
                detail,
            };
        }
        ConsumeError::Unavailable(error.to_string())
    }

    pub(super) fn seek(&mut self, partition: u32, offset: u64) -> Result<(), ConsumeError> {
        if !self.held.contains_key(&partition) {
            return Ok(());
        }
        let explain = |error: KafkaError| ConsumeError::Unavailable(self.consumer.context().events.explain(&error));
        let number = i32::try_from(partition).unwrap_or(i32::MAX);
        let marks = self
            .consumer
            .fetch_watermarks(&self.topic.name, number, self.wait_max)
            .map_err(explain)?;
        let (begin, end) = (marks.0.unsigned_abs(), marks.1.unsigned_abs());
        if offset < begin || offset > end {
            return Err(ConsumeError::Damaged {
                partition,
                offset,
                detail: format!("the log has offsets {begin} to {end}"),
            });
        }
        let raw = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        if self
            .consumer
            .seek(&self.topic.name, number, raw, self.wait_max)
            .is_err()
        {
            // Its reading has ended, as after an offset that is gone: begin it again.
            let mut there = TopicPartitionList::new();
            there
                .add_partition_offset(&self.topic.name, number, raw)
                .map_err(explain)?;
            self.consumer.incremental_unassign(&there).map_err(explain)?;
            self.consumer.incremental_assign(&there).map_err(explain)?;
        }
        self.left_over.take_if(|record| record.position.partition == partition);
        if let Some(held) = self.held.get_mut(&partition) {
            held.next_offset = offset;
        }
        Ok(())
    }

    /// Commits `list`, or gives up waiting. librdkafka itself never does while a broker is there
    /// that doesn't answer.
    ///
    /// The wait is shorter than a request's, so that none is sent twice: one that a standing broker
    /// finds when it continues would be taken after whatever was committed since.
    fn commit_in_time(&self, list: TopicPartitionList) -> Option<Result<(), KafkaError>> {
        let (done, answered) = bounded(1);
        let consumer = Arc::clone(&self.consumer);
        let committing = move || drop(done.send(consumer.commit(&list, CommitMode::Sync)));
        let spawned = thread::Builder::new()
            .name("log-kafka-commit".to_owned())
            .spawn(committing);
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread can be started for a commit");
            return None;
        }
        answered.recv_timeout(self.wait_max / 10 * 9).ok()
    }

    /// The list of `commits`, if all of them are ours to make.
    pub(super) fn checked(&self, commits: &[Commit]) -> Result<TopicPartitionList, CommitError> {
        let mut list = TopicPartitionList::new();
        for commit in commits {
            let held = self.held.get(&commit.partition);
            let ours = held.is_some_and(|held| held.committed.is_none_or(|made| made <= commit.next_offset));
            if !ours || commit.epoch != self.epoch {
                return Err(CommitError::Fenced(commit.partition));
            }
            let bytes = commit.metadata.len();
            if bytes > METADATA_BYTES_MAX {
                let detail = format!("its metadata has {bytes} bytes, over the limit of {METADATA_BYTES_MAX}");
                return Err(CommitError::Invalid(detail));
            }
            let number = i32::try_from(commit.partition).unwrap_or(i32::MAX);
            let mut element = list.add_partition(&self.topic.name, number);
            let raw = Offset::Offset(i64::try_from(commit.next_offset).unwrap_or(i64::MAX));
            element
                .set_offset(raw)
                .map_err(|error| CommitError::Unavailable(error.to_string()))?;
            element.set_metadata(commits::to_metadata(commit.epoch, &commit.metadata));
        }
        Ok(list)
    }

    /// Notes what was committed.
    pub(super) fn committed(&mut self, commits: &[Commit]) {
        for commit in commits {
            if let Some(held) = self.held.get_mut(&commit.partition) {
                held.committed = Some(commit.next_offset);
            }
        }
    }

    pub(super) fn commit(&mut self, commits: Vec<Commit>) -> Result<(), CommitError> {
        let Some(first) = commits.first().map(|commit| commit.partition) else {
            return Ok(());
        };
        let list = self.checked(&commits)?;
        if self.consumer.assignment_lost() {
            return Err(CommitError::Fenced(first));
        }
        match self.commit_in_time(list) {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                let reason = self.consumer.context().events.explain(&error);
                let failed = commits::commit_error(error.rdkafka_error_code(), first, reason);
                if let CommitError::Fenced(_) = failed {
                    self.resign();
                }
                return Err(failed);
            }
            // It may still be taken, and must not be after a later one: so this membership makes no
            // later one.
            None => {
                tracing::warn!("the group's coordinator didn't answer a commit; joining anew");
                self.resign();
                return Err(CommitError::Fenced(first));
            }
        }
        self.committed(&commits);
        Ok(())
    }
}

fn has_news(polled: &Polled) -> bool {
    !(polled.records.is_empty() && polled.assigned.is_empty() && polled.revoked.is_empty())
}
