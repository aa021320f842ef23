//! The shards that this process owns: assignments, revocations, and the records between.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::time::Duration;

use receipt_log::{Assignment, Commit, CommitError, ConsumeError, LogConsumer, LoggedRecord, PollLimits, Polled};
use service::cpu::CpuPool;
use service::health::{Health, Parts};
use service::retry::{Retry, Stopped};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};
use warehouse::Warehouse;

use crate::config::WriterConfig;
use crate::error::WriterError;
use crate::evidence::EvidenceWriter;
use crate::inserting::Inserter;
use crate::pipeline::{OwnedShard, PipelineEnd};
use crate::reading::ShardReader;
use crate::rebuilding::Rebuilder;
use crate::resumption::{ResumeError, resume};
use crate::shard_database::shard_database;

/// The longest wait of one poll.
const POLL_WAIT: Duration = Duration::from_millis(100);
/// Records of `verdicts` that one poll returns.
const POLL_RECORDS_MAX: usize = 256;
/// Polls whose records wait for a shard's pipeline.
const WAITING_MAX: usize = 2;

/// Pause after which a superseded writer takes its shard again, if the shard is still assigned to
/// it. A successor's assignment would have revoked it by then; a late statement of an earlier
/// process doesn't.
const TAKE_AGAIN: Duration = Duration::from_secs(15);

/// The part of readiness that fails while a shard of this process has another writer.
const SUPERSEDED: &str = "epoch";
/// The part of readiness that fails while a shard of this process isn't in the configuration.
const UNKNOWN: &str = "shard";

/// Dependencies of the writer.
pub struct Deps {
    /// Membership in the group [`crate::GROUP`] of `verdicts`.
    pub consumer: Box<dyn LogConsumer>,
    /// [`crate::evidence::consumer`]; `None` stores no evidence.
    pub evidence: Option<Box<dyn LogConsumer>>,
    /// Warehouse whose shards take the rows.
    pub warehouse: Warehouse,
    /// [`receipt_log::Log::deletes_after_ms`] of `verdicts`.
    pub deletes_after_ms: Option<u64>,
    /// Threads for decoding blocks.
    pub cpu: CpuPool,
    /// Readiness of the process.
    pub health: Health,
}

/// Runs until `shutdown`, then inserts what was read (at most `drain_ms_max`) and returns.
///
/// # Errors
/// [`WriterError`]: what no pause can cure.
pub async fn run(config: WriterConfig, mut deps: Deps, shutdown: CancellationToken) -> Result<(), WriterError> {
    let stop = CancellationToken::new();
    let _stopped_at_the_end = stop.clone().drop_guard();
    let retry = Retry {
        parts: Parts::new(deps.health.register("writer")),
        wait_ms_min: config.retry_wait_ms_min,
        wait_ms_max: config.retry_wait_ms_max,
        stop: stop.clone(),
    };
    let parts = retry.parts.clone();
    let drain_max = Duration::from_millis(config.drain_ms_max);
    let evidence = store_evidence(&config, &mut deps, &retry);
    let mut consuming = ShardConsumer::new(config, deps, retry);
    let ended = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        ended = consuming.consume() => ended,
    };
    drop(evidence);
    if let Err(failed) = &ended {
        parts.failed("writer", failed.to_string());
        error!(error = %failed, "stopping rather than skipping records");
    }
    if tokio::time::timeout(drain_max, consuming.finish()).await.is_err() {
        warn!("batches in flight are left to the next owner");
    }
    ended
}

/// Starts the task that stores evidence, if it is wanted. Numbers don't wait for it: where it can't
/// continue, readiness says so.
fn store_evidence(config: &WriterConfig, deps: &mut Deps, retry: &Retry) -> Option<AbortOnDropHandle<()>> {
    let consumer = deps.evidence.take()?;
    let config = config.clone();
    let writer = EvidenceWriter {
        warehouse: deps.warehouse.clone(),
        deletes_after_ms: deps.deletes_after_ms,
        cpu: deps.cpu.clone(),
        retry: retry.clone(),
    };
    Some(AbortOnDropHandle::new(tokio::spawn(async move {
        writer.run(&config, consumer).await
    })))
}

/// State of a shard that is assigned to this process.
enum ShardState {
    /// A pipeline takes its records.
    Owned(mpsc::Sender<Vec<LoggedRecord>>),
    /// Another process is its writer. At this time, this process takes it again.
    Superseded(Instant, Assignment),
    /// The configuration doesn't have it. Nothing is lost: its records stay in the log.
    Unknown,
}

struct ShardConsumer {
    config: WriterConfig,
    consumer: Box<dyn LogConsumer>,
    warehouse: Warehouse,
    deletes_after_ms: Option<u64>,
    cpu: CpuPool,
    retry: Retry,
    shards: HashMap<u32, ShardState>,
    tasks: JoinSet<(Assignment, Result<PipelineEnd, WriterError>)>,
    /// Polled records that no pipeline has taken yet.
    waiting: VecDeque<(u32, Vec<LoggedRecord>)>,
    commits: mpsc::UnboundedReceiver<Commit>,
    to_commit: mpsc::UnboundedSender<Commit>,
}

impl ShardConsumer {
    fn new(config: WriterConfig, deps: Deps, retry: Retry) -> Self {
        let (to_commit, commits) = mpsc::unbounded_channel();
        Self {
            config,
            consumer: deps.consumer,
            warehouse: deps.warehouse,
            deletes_after_ms: deps.deletes_after_ms,
            cpu: deps.cpu,
            retry,
            shards: HashMap::new(),
            tasks: JoinSet::new(),
            waiting: VecDeque::new(),
            commits,
            to_commit,
        }
    }

    async fn consume(&mut self) -> Result<(), WriterError> {
        let mut pauses = self.retry.pauses();
        loop {
            let limits = PollLimits {
                records_max: POLL_RECORDS_MAX,
                bytes_max: self.config.batch_bytes_max,
                wait_max: POLL_WAIT,
            };
            tokio::select! {
                biased;
                assignment = due(&self.shards) => if let Err(ended) = self.assign(&assignment).await {
                    return ended.into();
                },
                Some(ended) = self.tasks.join_next() => self.ended(ended)?,
                Some(commit) = self.commits.recv() => self.commit(commit).await,
                () = hand_over(&mut self.waiting, &self.shards), if !self.waiting.is_empty() => {}
                polled = self.consumer.poll(limits), if self.waiting.is_empty() => match polled {
                    Ok(polled) => {
                        pauses = self.retry.pauses();
                        self.retry.parts.recovered("log");
                        if let Err(ended) = self.accept(polled).await {
                            return ended.into();
                        }
                    }
                    Err(damaged @ ConsumeError::Damaged { .. }) => return Err(WriterError::Damaged(damaged)),
                    Err(ConsumeError::Unavailable(reason)) => {
                        if let Err(Stopped) = self.retry.pause("log", &reason, &mut pauses).await {
                            return Ok(());
                        }
                    }
                },
            }
        }
    }

    async fn accept(&mut self, polled: Polled) -> Result<(), ResumeError> {
        for shard in polled.revoked {
            self.shards.remove(&shard);
            info!(shard, "the shard was revoked");
        }
        self.report_recovered();
        let mut records = polled.records;
        for assignment in &polled.assigned {
            // Records that came with the assignment come again, from the position behind the
            // ledger.
            records.retain(|logged| logged.position.partition != assignment.partition);
            self.assign(assignment).await?;
        }
        for logged in records {
            match self
                .waiting
                .back_mut()
                .filter(|(shard, _)| *shard == logged.position.partition)
            {
                Some((_, some)) => some.push(logged),
                None => self.waiting.push_back((logged.position.partition, vec![logged])),
            }
        }
        Ok(())
    }

    async fn assign(&mut self, assignment: &Assignment) -> Result<(), ResumeError> {
        let shard = assignment.partition;
        // Records of an earlier assignment come again, from the position behind the ledger.
        self.waiting.retain(|(waiting, _)| *waiting != shard);
        let state = self.take(assignment).await?;
        self.shards.insert(shard, state);
        self.report_recovered();
        Ok(())
    }

    /// Becomes the shard's writer, unless another process does at the same time.
    async fn take(&mut self, assignment: &Assignment) -> Result<ShardState, ResumeError> {
        let shard = assignment.partition;
        let Some(warehouse) = shard_database(&self.warehouse, &self.retry, UNKNOWN, shard).await? else {
            return Ok(ShardState::Unknown);
        };
        let resumed = match resume(assignment, self.consumer.as_mut(), &warehouse, &self.retry).await {
            Err(ResumeError::Superseded) => return Ok(superseded(assignment.clone(), &self.retry)),
            resumed => resumed?,
        };
        let (records, to_read) = mpsc::channel(WAITING_MAX);
        let pipeline = OwnedShard {
            shard,
            reader: ShardReader::new(&self.config, self.cpu.clone(), to_read, resumed.next),
            sequence: resumed.sequence,
            inserter: Inserter::new(warehouse.clone(), self.cpu.clone(), self.retry.clone(), resumed.epoch),
            rebuilder: Rebuilder::new(
                warehouse.clone(),
                self.retry.clone(),
                Duration::from_millis(self.config.rebuild_poll_interval_ms),
            ),
            warehouse,
            deletes_after_ms: self.deletes_after_ms,
            version: resumed.version,
            commits: self.to_commit.clone(),
            retry: self.retry.clone(),
        };
        let assignment = assignment.clone();
        self.tasks.spawn(async move { (assignment, pipeline.run().await) });
        Ok(ShardState::Owned(records))
    }

    /// Clears a failure in readiness once no shard of this process has that failure.
    fn report_recovered(&self) {
        let mut states = self.shards.values();
        if !states.clone().any(|state| matches!(state, ShardState::Superseded(..))) {
            self.retry.parts.recovered(SUPERSEDED);
        }
        if !states.any(|state| matches!(state, ShardState::Unknown)) {
            self.retry.parts.recovered(UNKNOWN);
        }
    }

    fn ended(
        &mut self,
        ended: Result<(Assignment, Result<PipelineEnd, WriterError>), tokio::task::JoinError>,
    ) -> Result<(), WriterError> {
        let (assignment, ended) = ended.map_err(|panicked| {
            error!(error = %panicked, "a shard's pipeline panicked");
            WriterError::TaskEnded(0)
        })?;
        // The shard may have been assigned to this process again: then its pipeline is a newer one.
        if ended? == PipelineEnd::Superseded
            && let Some(state) = self.shards.get_mut(&assignment.partition)
            && matches!(state, ShardState::Owned(records) if records.is_closed())
        {
            *state = superseded(assignment, &self.retry);
        }
        Ok(())
    }

    async fn commit(&mut self, commit: Commit) {
        let shard = commit.partition;
        match self.consumer.commit(vec![commit]).await {
            Ok(()) => {}
            Err(CommitError::Fenced(_)) => info!(shard, "the shard belongs to another writer now"),
            // The next batch commits a later offset; the ledger decides where a shard continues.
            Err(CommitError::Unavailable(reason) | CommitError::Invalid(reason)) => {
                warn!(shard, reason, "the offset can't be committed")
            }
        }
    }

    /// Lets the pipelines insert what they have.
    async fn finish(&mut self) {
        self.shards.clear();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(failed) = self.ended(ended) {
                warn!(error = %failed, "a shard's pipeline failed while stopping");
            }
        }
        while let Ok(commit) = self.commits.try_recv() {
            self.commit(commit).await;
        }
    }
}

/// The shard has another writer. This process drops its records until it takes the shard again.
fn superseded(assignment: Assignment, retry: &Retry) -> ShardState {
    metrics::counter!("receipts_writer_superseded_total").increment(1);
    let reason = format!(
        "another process became the writer of shard {}; this one takes the shard again in {} s if it is still assigned \
         to it",
        assignment.partition,
        TAKE_AGAIN.as_secs()
    );
    warn!(reason, "superseded");
    retry.parts.failed(SUPERSEDED, reason);
    ShardState::Superseded(Instant::now() + TAKE_AGAIN, assignment)
}

/// Waits until a superseded shard is to be taken again.
async fn due(shards: &HashMap<u32, ShardState>) -> Assignment {
    let superseded = shards.values().filter_map(|state| match state {
        ShardState::Superseded(until, assignment) => Some((until, assignment)),
        ShardState::Owned(_) | ShardState::Unknown => None,
    });
    let Some((until, assignment)) = superseded.min_by_key(|(until, _)| **until) else {
        return pending().await;
    };
    sleep_until(*until).await;
    assignment.clone()
}

/// Hands the first waiting records to their pipeline. Records of shards without a pipeline are
/// dropped: their next owner reads them.
async fn hand_over(waiting: &mut VecDeque<(u32, Vec<LoggedRecord>)>, shards: &HashMap<u32, ShardState>) {
    let Some(ShardState::Owned(records)) = waiting.front().and_then(|(shard, _)| shards.get(shard)) else {
        waiting.pop_front();
        return;
    };
    if let Ok(permit) = records.reserve().await
        && let Some((_, some)) = waiting.pop_front()
    {
        permit.send(some);
    } else {
        waiting.pop_front();
    }
}
