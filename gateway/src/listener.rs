//! The port: its limits, regular work beside it, and the state of the gateway's dependencies.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use http_server::config::address_share;
use http_server::forwarded::is_trusted;
use http_server::listen::connections_within;
use http_server::{OpenConnections, ServerConfig, WhenFull};
use service::health::Component;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::GatewayError;
use crate::clock::ClockFault;
use crate::config::GatewayConfig;
use crate::connection::{Connection, Peer};
use crate::neighbour::{self, Neighbour};
use crate::sender::Sender;
use crate::shared::Shared;

/// Share of the open files for connections, in percent. The rest is for the analytics API, often in
/// the same process.
const FILES_PERCENT: u64 = 75;

const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Rates of senders that rest are evicted every so many rounds.
const EVICTION_ROUNDS: u64 = 10;

/// Accepts until `shutdown` and for `drain_delay_ms` more, then drains.
pub(crate) async fn listen(
    listener: TcpListener,
    shared: Arc<Shared>,
    neighbour: Option<Arc<dyn Neighbour>>,
    shutdown: CancellationToken,
) -> Result<(), GatewayError> {
    let open = Arc::new(OpenConnections::default());
    let handlers = |address: Option<IpAddr>| {
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let sender = Sender::from(address);
        let is_proxy = is_trusted(&shared.config.trusted_proxies, sender.address);
        let connection = Arc::new(Connection {
            shared: Arc::clone(&shared),
            peer: Peer { sender, is_proxy },
        });
        let neighbour = neighbour.clone();
        move |request| neighbour::answer(neighbour.as_ref(), &connection, request)
    };
    let serving = http_server::serve(
        listener,
        server_config(&shared.config),
        Arc::clone(&open),
        handlers,
        &shutdown,
    );
    let draining = async {
        shutdown.cancelled().await;
        shared.health.drain();
        std::future::pending::<()>().await;
    };
    let connections = tokio::select! {
        connections = serving => connections,
        () = upkeep(&shared, &open) => 0,
        () = draining => 0,
    };
    shared.meters.under_way(&open, shared.budget.bytes());
    if connections == 0 {
        return Ok(());
    }
    Err(GatewayError::DrainTimeout {
        connections,
        limit_ms: shared.config.drain_ms_max,
    })
}

fn server_config(config: &GatewayConfig) -> ServerConfig {
    let connections_max = connections_within("gateway", config.connections_max, FILES_PERCENT);
    ServerConfig {
        name: "gateway",
        connections_max,
        when_full: WhenFull::Refuse,
        address_connections_max: address_share(connections_max, config.address_share_percent_max),
        unlimited: config.trusted_proxies.clone(),
        head_bytes_max: config.head_bytes_max,
        streams_max: config.streams_max,
        half_close: true,
        head_wait_max: config.head_wait(),
        idle_wait_max: config.idle_wait(),
        unread_wait_max: config.answer_wait(),
        drain_delay: config.drain_delay(),
        drain_wait_max: config.drain_wait(),
    }
}

/// Reports metrics and dependencies once a second. Never ends.
async fn upkeep(shared: &Shared, open: &OpenConnections) {
    let mut log = Dependency::register(shared, "log");
    let clock = shared.health.register("clock");
    let registry = shared.registry.as_ref();
    let mut registry = registry.map(|cache| (cache.clone(), Dependency::register(shared, "client keys")));
    let mut ticks = interval(UPKEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0_u64.. {
        ticks.tick().await;
        shared.meters.under_way(open, shared.budget.bytes());
        log.report(shared.log.writable());
        match shared.clock.readiness() {
            Ok(()) => clock.ready(),
            Err(ClockFault::Apart(reason)) => clock.degraded(reason),
            Err(ClockFault::Stepped(reason)) => clock.not_ready(reason),
        }
        if let Some((cache, component)) = &mut registry {
            component.report(cache.readiness());
        }
        if round.is_multiple_of(EVICTION_ROUNDS) {
            let rates = [&shared.address_rate, &shared.address_bytes_rate, &shared.key_rate];
            for rate in rates.into_iter().flatten() {
                rate.forget_rested();
            }
        }
    }
}

/// State of the log, or of the registry of client keys, in `/readyz`.
///
/// A gateway that starts isn't ready before its log takes records and its client keys can be read.
/// Later it is only degraded without one of them: every gateway has the same ones, and were all
/// gateways taken out of their load balancer, clients would get its own error, or none, instead of
/// our 503 with `Retry-After`, and no request would be left to count against the service.
struct Dependency {
    component: Component,
    has_been_ready: bool,
}

impl Dependency {
    fn register(shared: &Shared, name: &str) -> Self {
        Self {
            component: shared.health.register(name),
            has_been_ready: false,
        }
    }

    fn report(&mut self, readiness: Result<(), String>) {
        match readiness {
            Ok(()) => {
                self.has_been_ready = true;
                self.component.ready();
            }
            Err(reason) if self.has_been_ready => self.component.degraded(reason),
            Err(reason) => self.component.not_ready(reason),
        }
    }
}
