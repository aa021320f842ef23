//! The gateway: takes receipts over HTTP and acknowledges only what the log holds durably.
//!
//! | module | noun |
//! |---|---|
//! | `listener`, `connection` | the port, regular work beside it, and its connections |
//! | [`neighbour`] | other services on the same port |
//! | `exchange`, `route`, `call` | a request, its sender, and its answer |
//! | `clock` | the instant of its arrival |
//! | `submit`, `registered`, `append` | a receipt or batch on its way to the log |
//! | `gatherer`, `checked_receipt` | what waits for the CPU, together |
//! | `explain`, `webhook`, `entry_book` | other addresses that take receipts |
//! | `body`, `body_kind`, `encoding`, `inflate` | a body's bytes, bounded |
//! | `budget`, `buffer` | the memory of bodies and long answers, shared fairly |
//! | `sender`, `rate` | limits by address and client |
//! | [`acknowledgement`] | the signed part of a 202, and the keys that sign it |
//! | `documents` | OpenAPI, JSON Schemas, pages of problem codes |
//! | `answer`, `refusal`, `meters` | what goes out: answers, problems, metrics |
#![forbid(unsafe_code)]

pub mod acknowledgement;
mod answer;
mod append;
mod body;
mod body_kind;
mod budget;
mod buffer;
mod call;
mod checked_receipt;
mod clock;
mod config;
mod connection;
mod documents;
mod encoding;
mod entry_book;
mod exchange;
mod explain;
mod gatherer;
mod inflate;
mod listener;
mod meters;
pub mod neighbour;
mod not_signed;
mod rate;
mod refusal;
mod registered;
mod route;
mod sender;
mod shared;
mod submit;
mod webhook;

use std::sync::Arc;

use accounts::RegistryCache;
use receipt::Limits;
use receipt_log::LogWriter;
use service::cpu::CpuPool;
use service::health::Health;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use entry_book::EntryFile;
use shared::Shared;

pub use self::config::{GatewayConfig, WebhookEntries};
pub use acknowledgement::{AcknowledgementKeyError, AcknowledgementKeys};
pub use entry_book::{EntryBook, NamedEntry};
pub use http_server::address::Network;
pub use neighbour::Neighbour;
pub use route::Routes;

/// Why the gateway couldn't run, or didn't end well.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Settings that don't fit together.
    #[error("{0}")]
    Config(String),
    /// Requests were still in progress when the time to drain was over; none of them was
    /// acknowledged.
    #[error("{connections} connections were cut at the end of the drain, after {limit_ms} ms")]
    DrainTimeout {
        /// Number of connections.
        connections: usize,
        /// The time they had.
        limit_ms: u64,
    },
}

/// Dependencies of the gateway.
#[derive(Clone)]
pub struct Deps {
    /// The rules of receipts and batches.
    pub limits: Limits,
    /// Log for the records.
    pub log: Arc<dyn LogWriter>,
    /// Checks bodies and signatures.
    pub cpu: CpuPool,
    /// Told how the log is, as the component `log`, and answers `/readyz`.
    pub health: Health,
    /// Addresses that are served.
    pub routes: Routes,
    /// The entries there are, for `[gateway] webhook_entries = "required"` without a file.
    pub entries: Option<Arc<dyn EntryBook>>,
    /// Registered client keys, for `[policy] clients = "registered"`; `None`: any key may sign.
    pub registry: Option<RegistryCache>,
    /// Sign acknowledgements, and are published.
    pub acknowledgement_keys: Arc<AcknowledgementKeys>,
}

/// Serves `listener` until `shutdown` and for `drain_delay_ms` more, in which connections are
/// closed after their answers. Then drains for at most `drain_ms_max`. Reports every second
/// whether the log takes records.
///
/// # Errors
/// [`GatewayError::Config`] before anything is served, [`GatewayError::DrainTimeout`] at the end.
pub async fn run(
    listener: TcpListener,
    config: GatewayConfig,
    deps: Deps,
    shutdown: CancellationToken,
) -> Result<(), GatewayError> {
    run_beside(listener, None, config, deps, shutdown).await
}

/// [`run`], with other services on the same port.
///
/// # Errors
/// As [`run`].
pub async fn run_beside(
    listener: TcpListener,
    neighbour: Option<Arc<dyn Neighbour>>,
    config: GatewayConfig,
    deps: Deps,
    shutdown: CancellationToken,
) -> Result<(), GatewayError> {
    let entries = entries(&config, &deps, &shutdown).await.map_err(GatewayError::Config)?;
    let shared = Arc::new(Shared::new(config, deps, entries));
    listener::listen(listener, shared, neighbour, shutdown).await
}

/// The entries to ask: the file's, or the ones given; none where none are required.
async fn entries(
    config: &GatewayConfig,
    deps: &Deps,
    shutdown: &CancellationToken,
) -> Result<Option<Arc<dyn EntryBook>>, String> {
    if config.webhook_entries == WebhookEntries::Any {
        return Ok(None);
    }
    let Some(path) = &config.webhook_entries_file else {
        let missing = "gateway.webhook_entries is `required`, and nothing here knows the entries: give gateway.webhook_entries_file";
        return deps.entries.clone().map(Some).ok_or_else(|| missing.to_owned());
    };
    let (file, version) = EntryFile::open(path, &deps.cpu).await?;
    let file = Arc::new(file);
    tokio::spawn(Arc::clone(&file).watch(version, deps.cpu.clone(), shutdown.clone()));
    Ok(Some(file))
}
