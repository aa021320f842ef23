//! The connection: made, watched, given up and made again. While there is none, nobody asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, TlsCertificates};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::crypto::aws_lc_rs;

use super::{Asking, RedisConfig, RedisError};
use crate::health::Component;
use crate::reload;

/// Time-outs in a row after which the connection is given up: one may be a pause of ours or of
/// Redis's.
const TIMEOUTS_MAX: u32 = 3;
/// Interval at which an idle connection is tried.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Pauses between tries to connect, doubled from the least to the longest, each with up to half of
/// it off by chance.
const PAUSE_LEAST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(2);

/// The connection as the questions see it.
pub(super) struct Link {
    up: Mutex<Option<LiveConnection>>,
    timeouts: AtomicU32,
    lost: Notify,
    component: Component,
}

/// A connection that answers, and its number: news of an earlier one mean nothing for it.
#[derive(Clone)]
pub(super) struct LiveConnection {
    pub(super) connection: MultiplexedConnection,
    pub(super) number: u64,
}

impl Link {
    pub(super) fn new(component: Component) -> Self {
        let link = Self {
            up: Mutex::new(None),
            timeouts: AtomicU32::new(0),
            lost: Notify::new(),
            component,
        };
        link.show_degraded("connecting");
        link
    }

    /// The connection, if there is one that answers.
    pub(super) fn up(&self) -> Option<LiveConnection> {
        self.up.lock().clone()
    }

    pub(super) fn answered(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
    }

    /// Any error but a time-out: the connection is gone, or Redis can't count now.
    pub(super) fn failed(&self, number: u64, why: &str) {
        let mut up = self.up.lock();
        if up.as_ref().is_some_and(|up| up.number == number) {
            *up = None;
            drop(up);
            self.show_degraded(why);
            self.lost.notify_one();
        }
    }

    pub(super) fn timed_out(&self, number: u64, wait_max: Duration) {
        if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_MAX {
            self.failed(number, &format!("no answer within {} ms", wait_max.as_millis()));
        }
    }

    fn connected(&self, connection: MultiplexedConnection, number: u64) {
        self.answered();
        *self.up.lock() = Some(LiveConnection { connection, number });
        metrics::gauge!("receipts_limiter_degraded").set(0);
        self.component.ready();
    }

    fn show_degraded(&self, why: &str) {
        metrics::gauge!("receipts_limiter_degraded").set(1);
        self.component
            .degraded(format!("each process counts requests by itself: {why}"));
    }
}

/// Settings of a connection.
pub(super) struct Connector {
    /// Replaced when SIGHUP has `redis.tls_ca_file` read again.
    client: Arc<Mutex<Client>>,
    wait_max: Duration,
}

impl Connector {
    pub(super) fn new(config: &RedisConfig) -> Result<Self, RedisError> {
        let client = Arc::new(Mutex::new(client(config)?));
        if config.tls_ca_file.is_some() {
            let (config, used) = (config.clone(), Arc::downgrade(&client));
            reload::register("redis.tls_ca_file", move || {
                let read = self::client(&config).map_err(|error| error.to_string())?;
                if let Some(used) = used.upgrade() {
                    *used.lock() = read;
                }
                Ok(())
            });
        }
        Ok(Self {
            client,
            wait_max: Duration::from_millis(config.connect_ms_max),
        })
    }

    /// Tries to connect once.
    pub(super) async fn try_once(&self, link: &Link, asking: &Asking) {
        self.connect(link, asking, 0).await;
    }

    /// Keeps `link` connected as long as it is polled.
    pub(super) async fn keep(&self, link: &Link, asking: &Asking) {
        let mut pause = PAUSE_LEAST;
        for number in 1.. {
            if link.up().is_some() {
                watch(link, asking).await;
                pause = PAUSE_LEAST;
            } else {
                sleep(shortened(pause)).await;
                pause = (pause * 2).min(PAUSE_LONGEST);
            }
            if link.up().is_none() {
                self.connect(link, asking, number).await;
            }
        }
    }

    async fn connect(&self, link: &Link, asking: &Asking, number: u64) {
        // Both limits are ours, around everything: the name, the handshakes, the login and a first
        // question.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let client = self.client.lock().clone();
        let connecting = async {
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            let mut connection = connection.await?;
            asking.probe(&mut connection).await?;
            Ok(connection)
        };
        match timeout(self.wait_max, connecting).await {
            Ok(Ok(connection)) => link.connected(connection, number),
            Ok(Err::<_, redis::RedisError>(error)) => link.show_degraded(&error.to_string()),
            Err(_) => link.show_degraded(&format!("no connection within {} ms", self.wait_max.as_millis())),
        }
    }
}

/// A client that knows whom to trust: it reads `redis.tls_ca_file`.
fn client(config: &RedisConfig) -> Result<Client, RedisError> {
    let fault = |key, what: String| RedisError { key, what };
    let info = config.connection().map_err(|what| fault("url", what))?;
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        // The client takes the process's provider; whoever set one already meant it.
        let _ = aws_lc_rs::default_provider().install_default();
        let root_cert = match &config.tls_ca_file {
            None => None,
            Some(path) => {
                let read = std::fs::read(path);
                let read = read.map_err(|error| fault("tls_ca_file", format!("{}: {error}", path.display())))?;
                if !read.windows(10).any(|bytes| bytes == b"-----BEGIN") {
                    return Err(fault(
                        "tls_ca_file",
                        format!("{}: it holds no PEM certificate", path.display()),
                    ));
                }
                Some(read)
            }
        };
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert,
        };
        Client::build_with_tls(info, certificates).map_err(|error| fault("tls_ca_file", error.to_string()))
    } else {
        Client::open(info).map_err(|error| fault("url", error.to_string()))
    }
}

/// Asks every now and then, so that a silent death is seen without a request's help, until the
/// connection is lost.
async fn watch(link: &Link, asking: &Asking) {
    let lost = link.lost.notified();
    let probing = async {
        while let Some(LiveConnection { mut connection, number }) = link.up() {
            match timeout(asking.wait_max, asking.probe(&mut connection)).await {
                Ok(Ok(())) => link.answered(),
                Ok(Err(error)) => link.failed(number, &error.to_string()),
                Err(_) => link.timed_out(number, asking.wait_max),
            }
            sleep(PROBE_EVERY).await;
        }
    };
    tokio::select! {
        () = lost => {}
        () = probing => {}
    }
}

/// Half to all of `pause`, by chance, so that replicas don't come back all at once.
fn shortened(pause: Duration) -> Duration {
    let (chance, _) = uuid::Uuid::new_v4().as_u64_pair();
    let half = pause / 2;
    half + half.mul_f64((chance >> 32) as f64 / f64::from(u32::MAX))
}
