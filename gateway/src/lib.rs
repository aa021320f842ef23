//! The gateway: takes receipts over HTTP and acknowledges only what the log holds durably.
//!
//! | module | noun |
//! |---|---|
//! | `listener` | accepts up to a limit, keeps house, drains |
//! | `connection`, `wire`, `pulse`, `watch` | HTTP/1.1 or h2c on one socket, and how long it may be silent |
//! | `exchange`, `route`, `call` | one request and its answer: what it asks for, who sent it, where that one stands |
//! | `submit`, `append`, `explain` | what is done with receipts |
//! | `body`, `encoding`, `inflate`, `admission`, `buffer` | from the socket to decoded bytes, bounded in bytes, time and pace |
//! | `sender`, `rate`, `source` | who sends, receipts a second for each address and client, what one address may hold unfinished |
//! | `answer`, `outgoing`, `meters` | what goes out: answers, problems, metrics |
#![forbid(unsafe_code)]

mod admission;
mod answer;
mod append;
mod body;
mod buffer;
mod call;
mod config;
mod connection;
mod encoding;
mod exchange;
mod explain;
mod inflate;
mod listener;
mod meters;
mod outgoing;
mod pulse;
mod rate;
mod route;
mod sender;
mod shared;
mod source;
mod submit;
mod watch;
mod wire;

use std::sync::Arc;

use receipt::Limits;
use receipt_log::LogWriter;
use service::cpu::CpuPool;
use service::health::Health;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use shared::Shared;

pub use config::{GatewayConfig, RequestSignature};
pub use sender::Network;

/// Why the gateway couldn't run, or didn't end well.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Settings that don't fit together.
    #[error("{0}")]
    Config(String),
    /// Requests were still under way when the time to drain was over; none of them was acknowledged.
    #[error("{connections} connections were cut at the end of the drain, after {limit_ms} ms")]
    DrainTimeout {
        /// How many.
        connections: usize,
        /// The time they had.
        limit_ms: u64,
    },
}

/// Serves `listener` until `shutdown`, then drains for at most `drain_ms_max`.
///
/// Registers the component `log` with `health` and says every second whether the log takes records.
///
/// # Errors
/// [`GatewayError::Config`] before anything is served, [`GatewayError::DrainTimeout`] at the end.
pub async fn run(
    listener: TcpListener,
    config: GatewayConfig,
    limits: Limits,
    log: Arc<dyn LogWriter>,
    cpu: CpuPool,
    health: Health,
    shutdown: CancellationToken,
) -> Result<(), GatewayError> {
    limits.validate().map_err(GatewayError::Config)?;
    config.fits(&limits).map_err(GatewayError::Config)?;
    let shared = Arc::new(Shared::new(config, limits, log, cpu, health));
    listener::listen(listener, shared, shutdown).await
}
