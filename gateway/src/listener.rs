//! The listener: accepts connections up to a limit, cleans up once a second, and drains at the
//! end.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use service::health::Component;
use service::telemetry::LineLimit;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::GatewayError;
use crate::connection::{Peer, protocol, serve};
use crate::pulse::Pulse;
use crate::sender::{Sender, is_trusted};
use crate::shared::Shared;
use crate::source::Seat;
use crate::watch::Watch;

const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// Rested senders are forgotten every so many rounds of housekeeping.
const FORGET_ROUNDS: u64 = 10;

/// Pause of accepting when the system has no file or memory for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// A line for all the failures of a while.
static CANNOT_ACCEPT: LineLimit = LineLimit::new("gateway accept", Duration::from_secs(10));

/// By how much the watch may be late for the deadline of a drain, and streams of HTTP/2 may outlive
/// their connection, before they are given up.
const LATE_MAX: Duration = Duration::from_secs(2);

/// Answer to a connection over the limit. Written by hand: it costs a few microseconds and no
/// memory.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: 157\r\n\
retry-after: 1\r\nconnection: close\r\n\r\n\
{\"type\":\"/problems/overloaded\",\"title\":\"The service is at its limit\",\"status\":503,\
\"code\":\"overloaded\",\"detail\":\"as many connections are open as are allowed\"}";

/// Accepts until `shutdown`, then drains.
pub(crate) async fn listen(
    listener: TcpListener,
    shared: Arc<Shared>,
    shutdown: CancellationToken,
) -> Result<(), GatewayError> {
    let tasks = TaskTracker::new();
    let protocol = Arc::new(protocol(&shared.config, tasks.clone()));
    let connections_max = shared.connections_max;
    let places = Arc::new(Semaphore::new(connections_max));
    let watch = Arc::new(Watch::new(&shared.config));
    let watching = AbortOnDrop(tokio::spawn(look_about(Arc::clone(&watch))));
    let cut = Arc::new(AtomicUsize::new(0));
    let mut log = Dependency::register(&shared, "log");
    let registry = shared.registry.as_ref();
    let mut registry = registry.map(|cache| (cache.clone(), Dependency::register(&shared, "client keys")));
    let mut housekeeping = interval(HOUSEKEEPING_INTERVAL);
    housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rounds = 0;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            _ = housekeeping.tick() => {
                keep_house(&shared, connections_max - places.available_permits(), rounds);
                log.report(shared.log.writable());
                if let Some((cache, component)) = &mut registry {
                    component.report(cache.readiness());
                }
                rounds += 1;
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let sender = Sender::from(peer.ip());
                    let is_proxy = is_trusted(&shared.config.trusted_proxies, sender.address);
                    let peer = Peer { sender, is_proxy };
                    let place = Arc::clone(&places).try_acquire_owned().ok();
                    let Some((place, seat)) = place.and_then(|place| Some((place, seat(peer, &shared)?))) else {
                        turn_away(stream, peer, &shared);
                        continue;
                    };
                    let pulse = Arc::new(Pulse::new());
                    let watched = watch.add(Arc::clone(&pulse));
                    let connection = serve(stream, peer, Arc::clone(&shared), Arc::clone(&protocol), pulse);
                    let cut = Arc::clone(&cut);
                    tasks.spawn(async move {
                        if connection.await {
                            cut.fetch_add(1, Ordering::Relaxed);
                        }
                        drop((watched, place, seat));
                    });
                }
                Err(error) => pause_if_exhausted(&error).await,
            },
        }
    }
    drop(listener);
    shared.health.drain();
    watch.drain(Instant::now());
    tasks.close();
    let limit = shared.config.drain_wait();
    let in_time = timeout(limit + LATE_MAX, tasks.wait()).await.is_ok();
    drop(watching);
    let connections = cut.load(Ordering::Relaxed) + if in_time { 0 } else { tasks.len() };
    shared.meters.under_way(0, shared.admission.bytes());
    if connections == 0 {
        return Ok(());
    }
    Err(GatewayError::DrainTimeout {
        connections,
        limit_ms: shared.config.drain_ms_max,
    })
}

/// A place in the account of the connection's address. A trusted proxy needs none: its address
/// sends nothing itself.
fn seat(peer: Peer, shared: &Shared) -> Option<Option<Seat>> {
    if peer.is_proxy {
        return Some(None);
    }
    shared.sources.connect(peer.sender.key).map(Some)
}

async fn look_about(watch: Arc<Watch>) {
    let mut looks = interval(watch.interval());
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        watch.look(Instant::now());
    }
}

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// State of the log, or of the registry of client keys, in `/readyz`.
///
/// A gateway that starts isn't ready before its log takes records and its client keys can be read.
/// Later it is only degraded without one of them: every gateway has the same ones, and were all
/// gateways taken out of their load balancer, clients would get its own error, or none, in place of
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

fn keep_house(shared: &Shared, connections: usize, round: u64) {
    shared.meters.under_way(connections, shared.admission.bytes());
    if round.is_multiple_of(FORGET_ROUNDS) {
        let rates = [&shared.address_rate, &shared.address_bytes_rate, &shared.key_rate];
        for rate in rates.into_iter().flatten() {
            rate.forget_rested();
        }
    }
}

/// Says why and closes. What has come already is read first: a socket closed with bytes unread is
/// reset, and the answer lost.
fn turn_away(stream: TcpStream, peer: Peer, shared: &Shared) {
    shared.meters.connection_refused();
    tracing::debug!(peer = %peer.sender.address, "turned away: as many connections as allowed");
    let Ok(mut stream) = stream.into_std() else { return };
    // Neither may block, tokio's sockets don't; whether the answer fits is up to a socket buffer
    // that is still empty.
    let mut came = [0; 2_048];
    let _ = stream.read(&mut came);
    let _ = stream.write(FULL);
}

async fn pause_if_exhausted(error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    // The connection died before it was accepted: that concerns nobody else.
    if matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    ) {
        return;
    }
    if let Some(suppressed) = CANNOT_ACCEPT.pass() {
        tracing::warn!(%error, suppressed, "can't accept connections now");
    }
    sleep(EXHAUSTED_PAUSE).await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_answer_to_a_connection_too_many_is_whole() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{}",
            body.len()
        );
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["code"], "overloaded");
    }
}
