//! The API over the real engine, a real account store and progress that the test sets.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use accounts::{Accounts, AccountsConfig, Scope, Tier};
use analytics_api::{AnalyticsConfig, Deps};
use serde_json::Value;
use service::health::Health;
use service::rate_limit::{InProcessLimiter, QuotasConfig};
use tempfile::TempDir;
use test_engines::examples::ExampleFile;
pub(crate) use test_engines::http::{Answer, HttpClient};
use warehouse::{EmbeddedEngine, WarehouseConfig};

use crate::progress::FakeProgress;
use crate::rows::{self, BLOG, BULK, CROWDED, NEWS, RIVAL, SIGNED};
pub(crate) use crate::server::Server;
use crate::server::new_key;

/// The watermark at the start: 2026-03-30T20:00:00.250Z.
const COMPLETE_MS: i64 = 1_774_900_800_250;
/// The limiter's clock is stopped, so that no window ends during a test: 30 s into a minute.
pub(crate) const LIMITER_MS: i64 = 1_774_900_830_000;
const DAY_MS: i64 = 86_400_000;

/// The answers in the OpenAPI document.
static EXAMPLES: LazyLock<ExampleFile> = LazyLock::new(|| {
    let paths = analytics_api::document().paths.paths;
    let paths = paths.into_keys().filter(|path| path.starts_with("/api/"));
    ExampleFile::new(env!("CARGO_MANIFEST_DIR"), paths)
});

/// The keys of the tests, by what is special about them.
pub(crate) struct Keys {
    /// NEWS and BLOG, read, enterprise.
    pub(crate) publisher: String,
    pub(crate) rival: String,
    pub(crate) bulk: String,
    pub(crate) signed: String,
    pub(crate) crowded: String,
    pub(crate) write_only: String,
    pub(crate) free: String,
    pub(crate) expired: String,
    pub(crate) revoked: String,
    /// Key whose only domain's verification has run out.
    pub(crate) unverified: String,
}

pub(crate) struct Stack {
    pub(crate) deps: Deps,
    pub(crate) progress: Arc<FakeProgress>,
    pub(crate) keys: Keys,
    pub(crate) server: Server,
    pub(crate) dir: TempDir,
    engine: EmbeddedEngine,
}

impl Stack {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = EmbeddedEngine::start(
            &WarehouseConfig {
                // The rows of these tests are of fixed days.
                rejected_days_max: 2_557,
                ..WarehouseConfig::default()
            },
            &dir.path().join("warehouse"),
            &dir.path().join("sock"),
        )
        .await
        .unwrap();
        rows::insert(&engine.warehouse()).await;
        let (accounts, keys) = open_accounts(dir.path()).await;
        let progress = Arc::new(FakeProgress::default());
        progress.complete_ms.store(COMPLETE_MS, Ordering::SeqCst);
        let deps = Deps {
            warehouse: engine.warehouse(),
            accounts,
            progress: progress.clone(),
            limiter: Arc::new(InProcessLimiter::with_clock(100, || LIMITER_MS)),
            quotas: QuotasConfig::default(),
            health: Health::new(),
        };
        let server = Server::start(AnalyticsConfig::default(), deps.clone()).await;
        Self {
            deps,
            progress,
            keys,
            server,
            dir,
            engine,
        }
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
        self.deps.accounts.close().await;
        self.engine.stop().await;
    }

    /// A further API on the same stores, of which `change` makes something else.
    pub(crate) async fn server_with(&self, config: AnalyticsConfig, change: impl FnOnce(&mut Deps)) -> Server {
        let mut deps = self.deps.clone();
        deps.health = Health::new();
        change(&mut deps);
        Server::start(config, deps).await
    }

    pub(crate) fn complete_through(&self) -> String {
        web::rfc3339_ms(self.progress.complete_ms.load(Ordering::SeqCst))
    }

    /// GET with the publisher's key.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.server.get(path, &self.keys.publisher, headers).await
    }

    /// The JSON of a 200, which must carry the watermark.
    pub(crate) async fn ok(&self, path: &str) -> Value {
        let answer = self.get(path, &[]).await;
        let body = answer.json();
        assert_eq!(answer.status, 200, "{path}: {body}");
        assert_eq!(body["completeThrough"], self.complete_through(), "{path}");
        body
    }

    /// Any request, without a key.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.server.send(method, path, headers).await
    }
}

/// Requests over connections of their own.
impl Server {
    pub(crate) async fn get(&self, path: &str, key: &str, headers: &[(&str, &str)]) -> Answer {
        let answer = HttpClient::default().get(self.address, path, key, headers).await;
        EXAMPLES.record("GET", path, &answer);
        answer
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let client = HttpClient::default();
        let answer = client.send(self.address, method, path, headers, "").await;
        EXAMPLES.record(method, path, &answer);
        answer
    }
}

/// SQLite, with a clock that is put back while keys are made that have run out since.
async fn open_accounts(dir: &Path) -> (Accounts, Keys) {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let clock = Arc::new(AtomicI64::new(now_ms));
    let reader = Arc::clone(&clock);
    let accounts = Accounts::open_with_clock(&AccountsConfig::default(), dir, move || reader.load(Ordering::SeqCst))
        .await
        .unwrap();
    let key = |domains, tier, scope, expires_at_ms| new_key(&accounts, domains, tier, scope, expires_at_ms);
    let later = now_ms + DAY_MS;
    clock.store(now_ms - 400 * DAY_MS, Ordering::SeqCst);
    let unverified = key(&["old.example"], Tier::Free, Scope::Read, later).await.api_key;
    let expired = key(&[NEWS], Tier::Enterprise, Scope::Read, now_ms - 1_000)
        .await
        .api_key;
    clock.store(now_ms, Ordering::SeqCst);
    let publisher = key(&[NEWS, BLOG], Tier::Enterprise, Scope::Read, later).await.api_key;
    let write_only = key(&[NEWS], Tier::Enterprise, Scope::Write, later).await.api_key;
    let revoked = key(&[NEWS], Tier::Enterprise, Scope::Read, later).await;
    let done = accounts.revoke_key(None, &revoked.key_id, "operator").await.unwrap();
    assert_eq!(done, accounts::Revocation::Done);
    let rival = key(&[RIVAL], Tier::Pro, Scope::Read, later).await.api_key;
    let bulk = key(&[BULK], Tier::Enterprise, Scope::Read, later).await.api_key;
    let signed = key(&[SIGNED], Tier::Enterprise, Scope::Read, later).await.api_key;
    let crowded = key(&[CROWDED], Tier::Enterprise, Scope::Read, later).await.api_key;
    let free = key(&["free.example"], Tier::Free, Scope::Read, later).await.api_key;
    let keys = Keys {
        publisher,
        rival,
        bulk,
        signed,
        crowded,
        write_only,
        free,
        expired,
        revoked: revoked.api_key,
        unverified,
    };
    (accounts, keys)
}
