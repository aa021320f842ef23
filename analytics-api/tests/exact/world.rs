//! Warehouse with its API: the real embedded engine, a real account store, real HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use accounts::{
    Accounts, AccountsConfig, ChallengeRequest, EntryAuthors, EntryContent, EntryTitle, EntryUrl, NewEntry, Scope,
    Tier, VerificationMethod,
};
use analytics_api::{AnalyticsConfig, Deps};
use blocks::{AcceptedRow, RejectedRow, Rows};
use rand::RngExt;
use rand::rngs::StdRng;
use service::health::Health;
use service::rate_limit::{InProcessLimiter, QuotasConfig};
use test_engines::http::{Answer, HttpClient};
use usage::{RebuildRequest, Usage};
use uuid::Uuid;
use warehouse::{Below, MetadataErasure, Target, Warehouse, WarehouseConfig};

use crate::asking::View;
use crate::calendar::{HOUR_MS, utc_text};
use crate::making::{Block, Maker, PARTITIONS, RECEIVED_MS, entry};
use crate::model::{Fact, Model, Refused};
use crate::progress::TestProgress;
use crate::server::{Server, new_key};

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

    fn scope(&self) -> warehouse::QueryScope {
        let below = self.below.map(|(parent, other)| Below {
            parent: parent.to_owned(),
            except: vec![other.to_owned()],
        });
        warehouse::QueryScope {
            publishers: self.domains.iter().map(ToString::to_string).collect(),
            below: below.into_iter().collect(),
        }
    }
}

pub(crate) struct World {
    pub(crate) warehouse: Warehouse,
    pub(crate) progress: Arc<TestProgress>,
    pub(crate) readers: Vec<Reader>,
    pub(crate) model: Model,
    pub(crate) maker: Maker,
    config: AnalyticsConfig,
    api: Api,
    accounts: Accounts,
    server: Server,
    _dir: tempfile::TempDir,
}

/// Asks over HTTP.
#[derive(Clone)]
pub(crate) struct Api {
    address: SocketAddr,
    client: HttpClient,
}

impl Api {
    pub(crate) async fn get(&self, reader: &Reader, path: &str, accept: &str) -> Answer {
        let headers = [("accept", accept)];
        self.client.get(self.address, path, &reader.key, &headers).await
    }
}

/// A warehouse that is empty.
#[derive(Debug, Clone)]
pub(crate) struct EmptyWarehouse {
    pub(crate) target: Target,
    pub(crate) config: WarehouseConfig,
}

impl EmptyWarehouse {
    /// A database of its own of the engine behind `socket`.
    pub(crate) fn embedded(socket: &Path, database: &str) -> Self {
        Self {
            target: Target::Socket(socket.to_owned()),
            config: WarehouseConfig {
                database: database.to_owned(),
                // The rows of these tests are of fixed days.
                rejected_days_max: 2_557,
                ..WarehouseConfig::default()
            },
        }
    }
}

impl World {
    /// In a database, or in the databases of several shards, that aren't there yet.
    pub(crate) async fn new(EmptyWarehouse { target, config }: &EmptyWarehouse) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let warehouse = Warehouse::connect(target, config).await.unwrap();
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
            // The watermark of an answer is the one at the time of the query.
            watermark_age_ms_max: 0,
            query_wait_ms_max: 60_000,
            ..AnalyticsConfig::default()
        };
        let config = if warehouse.shards().len() > 1 {
            // The first shard has all ledger rows and not all receipts, so an audit finds some
            // missing.
            AnalyticsConfig {
                audit_interval_ms: 3_600_000,
                ..config
            }
        } else {
            config
        };
        let server = Server::start(config.clone(), deps).await;
        Self {
            warehouse,
            progress,
            readers,
            model: Model::default(),
            maker: Maker::new(jiff::Timestamp::now().as_millisecond()),
            config,
            api: Api {
                address: server.address,
                client: HttpClient::default(),
            },
            accounts,
            server,
            _dir: dir,
        }
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
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
        if rng.random_bool(0.3) {
            // A writer that stopped before it counted.
            let stored = &block.accepted[..rng.random_range(0..=half)];
            for (shard, own) in by_shard(&self.warehouse, stored) {
                let (accepted, _) = rows(&own, &[]).batches().unwrap();
                shard.insert_accepted(&[accepted], None).await.unwrap();
            }
        }
        write_receipts(&self.warehouse, &block.accepted[..half]).await;
        write_receipts(&self.warehouse, &block.accepted[half..]).await;
        write_the_rest(&self.warehouse, &block).await;
        if rng.random_bool(0.3) {
            write_receipts(&self.warehouse, &block.accepted).await;
            write_the_rest(&self.warehouse, &block).await;
        }
        block.add_to(&mut self.model);
        write_the_line(&self.warehouse, &block).await;
        self.progress.publish(&block.line);
        self.progress
            .complete_ms
            .fetch_max(block.line.committed_at_ms, Ordering::SeqCst);
    }

    /// Takes out what identifies clients of one of the accounts before some moment.
    pub(crate) async fn erase(&mut self, rng: &mut StdRng) {
        let reader = &self.readers[rng.random_range(0..self.readers.len())];
        let before_ms = match rng.random_range(0..4) {
            0 => RECEIVED_MS + rng.random_range(0..1_000_000),
            _ => self.maker.any_time(rng),
        };
        let erasure = MetadataErasure {
            scope: reader.scope(),
            before_ms,
            person: None,
        };
        self.warehouse.erase_metadata(&erasure).await.unwrap();
        // Receipts of this test may have timestamps months after their arrival.
        let request = RebuildRequest {
            id: Uuid::new_v4(),
            scope: erasure.scope,
            before_ms: i64::MAX,
        };
        for shard in self.warehouse.shards() {
            let usage = Usage::new(shard.clone());
            usage.execute_rebuild(&request, None).await.unwrap();
        }
        self.model.erase(|publisher| reader.sees(publisher), before_ms);
    }
}

/// Receipts with their positions and the instants of their arrivals.
type Accepted = (Fact, u128, i64);

/// Receipts by the shard that has them: by publisher and day, and of one publisher by their IDs,
/// too.
fn by_shard<'a>(warehouse: &'a Warehouse, accepted: &[Accepted]) -> Vec<(&'a Warehouse, Vec<Accepted>)> {
    let shards = warehouse.shards();
    let mut found: Vec<_> = shards.iter().map(|shard| (shard, Vec::new())).collect();
    for one in accepted {
        let fact = &one.0;
        let day = fact.timestamp_ms.div_euclid(24 * HOUR_MS).unsigned_abs();
        let part = match fact.publisher {
            "news.example" => u64::from(fact.receipt_id.as_bytes()[15]),
            other => other.len() as u64,
        };
        let shard = usize::try_from((day + part) % shards.len() as u64).unwrap();
        found[shard].1.push(one.clone());
    }
    found
}

/// The receipts of a block, stored and counted.
pub(crate) async fn write_receipts(warehouse: &Warehouse, accepted: &[Accepted]) {
    for (shard, own) in by_shard(warehouse, accepted) {
        let (accepted, _) = rows(&own, &[]).batches().unwrap();
        let usage = Usage::new(shard.clone());
        usage.insert_counted(&[accepted]).await.unwrap();
    }
}

/// All other rows of a block but its ledger row.
pub(crate) async fn write_the_rest(warehouse: &Warehouse, block: &Block) {
    let shards = warehouse.shards();
    for (shard, refused) in shards
        .iter()
        .zip(block.refused.chunks(block.refused.len().max(1).div_ceil(shards.len())))
    {
        let (_, rejected) = rows(&[], refused).batches().unwrap();
        shard.insert_rejections(&[rejected], None).await.unwrap();
    }
}

/// The ledger row of a block, in the first shard.
pub(crate) async fn write_the_line(warehouse: &Warehouse, block: &Block) {
    let line = std::slice::from_ref(&block.line);
    warehouse.shards()[0].insert_ledger(line, None).await.unwrap();
}

fn rows(accepted: &[Accepted], refused: &[Refused]) -> Rows {
    let mut rows = Rows::default();
    for (fact, position, received_ms) in accepted {
        rows.push_accepted(&row(fact, *position, *received_ms));
    }
    for refused in refused {
        rows.push_rejected(&refused_row(refused));
    }
    rows
}

fn row(fact: &Fact, position: u128, received_at_ms: i64) -> AcceptedRow<'_> {
    AcceptedRow {
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
        key_fingerprint: &fact.key,
        operator: fact.operator,
        publisher_verified: fact.publisher_verified,
        algorithm: "Ed25519",
        purpose: fact.purpose,
        context: "tests",
        model_id: &fact.model_id,
        request_id: "request",
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{}",
        origin: "record",
        ..AcceptedRow::default()
    }
}

fn refused_row(refused: &Refused) -> RejectedRow<'_> {
    RejectedRow {
        key_fingerprint: &[0; 32],
        position: refused.position,
        reason: refused.reason,
        detail: &refused.detail,
        publisher: refused.publisher,
        timestamp_ms: 0,
        receipt_id: refused.receipt_id.unwrap_or_default(),
        client_id: refused.client_id.unwrap_or_default(),
        entry_id: Uuid::nil(),
        payload_hash: &[0; 32],
        received_at_ms: refused.received_ms,
        request_id: &refused.request_id,
        client_address: "192.0.2.1",
        kind: "receipt",
        raw: b"{}",
        request_signature: "",
        origin: "record",
        receipts: 1,
    }
}

/// Three accounts: one with subdomains and entries, the one that has a subdomain of it, and one
/// with a single domain.
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
        let issued = new_key(accounts, &domains, Tier::Enterprise, Scope::Read, expires_at_ms).await;
        for domain in &domains {
            let request = ChallengeRequest {
                account_id: &issued.account_id,
                actor: "test",
                domains: &[domain.parse().unwrap()],
                method: VerificationMethod::Dns,
                include_subdomains: Some(below.is_some_and(|(parent, _)| parent == *domain)),
            };
            let challenge = accounts.create_challenges(&request).await.unwrap().remove(0).challenge;
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
