//! The verifier and the writer together, over embedded logs and the real engine, compared with a
//! model in memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../verdicts/receipts.rs"]
mod receipts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use receipt::{Arrival, BodyKind, Judge, Judged, Limits, SigningKey};
use receipt_log::{EmbeddedConfig, EmbeddedLog, LogInspector, LogWriter, Record, Topic};
use service::cpu::CpuPool;
use service::health::Health;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use verifier::{VerifierConfig, VerifierError};
use warehouse::{EmbeddedEngine, PartitionProgress, SqlStatement, Target, Warehouse, WarehouseConfig};
use writer::{WriterConfig, WriterError};

use receipts::{batch, generate, record, single, tampered};

/// Expected outcomes of the log `receipts`.
#[derive(Default)]
struct Model {
    /// Occurrences by receipt.
    accepted: BTreeMap<usize, u64>,
    rejected: BTreeMap<&'static str, u64>,
    records: u64,
    next: usize,
    /// Good records with their receipts, to be sent again.
    sent: Vec<(Record, Vec<usize>)>,
}

impl Model {
    fn accept(&mut self, record: &Record, numbers: Vec<usize>) {
        for number in &numbers {
            *self.accepted.entry(*number).or_default() += 1;
        }
        self.sent.push((record.clone(), numbers));
    }

    fn reject(&mut self, reason: &'static str, receipts: u64) {
        *self.rejected.entry(reason).or_default() += receipts;
    }

    /// A random record.
    fn record(&mut self, key: &SigningKey) -> Record {
        self.records += 1;
        let number = self.next;
        let count = rand::random_range(1..6);
        self.next += count;
        match rand::random_range(0..10) {
            0..3 => {
                let one = record(&single(key, number), Some(key));
                self.accept(&one, vec![number]);
                one
            }
            3..6 => {
                let many = batch(key, number..number + count);
                self.accept(&many, (number..number + count).collect());
                many
            }
            6 => {
                self.reject("malformed", 1);
                record(b"{\"receipts\":", None)
            }
            7 => {
                self.reject("bad_signature", 1);
                tampered(record(&single(key, number), None), "a context", "b context")
            }
            8 => {
                self.reject("bad_batch_signature", 1);
                tampered(batch(key, number..number + count), "batch_", "BATCH_")
            }
            _ if self.sent.is_empty() => {
                self.reject("malformed", 1);
                record(b"", None)
            }
            _ => {
                let (again, numbers) = self.sent[rand::random_range(0..self.sent.len())].clone();
                self.accept(&again, numbers);
                again
            }
        }
    }
}

/// Both logs and the tables.
struct World {
    receipts: EmbeddedLog,
    verdicts: EmbeddedLog,
    warehouse: Warehouse,
    cpu: CpuPool,
    judge: Arc<Judge>,
    /// Why verifiers and writers ended that should not have.
    failures: Arc<Mutex<Vec<String>>>,
    health: Health,
    directory: tempfile::TempDir,
}

/// Notes how a verifier or a writer fails.
async fn noted<E: std::fmt::Display>(
    failures: Arc<Mutex<Vec<String>>>,
    run: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let ended = run.await;
    if let Err(error) = &ended {
        failures.lock().push(error.to_string());
    }
    ended
}

type Verifier = (CancellationToken, JoinHandle<Result<(), VerifierError>>);
type Writer = (CancellationToken, JoinHandle<Result<(), WriterError>>);

impl World {
    async fn new(socket: &Path, database: &str) -> Self {
        let config = WarehouseConfig {
            database: database.to_owned(),
            ..WarehouseConfig::default()
        };
        let warehouse = Warehouse::connect(&Target::Socket(socket.to_owned()), &config)
            .await
            .unwrap();
        warehouse.migrate().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (receipts, verdicts) = open(directory.path());
        Self {
            receipts,
            verdicts,
            warehouse,
            cpu: CpuPool::parallel("test", 2, 8).unwrap(),
            judge: Arc::new(Judge::new(Limits::default(), 100)),
            failures: Arc::default(),
            health: Health::new(),
            directory,
        }
    }

    fn verifier(&self, block_records_max: usize) -> Verifier {
        let stop = CancellationToken::new();
        let config = VerifierConfig {
            block_wait_ms_max: 5,
            block_records_max,
            record_bytes_max: 20_000,
            idle_interval_ms: 50,
            drain_ms_max: 2_000,
            ..VerifierConfig::default()
        };
        let deps = verifier::Deps {
            processor: Box::new(self.receipts.processor(verifier::GROUP, &self.verdicts).unwrap()),
            receipts: Arc::new(self.receipts.clone()),
            verdicts: Arc::new(self.verdicts.clone()),
            policies: None,
            shard_map: None,
            cpu: self.cpu.clone(),
            judge: Arc::clone(&self.judge),
            health: self.health.clone(),
        };
        (
            stop.clone(),
            tokio::spawn(noted(Arc::clone(&self.failures), verifier::run(config, deps, stop))),
        )
    }

    fn writer(&self, batch_receipts_max: usize) -> Writer {
        let stop = CancellationToken::new();
        let config = WriterConfig {
            insert_interval_ms: 10,
            evidence_interval_ms: 20,
            batch_receipts_max,
            drain_ms_max: 2_000,
            ..WriterConfig::default()
        };
        let deps = writer::Deps {
            consumer: Box::new(self.verdicts.consumer(writer::GROUP).unwrap()),
            evidence: Some(Box::new(self.verdicts.consumer(writer::EVIDENCE_GROUP).unwrap())),
            warehouse: self.warehouse.clone(),
            deletes_after_ms: None,
            cpu: self.cpu.clone(),
            health: self.health.clone(),
        };
        (
            stop.clone(),
            tokio::spawn(noted(Arc::clone(&self.failures), writer::run(config, deps, stop))),
        )
    }

    /// Waits until the tables cover the log up to `end_offset`.
    async fn stored_to(&self, end_offset: u64) {
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            let shards = self.warehouse.progress().await.unwrap();
            let partition = shards.first().and_then(|shard| shard.partitions.first());
            if partition.is_some_and(|one| one.next_offset == end_offset) {
                return;
            }
            let failures = self.failures.lock().clone();
            assert!(failures.is_empty(), "{failures:?} {shards:?}");
            let health = self.health.snapshot();
            assert!(
                Instant::now() < deadline,
                "the writer catches up to {end_offset}: {shards:?} {health:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until there is evidence of every receipt, and verifies it.
    async fn assert_evidence(&self, model: &Model) {
        let deadline = Instant::now() + Duration::from_secs(300);
        let query =
            "SELECT tupleElement(arrival, 3), toUnixTimestamp64Milli(tupleElement(arrival, 1)) FROM evidence FINAL";
        let rows = loop {
            let rows: Vec<(String, i64)> = self.warehouse.rows("test", SqlStatement::new(query)).await.unwrap();
            if rows.len() == model.accepted.len() {
                break rows;
            }
            assert!(
                rows.len() < model.accepted.len() && Instant::now() < deadline,
                "{}",
                rows.len()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        for (raw, received_at_ms) in rows {
            let arrival = Arrival {
                kind: BodyKind::Receipt,
                body: raw.as_bytes(),
                request_signature: None,
                received_at_ms,
            };
            let judged = self
                .judge
                .judge(&arrival, &|_, judged| matches!(judged, Judged::Verified(_)));
            assert_eq!(judged, [true], "{raw}");
        }
    }

    async fn assert_model(&self, model: &Model) {
        let totals = self.warehouse.totals().await.unwrap();
        let occurrences: u64 = model.accepted.values().sum();
        assert_eq!(
            (totals.receipts, totals.occurrences),
            (model.accepted.len() as u64, occurrences)
        );
        let rejected: Vec<_> = model
            .rejected
            .iter()
            .map(|(reason, count)| ((*reason).to_owned(), *count))
            .collect();
        assert_eq!(totals.rejected_by_reason, rejected);
        let progress = self.warehouse.progress().await.unwrap().remove(0);
        assert_eq!((progress.source_partitions, progress.partitions.len()), (1, 1));
        assert_eq!(progress.partitions[0].epoch, self.receipts.epoch());
        let committed: Vec<_> = progress.partitions.iter().map(PartitionProgress::committed).collect();
        let sums = self.warehouse.audit(&committed).await.unwrap();
        assert!(sums.findings.is_empty(), "{:?}", sums.findings);
        assert_eq!((sums.records, sums.uncommitted_positions), (model.records, 0));
        assert_eq!(sums.accepted, occurrences);
        assert_eq!(sums.rejected, model.rejected.values().sum::<u64>());
        self.assert_usage(model).await;
    }

    /// Compares `usage` with the model, each grain, and day by day with `receipts`.
    async fn assert_usage(&self, model: &Model) {
        let receipts = i64::try_from(model.accepted.len()).unwrap();
        let query = "SELECT toString(grain), sum(receipts) FROM usage GROUP BY grain ORDER BY grain";
        let grains: Vec<(String, i64)> = self.warehouse.rows("test", SqlStatement::new(query)).await.unwrap();
        assert_eq!(grains.len(), 5, "{grains:?}");
        assert!(
            grains.iter().all(|(_, sum)| *sum == receipts),
            "{grains:?} of {receipts}"
        );
        let query = "SELECT count() FROM (SELECT time, key FROM usage WHERE grain = 'counted'
            GROUP BY time, key HAVING sum(receipts) != 1)";
        assert_eq!(
            self.warehouse
                .one::<u64>("test", SqlStatement::new(query))
                .await
                .unwrap(),
            0
        );
        let query = "SELECT count() FROM (SELECT publisher, entry_id, day, sum(n) FROM (
                SELECT publisher, entry_id, toUInt32(toUnixTimestamp(toStartOfDay(timestamp))) AS day, toInt64(1) AS n
                FROM receipts FINAL
                UNION ALL
                SELECT publisher, entry_id, intDiv(time, 86400) * 86400, -receipts FROM usage WHERE grain = 'entry')
            GROUP BY ALL HAVING sum(n) != 0)";
        assert_eq!(
            self.warehouse
                .one::<u64>("test", SqlStatement::new(query))
                .await
                .unwrap(),
            0
        );
    }
}

fn open(directory: &Path) -> (EmbeddedLog, EmbeddedLog) {
    let config = EmbeddedConfig {
        segment_bytes: 8 << 20,
        record_bytes_max: 1 << 20,
        queue_bytes_max: 8 << 20,
        ..EmbeddedConfig::default()
    };
    let receipts = EmbeddedLog::open(&directory.join("log"), config.clone()).unwrap();
    let verdicts = EmbeddedLog::open_topic(Topic::Verdicts, &directory.join("verdicts"), config).unwrap();
    (receipts, verdicts)
}

/// Ends a verifier or a writer, as a crash or a stop.
async fn end<E: std::fmt::Debug>((stop, task): (CancellationToken, JoinHandle<Result<(), E>>)) {
    if rand::random_bool(0.5) {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    } else {
        stop.cancel();
        task.await.unwrap().unwrap();
    }
}

async fn random_history(world: &mut World) {
    let key = generate();
    let mut model = Model::default();
    let mut verifier = world.verifier(3);
    let mut writer = world.writer(10);
    for _ in 0..40 {
        for _ in 0..rand::random_range(0..5) {
            let record = model.record(&key);
            world.receipts.append(record).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..25))).await;
        match rand::random_range(0..6) {
            0 => {
                end(verifier).await;
                verifier = world.verifier(rand::random_range(1..8));
            }
            1 => {
                end(writer).await;
                writer = world.writer(rand::random_range(1..40));
            }
            2 => {
                end(verifier).await;
                end(writer).await;
                world.receipts.close();
                world.verdicts.close();
                if rand::random_bool(0.5) {
                    std::fs::remove_dir_all(world.directory.path().join("log/positions")).unwrap();
                    std::fs::remove_dir_all(world.directory.path().join("verdicts/positions")).unwrap();
                }
                (world.receipts, world.verdicts) = open(world.directory.path());
                verifier = world.verifier(rand::random_range(1..8));
                writer = world.writer(rand::random_range(1..40));
            }
            _ => {}
        }
    }
    world.receipts.append(model.record(&key)).await.unwrap();
    let end_offset = world.receipts.partitions(verifier::GROUP).await.unwrap()[0].end_offset;
    assert_eq!(end_offset, model.records);
    world.stored_to(end_offset).await;
    // An instant that covers everything follows without traffic.
    let now_ms = service::instant::now_ms();
    let deadline = Instant::now() + Duration::from_secs(300);
    while world.warehouse.progress().await.unwrap()[0].partitions[0].complete_through_ms < now_ms {
        assert!(Instant::now() < deadline, "the instant advances");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.assert_evidence(&model).await;
    verifier.0.cancel();
    verifier.1.await.unwrap().unwrap();
    writer.0.cancel();
    writer.1.await.unwrap().unwrap();
    world.assert_model(&model).await;
}

/// Engines are one per process, so the histories share a test.
#[test]
fn random_histories_with_restarts_match_the_model() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(4).enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("w.sock");
    runtime.block_on(async {
        let config = WarehouseConfig::default();
        let engine = EmbeddedEngine::start(&config, &directory.path().join("warehouse"), &socket)
            .await
            .unwrap();
        for history in 0..3 {
            let mut world = World::new(&socket, &format!("history_{history}")).await;
            random_history(&mut world).await;
        }
        engine.stop().await;
    });
}
