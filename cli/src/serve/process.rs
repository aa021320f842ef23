//! A process with one service: its engines opened and closed in order, its ports, its signals.

use std::future::Future;
use std::net::SocketAddr;

use accounts::{Accounts, ClientPolicy};
use gateway::{GatewayError, Routes};
use http_server::admin::AdminPort;
use http_server::listen;
use receipt_log::Log;
use service::health::Health;
use service::telemetry::{self, PrometheusHandle};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{ServiceName, deps, engines, publish};
use crate::failure::CommandFailure;
use crate::settings::Settings;

struct Process<'a> {
    settings: &'a Settings,
    metrics: PrometheusHandle,
    health: Health,
    shutdown: CancellationToken,
}

/// Runs a service until SIGTERM, SIGINT or a failure, drains it, and closes its engines.
///
/// # Errors
/// An engine can't be opened, a port can't be bound, the service fails, or a drain isn't over in
/// time.
pub(super) fn run(service: ServiceName, settings: &Settings) -> Result<(), CommandFailure> {
    listen::lift_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CommandFailure::unavailable)?;
    let process = Process {
        settings,
        // Before the logs, which take their metrics' handles when they open.
        metrics: telemetry::install_metrics().map_err(CommandFailure::unavailable)?,
        health: Health::new(),
        shutdown: {
            let _context = runtime.enter();
            service::shutdown::signals().map_err(CommandFailure::unavailable)?
        },
    };
    publish(settings);
    // Opening and closing a log waits for the disk or the brokers: not on the runtime.
    let (ended, logs) = match service {
        ServiceName::Gateway | ServiceName::Webhook => {
            let receipts = engines::receipts(settings)?;
            let routes = if service == ServiceName::Gateway {
                Routes::All
            } else {
                Routes::Webhook
            };
            (runtime.block_on(process.gateway(routes, &receipts)), vec![receipts])
        }
        ServiceName::Verifier => {
            let receipts = engines::receipts(settings)?;
            let verdicts = engines::verdicts(settings)?;
            let ended = runtime.block_on(process.verifier(&receipts, &verdicts));
            (ended, vec![receipts, verdicts])
        }
        ServiceName::Writer => {
            let verdicts = engines::verdicts(settings)?;
            (runtime.block_on(process.writer(&verdicts)), vec![verdicts])
        }
        ServiceName::AnalyticsApi => (runtime.block_on(process.analytics()), Vec::new()),
        ServiceName::PublisherApi => (runtime.block_on(process.publisher()), Vec::new()),
    };
    drop(runtime);
    for log in logs {
        log.close();
    }
    ended
}

impl Process<'_> {
    async fn gateway(self, routes: Routes, receipts: &Log) -> Result<(), CommandFailure> {
        let config = self.settings.gateway.clone();
        let listener = bind("gateway.listen", config.listen)?;
        let admin = self.admin_port()?;
        let drained = CancellationToken::new();
        // The webhook accepts any key.
        let is_registered = routes == Routes::All && self.settings.policy.clients == ClientPolicy::Registered;
        let accounts = match is_registered {
            true => Some(engines::accounts(self.settings).await?),
            false => None,
        };
        let deps = gateway::Deps {
            registry: accounts
                .as_ref()
                .map(|accounts| deps::registry(self.settings, accounts, &drained)),
            ..deps::gateway(self.settings, receipts, routes, &self.health)?
        };
        let ended = match routes {
            Routes::All => gateway::run(listener, config, deps, self.shutdown).await,
            Routes::Webhook => webhook::run(listener, config, deps, self.shutdown).await,
        };
        drained.cancel();
        admin.stop().await;
        if let Some(accounts) = accounts {
            accounts.close().await;
        }
        ended.map_err(|error| match error {
            GatewayError::Config(_) => CommandFailure::input(error),
            GatewayError::DrainTimeout { .. } => CommandFailure::unavailable(error),
        })
    }

    async fn verifier(self, receipts: &Log, verdicts: &Log) -> Result<(), CommandFailure> {
        let Self { settings, shutdown, .. } = &self;
        let accounts = engines::accounts(settings).await?;
        let registry = deps::registry(settings, &accounts, shutdown);
        let logs = (receipts, verdicts);
        let deps = deps::verifier(settings, logs, &accounts, registry, shutdown, &self.health)?;
        let admin = self.admin_port()?;
        let ended = verifier::run(settings.verifier.clone(), deps, shutdown.clone()).await;
        admin.stop().await;
        ended.map_err(CommandFailure::unavailable)
    }

    async fn writer(self, verdicts: &Log) -> Result<(), CommandFailure> {
        // Migrations may take longer than Kubernetes waits.
        let (warehouse, embedded) = tokio::select! {
            opened = engines::warehouse(self.settings) => opened?,
            () = self.shutdown.cancelled() => return Ok(()),
        };
        let deps = deps::writer(self.settings, verdicts, &warehouse, &self.health)?;
        let admin = self.admin_port()?;
        let ended = writer::run(self.settings.writer.clone(), deps, self.shutdown).await;
        admin.stop().await;
        if let Some(engine) = embedded {
            engine.stop().await;
        }
        ended.map_err(CommandFailure::unavailable)
    }

    async fn analytics(self) -> Result<(), CommandFailure> {
        let warehouse = engines::warehouse_client(self.settings)?;
        let accounts = engines::accounts(self.settings).await?;
        let limiter = engines::rate_limiter(self.settings, &self.health).await?;
        let deps = deps::analytics(self.settings, &warehouse, &accounts, limiter, &self.health);
        let config = self.settings.analytics.clone();
        let listener = bind(
            "analytics.listen",
            config.listen.unwrap_or(analytics_api::DEFAULT_LISTEN),
        )?;
        let serving = analytics_api::run(listener, config, deps, self.shutdown.clone());
        self.api(accounts, serving).await
    }

    async fn publisher(self) -> Result<(), CommandFailure> {
        let warehouse = engines::warehouse_client(self.settings)?;
        let accounts = engines::accounts(self.settings).await?;
        let limiter = engines::rate_limiter(self.settings, &self.health).await?;
        let deps = deps::publisher(self.settings, &warehouse, &accounts, limiter, &self.health)?;
        let config = self.settings.publisher.clone();
        let listener = bind(
            "publisher.listen",
            config.listen.unwrap_or(publisher_api::DEFAULT_LISTEN),
        )?;
        let serving = publisher_api::run(listener, config, deps, self.shutdown.clone());
        self.api(accounts, serving).await
    }

    /// Serves an API, which leaves it to its process to report the drain.
    async fn api(self, accounts: Accounts, serving: impl Future<Output = ()>) -> Result<(), CommandFailure> {
        let admin = self.admin_port()?;
        tokio::spawn(async move {
            self.shutdown.cancelled().await;
            self.health.drain();
        });
        serving.await;
        accounts.close().await;
        admin.stop().await;
        Ok(())
    }

    fn admin_port(&self) -> Result<AdminPort, CommandFailure> {
        let address = self.settings.telemetry.metrics_listen;
        let started = AdminPort::start(address, self.metrics.clone(), self.health.clone());
        started.map_err(CommandFailure::unavailable)
    }
}

fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, CommandFailure> {
    let listener = listen::bind(key, address).map_err(CommandFailure::unavailable)?;
    let address = listener.local_addr().map_err(CommandFailure::unavailable)?;
    tracing::info!(%address, "{key}: the service listens");
    Ok(listener)
}
