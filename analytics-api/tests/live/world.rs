//! The API over the real engine and progress that the test publishes: rows and the ledger first, as
//! a writer does, then progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use accounts::{Accounts, AccountsConfig, Scope, Tier};
use analytics_api::{AnalyticsConfig, Deps, Progress};
use blocks::{AcceptedRow, Rows};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use receipt_log::Position;
use service::health::Health;
use service::rate_limit::{InProcessLimiter, QuotasConfig};
use tempfile::TempDir;
use usage::Usage;
use uuid::Uuid;
use warehouse::{
    EmbeddedEngine, LedgerRow, PartitionProgress, ShardProgress, Touched, VerdictsPosition, Warehouse, WarehouseConfig,
    WarehouseError,
};

pub(crate) use crate::server::Server;
use crate::server::new_key;

/// 2026-03-30T20:00:00Z, in a day of 24 hours in UTC.
pub(crate) const NOON_MS: i64 = 1_774_900_800_000;
/// Epoch of both logs.
const EPOCH: u32 = 7;
const HOUR_MS: i64 = 3_600_000;

/// Progress of one shard over a log of two partitions.
#[derive(Debug)]
pub(crate) struct TestProgress {
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
struct State {
    next: [u64; 2],
    /// The next record of `verdicts`.
    verdicts: u64,
    complete_ms: i64,
}

impl TestProgress {
    fn new() -> Self {
        Self {
            state: Mutex::new(State {
                next: [0; 2],
                verdicts: 0,
                complete_ms: NOON_MS,
            }),
        }
    }

    /// As it is now, going its own way from then on.
    pub(crate) fn frozen(&self) -> Self {
        Self {
            state: Mutex::new(self.state.lock().clone()),
        }
    }

    /// Goes to where another is.
    pub(crate) fn catch_up(&self, other: &Self) {
        *self.state.lock() = other.state.lock().clone();
    }

    pub(crate) fn set_complete_ms(&self, complete_ms: i64) {
        self.state.lock().complete_ms = complete_ms;
    }
}

impl Progress for TestProgress {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<ShardProgress>, WarehouseError>> {
        let state = self.state.lock().clone();
        let partition = |(partition, next_offset)| PartitionProgress {
            epoch: EPOCH,
            partition,
            first_offset: 0,
            next_offset,
            complete_through_ms: state.complete_ms,
        };
        let published = ShardProgress {
            verdicts: VerdictsPosition {
                epoch: EPOCH,
                offset: state.verdicts,
            },
            source_partitions: 2,
            partitions: (0..).zip(state.next).map(partition).collect(),
            ..ShardProgress::default()
        };
        async move { Ok(vec![published]) }.boxed()
    }
}

/// A receipt that was delivered, and may be delivered again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Delivered {
    pub(crate) id: Uuid,
    publisher: String,
    timestamp_ms: i64,
    url: String,
}

pub(crate) struct World {
    pub(crate) warehouse: Warehouse,
    pub(crate) accounts: Accounts,
    pub(crate) progress: Arc<TestProgress>,
    pub(crate) metrics: PrometheusHandle,
    number: AtomicU64,
    engine: EmbeddedEngine,
    _dir: TempDir,
}

/// A publisher of one scenario.
pub(crate) struct Publisher {
    pub(crate) domain: String,
    pub(crate) key: String,
    pub(crate) key_id: String,
}

impl World {
    /// With the engine, which only the thread that started it may hold.
    pub(crate) async fn start() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let metrics = recorder.handle();
        metrics::set_global_recorder(recorder).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (files, socket) = (dir.path().join("warehouse"), dir.path().join("sock"));
        let engine = EmbeddedEngine::start(&WarehouseConfig::default(), &files, &socket)
            .await
            .unwrap();
        let config = AccountsConfig {
            cache_ms_max: 0,
            // Two thousand listeners wait for each other's look at their keys.
            wait_ms_max: 60_000,
            ..AccountsConfig::default()
        };
        let accounts = Accounts::open(&config, dir.path()).await.unwrap();
        Self {
            warehouse: engine.warehouse(),
            accounts,
            progress: Arc::new(TestProgress::new()),
            metrics,
            number: AtomicU64::new(1),
            engine,
            _dir: dir,
        }
    }

    pub(crate) async fn stop(self) {
        self.accounts.close().await;
        self.engine.stop().await;
    }

    pub(crate) async fn publisher(&self, domain: &str) -> Publisher {
        let expires_at_ms = self.accounts.now_ms() + 24 * HOUR_MS;
        let issued = new_key(&self.accounts, &[domain], Tier::Enterprise, Scope::Read, expires_at_ms).await;
        Publisher {
            domain: domain.to_owned(),
            key: issued.api_key,
            key_id: issued.key_id,
        }
    }

    pub(crate) fn receipt(&self, domain: &str) -> Delivered {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        Delivered {
            id: Uuid::from_u128((0xa << 96) | u128::from(number)),
            publisher: domain.to_owned(),
            timestamp_ms: NOON_MS - i64::try_from(number % 5).unwrap() * HOUR_MS,
            url: "https://example.org/1".to_owned(),
        }
    }

    pub(crate) fn receipts(&self, domain: &str, count: usize) -> Vec<Delivered> {
        (0..count).map(|_| self.receipt(domain)).collect()
    }

    /// With URLs of so many bytes.
    pub(crate) fn long_receipts(&self, domain: &str, count: usize, bytes: usize) -> Vec<Delivered> {
        let mut receipts = self.receipts(domain, count);
        for receipt in &mut receipts {
            receipt.url.extend(std::iter::repeat_n('x', bytes));
        }
        receipts
    }

    /// Stores a block, and publishes its progress.
    pub(crate) async fn deliver(&self, partition: u32, receipts: &[Delivered]) {
        self.write(partition, receipts, self.accounts.now_ms()).await;
        self.commit(partition, receipts.len());
    }

    pub(crate) fn commit(&self, partition: u32, records: usize) {
        let mut state = self.progress.state.lock();
        state.next[partition as usize] += records as u64;
        state.verdicts += 1;
    }

    /// Stores rows of the next block, and its ledger row with this instant.
    pub(crate) async fn write(&self, partition: u32, receipts: &[Delivered], committed_at_ms: i64) {
        let (first_offset, verdicts) = {
            let state = self.progress.state.lock();
            (state.next[partition as usize], state.verdicts)
        };
        let (mut rows, mut touched) = (Rows::default(), Touched::default());
        for (offset, receipt) in (first_offset..).zip(receipts) {
            let mut payload_hash = [0; 32];
            payload_hash[..16].copy_from_slice(receipt.id.as_bytes());
            let record = Position {
                epoch: EPOCH,
                partition,
                offset,
            };
            touched.add(receipt.timestamp_ms, &receipt.publisher);
            rows.push_accepted(&AcceptedRow {
                publisher: &receipt.publisher,
                timestamp_ms: receipt.timestamp_ms,
                entry_id: Uuid::from_u128(1),
                receipt_id: receipt.id,
                payload_hash: &payload_hash,
                position: record.receipt(0),
                received_at_ms: NOON_MS + i64::try_from(offset).unwrap(),
                url: &receipt.url,
                content_hash: &[7; 32],
                client_id: Uuid::from_u128(receipt.id.as_u128() % 3 + 1),
                client_name: "client",
                client_version: "1.0",
                organization: "Organization",
                key_fingerprint: &[9; 32],
                operator: if is_proven(receipt.id) { "ai.example" } else { "" },
                algorithm: "Ed25519",
                purpose: ["training", "inference", "research"][usize::from(receipt.id.as_bytes()[15] % 3)],
                context: "tests",
                request_id: "request",
                client_address: "192.0.2.1",
                kind: "receipt",
                raw: b"{}",
                origin: "record",
                ..AcceptedRow::default()
            });
        }
        let (accepted, _) = rows.batches().unwrap();
        let usage = Usage::new(self.warehouse.clone());
        usage.insert_counted(&[accepted]).await.unwrap();
        let count = receipts.len() as u64;
        let line = LedgerRow {
            epoch: EPOCH,
            partition,
            first_offset,
            last_offset: first_offset + count - 1,
            records: count,
            receipts_in: count,
            accepted: count,
            rejected: 0,
            verifier: "test".to_owned(),
            committed_at_ms,
            shard: 0,
            verdicts: VerdictsPosition {
                epoch: EPOCH,
                offset: verdicts,
            },
            touched,
        };
        self.warehouse.insert_ledger(&[line], None).await.unwrap();
    }

    /// Number of queries of this name so far.
    pub(crate) fn asked(&self, query: &str) -> u64 {
        let line = format!("receipts_warehouse_query_seconds_count{{query=\"{query}\"}} ");
        let shown = self.metrics.render();
        let count = shown.lines().find_map(|shown| shown.strip_prefix(&line));
        count.map_or(0, |count| count.parse().unwrap())
    }

    pub(crate) async fn server(&self, change: impl FnOnce(&mut AnalyticsConfig)) -> Server {
        self.server_over(Arc::clone(&self.progress), change).await
    }

    pub(crate) async fn server_over(
        &self,
        progress: Arc<TestProgress>,
        change: impl FnOnce(&mut AnalyticsConfig),
    ) -> Server {
        let mut config = AnalyticsConfig {
            live_interval_ms: 20,
            live_key_streams_max: 3_000,
            watermark_age_ms_max: 0,
            ..AnalyticsConfig::default()
        };
        change(&mut config);
        let quotas = QuotasConfig {
            enterprise_per_minute: 1_000_000,
            ..QuotasConfig::default()
        };
        let deps = Deps {
            warehouse: self.warehouse.clone(),
            accounts: self.accounts.clone(),
            progress,
            limiter: Arc::new(InProcessLimiter::new(100)),
            quotas,
            health: Health::new(),
        };
        Server::start(config, deps).await
    }
}

/// Whether the key of a receipt with this ID was an operator's on arrival: every second one's.
pub(crate) fn is_proven(receipt_id: Uuid) -> bool {
    receipt_id.as_u128().is_multiple_of(2)
}
