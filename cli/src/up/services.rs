//! The services on open engines, and the order in which they stop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use publisher_api::Authority;
use receipt::Judge;
use receipt_log::LogOpenError;
use service::cpu::CpuPool;
use service::health::Health;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use verifier::PolicyBook;

use super::engines::Engines;
use super::entries::StoredEntries;
use crate::data_dir::Addresses;
use crate::failure::Failure;
use crate::settings::Settings;

/// Jobs that may wait for the gateway's CPU threads: each holds a body that admission has counted already.
const GATEWAY_QUEUE_MAX: usize = 1_024;
/// Home pages that wait to be read for a verification.
const PUBLISHER_QUEUE_MAX: usize = 64;
/// The verifier judges one block at a time.
const VERIFIER_QUEUE_MAX: usize = 4;
/// How often a draining process looks whether the verifier has caught up.
const CATCH_UP_EVERY: Duration = Duration::from_millis(20);

/// The bound ports.
pub struct Listeners {
    gateway: TcpListener,
    analytics: TcpListener,
    publisher: TcpListener,
    admin: TcpListener,
}

/// The ports of the services.
pub struct ServicePorts {
    gateway: TcpListener,
    analytics: TcpListener,
    publisher: TcpListener,
}

impl Listeners {
    /// Binds all of them, before any engine is opened.
    ///
    /// # Errors
    /// A port can't be bound.
    pub fn bind(settings: &Settings) -> Result<Self, Failure> {
        let bind = |key, address| service::listen::bind(key, address).map_err(Failure::unavailable);
        Ok(Self {
            gateway: bind("gateway.listen", settings.gateway.listen)?,
            analytics: bind("analytics.listen", settings.analytics.listen)?,
            publisher: bind("publisher.listen", settings.publisher.listen)?,
            admin: bind("telemetry.metrics_listen", settings.telemetry.metrics_listen)?,
        })
    }

    /// Where they listen, ports chosen by the system included.
    ///
    /// # Errors
    /// The system doesn't say.
    pub fn addresses(&self) -> Result<Addresses, Failure> {
        let url = |listener: &TcpListener| {
            listener
                .local_addr()
                .map(|address| format!("http://{address}"))
                .map_err(Failure::unavailable)
        };
        Ok(Addresses {
            pid: std::process::id(),
            gateway: url(&self.gateway)?,
            analytics: url(&self.analytics)?,
            publisher: url(&self.publisher)?,
            metrics: url(&self.admin)?,
        })
    }

    /// The admin port apart from the others: it serves from the first moment to the last.
    #[must_use]
    pub fn take_admin(self) -> (TcpListener, ServicePorts) {
        (
            self.admin,
            ServicePorts {
                gateway: self.gateway,
                analytics: self.analytics,
                publisher: self.publisher,
            },
        )
    }
}

/// A running service.
struct Running {
    name: &'static str,
    task: JoinHandle<Result<(), Failure>>,
    stop: CancellationToken,
}

impl Running {
    fn start(name: &'static str, run: impl AsyncService) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run.run(stop.clone()));
        Self { name, task, stop }
    }

    /// Asks it to stop, and waits; each service bounds its own drain.
    async fn finish(self) -> Result<(), Failure> {
        self.stop.cancel();
        self.task
            .await
            .map_err(|e| Failure::Unavailable(format!("the {} failed: {e}", self.name)))?
    }
}

/// Something that runs until its token is cancelled.
trait AsyncService {
    /// Runs it.
    fn run(self, stop: CancellationToken) -> impl Future<Output = Result<(), Failure>> + Send + 'static;
}

impl<F, T> AsyncService for F
where
    F: FnOnce(CancellationToken) -> T,
    T: Future<Output = Result<(), Failure>> + Send + 'static,
{
    fn run(self, stop: CancellationToken) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        self(stop)
    }
}

/// The running services.
pub struct Services {
    gateway: Running,
    verifier: Running,
    analytics: Running,
    publisher: Running,
    catch_up_max: Duration,
}

impl Services {
    /// Starts them.
    ///
    /// # Errors
    /// Threads can't be started, or the log gives no consumer.
    pub fn start(
        settings: &Settings,
        ports: ServicePorts,
        engines: &Engines,
        health: &Health,
    ) -> Result<Self, Failure> {
        // Two pools of the one kind of bridge: a block of the verifier's must not keep a request waiting.
        let pool = |name, queue_max| CpuPool::new(name, 0, queue_max).map_err(Failure::unavailable);
        let (gateway_cpu, verifier_cpu) = (
            pool("gateway", GATEWAY_QUEUE_MAX)?,
            pool("verifier", VERIFIER_QUEUE_MAX)?,
        );
        let verifier_deps = verifier::Deps {
            consumer: blocking(|| engines.log.consumer(verifier::GROUP))?,
            log: engines.log.inspector(),
            warehouse: engines.warehouse.clone(),
            policy: Some(PolicyBook::new(
                engines.accounts.clone(),
                settings.policy,
                settings.verifier.policy_cache_entries_max,
            )),
            dead_letters: blocking(|| engines.log.dead_letters())?,
            cpu: verifier_cpu,
            judge: Arc::new(Judge::new(
                settings.limits.clone(),
                settings.verifier.key_cache_entries_max,
            )),
            health: health.clone(),
        };
        let analytics_deps = analytics_api::Deps {
            warehouse: engines.warehouse.clone(),
            accounts: engines.accounts.clone(),
            log: engines.log.inspector(),
            limiter: Arc::clone(&engines.limiter),
            quotas: settings.quotas.clone(),
            health: health.clone(),
        };
        let outbound = outbound::Client::new(&settings.outbound).map_err(Failure::input)?;
        let authority = Authority::new(&settings.auth, settings.data.root(), &outbound).map_err(Failure::input)?;
        let publisher_deps = publisher_api::Deps {
            authority: Arc::new(authority),
            outbound,
            smtp: settings.smtp.clone(),
            cpu: CpuPool::new("publisher", 1, PUBLISHER_QUEUE_MAX).map_err(Failure::unavailable)?,
            accounts: engines.accounts.clone(),
            warehouse: engines.warehouse.clone(),
            limiter: Arc::clone(&engines.limiter),
            quotas: settings.quotas.clone(),
            health: health.clone(),
        };
        let publisher_config = settings.publisher.clone();
        let (gateway_config, verifier_config) = (settings.gateway.clone(), settings.verifier.clone());
        let analytics_config = settings.analytics.clone();
        let gateway_deps = gateway::Deps {
            limits: settings.limits.clone(),
            log: blocking(|| engines.log.writer())?,
            cpu: gateway_cpu,
            health: health.clone(),
            routes: gateway::Routes::All,
            entries: Some(Arc::new(StoredEntries(engines.accounts.clone()))),
        };
        let ServicePorts {
            gateway: gateway_port,
            analytics: analytics_port,
            publisher: publisher_port,
        } = ports;
        Ok(Self {
            gateway: Running::start("gateway", |stop| async move {
                match gateway::run(gateway_port, gateway_config, gateway_deps, stop).await {
                    // Nothing that was cut off had been acknowledged.
                    Err(late @ gateway::GatewayError::DrainTimeout { .. }) => warn!(%late, "the gateway's drain"),
                    other => other.map_err(Failure::unavailable)?,
                }
                Ok(())
            }),
            verifier: Running::start("verifier", |stop| async move {
                verifier::run(verifier_config, verifier_deps, stop)
                    .await
                    .map_err(Failure::unavailable)
            }),
            analytics: Running::start("analytics API", |stop| async move {
                analytics_api::run(analytics_port, analytics_config, analytics_deps, stop).await;
                Ok(())
            }),
            publisher: Running::start("publisher API", |stop| async move {
                publisher_api::run(publisher_port, publisher_config, publisher_deps, stop).await;
                Ok(())
            }),
            catch_up_max: Duration::from_millis(settings.verifier.drain_ms_max),
        })
    }

    /// Serves until `shutdown` or until one of them ends by itself, then drains the others in order.
    ///
    /// # Errors
    /// Why a service ended by itself, or what a drain met.
    pub async fn run(
        mut self,
        shutdown: &CancellationToken,
        engines: &Engines,
        health: &Health,
    ) -> Result<(), Failure> {
        let ended = tokio::select! {
            () = shutdown.cancelled() => None,
            ended = &mut self.gateway.task => Some((self.gateway.name, ended)),
            ended = &mut self.verifier.task => Some((self.verifier.name, ended)),
            ended = &mut self.analytics.task => Some((self.analytics.name, ended)),
            ended = &mut self.publisher.task => Some((self.publisher.name, ended)),
        };
        health.drain();
        let failure = ended.map(|(name, ended)| {
            let reason = match ended {
                Ok(Ok(())) => "it ended without being told to".to_owned(),
                Ok(Err(failure)) => failure.to_string(),
                Err(panicked) => panicked.to_string(),
            };
            error!(service = name, reason, "a service ended; draining the others");
            (name, Failure::Unavailable(format!("the {name} ended: {reason}")))
        });
        let (gone, failure) = failure.unzip();

        // Nothing new first; then what was acknowledged is counted; then whoever asks about it goes.
        let mut drained = Ok(());
        for service in [self.gateway, self.publisher, self.verifier, self.analytics] {
            if Some(service.name) == gone {
                continue;
            }
            if service.name == "verifier" {
                catch_up(engines, self.catch_up_max).await;
            }
            drained = drained.and(service.finish().await);
        }
        info!("drained");
        failure.map_or(drained, Err)
    }
}

/// Waits until the verifier has committed everything in the log, or until `wait_max` is over: the rest is verified
/// at the next start.
async fn catch_up(engines: &Engines, wait_max: Duration) {
    let log = engines.log.inspector();
    let deadline = Instant::now() + wait_max;
    loop {
        let behind: u64 = match log.partitions(verifier::GROUP).await {
            Ok(partitions) => partitions.iter().map(behind).sum(),
            Err(error) => {
                warn!(%error, "can't tell whether the verifier has caught up");
                return;
            }
        };
        if behind == 0 {
            return;
        }
        if Instant::now() >= deadline {
            warn!(records = behind, "left for the next start");
            return;
        }
        tokio::time::sleep(CATCH_UP_EVERY).await;
    }
}

/// Asks the log for what waits for the disk or the brokers.
fn blocking<T>(ask: impl FnOnce() -> Result<T, LogOpenError>) -> Result<T, Failure> {
    tokio::task::block_in_place(ask).map_err(Failure::unavailable)
}

fn behind(partition: &receipt_log::PartitionState) -> u64 {
    let committed = partition
        .committed
        .as_ref()
        .filter(|committed| committed.epoch == partition.epoch);
    partition
        .end_offset
        .saturating_sub(committed.map_or(0, |committed| committed.next_offset))
}
