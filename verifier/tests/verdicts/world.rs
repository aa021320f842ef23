//! Both logs in a directory, verifiers to run over them, and processors with faults.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blocks::{Block, Header, SourceIndex};
use futures_util::future::BoxFuture;
use receipt::{Judge, Limits};
use receipt_log::{
    Commit, CommitError, ConsumeError, EmbeddedConfig, EmbeddedLog, EmbeddedProcessor, LogConsumer, LogInspector,
    LogProcessor, LogWriter, LoggedRecord, PollLimits, Polled, Record, Topic,
};
use service::cpu::CpuPool;
use service::health::Health;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use verifier::{Deps, GROUP, Policies, VerifierConfig, VerifierError};

/// No test waits longer for anything.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(300);

/// A running verifier.
pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) health: Health,
    task: JoinHandle<Result<(), VerifierError>>,
}

impl Running {
    pub(crate) async fn ended(self) -> Result<(), VerifierError> {
        tokio::time::timeout(WAIT_MAX, self.task)
            .await
            .expect("the verifier ends")
            .unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.ended().await.unwrap();
    }

    /// Drops it as a crash would.
    pub(crate) async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Why it isn't ready.
    pub(crate) fn reason(&self) -> String {
        let snapshot = self.health.snapshot();
        let verifier = snapshot.components.get("verifier");
        verifier
            .and_then(|verifier| verifier.reason.clone())
            .unwrap_or_default()
    }
}

/// Everything in `verdicts`, checked.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    pub(crate) blocks: Vec<Block>,
    pub(crate) accepted: u64,
    /// By reason.
    pub(crate) rejected: BTreeMap<String, u64>,
}

impl Verdicts {
    pub(crate) fn headers(&self) -> impl Iterator<Item = &Header> {
        self.blocks.iter().map(|block| &block.header)
    }

    pub(crate) fn idle(&self) -> usize {
        self.headers().filter(|header| header.source.is_empty()).count()
    }

    pub(crate) fn assert_outcomes(&self, accepted: u64, rejected: &[(&str, u64)]) {
        let rejected = rejected.iter().map(|(reason, count)| ((*reason).to_owned(), *count));
        assert_eq!((self.accepted, &self.rejected), (accepted, &rejected.collect()));
    }
}

/// Both logs.
pub(crate) struct World {
    pub(crate) receipts: EmbeddedLog,
    pub(crate) verdicts: EmbeddedLog,
    pub(crate) config: VerifierConfig,
    pub(crate) policies: Option<Policies>,
    log_config: EmbeddedConfig,
    directory: tempfile::TempDir,
    cpu: CpuPool,
    judge: Arc<Judge>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_logs(EmbeddedConfig {
            segment_bytes: 8 << 20,
            record_bytes_max: 2 << 20,
            queue_bytes_max: 8 << 20,
            ..EmbeddedConfig::default()
        })
    }

    pub(crate) fn with_logs(log_config: EmbeddedConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (receipts, verdicts) = open(directory.path(), &log_config);
        Self {
            receipts,
            verdicts,
            config: VerifierConfig {
                block_wait_ms_max: 5,
                idle_interval_ms: 3_600_000,
                retry_wait_ms_min: 5,
                retry_wait_ms_max: 50,
                drain_ms_max: 2_000,
                ..VerifierConfig::default()
            },
            policies: None,
            log_config,
            directory,
            cpu: CpuPool::parallel("verifier", 2, 8).unwrap(),
            judge: Arc::new(Judge::new(Limits::default(), 100)),
        }
    }

    pub(crate) async fn append(&self, record: Record) {
        self.receipts.append(record).await.unwrap();
    }

    pub(crate) fn processor(&self) -> EmbeddedProcessor {
        self.receipts.processor(GROUP, &self.verdicts).unwrap()
    }

    pub(crate) fn spawn(&self) -> Running {
        self.spawn_with(Box::new(self.processor()))
    }

    pub(crate) fn spawn_with(&self, processor: Box<dyn LogProcessor>) -> Running {
        let receipts: Arc<dyn LogInspector> = Arc::new(self.receipts.clone());
        let verdicts: Arc<dyn LogInspector> = Arc::new(self.verdicts.clone());
        self.spawn_over(processor, receipts, verdicts)
    }

    pub(crate) fn spawn_over(
        &self,
        processor: Box<dyn LogProcessor>,
        receipts: Arc<dyn LogInspector>,
        verdicts: Arc<dyn LogInspector>,
    ) -> Running {
        let (stop, health) = (CancellationToken::new(), Health::new());
        let deps = Deps {
            processor,
            receipts,
            verdicts,
            policies: self.policies.clone(),
            shard_map: None,
            cpu: self.cpu.clone(),
            judge: Arc::clone(&self.judge),
            health: health.clone(),
        };
        let task = tokio::spawn(verifier::run(self.config.clone(), deps, stop.clone()));
        Running { stop, health, task }
    }

    pub(crate) async fn run_until_caught_up(&self) {
        let verifier = self.spawn();
        self.caught_up().await;
        verifier.stop().await;
    }

    pub(crate) async fn caught_up(&self) {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let state = self.receipts.partitions(GROUP).await.unwrap().remove(0);
            if self.committed().await == state.end_offset {
                return;
            }
            assert!(Instant::now() < deadline, "the verifier doesn't catch up: {state:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn committed(&self) -> u64 {
        let state = self.receipts.partitions(GROUP).await.unwrap().remove(0);
        state.committed.map_or(0, |committed| committed.next_offset)
    }

    async fn all(log: &EmbeddedLog) -> Vec<LoggedRecord> {
        let mut records: Vec<LoggedRecord> = Vec::new();
        loop {
            let more = log.read(0, records.len() as u64, 1 << 20).await.unwrap();
            if more.is_empty() {
                return records;
            }
            records.extend(more);
        }
    }

    /// Reads `verdicts` and checks that it has each record of `receipts` up to `end_offset` once,
    /// in order.
    pub(crate) async fn contiguous_to(&self, end_offset: u64) -> Verdicts {
        let index = |offset| SourceIndex { offset, index: 0 };
        let (mut found, mut next) = (Verdicts::default(), index(0));
        for logged in Self::all(&self.verdicts).await {
            let block = Block::decode(&logged.record.body).unwrap();
            let header = &block.header;
            assert_eq!(
                (header.source.epoch, header.source.partition),
                (self.receipts.epoch(), 0)
            );
            assert_eq!(header.source.first, next, "a gap or an overlap");
            next = header.source.end;
            assert_eq!(header.block, header.shard_counts);
            let columns = block.columns();
            let mut positions: Vec<(u64, u16)> = Vec::new();
            for row in 0..usize::try_from(header.block.received).unwrap() {
                let position = u128::from_le_bytes(columns.position.value(row).try_into().unwrap());
                assert_eq!((position >> 96) as u32, self.receipts.epoch());
                positions.push(((position >> 16) as u64 & ((1 << 48) - 1), position as u16));
                match columns.reason.value(row) {
                    "" => found.accepted += 1,
                    reason => *found.rejected.entry(reason.to_owned()).or_default() += 1,
                }
            }
            positions.sort_unstable();
            let mut expected = Vec::new();
            for offset in header.source.first.offset..header.source.end.offset {
                let receipts = positions.iter().filter(|(found, _)| *found == offset).count();
                assert!(receipts > 0, "a record without a verdict");
                expected.extend((0..receipts).map(|index| (offset, index as u16)));
            }
            assert_eq!(positions, expected, "each receipt has one verdict");
            found.blocks.push(block);
        }
        assert_eq!(next, index(end_offset));
        found
    }

    /// As [`Self::contiguous_to`], up to the end of `receipts`.
    pub(crate) async fn contiguous(&self) -> Verdicts {
        let end = self.receipts.partitions(GROUP).await.unwrap()[0].end_offset;
        self.contiguous_to(end).await
    }

    /// Closes both logs, changes their directories (`log` and `verdicts`), and opens them again.
    pub(crate) async fn reopen(&mut self, change: impl FnOnce(&Path)) {
        self.receipts.close();
        self.verdicts.close();
        change(self.directory.path());
        (self.receipts, self.verdicts) = open(self.directory.path(), &self.log_config);
    }
}

fn open(directory: &Path, config: &EmbeddedConfig) -> (EmbeddedLog, EmbeddedLog) {
    let receipts = EmbeddedLog::open(&directory.join("log"), config.clone()).unwrap();
    let verdicts = EmbeddedLog::open_topic(Topic::Verdicts, &directory.join("verdicts"), config.clone()).unwrap();
    (receipts, verdicts)
}

pub(crate) async fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !reached() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Fault while verdicts are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No record is appended, and the call never returns.
    HangBefore,
    /// Everything is appended, and the call never returns.
    HangAfter,
    /// The call waits until it is released.
    Pause,
    /// So many calls fail, as with a full disk.
    Unavailable(u32),
    /// Calls that begin at the first record fail, and others don't.
    UnavailableAtFirst,
    /// The first call is refused permanently, after a while.
    Invalid,
}

/// Reports when the fault is reached, and releases a paused processor.
#[derive(Clone, Default)]
pub(crate) struct Signal {
    reached: Arc<Notify>,
    released: Arc<Notify>,
}

impl Signal {
    pub(crate) async fn reached(&self) {
        tokio::time::timeout(WAIT_MAX, self.reached.notified())
            .await
            .expect("the fault is reached");
    }

    pub(crate) fn release(&self) {
        self.released.notify_one();
    }

    fn reach(&self) {
        self.reached.notify_one();
    }
}

/// A real processor with one fault.
pub(crate) struct Faulty {
    inner: EmbeddedProcessor,
    fault: Fault,
    signal: Signal,
}

impl Faulty {
    pub(crate) fn new(inner: EmbeddedProcessor, fault: Fault) -> (Box<Self>, Signal) {
        let signal = Signal::default();
        let faulty = Self {
            inner,
            fault,
            signal: signal.clone(),
        };
        (Box::new(faulty), signal)
    }
}

impl LogConsumer for Faulty {
    fn poll(&mut self, limits: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>> {
        self.inner.poll(limits)
    }

    fn seek(&mut self, partition: u32, offset: u64) -> BoxFuture<'_, Result<(), ConsumeError>> {
        self.inner.seek(partition, offset)
    }

    fn commit(&mut self, commits: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>> {
        self.inner.commit(commits)
    }
}

impl LogProcessor for Faulty {
    fn append_and_commit(
        &mut self,
        records: Vec<(u32, Record)>,
        commits: Vec<Commit>,
    ) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async move {
            let full = || CommitError::Unavailable("no space left".to_owned());
            match &mut self.fault {
                Fault::HangBefore => {
                    self.signal.reach();
                    std::future::pending().await
                }
                Fault::HangAfter => {
                    self.inner.append_and_commit(records, commits).await?;
                    self.signal.reach();
                    std::future::pending().await
                }
                Fault::Pause => {
                    self.signal.reach();
                    self.signal.released.notified().await;
                    self.inner.append_and_commit(records, commits).await
                }
                Fault::Unavailable(left @ 1..) => {
                    *left -= 1;
                    self.signal.reach();
                    Err(full())
                }
                Fault::UnavailableAtFirst if commits[0].next_offset == 1 => {
                    self.signal.reach();
                    Err(full())
                }
                Fault::Invalid if commits[0].next_offset == 1 => {
                    // Others are judged meanwhile.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    Err(CommitError::Invalid("too large".to_owned()))
                }
                Fault::Unavailable(_) | Fault::UnavailableAtFirst | Fault::Invalid => {
                    self.inner.append_and_commit(records, commits).await
                }
            }
        })
    }
}
