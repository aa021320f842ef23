//! The API in this process: SQLite in a temporary folder, a clock that only the test moves, no
//! warehouse behind it unless a test gives one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use accounts::{Accounts, AccountsConfig, NewKey, Scope, Tier};
use publisher_api::{AuthConfig, Authority, Deps, PublisherConfig};
use serde_json::Value;
use service::health::Health;
use service::rate_limit::{InProcessLimiter, QuotasConfig};
use tempfile::TempDir;
use test_engines::examples::ExampleFile;
pub(crate) use test_engines::http::Answer;
use test_engines::http::HttpClient;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use warehouse::{Target, Warehouse, WarehouseConfig};

/// The instant the tests begin at: 2027-01-15T08:00:00Z.
pub(crate) const START_MS: i64 = 1_800_000_000_000;
pub(crate) const DAY_MS: i64 = 86_400_000;

/// Permissions of a key.
pub(crate) const READ: &[Scope] = &[Scope::Read];
pub(crate) const BOTH: &[Scope] = &[Scope::Read, Scope::Write];
pub(crate) const ALL: &[Scope] = &[Scope::Read, Scope::Write, Scope::Erase];

/// The answers in the OpenAPI document.
static EXAMPLES: LazyLock<ExampleFile> = LazyLock::new(|| {
    let paths = publisher_api::document().paths.paths;
    let paths = paths.into_keys().filter(|path| path.starts_with("/api/"));
    ExampleFile::new(env!("CARGO_MANIFEST_DIR"), paths)
});

pub(crate) struct Stack {
    pub(crate) deps: Deps,
    pub(crate) clock: Arc<AtomicI64>,
    pub(crate) server: Server,
    /// Gone with the test.
    pub(crate) dir: TempDir,
}

impl Stack {
    pub(crate) async fn start() -> Self {
        Self::start_with(PublisherConfig::default(), |_| {}).await
    }

    /// Starts a stack of which `change` makes something else.
    pub(crate) async fn start_with(config: PublisherConfig, change: impl FnOnce(&mut Deps)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicI64::new(START_MS));
        let mut deps = deps(dir.path(), &clock).await;
        change(&mut deps);
        let server = Server::start(config, deps.clone()).await;
        Self {
            deps,
            clock,
            server,
            dir,
        }
    }

    pub(crate) fn pass_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
    }

    /// A key for these domains, comma-separated, which are verified by it for a year; it lives for
    /// five.
    pub(crate) async fn key(&self, domains: &str, scopes: &[Scope]) -> String {
        let domains: Vec<accounts::Domain> = domains.split(',').map(|domain| domain.parse().unwrap()).collect();
        let new = NewKey {
            account_id: self.deps.accounts.account_of(&domains[0]).await.unwrap(),
            domains,
            tier: Some(Tier::Enterprise),
            is_limited: false,
            name: "test".to_owned(),
            scopes: scopes.to_vec(),
            expires_at_ms: self.clock.load(Ordering::SeqCst) + 5 * 365 * DAY_MS,
        };
        let made = self.deps.accounts.create_publisher_key(new).await.unwrap();
        made.issued.api_key
    }
}

/// The stores and everything else the API stands on.
async fn deps(dir: &Path, clock: &Arc<AtomicI64>) -> Deps {
    let reader = Arc::clone(clock);
    let clock = move || reader.load(Ordering::SeqCst);
    let accounts = Accounts::open_with_clock(&AccountsConfig::default(), dir, clock)
        .await
        .unwrap();
    let nowhere = Target::Socket(dir.join("nobody-listens"));
    let outbound = outbound::OutboundClient::new(&outbound::Config::default()).unwrap();
    Deps {
        authority: Arc::new(Authority::new(&AuthConfig::default(), dir, &outbound).unwrap()),
        provider: None,
        outbound,
        accounts,
        warehouse: Warehouse::new(&nowhere, &WarehouseConfig::default()).unwrap(),
        limiter: Arc::new(InProcessLimiter::with_clock(1_000, || START_MS + 30_000)),
        // All of a test's requests have one address.
        quotas: QuotasConfig {
            address_wrong_keys_per_minute: 1_000,
            ..QuotasConfig::default()
        },
        smtp: publisher_api::SmtpConfig::default(),
        cpu: service::cpu::CpuPool::new("publisher", 1, 16).unwrap(),
        health: Health::new(),
    }
}

/// A server that ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    client: HttpClient,
    _running: DropGuard,
}

impl Server {
    pub(crate) async fn start(config: PublisherConfig, deps: Deps) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        tokio::spawn(publisher_api::run(listener, config, deps, shutdown.clone()));
        Self {
            address,
            client: HttpClient::default(),
            _running: shutdown.drop_guard(),
        }
    }

    pub(crate) async fn get(&self, path: &str, key: &str) -> Answer {
        self.ask("GET", path, key, &[], "").await
    }

    /// A request with a JSON body.
    pub(crate) async fn json(&self, method: &str, path: &str, key: &str, body: &Value) -> Answer {
        let body = body.to_string();
        self.ask(method, path, key, &[("content-type", "application/json")], &body)
            .await
    }

    /// A request with a bearer.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        bearer: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let bearer = format!("Bearer {bearer}");
        let mut headers = headers.to_vec();
        headers.push(("authorization", &bearer));
        self.send(method, path, &headers, body).await
    }

    /// Any request.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let body = body.to_owned();
        let answer = self.client.send(self.address, method, path, headers, body).await;
        EXAMPLES.record(method, path, &answer);
        answer
    }
}
