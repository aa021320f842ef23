//! A publisher's receiver: what stands at the webhook address that AI clients deliver receipts to.
//!
//! The receiver is the gateway with one address, `POST /api/service/receipt`, and so has its
//! limits, encodings, back-pressure and durability: 200 means that every signature is good and that
//! the log has the receipt durably. `GET /healthz` and `/readyz` are there too. TLS is the web
//! server's in front, which passes this one path on; name it in `[gateway] trusted_proxies`.
//!
//! `receipts serve webhook` is a process of it, configured as the gateway is: `[gateway]`,
//! `[limits]`, `[log]`, `[kafka]`, `[telemetry]`, `[data]`. The log is the embedded one under
//! `[data] dir`, which belongs to one process at a time: `receipts up` on the same directory,
//! later, counts its receipts (and accepts new ones itself, at the same address). A publisher who
//! has a program of their own around it calls [`run`].
//!
//! Receipts for entries that the publisher doesn't have are answered 404 with
//! `[gateway] webhook_entries = "required"` and a `webhook_entries_file`.
#![forbid(unsafe_code)]

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use gateway::{
    AcknowledgementKeys, Deps, EntryBook, GatewayConfig, GatewayError, NamedEntry, Routes, WebhookEntries,
};

/// Serves `listener` until `shutdown`; whatever routes `deps` names, only the webhook's.
///
/// # Errors
/// As [`gateway::run`].
pub async fn run(
    listener: TcpListener,
    config: GatewayConfig,
    deps: Deps,
    shutdown: CancellationToken,
) -> Result<(), GatewayError> {
    let routes = Routes::Webhook;
    gateway::run(listener, config, Deps { routes, ..deps }, shutdown).await
}
