//! Kafka, three ClickHouse servers, an account store, and verifiers and writers on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::{
    Accounts, AccountsConfig, ClientPolicy, EntryPolicy, NewShardMapEntry, Policy, RegistryCache, RegistryConfig,
    ShardMapCache,
};
use receipt::{Judge, Limits};
use receipt_log::{EmbeddedConfig, KafkaConfig, Log};
use service::cpu::CpuPool;
use service::health::Health;
use test_engines::{ClickHouse, Kafka};
use tokio::task::{JoinHandle, block_in_place};
use tokio_util::sync::CancellationToken;
use usage::Usage;
use verifier::{Policies, VerifierConfig};
use warehouse::{AuditSums, MetadataErasure, QueryScope, SqlStatement, Target, Warehouse, WarehouseConfig};
use writer::WriterConfig;

use crate::load::{LARGE, Model};

const DAY_MS: i64 = 86_400_000;
const WAIT_MAX: Duration = Duration::from_secs(180);
const SHARDS_MAX: u32 = 3;
const CLUSTER: &str = "receipts";
/// A verifier waits if what it knows of the registry is older.
pub(crate) const REGISTRY_STALE_MS_MAX: u64 = 2_000;
/// Partitions of the log `receipts` at the start.
pub(crate) const PARTITIONS: u32 = 4;

pub(crate) struct Installation {
    pub(crate) receipts: Log,
    verdicts: Log,
    kafka_config: KafkaConfig,
    config: WarehouseConfig,
    pub(crate) accounts: Accounts,
    /// The policy of the verifiers that start from now on.
    pub(crate) policy: Policy,
    cpu: CpuPool,
    judge: Arc<Judge>,
    clickhouse: ClickHouse,
    // Dropped last.
    kafka: Kafka,
    directory: tempfile::TempDir,
}

/// A running verifier or writer.
pub(crate) struct Process {
    stop: CancellationToken,
    task: JoinHandle<Result<(), String>>,
}

impl Process {
    fn new(run: impl Future<Output = Result<(), String>> + Send + 'static, stop: CancellationToken) -> Self {
        Self {
            stop,
            task: tokio::spawn(run),
        }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Ends it in the middle of its work.
    pub(crate) async fn kill(self) {
        assert!(!self.task.is_finished());
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        self.stop.cancel();
    }
}

impl Installation {
    pub(crate) async fn start() -> Self {
        let (kafka, clickhouse) = block_in_place(|| {
            let setting = ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500");
            (Kafka::start_with(&[setting]).unwrap(), ClickHouse::start(3).unwrap())
        });
        let directory = tempfile::tempdir().unwrap();
        let config = KafkaConfig {
            brokers: kafka.bootstrap().to_owned(),
            partitions: PARTITIONS,
            verdicts_partitions: SHARDS_MAX,
            replication_factor: 1,
            min_insync_replicas: 1,
            session_wait_ms_max: 6_000,
            transaction_wait_ms_max: 4_000,
            ..KafkaConfig::default()
        };
        let embedded = EmbeddedConfig::default();
        let (receipts, verdicts) = block_in_place(|| {
            let receipts = Log::open(&config, &embedded, directory.path()).unwrap();
            (
                receipts,
                Log::open_verdicts(&config, &embedded, directory.path()).unwrap(),
            )
        });
        // Entries take effect a day after their registration: so this clock is three weeks slow.
        let clock = || service::instant::now_ms() - 21 * DAY_MS;
        let accounts = Accounts::open_with_clock(&AccountsConfig::default(), directory.path(), clock).await;
        let mut installation = Self {
            receipts,
            verdicts,
            kafka_config: config,
            config: WarehouseConfig {
                url: Some(clickhouse.url(0)),
                cluster: Some(CLUSTER.to_owned()),
                ..WarehouseConfig::default()
            },
            accounts: accounts.unwrap(),
            policy: Policy {
                clients: ClientPolicy::Open,
                entries: EntryPolicy::Counted,
            },
            cpu: CpuPool::parallel("test", 2, 64).unwrap(),
            judge: Arc::new(Judge::new(Limits::default(), 100)),
            clickhouse,
            kafka,
            directory,
        };
        installation.add_shard().await;
        installation
    }

    pub(crate) fn clickhouse(&self) -> &ClickHouse {
        &self.clickhouse
    }

    pub(crate) fn kafka(&self) -> &Kafka {
        &self.kafka
    }

    /// The data directory, which has the account store.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes the present configuration to a file.
    pub(crate) fn configuration(&self) -> PathBuf {
        let path = self.directory.path().join("receipts.toml");
        let (kafka, warehouse) = (&self.kafka_config, &self.config);
        let text = format!(
            "[kafka]\nbrokers = {:?}\npartitions = {}\nverdicts_partitions = {}\nreplication_factor = 1\n\
             min_insync_replicas = 1\n[warehouse]\nurl = {:?}\ncluster = {CLUSTER:?}\nshards = {:?}\n",
            kafka.brokers,
            PARTITIONS + 1,
            kafka.verdicts_partitions,
            warehouse.url.as_deref().unwrap(),
            warehouse.shards,
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Opens the log `verdicts` that has replaced a lost one.
    pub(crate) fn reopen_verdicts(&mut self) {
        let open = || Log::open_verdicts(&self.kafka_config, &EmbeddedConfig::default(), self.directory.path());
        let opened = block_in_place(open).unwrap();
        let lost = std::mem::replace(&mut self.verdicts, opened);
        block_in_place(|| lost.close());
    }

    /// A client with the present configuration.
    pub(crate) async fn warehouse(&self) -> Warehouse {
        let target = Target::Url(self.config.url.clone().unwrap());
        Warehouse::connect(&target, &self.config).await.unwrap()
    }

    /// Adds a shard to ClickHouse's cluster and to the configuration, and makes its tables.
    pub(crate) async fn add_shard(&mut self) {
        let number = self.config.shards.len();
        let url = self.clickhouse.url(number);
        self.config.shards.push(format!("{url}/receipts_{number}"));
        let databases: Vec<String> = (0..=number).map(|number| format!("receipts_{number}")).collect();
        let shards: Vec<(usize, &str)> = databases.iter().map(String::as_str).enumerate().collect();
        block_in_place(|| self.clickhouse.set_cluster(CLUSTER, &shards).unwrap());
        self.warehouse().await.migrate().await.unwrap();
    }

    /// Appends an entry to the shard map. `from` is counted in days from today.
    pub(crate) async fn register(&self, from: i64, shards: u32, splits: &[(&str, u32)]) {
        let entry = NewShardMapEntry {
            from_day: service::instant::now_ms().div_euclid(DAY_MS) + from,
            shards,
            splits: splits
                .iter()
                .map(|(of, shards)| (of.parse().unwrap(), *shards))
                .collect(),
        };
        self.accounts.add_shard_map_entry(&entry).await.unwrap();
    }

    pub(crate) async fn verifier(&self) -> Process {
        let stop = CancellationToken::new();
        let registry = RegistryConfig {
            refresh_ms: 20,
            stale_ms_max: REGISTRY_STALE_MS_MAX,
            ..RegistryConfig::default()
        };
        let config = VerifierConfig {
            block_wait_ms_max: 20,
            idle_interval_ms: 500,
            ..VerifierConfig::default()
        };
        let deps = verifier::Deps {
            processor: block_in_place(|| self.receipts.processor(verifier::GROUP, &self.verdicts).unwrap()),
            receipts: self.receipts.inspector(),
            verdicts: self.verdicts.inspector(),
            policies: Some(Policies {
                policy: self.policy,
                registry: RegistryCache::start(self.accounts.clone(), registry, stop.clone()),
            }),
            shard_map: Some(ShardMapCache::start(self.accounts.clone(), stop.clone())),
            cpu: self.cpu.clone(),
            judge: Arc::clone(&self.judge),
            health: Health::new(),
        };
        let run = verifier::run(config, deps, stop.clone());
        Process::new(async { run.await.map_err(|error| error.to_string()) }, stop)
    }

    pub(crate) async fn writer(&self) -> Process {
        let stop = CancellationToken::new();
        let config = WriterConfig {
            rebuild_poll_interval_ms: 200,
            evidence_interval_ms: 500,
            ..WriterConfig::default()
        };
        let deps = writer::Deps {
            consumer: block_in_place(|| self.verdicts.consumer(writer::GROUP).unwrap()),
            evidence: Some(block_in_place(|| {
                self.verdicts.consumer(writer::EVIDENCE_GROUP).unwrap()
            })),
            warehouse: self.warehouse().await,
            deletes_after_ms: self.verdicts.deletes_after_ms(),
            cpu: self.cpu.clone(),
            health: Health::new(),
        };
        let run = writer::run(config, deps, stop.clone());
        Process::new(async { run.await.map_err(|error| error.to_string()) }, stop)
    }

    /// Waits until a verifier has appended something for the shard.
    pub(crate) async fn until_shard_has_verdicts(&self, shard: u32) {
        let verdicts = self.verdicts.inspector();
        until(async || {
            let last = verdicts.last(shard).await.unwrap();
            last.map(drop).ok_or_else(|| format!("shard {shard} has no verdicts"))
        })
        .await;
    }

    /// Waits until the tables of all shards have every receipt.
    pub(crate) async fn until_stored(&self, model: &Model) {
        let wanted = model.occurrences + model.rejected;
        self.until_counted("SELECT sum(receipts_in) FROM ledger FINAL", wanted)
            .await;
    }

    /// Waits until a query returns this number. More is an error.
    async fn until_counted(&self, sql: &str, wanted: u64) {
        let warehouse = self.warehouse().await;
        until(async || {
            let found: u64 = warehouse.one("test", SqlStatement::new(sql)).await.unwrap();
            assert!(found <= wanted, "{found} instead of {wanted}: {sql}");
            let progress = warehouse.progress().await.unwrap();
            let missing = || format!("{found} of {wanted}: {sql}, {progress:?}");
            (found == wanted).then_some(()).ok_or_else(missing)
        })
        .await;
    }

    /// Waits until all shards are complete through an instant.
    pub(crate) async fn until_complete_through(&self, instant_ms: i64) {
        let warehouse = self.warehouse().await;
        until(async || {
            let progress = warehouse.progress().await.unwrap();
            let through_ms = analytics_api::progress::complete_through_ms(&progress, service::instant::now_ms());
            if through_ms.is_ok_and(|through_ms| through_ms > instant_ms) {
                assert_eq!(progress.len(), SHARDS_MAX as usize);
                return Ok(());
            }
            Err(format!("{through_ms:?}: {progress:?}"))
        })
        .await;
    }

    /// Waits until there is evidence of every receipt.
    pub(crate) async fn until_evidence(&self, model: &Model) {
        let sql = "SELECT count() FROM evidence FINAL WHERE tupleElement(arrival, 3) != ''";
        self.until_counted(sql, model.distinct).await;
    }

    /// Adds partitions to the topic of the log `receipts`, as an operator would.
    pub(crate) async fn add_partitions(&self, partitions: u32) {
        let topic = KafkaConfig::default().topic;
        self.kafka.add_partitions(&topic, partitions).await.unwrap();
    }

    /// Waits until every shard has verdicts on a partition of `receipts`.
    pub(crate) async fn until_partition_is_stored(&self, partition: u32) {
        let sql = format!("SELECT uniqExact(shard) FROM ledger WHERE partition = {partition}");
        self.until_counted(&sql, u64::from(SHARDS_MAX)).await;
    }

    /// Copies a shard's tables in the order that docs/exactness.md names.
    pub(crate) fn copy_shard(&self, number: usize) {
        let run = |sql: &str| block_in_place(|| self.clickhouse.query(number, sql).unwrap());
        let from = format!("receipts_{number}");
        run(&format!("CREATE DATABASE copy_{number}"));
        let tables = run(&format!(
            "SELECT name FROM system.tables WHERE database = '{from}'
             ORDER BY name NOT IN ('progress', 'evidence_progress'), name != 'ledger', rand()"
        ));
        for table in tables.lines() {
            run(&format!("CREATE TABLE copy_{number}.{table} AS {from}.{table}"));
            run(&format!(
                "INSERT INTO copy_{number}.{table} SELECT * FROM {from}.{table}"
            ));
        }
    }

    /// Replaces a shard's tables by their copy.
    pub(crate) fn restore_shard(&self, number: usize) {
        let run = |sql: &str| block_in_place(|| self.clickhouse.query(number, sql).unwrap());
        // A killed writer's last insert may still run.
        while run("SELECT count() FROM system.processes WHERE startsWith(query_id, 'receipts-writer-')") != "0\n" {}
        run(&format!("DROP DATABASE receipts_{number} SYNC"));
        run(&format!("RENAME DATABASE copy_{number} TO receipts_{number}"));
    }

    /// Checks that databases which aren't what the configuration says are refused.
    pub(crate) async fn assert_misplaced_databases_are_refused(&self) {
        let warehouse = self.warehouse().await;
        let shards = warehouse.shards();
        assert_eq!(shards[0].writer_of_other_shard(0).await.unwrap(), None);
        assert_eq!(shards[1].writer_of_other_shard(0).await.unwrap(), Some(1));
        block_in_place(|| {
            for sql in [
                "CREATE DATABASE old",
                "CREATE TABLE old.receipts (number UInt8) ENGINE = MergeTree ORDER BY number",
            ] {
                self.clickhouse.query(0, sql).unwrap();
            }
        });
        let migrated = async |config: WarehouseConfig| {
            let target = Target::Url(config.url.clone().unwrap());
            let warehouse = Warehouse::connect(&target, &config).await.unwrap();
            warehouse.migrate().await.unwrap_err().to_string()
        };
        let own_tables = WarehouseConfig {
            database: "old".to_owned(),
            ..self.config.clone()
        };
        let refused = migrated(own_tables).await;
        assert!(refused.contains("`old` has tables of its own"), "{refused}");
        let mut swapped = self.config.clone();
        swapped.shards.swap(0, 1);
        let refused = migrated(swapped).await;
        assert!(refused.contains("in their order"), "{refused}");
    }

    /// Compares the tables of all shards with the model.
    pub(crate) async fn assert_equal(&self, model: &Model) {
        let warehouse = self.warehouse().await;
        let totals = warehouse.totals().await.unwrap();
        assert_eq!(
            (totals.receipts, totals.occurrences),
            (model.distinct, model.occurrences)
        );
        for (table, sql) in [
            (
                "receipts",
                "SELECT publisher, toInt64(toRelativeDayNum(timestamp)), count() FROM receipts FINAL GROUP BY ALL",
            ),
            (
                "usage",
                "SELECT publisher, toInt64(intDiv(time, 86400)), toUInt64(sum(receipts)) FROM usage
                 WHERE grain = 'entry' GROUP BY ALL",
            ),
        ] {
            let rows: Vec<(String, i64, u64)> = warehouse.rows("test", SqlStatement::new(sql)).await.unwrap();
            let counted: BTreeMap<_, _> = rows
                .into_iter()
                .map(|(name, day, count)| ((name, day), count))
                .collect();
            assert_eq!(counted, model.receipts, "{table}");
        }
        // A receipt and its duplicates are in one shard.
        let spread = "SELECT count() FROM (
            SELECT publisher, receipt_id FROM receipts GROUP BY ALL HAVING uniqExact(_shard_num) > 1)";
        assert_eq!(
            warehouse.one::<u64>("test", SqlStatement::new(spread)).await.unwrap(),
            0
        );
        let used = "SELECT uniqExactIf(_shard_num, publisher != {large:String}),
                uniqExactIf(_shard_num, publisher = {large:String}) FROM receipts";
        let call = SqlStatement::new(used).with("large", LARGE.to_owned());
        assert_eq!(warehouse.one::<(u64, u64)>("test", call).await.unwrap(), (3, 3));
        let usage = Usage::new(warehouse.clone());
        for day in usage.days(i64::MIN, i64::MAX).await.unwrap() {
            assert_eq!(usage.check_day(day).await.unwrap(), []);
        }
        for (reason, wanted) in [
            ("client_key_revoked", model.of_revoked_key),
            ("client_key_unknown", model.of_unknown_key),
        ] {
            let sql = "SELECT count() FROM rejected FINAL WHERE reason = {reason:String}";
            let call = SqlStatement::new(sql).with("reason", reason);
            assert_eq!(warehouse.one::<u64>("test", call).await.unwrap(), wanted, "{reason}");
        }
        let mut sums = AuditSums::default();
        for (number, shard) in (0..).zip(warehouse.shards()) {
            let stored = writer::resumption::stored(shard, number).await.unwrap();
            let of_shard = shard.audit(&stored.committed()).await.unwrap();
            assert!(of_shard.receipts_in > 0, "shard {number} has something");
            sums.add(of_shard);
        }
        assert!(sums.findings.is_empty(), "{:?}", sums.findings);
        assert_eq!((sums.accepted, sums.rejected), (model.occurrences, model.rejected));
        assert_eq!(
            (sums.stored_occurrences, sums.receipts),
            (model.occurrences, model.distinct)
        );
        // The shards' lines of a block add up to it.
        for partition in 0..=PARTITIONS {
            let lines = warehouse
                .ledger(self.epoch().await, partition, 0, 100_000)
                .await
                .unwrap();
            let mut end = 0;
            for line in lines {
                assert_eq!(line.first_offset, end, "partition {partition}");
                end = line.last_offset + 1;
            }
        }
    }

    /// Checks that the audit of a later shard misses its first ledger lines, if they are lost.
    pub(crate) async fn assert_lost_lines_are_found(&self) {
        let warehouse = self.warehouse().await;
        let shard = warehouse.shard(2).unwrap();
        let committed = writer::resumption::stored(shard, 2).await.unwrap().committed();
        let mut lost = 0;
        for one in &committed {
            let first = shard.first_offset(one.epoch, one.partition).await.unwrap();
            lost += u64::from(first > 0);
            shard
                .delete_ledger_lines(one.epoch, one.partition, &[first])
                .await
                .unwrap();
        }
        assert!(lost > 0, "the shard was added later");
        let sums = shard.audit(&committed).await.unwrap();
        let gaps = sums.findings.iter().filter(|finding| finding.kind == "ledger_gap");
        assert_eq!(gaps.count(), committed.len(), "{:?}", sums.findings);
    }

    async fn epoch(&self) -> u32 {
        let states = self.receipts.inspector().partitions(verifier::GROUP).await.unwrap();
        states[0].epoch
    }

    /// Erases a publisher's clients in all shards, and rebuilds its usage.
    pub(crate) async fn erase(&self, publisher: &str) {
        let warehouse = self.warehouse().await;
        let erasure = MetadataErasure {
            scope: QueryScope::of(vec![publisher.to_owned()]),
            before_ms: service::instant::now_ms() + DAY_MS,
            person: None,
        };
        assert!(!warehouse.metadata_left(&erasure).await.unwrap().is_none());
        warehouse.erase_metadata(&erasure).await.unwrap();
        assert!(warehouse.metadata_left(&erasure).await.unwrap().is_none());
        let usage = Usage::new(warehouse);
        assert!(usage.clients_left(&erasure.scope, erasure.before_ms).await.unwrap() > 0);
        let request = usage.request_rebuild(&erasure.scope, erasure.before_ms).await.unwrap();
        until(async || {
            let is_rebuilt = usage.is_rebuilt(request).await.unwrap();
            is_rebuilt.then_some(()).ok_or_else(|| "usage isn't rebuilt".to_owned())
        })
        .await;
        assert_eq!(usage.clients_left(&erasure.scope, erasure.before_ms).await.unwrap(), 0);
        usage.remove_compensated(&erasure.scope).await.unwrap();
        assert_eq!(usage.compensated_left(&erasure.scope).await.unwrap(), 0);
    }
}

/// Asks again and again until the answer is `Ok`. An `Err` names what is missing.
async fn until(state: impl AsyncFn() -> Result<(), String>) {
    let deadline = Instant::now() + WAIT_MAX;
    while let Err(missing) = state().await {
        assert!(Instant::now() < deadline, "{missing}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        block_in_place(|| {
            self.receipts.close();
            self.verdicts.close();
        });
        let _ = &self.directory;
    }
}
