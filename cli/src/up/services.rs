//! The services on open engines, and the order in which they stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accounts::ClientPolicy;
use analytics_api::AnalyticsConfig;
use axum::Router;
use gateway::{Neighbour, Routes};
use publisher_api::PublisherConfig;
use receipt_log::{InspectError, Log, PartitionState};
use service::health::Health;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{error, info, warn};

use super::engines::Engines;
use super::entries::StoredEntries;
use super::front;
use super::one_address::OneAddress;
use crate::data_dir::Addresses;
use crate::failure::CommandFailure;
use crate::serve::deps;
use crate::settings::Settings;

/// Pause between two checks whether a draining service has caught up.
const CATCH_UP_EVERY: Duration = Duration::from_millis(20);

/// The bound ports.
pub struct Listeners {
    services: ServicePorts,
    admin: TcpListener,
}

/// The ports of the services. Those without one of their own are served on the gateway's.
pub struct ServicePorts {
    gateway: TcpListener,
    analytics: Option<TcpListener>,
    publisher: Option<TcpListener>,
}

impl Listeners {
    /// Binds all of them, before any engine is opened.
    ///
    /// # Errors
    /// A port can't be bound.
    pub fn bind(settings: &Settings) -> Result<Self, CommandFailure> {
        let bind = |key, address| http_server::listen::bind(key, address).map_err(CommandFailure::unavailable);
        let shared = settings.gateway.listen;
        // Port 0 is another one each time.
        let is_own = |address: &SocketAddr| *address != shared || shared.port() == 0;
        let bind_own = |key, address: Option<SocketAddr>| {
            let own = address.filter(is_own);
            own.map(|address| bind(key, address)).transpose()
        };
        Ok(Self {
            services: ServicePorts {
                gateway: bind("gateway.listen", shared)?,
                analytics: bind_own("analytics.listen", settings.analytics.listen)?,
                publisher: bind_own("publisher.listen", settings.publisher.listen)?,
            },
            admin: bind("telemetry.metrics_listen", settings.telemetry.metrics_listen)?,
        })
    }

    /// Addresses of the services, ports chosen by the system included.
    ///
    /// # Errors
    /// The system doesn't say.
    pub fn addresses(&self) -> Result<Addresses, CommandFailure> {
        let url = |listener: &TcpListener| {
            listener
                .local_addr()
                .map(|address| format!("http://{address}"))
                .map_err(CommandFailure::unavailable)
        };
        let ServicePorts {
            gateway,
            analytics,
            publisher,
        } = &self.services;
        Ok(Addresses {
            pid: std::process::id(),
            gateway: url(gateway)?,
            analytics: url(analytics.as_ref().unwrap_or(gateway))?,
            publisher: url(publisher.as_ref().unwrap_or(gateway))?,
            metrics: url(&self.admin)?,
        })
    }

    /// The admin port apart from the others: it serves from the first moment to the last.
    #[must_use]
    pub fn take_admin(self) -> (TcpListener, ServicePorts) {
        (self.admin, self.services)
    }
}

/// A running service.
struct Running {
    name: &'static str,
    task: JoinHandle<Result<(), CommandFailure>>,
    stop: CancellationToken,
}

impl Running {
    fn start(name: &'static str, run: impl AsyncService) -> Self {
        Self::start_until(CancellationToken::new(), name, run)
    }

    /// With a token of somebody else, which ends it as well.
    fn start_until(stop: CancellationToken, name: &'static str, run: impl AsyncService) -> Self {
        let task = tokio::spawn(run.run(stop.clone()));
        Self { name, task, stop }
    }

    /// Asks it to stop, and waits; each service bounds its own drain.
    async fn finish(self) -> Result<(), CommandFailure> {
        self.stop.cancel();
        self.task
            .await
            .map_err(|e| CommandFailure::Unavailable(format!("the {} failed: {e}", self.name)))?
    }
}

/// Service that runs until its token is cancelled.
trait AsyncService {
    /// Runs it.
    fn run(self, stop: CancellationToken) -> impl Future<Output = Result<(), CommandFailure>> + Send + 'static;
}

impl<F, T> AsyncService for F
where
    F: FnOnce(CancellationToken) -> T,
    T: Future<Output = Result<(), CommandFailure>> + Send + 'static,
{
    fn run(self, stop: CancellationToken) -> impl Future<Output = Result<(), CommandFailure>> + Send + 'static {
        self(stop)
    }
}

/// Times for which services are waited for until they have done everything in their log.
struct CatchUp {
    verifier_max: Duration,
    writer_max: Duration,
}

/// The running services.
pub struct Services {
    gateway: Running,
    verifier: Running,
    writer: Running,
    analytics: Running,
    publisher: Running,
    /// Ends the services on the gateway's port, whose streams would hold up its drain.
    neighbours_stop: CancellationToken,
    /// Time in which the gateway still accepts requests.
    drain_delay: Duration,
    /// Time for verifier and writer to catch up with logs of this process alone.
    catch_up: Option<CatchUp>,
    /// Ends what the verifier's policies read in the background.
    registry: DropGuard,
}

impl Services {
    /// Starts them.
    ///
    /// # Errors
    /// Threads can't be started, or the log gives no consumer.
    pub fn start(
        settings: &Settings,
        ports: ServicePorts,
        addresses: &Addresses,
        engines: &Engines,
        health: &Health,
    ) -> Result<Self, CommandFailure> {
        let registry_stop = CancellationToken::new();
        // One cache for gateway and verifier.
        let registry = deps::registry(settings, &engines.accounts, &registry_stop);
        let verifier_deps = deps::verifier(
            settings,
            (&engines.log, &engines.verdicts),
            &engines.accounts,
            registry.clone(),
            &registry_stop,
            health,
        )?;
        let writer_deps = deps::writer(settings, &engines.verdicts, &engines.warehouse, health)?;
        let limiter = || Arc::clone(&engines.limiter);
        let analytics_deps = deps::analytics(settings, &engines.warehouse, &engines.accounts, limiter(), health);
        let publisher_deps = deps::publisher(settings, &engines.warehouse, &engines.accounts, limiter(), health)?;
        // The gateway's delay is all services': an API on a port of its own serves through it.
        let publisher_config = PublisherConfig {
            drain_delay_ms: 0,
            ..settings.publisher.clone()
        };
        let (gateway_config, verifier_config) = (settings.gateway.clone(), settings.verifier.clone());
        let writer_config = settings.writer.clone();
        let analytics_config = AnalyticsConfig {
            drain_delay_ms: 0,
            ..settings.analytics.clone()
        };
        let gateway_deps = gateway::Deps {
            entries: Some(Arc::new(StoredEntries(engines.accounts.clone()))),
            registry: Some(registry).filter(|_| settings.policy.clients == ClientPolicy::Registered),
            ..deps::gateway(settings, &engines.log, Routes::All, health)?
        };
        let ServicePorts {
            gateway: gateway_port,
            analytics: analytics_port,
            publisher: publisher_port,
        } = ports;
        let neighbours_stop = CancellationToken::new();
        let mut neighbours: Vec<(&'static [&'static str], Router)> = Vec::new();
        let analytics = match analytics_port {
            Some(port) => Running::start("analytics API", |stop| async move {
                analytics_api::run(port, analytics_config, analytics_deps, stop).await;
                Ok(())
            }),
            None => {
                let local = gateway_port.local_addr().map_err(CommandFailure::unavailable)?;
                let (router, work) = analytics_api::start(analytics_config, analytics_deps, local, &neighbours_stop);
                neighbours.push((&analytics_api::PREFIXES, router));
                Running::start_until(
                    neighbours_stop.clone(),
                    "analytics API",
                    |stop: CancellationToken| async move {
                        stop.cancelled_owned().await;
                        drop(work);
                        Ok(())
                    },
                )
            }
        };
        let publisher = match publisher_port {
            Some(port) => Running::start("publisher API", |stop| async move {
                publisher_api::run(port, publisher_config, publisher_deps, stop).await;
                Ok(())
            }),
            None => {
                let local = gateway_port.local_addr().map_err(CommandFailure::unavailable)?;
                let (router, mut work) =
                    publisher_api::start(publisher_config, publisher_deps, local, &neighbours_stop);
                neighbours.push((&publisher_api::PREFIXES, router));
                Running::start_until(
                    neighbours_stop.clone(),
                    "publisher API",
                    |stop: CancellationToken| async move {
                        work.finish(&stop).await;
                        Ok(())
                    },
                )
            }
        };
        let data = settings.data.root().display().to_string();
        let front = front::router(addresses, &data, gateway_config.head_bytes_max);
        let neighbour: Arc<dyn Neighbour> = Arc::new(OneAddress::new(neighbours, front));
        Ok(Self {
            gateway: Running::start("gateway", |stop| async move {
                let ended = gateway::run_beside(gateway_port, Some(neighbour), gateway_config, gateway_deps, stop);
                match ended.await {
                    // Nothing that was cut off had been acknowledged.
                    Err(late @ gateway::GatewayError::DrainTimeout { .. }) => warn!(%late, "the gateway's drain"),
                    other => other.map_err(CommandFailure::unavailable)?,
                }
                Ok(())
            }),
            verifier: Running::start("verifier", |stop| async move {
                verifier::run(verifier_config, verifier_deps, stop)
                    .await
                    .map_err(CommandFailure::unavailable)
            }),
            writer: Running::start("writer", |stop| async move {
                writer::run(writer_config, writer_deps, stop)
                    .await
                    .map_err(CommandFailure::unavailable)
            }),
            analytics,
            publisher,
            neighbours_stop,
            drain_delay: Duration::from_millis(settings.gateway.drain_delay_ms),
            catch_up: (!settings.kafka.is_shared()).then(|| CatchUp {
                verifier_max: Duration::from_millis(settings.verifier.drain_ms_max),
                writer_max: Duration::from_millis(settings.writer.drain_ms_max),
            }),
            registry: registry_stop.drop_guard(),
        })
    }

    /// Serves until `shutdown` or until one of them ends by itself, then drains the others in
    /// order.
    ///
    /// # Errors
    /// Why a service ended by itself, or what a drain met.
    pub async fn run(
        mut self,
        shutdown: &CancellationToken,
        engines: &Engines,
        health: &Health,
    ) -> Result<(), CommandFailure> {
        let ended = tokio::select! {
            () = shutdown.cancelled() => None,
            ended = &mut self.gateway.task => Some((self.gateway.name, ended)),
            ended = &mut self.verifier.task => Some((self.verifier.name, ended)),
            ended = &mut self.writer.task => Some((self.writer.name, ended)),
            ended = &mut self.analytics.task => Some((self.analytics.name, ended)),
            ended = &mut self.publisher.task => Some((self.publisher.name, ended)),
        };
        health.drain();
        let failure = ended.map(|(name, ended)| {
            let reason = match ended {
                Ok(Ok(())) => "it ended without being asked to".to_owned(),
                Ok(Err(failure)) => failure.to_string(),
                Err(panicked) => panicked.to_string(),
            };
            error!(service = name, reason, "a service ended; draining the others");
            (name, CommandFailure::Unavailable(format!("the {name} ended: {reason}")))
        });
        let (gone, failure) = failure.unzip();

        // Nothing new first; then what was acknowledged is verified, and counted; then the queries
        // about it end. On Kafka other processes append all the time, and others take over at once:
        // there verifier and writer finish what they hold.
        let mut drained = Ok(());
        self.gateway.stop.cancel();
        tokio::time::sleep(self.drain_delay).await;
        self.neighbours_stop.cancel();
        for service in [self.gateway, self.publisher, self.verifier, self.writer, self.analytics] {
            if Some(service.name) == gone {
                continue;
            }
            match (service.name, &self.catch_up) {
                (name @ "verifier", Some(time)) => {
                    catch_up(name, time.verifier_max, || lag(&engines.log, verifier::GROUP)).await;
                }
                (name @ "writer", Some(time)) => {
                    catch_up(name, time.writer_max, || lag(&engines.verdicts, writer::GROUP)).await;
                }
                _ => {}
            }
            drained = drained.and(service.finish().await);
        }
        drop(self.registry);
        info!("drained");
        failure.map_or(drained, Err)
    }
}

/// Waits until a service has committed everything in its log, or until `wait_max` is over: the rest
/// is left for the next start.
async fn catch_up<L>(service: &str, wait_max: Duration, lag: impl Fn() -> L)
where
    L: Future<Output = Result<u64, InspectError>>,
{
    let deadline = Instant::now() + wait_max;
    loop {
        let records = match lag().await {
            Ok(0) => return,
            Ok(records) => records,
            Err(error) => {
                warn!(%error, service, "the log doesn't say whether the service has caught up");
                return;
            }
        };
        if Instant::now() >= deadline {
            warn!(records, service, "left for the next start");
            return;
        }
        tokio::time::sleep(CATCH_UP_EVERY).await;
    }
}

/// Records of a log that a group hasn't committed.
async fn lag(log: &Log, group: &str) -> Result<u64, InspectError> {
    let partitions = log.inspector().partitions(group).await?;
    Ok(partitions.iter().map(behind).sum())
}

/// Offsets between the group's commit and the end.
fn behind(partition: &PartitionState) -> u64 {
    let committed = partition
        .committed
        .as_ref()
        .filter(|committed| committed.epoch == partition.epoch);
    partition
        .end_offset
        .saturating_sub(committed.map_or(0, |committed| committed.next_offset))
}
