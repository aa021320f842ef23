//! A log, a database and a verifier to run over them, with faults at the consumer.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use receipt::{Judge, Limits, SigningKey};
use receipt_log::{
    Commit, CommitError, ConsumeError, DeadLetter, DeadLetters, EmbeddedConfig, EmbeddedConsumer, EmbeddedLog,
    LogConsumer, LogInspector, LogWriter, PollLimits, Polled, PublishError, Record, RecordKind,
};
use service::cpu::CpuPool;
use service::health::Health;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use verifier::{Deps, GROUP, PolicyBook, VerifierConfig, VerifierError};
use warehouse::{AuditSums, CommittedOffset, EmbeddedEngine, Target, Warehouse, WarehouseConfig};

/// Starts the process's one engine.
pub(crate) async fn engine(directory: &Path) -> EmbeddedEngine {
    let config = WarehouseConfig::default();
    EmbeddedEngine::start(&config, &directory.join("warehouse"), &directory.join("w.sock"))
        .await
        .unwrap()
}

/// One case's log and database.
pub(crate) struct World {
    pub(crate) log: EmbeddedLog,
    log_dir: PathBuf,
    socket: PathBuf,
    pub(crate) warehouse: Warehouse,
    pub(crate) cpu: CpuPool,
    pub(crate) judge: Arc<Judge>,
    pub(crate) dead_letters: Option<Arc<Published>>,
    pub(crate) policy: Option<PolicyBook>,
    pub(crate) health: Health,
}

impl World {
    pub(crate) async fn new(directory: &Path, name: &str) -> Self {
        let config = WarehouseConfig {
            database: format!("v_{name}"),
            ..WarehouseConfig::default()
        };
        Self::over(directory, name, &Target::Socket(directory.join("w.sock")), &config).await
    }

    /// A world whose warehouse is somewhere else than the engine's socket.
    pub(crate) async fn over(directory: &Path, name: &str, target: &Target, config: &WarehouseConfig) -> Self {
        let warehouse = Warehouse::connect(target, config).await.unwrap();
        warehouse.migrate().await.unwrap();
        let log_dir = directory.join(name);
        let log = EmbeddedLog::open(&log_dir, EmbeddedConfig::default()).unwrap();
        let cpu = CpuPool::new("verifier", 2, 8).unwrap();
        let judge = Arc::new(Judge::new(Limits::default(), 100));
        Self {
            log,
            log_dir,
            socket: directory.join("w.sock"),
            warehouse,
            cpu,
            judge,
            dead_letters: None,
            policy: None,
            health: Health::new(),
        }
    }

    pub(crate) async fn append(&self, record: Record) {
        self.log.append(record).await.unwrap();
    }

    pub(crate) fn consumer(&self) -> EmbeddedConsumer {
        self.log.consumer(GROUP).unwrap()
    }

    pub(crate) fn spawn(
        &self,
        consumer: Box<dyn LogConsumer>,
        stop: CancellationToken,
    ) -> JoinHandle<Result<(), VerifierError>> {
        let deps = Deps {
            consumer,
            log: Arc::new(self.log.clone()),
            warehouse: self.warehouse.clone(),
            policy: self.policy.clone(),
            dead_letters: self.dead_letters.clone().map(|letters| letters as Arc<dyn DeadLetters>),
            cpu: self.cpu.clone(),
            judge: Arc::clone(&self.judge),
            health: self.health.clone(),
        };
        let config = VerifierConfig {
            block_wait_ms_max: 20,
            drain_ms_max: 2_000,
            ..VerifierConfig::default()
        };
        tokio::spawn(verifier::run(config, deps, stop))
    }

    /// Runs a healthy verifier until everything in the log is committed.
    pub(crate) async fn run_until_caught_up(&self) {
        let stop = CancellationToken::new();
        let verifier = self.spawn(Box::new(self.consumer()), stop.clone());
        self.caught_up().await;
        stop.cancel();
        verifier.await.unwrap().unwrap();
    }

    /// Runs a verifier until it stands at the fault, then drops it as a crash would.
    pub(crate) async fn run_faulty(&self, fault: Fault) {
        let (consumer, reached) = Faulty::hanging(self.consumer(), fault);
        let verifier = self.spawn(Box::new(consumer), CancellationToken::new());
        reached.reached().await;
        verifier.abort();
        assert!(verifier.await.unwrap_err().is_cancelled());
    }

    pub(crate) async fn caught_up(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let states = self.log.partitions(GROUP).await.unwrap();
            let behind = states
                .iter()
                .any(|s| s.committed.as_ref().map_or(0, |committed| committed.next_offset) < s.end_offset);
            if !behind {
                return;
            }
            assert!(Instant::now() < deadline, "the verifier doesn't catch up: {states:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Closes the log, has `change` done to its directory, and opens it again.
    pub(crate) async fn reopen(&mut self, change: impl FnOnce(&Path)) {
        self.log.close();
        change(&self.log_dir);
        let deadline = Instant::now() + Duration::from_secs(60);
        self.log = loop {
            // The last consumer's file handles may close a moment later.
            match EmbeddedLog::open(&self.log_dir, EmbeddedConfig::default()) {
                Ok(log) => break log,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
    }

    /// Has the engine execute a statement that no service would.
    pub(crate) async fn execute(&self, statement: &str) {
        let mut stream = tokio::net::UnixStream::connect(&self.socket).await.unwrap();
        let head = format!(
            "POST /?database={}&mutations_sync=2 HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.warehouse.database(),
            statement.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(statement.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    pub(crate) async fn epoch(&self) -> u32 {
        self.log.partitions(GROUP).await.unwrap()[0].epoch
    }

    pub(crate) async fn committed(&self) -> u64 {
        let states = self.log.partitions(GROUP).await.unwrap();
        states[0]
            .committed
            .as_ref()
            .map_or(0, |committed| committed.next_offset)
    }

    pub(crate) async fn audit(&self) -> AuditSums {
        let states = self.log.partitions(GROUP).await.unwrap();
        let committed: Vec<_> = states
            .iter()
            .map(|state| CommittedOffset {
                epoch: state.epoch,
                partition: state.partition,
                next_offset: state.committed.as_ref().map_or(0, |committed| committed.next_offset),
            })
            .collect();
        self.warehouse.audit(&committed).await.unwrap()
    }

    pub(crate) async fn assert_audit(&self, receipts_in: u64) {
        let sums = self.audit().await;
        assert!(sums.findings.is_empty(), "{:?}", sums.findings);
        assert_eq!(sums.receipts_in, receipts_in);
        assert_eq!(sums.accepted + sums.rejected, receipts_in);
        assert_eq!(
            (sums.stored_occurrences, sums.stored_rejected),
            (sums.accepted, sums.rejected)
        );
    }

    /// What damaged parts come to: the ledger and the positions stand, the rows are gone. Only the last block's ledger
    /// line is carried over, so everything must have been in one block.
    pub(crate) async fn lose_all_rows(&mut self, directory: &Path) {
        let config = WarehouseConfig {
            database: format!("{}_lost", self.warehouse.database()),
            ..WarehouseConfig::default()
        };
        let lost = Warehouse::connect(&Target::Socket(directory.join("w.sock")), &config)
            .await
            .unwrap();
        lost.migrate().await.unwrap();
        let states = self.log.partitions(GROUP).await.unwrap();
        let metadata = &states[0].committed.as_ref().unwrap().metadata;
        lost.insert_ledger(&[verifier::ledger::from_metadata(metadata).unwrap().unwrap()])
            .await
            .unwrap();
        self.warehouse = lost;
    }
}

/// A place for dead letters that fails a few times first, and looks into the warehouse when they come.
pub(crate) struct Published {
    warehouse: Warehouse,
    failures_left: AtomicU32,
    /// Each letter, and how many rejected rows stood when it came.
    pub(crate) letters: Mutex<Vec<(DeadLetter, u64)>>,
}

impl Published {
    pub(crate) fn failing(warehouse: &Warehouse, times: u32) -> Arc<Self> {
        Arc::new(Self {
            warehouse: warehouse.clone(),
            failures_left: AtomicU32::new(times),
            letters: Mutex::default(),
        })
    }
}

impl DeadLetters for Published {
    fn publish<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), PublishError>> {
        Box::pin(async move {
            let fails = |left: u32| left.checked_sub(1);
            if self.failures_left.fetch_update(SeqCst, SeqCst, fails).is_ok() {
                return Err(PublishError("as the test wants it".to_owned()));
            }
            let stored = self.warehouse.totals().await.unwrap().rejected;
            let letters = letters.iter().map(|letter| (letter.clone(), stored));
            self.letters.lock().unwrap().extend(letters);
            Ok(())
        })
    }
}

/// Where a consumer stops answering.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The commit never happens.
    HangBeforeCommit,
    /// The commit happens, and nothing after it.
    HangAfterCommit,
}

enum Behaviour {
    Hang(Fault),
    PauseBeforeCommit,
    FailCommits(u32),
}

/// Tells when the fault is reached, and lets a paused consumer go on.
#[derive(Clone, Default)]
pub(crate) struct Reached {
    reached: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Reached {
    pub(crate) async fn reached(&self) {
        tokio::time::timeout(Duration::from_secs(60), self.reached.notified())
            .await
            .unwrap();
    }

    pub(crate) fn go_on(&self) {
        self.go_on.notify_one();
    }
}

/// A real consumer with one fault.
pub(crate) struct Faulty {
    inner: EmbeddedConsumer,
    behaviour: Behaviour,
    signal: Reached,
}

impl Faulty {
    fn with(inner: EmbeddedConsumer, behaviour: Behaviour) -> (Self, Reached) {
        let signal = Reached::default();
        (
            Self {
                inner,
                behaviour,
                signal: signal.clone(),
            },
            signal,
        )
    }

    pub(crate) fn hanging(inner: EmbeddedConsumer, fault: Fault) -> (Self, Reached) {
        Self::with(inner, Behaviour::Hang(fault))
    }

    pub(crate) fn pausing(inner: EmbeddedConsumer) -> (Self, Reached) {
        Self::with(inner, Behaviour::PauseBeforeCommit)
    }

    pub(crate) fn failing(inner: EmbeddedConsumer, times: u32) -> Self {
        Self::with(inner, Behaviour::FailCommits(times)).0
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
        Box::pin(async move {
            match &mut self.behaviour {
                Behaviour::Hang(fault) => {
                    if *fault == Fault::HangAfterCommit {
                        self.inner.commit(commits).await?;
                    }
                    self.signal.reached.notify_one();
                    std::future::pending().await
                }
                Behaviour::PauseBeforeCommit => {
                    self.signal.reached.notify_one();
                    self.signal.go_on.notified().await;
                    self.inner.commit(commits).await
                }
                Behaviour::FailCommits(left) if *left > 0 => {
                    *left -= 1;
                    Err(CommitError::Unavailable("as the test wants it".to_owned()))
                }
                Behaviour::FailCommits(_) => self.inner.commit(commits).await,
            }
        })
    }
}

/// A signed receipt; `number` makes it differ from others.
pub(crate) fn single(key: &SigningKey, number: usize) -> Vec<u8> {
    receipt::sign_receipt(unsigned(key, number).as_bytes(), key, &Limits::default()).unwrap()
}

/// A signed batch of receipts.
pub(crate) fn batch(key: &SigningKey, numbers: Range<usize>) -> Record {
    let receipts: Vec<String> = numbers
        .map(|number| String::from_utf8(single(key, number)).unwrap())
        .collect();
    let json = format!(
        r#"{{"version":"1.0.0","batchId":"batch_1","receipts":[{}]}}"#,
        receipts.join(",")
    );
    let body = receipt::sign_batch(json.as_bytes(), key, &Limits::default()).unwrap();
    Record {
        kind: RecordKind::Batch,
        ..record(&body, None)
    }
}

/// A body as the gateway would hand it on, with a request signature by `key`.
pub(crate) fn record(body: &[u8], key: Option<&SigningKey>) -> Record {
    Record {
        kind: RecordKind::Receipt,
        body: Bytes::copy_from_slice(body),
        request_signature: key.map(|key| STANDARD.encode(key.sign(body).unwrap())),
        request_id: "test".to_owned(),
        received_at_ms: service::instant::now_ms(),
        client_address: None,
        trace: None,
    }
}

pub(crate) fn unsigned(key: &SigningKey, number: usize) -> String {
    let id = uuid::Uuid::from_u128(0x1234_0000_0000_4000_8000_0000_0000_0000 + number as u128);
    let timestamp = service::instant::rfc3339_ms(service::instant::now_ms());
    let pem = serde_json::to_string(key.public_key_pem()).unwrap();
    format!(
        r#"{{"version":"1.0.0","receiptId":"{id}","timestamp":"{timestamp}","content":{{"entryId":"{id}","url":"https://example.com/a","contentHash":"sha256:{:064x}","publisher":"example.com"}},"client":{{"id":"{id}","name":"Reader","version":"1","organization":"Org","publicKey":{pem}}},"usage":{{"purpose":"training","context":"a context"}}}}"#,
        number
    )
}
