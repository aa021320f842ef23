//! A running gateway.

use std::net::SocketAddr;
use std::sync::Arc;

use accounts::RegistryCache;
use gateway::{AcknowledgementKeys, Deps, EntryBook, GatewayConfig, GatewayError, Routes};
use receipt::Limits;
use receipt_log::{LogWriter, Record};
use service::cpu::CpuPool;
use service::health::Health;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, Client};
use crate::log::{MemoryLog, Mood};

fn deps(log: Arc<dyn LogWriter>, limits: Limits) -> Deps {
    Deps {
        limits,
        log,
        cpu: CpuPool::new("gateway-test", 2, 1_024).unwrap(),
        health: Health::new(),
        routes: Routes::All,
        entries: None,
        registry: None,
        acknowledgement_keys: Arc::new(AcknowledgementKeys::generate().unwrap()),
    }
}

/// A gateway on a free port, over a log in memory by default.
pub struct Running {
    pub address: SocketAddr,
    pub log: Arc<MemoryLog>,
    pub health: Health,
    shutdown: CancellationToken,
    done: JoinHandle<Result<(), GatewayError>>,
}

impl Running {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        Self::limited(Limits::default(), change).await
    }

    pub async fn limited(limits: Limits, change: impl FnOnce(&mut GatewayConfig)) -> Self {
        let log = Arc::new(MemoryLog::new(Mood::Takes));
        let writer = Arc::clone(&log) as Arc<dyn LogWriter>;
        Self::over(writer, log, limits, change).await
    }

    pub async fn over(
        writer: Arc<dyn LogWriter>,
        log: Arc<MemoryLog>,
        limits: Limits,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        let mut config = GatewayConfig::default();
        change(&mut config);
        Self::offering(Routes::All, None, writer, log, limits, config).await
    }

    /// With only these client keys, over a log in memory.
    pub async fn registered(registry: RegistryCache, config: GatewayConfig) -> Self {
        let log = Arc::new(MemoryLog::new(Mood::Takes));
        let deps = deps(Arc::clone(&log) as Arc<dyn LogWriter>, Limits::default());
        let registry = Some(registry);
        Self::on(Deps { registry, ..deps }, log, config).await
    }

    /// With these routes, and a book of entries.
    pub async fn offering(
        routes: Routes,
        entries: Option<Arc<dyn EntryBook>>,
        writer: Arc<dyn LogWriter>,
        log: Arc<MemoryLog>,
        limits: Limits,
        config: GatewayConfig,
    ) -> Self {
        let deps = deps(writer, limits);
        Self::on(
            Deps {
                routes,
                entries,
                ..deps
            },
            log,
            config,
        )
        .await
    }

    async fn on(deps: Deps, log: Arc<MemoryLog>, config: GatewayConfig) -> Self {
        let listener = http_server::listen::bind("gateway.listen", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (health, shutdown) = (deps.health.clone(), CancellationToken::new());
        let run = gateway::run(listener, config, deps, shutdown.clone());
        let done = tokio::spawn(run);
        Self {
            address,
            log,
            health,
            shutdown,
            done,
        }
    }

    pub async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Sends a request on a connection of its own.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        self.connect().await.post(path, fields, body).await
    }

    pub fn records(&self) -> Vec<Record> {
        self.log.records()
    }

    pub fn begin_shutdown(&self) {
        self.shutdown.cancel();
    }

    pub async fn ended(self) -> Result<(), GatewayError> {
        self.done.await.unwrap()
    }

    /// Ends it; whatever the test did, nothing may be left hanging.
    pub async fn stop(self) {
        self.begin_shutdown();
        self.ended().await.unwrap();
    }
}
