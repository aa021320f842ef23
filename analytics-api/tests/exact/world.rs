//! One warehouse with its API: the real embedded engine, a real account store, real HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use accounts::{
    Accounts, AccountsConfig, ChallengeWish, EntryAuthors, EntryContent, EntryTitle, EntryUrl, NewEntry, NewKey, Scope,
    Tier, VerificationMethod,
};
use analytics_api::{AnalyticsConfig, Deps};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use service::health::Health;
use service::rate_limit::{InProcessLimiter, QuotasConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use warehouse::{
    Below, CleanFrom, MarkRow, MetadataErasure, ReceiptRow, RejectedRow, RollBounds, RollStep, Target, Touched,
    Warehouse, WarehouseConfig,
};

use crate::asking::View;
use crate::calendar::{HOUR_MS, utc_text};
use crate::making::{Block, Maker, PARTITIONS, RECEIVED_MS, entry};
use crate::model::{Fact, Model, Refused};
use crate::progress::TestProgress;

/// Entries that the first account lists, with titles of its own.
const LISTED: [u128; 3] = [0, 2, 29];

/// A key and what it may see.
pub(crate) struct Reader {
    key: String,
    domains: Vec<&'static str>,
    /// A domain whose subdomains are meant too, and one that isn't with them.
    below: Option<(&'static str, &'static str)>,
    /// Whether [`LISTED`] are its entries.
    lists: bool,
}

impl Reader {
    pub(crate) fn sees(&self, publisher: &str) -> bool {
        let under = |domain: &str| publisher.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        self.domains.contains(&publisher)
            || self
                .below
                .is_some_and(|(parent, other)| under(parent) && publisher != other && !under(other))
    }

    /// Title and URL of an entry that the account lists.
    pub(crate) fn label(&self, id: uuid::Uuid) -> Option<(String, String)> {
        let listed = LISTED
            .iter()
            .find(|number| entry(**number) == id)
            .filter(|_| self.lists);
        listed.map(|number| (format!("Title {number}"), format!("https://news.example/own/{number}")))
    }

    fn scope(&self) -> warehouse::Scope {
        let below = self.below.map(|(parent, other)| Below {
            parent: parent.to_owned(),
            except: vec![other.to_owned()],
        });
        warehouse::Scope {
            publishers: self.domains.iter().map(ToString::to_string).collect(),
            below: below.into_iter().collect(),
        }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) struct World {
    pub(crate) warehouse: Warehouse,
    pub(crate) progress: Arc<TestProgress>,
    pub(crate) readers: Vec<Reader>,
    pub(crate) model: Model,
    pub(crate) maker: Maker,
    config: AnalyticsConfig,
    /// The greatest number of a roll.
    rolls: u32,
    /// A roll that was planned and not carried out yet.
    late_roll: Mutex<Vec<RollStep>>,
    api: Api,
    accounts: Accounts,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

/// Asks over HTTP.
#[derive(Clone)]
pub(crate) struct Api {
    address: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Api {
    pub(crate) async fn get(&self, reader: &Reader, path: &str, accept: &str) -> Answer {
        let request = Request::get(format!("http://{}{path}", self.address))
            .header("authorization", format!("Bearer {}", reader.key))
            .header("accept", accept);
        let answer = self.client.request(request.body(Empty::new()).unwrap()).await.unwrap();
        let (parts, body) = answer.into_parts();
        Answer {
            status: parts.status.as_u16(),
            body: body.collect().await.unwrap().to_bytes(),
        }
    }
}

impl World {
    /// In a database of its own of the engine behind `socket`. Nothing is rolled but by [`roll`](Self::roll).
    pub(crate) async fn new(socket: &Path, name: &str) -> Self {
        let rollups = AnalyticsConfig {
            rollups: false,
            ..AnalyticsConfig::default()
        };
        Self::with(socket, name, rollups).await
    }

    /// One whose API rolls all the time, little by little.
    pub(crate) async fn rolling(socket: &Path, name: &str) -> Self {
        let rollups = AnalyticsConfig {
            rollup_lag_ms: 0,
            rollup_interval_ms: 50,
            rollup_again_interval_ms: 100,
            rollup_percent_max: 50,
            rollup_rows_max: 1_000,
            rollup_check_interval_ms: 1_000,
            ..AnalyticsConfig::default()
        };
        Self::with(socket, name, rollups).await
    }

    async fn with(socket: &Path, name: &str, rollups: AnalyticsConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = WarehouseConfig {
            database: name.to_owned(),
            ..WarehouseConfig::default()
        };
        let warehouse = Warehouse::connect(&Target::Socket(socket.to_owned()), &config)
            .await
            .unwrap();
        warehouse.migrate().await.unwrap();
        let accounts = Accounts::open(&AccountsConfig::default(), dir.path()).await.unwrap();
        let readers = readers(&accounts).await;
        let progress = Arc::new(TestProgress::new(PARTITIONS as usize, RECEIVED_MS));
        let deps = Deps {
            warehouse: warehouse.clone(),
            accounts: accounts.clone(),
            progress: progress.clone(),
            limiter: Arc::new(InProcessLimiter::new(100)),
            quotas: QuotasConfig {
                enterprise_per_minute: u32::MAX,
                ..QuotasConfig::default()
            },
            health: Health::new(),
        };
        let config = AnalyticsConfig {
            // The watermark of an answer is the one that stands when it is asked.
            watermark_age_ms_max: 0,
            query_wait_ms_max: 60_000,
            ..rollups
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(analytics_api::run(listener, config.clone(), deps, shutdown.clone()));
        Self {
            warehouse,
            progress,
            readers,
            model: Model::default(),
            maker: Maker::new(jiff::Timestamp::now().as_millisecond()),
            config,
            rolls: 0,
            late_roll: Mutex::default(),
            api: Api {
                address,
                client: Client::builder(TokioExecutor::new()).build_http(),
            },
            accounts,
            shutdown,
            running,
            _dir: dir,
        }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap();
        self.accounts.close().await;
    }

    pub(crate) fn api(&self) -> Api {
        self.api.clone()
    }

    pub(crate) fn view<'a>(&'a self, reader: &'a Reader) -> View<'a> {
        View {
            model: &self.model,
            reader,
            points_max: self.config.points_max,
            series_max: self.config.series_max as usize,
        }
    }

    pub(crate) fn complete_through(&self) -> String {
        utc_text(self.progress.complete_ms.load(Ordering::SeqCst))
    }

    /// Stores the next block as a writer does, some of it twice.
    pub(crate) async fn verify_a_block(&mut self, rng: &mut StdRng) {
        let partition = rng.random_range(0..PARTITIONS);
        let first_offset = self.progress.next_offset(partition);
        let block = self.maker.block(rng, partition, first_offset);
        let half = rng.random_range(0..=block.accepted.len());
        write_receipts(&self.warehouse, &block.accepted[..half]).await;
        if rng.random_bool(0.3) {
            // Rolled before it is whole, before its mark is there, before its progress is
            // published.
            self.roll(rng).await;
        }
        write_receipts(&self.warehouse, &block.accepted[half..]).await;
        write_the_rest(&self.warehouse, &block).await;
        if rng.random_bool(0.3) {
            self.roll(rng).await;
        }
        if rng.random_bool(0.3) {
            write_receipts(&self.warehouse, &block.accepted).await;
            write_the_rest(&self.warehouse, &block).await;
        }
        block.told(&mut self.model);
        let line = std::slice::from_ref(&block.line);
        self.warehouse.insert_ledger(line).await.unwrap();
        self.progress.publish(&block.line);
        self.progress
            .complete_ms
            .fetch_max(block.line.committed_at_ms, Ordering::SeqCst);
    }

    /// Some of the roller's work, done to its end, broken off as by a crash, or left to a moment when others have done it.
    pub(crate) async fn roll(&mut self, rng: &mut StdRng) {
        for _ in 0..rng.random_range(1..5) {
            let bounds = RollBounds {
                settled_ms: jiff::Timestamp::now().as_millisecond() - rng.random_range(0..3) * HOUR_MS,
                rows_max: rng.random_range(1..2_000),
                clean_from: rng.random_bool(0.7).then(CleanFrom::default),
                even_day: rng.random_bool(0.7).then(|| {
                    let days = rng.random_range(0..400);
                    u32::try_from(jiff::Timestamp::now().as_millisecond() / (24 * HOUR_MS) - days).unwrap()
                }),
            };
            let plan = self
                .warehouse
                .plan_roll(&self.progress.offsets(), &bounds, &[])
                .await
                .unwrap();
            if !plan.is_needed() {
                continue;
            }
            self.rolls = self.rolls.max(plan.number_above()) + 1;
            let mut steps = plan.into_steps(self.rolls).unwrap();
            match rng.random_range(0..10) {
                0 => steps.truncate(rng.random_range(0..steps.len())),
                1 => std::mem::swap(&mut steps, self.late_roll.get_mut()),
                _ => {}
            }
            for step in steps {
                self.warehouse.roll_step(step).await.unwrap();
            }
        }
    }

    /// Takes out what tells of clients of one of the accounts before some moment.
    pub(crate) async fn erase(&mut self, rng: &mut StdRng) {
        let reader = &self.readers[rng.random_range(0..self.readers.len())];
        let before_ms = match rng.random_range(0..4) {
            0 => RECEIVED_MS + rng.random_range(0..1_000_000),
            _ => self.maker.any_time(rng),
        };
        let erasure = MetadataErasure {
            scope: reader.scope(),
            before_ms,
        };
        self.warehouse
            .erase_metadata(&erasure, std::time::Duration::ZERO)
            .await
            .unwrap();
        self.model.erase(|publisher| reader.sees(publisher), before_ms);
    }
}

/// The receipts of a block.
pub(crate) async fn write_receipts(warehouse: &Warehouse, accepted: &[(Fact, u128, i64)]) {
    let mut bytes = Vec::new();
    for (fact, position, received_ms) in accepted {
        row(fact, *position, *received_ms).encode(&mut bytes);
    }
    let count = accepted.len() as u64;
    if count > 0 {
        let rows = vec![Bytes::from(bytes)];
        warehouse.insert_receipts(rows, count).await.unwrap();
    }
}

/// All other rows of a block but its ledger row.
pub(crate) async fn write_the_rest(warehouse: &Warehouse, block: &Block) {
    let mut mark = MarkRow {
        epoch: block.line.epoch,
        partition: block.line.partition,
        first_offset: block.line.first_offset,
        last_offset: block.line.last_offset,
        touched: Touched::default(),
    };
    for (fact, _, _) in &block.accepted {
        mark.touched.add(fact.timestamp_ms, fact.publisher);
    }
    warehouse.insert_marks(&[mark]).await.unwrap();
    let mut bytes = Vec::new();
    for refused in &block.refused {
        refused_row(refused).encode(&mut bytes);
    }
    let count = block.refused.len() as u64;
    if count > 0 {
        warehouse
            .insert_rejected(vec![Bytes::from(bytes)], count)
            .await
            .unwrap();
    }
}

fn row(fact: &Fact, position: u128, received_at_ms: i64) -> ReceiptRow<'_> {
    ReceiptRow {
        publisher: fact.publisher,
        timestamp_ms: fact.timestamp_ms,
        entry_id: fact.entry_id,
        receipt_id: fact.receipt_id,
        payload_hash: &fact.payload_hash,
        position,
        received_at_ms,
        url: &fact.url,
        content_hash: &[7; 32],
        client_id: fact.client_id,
        client_name: &fact.name,
        client_version: &fact.version,
        organization: &fact.organization,
        key_fingerprint: &[9; 32],
        algorithm: "Ed25519",
        purpose: fact.purpose,
        context: "tests",
        dataset_id: "",
        model_id: &fact.model_id,
        query_id: "",
        session_id: "",
        study_id: "",
        researcher_id: "",
    }
}

fn refused_row(refused: &Refused) -> RejectedRow<'_> {
    RejectedRow {
        position: refused.position,
        reason: refused.reason,
        detail: &refused.detail,
        publisher: refused.publisher,
        receipt_id: refused.receipt_id,
        client_id: refused.client_id,
        entry_id: None,
        payload_hash: None,
        received_at_ms: refused.received_ms,
        request_id: &refused.request_id,
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{}",
        request_signature: None,
        origin: "record",
    }
}

/// Three accounts: one with subdomains and entries, the one that has a subdomain of it, and one with a single domain.
async fn readers(accounts: &Accounts) -> Vec<Reader> {
    let expires_at_ms = jiff::Timestamp::now().as_millisecond() + 86_400_000;
    let mut readers = Vec::new();
    for (domains, below, lists) in [
        (
            vec!["blog.example", "news.example"],
            Some(("news.example", "rival.news.example")),
            true,
        ),
        (vec!["rival.news.example"], None, false),
        (vec!["other.example"], None, false),
    ] {
        let new = NewKey {
            domains: domains.iter().map(|domain| domain.parse().unwrap()).collect(),
            tier: Some(Tier::Enterprise),
            name: "test".to_owned(),
            scopes: vec![Scope::Read],
            expires_at_ms,
        };
        let issued = accounts.create_publisher_key(new).await.unwrap().issued;
        if let Some((parent, _)) = below {
            let wish = ChallengeWish {
                account_id: &issued.account_id,
                actor: "test",
                domains: &[parent.parse().unwrap()],
                method: VerificationMethod::Dns,
                include_subdomains: true,
            };
            let challenge = accounts.create_challenges(&wish).await.unwrap().remove(0).challenge;
            accounts.verify("test", &challenge).await.unwrap();
        }
        if lists {
            list(accounts, &issued.account_id).await;
        }
        readers.push(Reader {
            key: issued.api_key,
            domains,
            below,
            lists,
        });
    }
    readers
}

async fn list(accounts: &Accounts, account_id: &str) {
    let new = LISTED.map(|number| NewEntry {
        id: entry(number),
        content: EntryContent {
            url: EntryUrl::parse(&format!("https://news.example/own/{number}")).unwrap(),
            title: EntryTitle::parse(format!("Title {number}")).unwrap(),
            authors: EntryAuthors::default(),
        },
    });
    let created = accounts
        .create_entries(account_id, "test", new.into(), 100)
        .await
        .unwrap();
    assert_eq!(created.len(), LISTED.len());
}
