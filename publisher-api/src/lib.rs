//! The publisher's side: API keys, domain verification, entries, data-subject rights. JSON over HTTP/1.1 and h2c, on axum.
//!
//! - [`config`]: the section `[publisher]`
//! - `app`: what handlers share, and which address leads to which; `routes`: one file a noun
//! - `openapi`: the document of all of them (OpenAPI 3.1), made from the code
//! - `readiness`: whether the engines answer
//!
//! Whoever asks shows an API key, whose scope must be `read` for GET and `write` for anything else, or a JWT where the question is
//! about a person and their keys. Someone else's row is 404, exactly as one that doesn't exist.

#![forbid(unsafe_code)]

mod app;
pub mod config;
mod openapi;
mod readiness;
mod routes;

use std::sync::Arc;

use accounts::Accounts;
use service::health::Health;
use service::rate_limit::{QuotasConfig, RateLimiter};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use warehouse::Warehouse;

pub use config::PublisherConfig;
pub use openapi::document;

/// What the API stands on.
#[derive(Clone)]
pub struct Deps {
    /// Accounts, keys, domains, entries.
    pub accounts: Accounts,
    /// Receipts, for export and erasure.
    pub warehouse: Warehouse,
    /// Counts requests by API key.
    pub limiter: Arc<dyn RateLimiter>,
    /// The quota of each tier.
    pub quotas: QuotasConfig,
    /// Told how accounts and warehouse are (`publisher.accounts`, ...), and answers `/readyz`.
    pub health: Health,
}

/// Serves `listener` until `shutdown`, then finishes what is under way, for at most `config.drain_ms_max`.
pub async fn run(listener: TcpListener, config: PublisherConfig, deps: Deps, shutdown: CancellationToken) {
    let engines = readiness::Engines::register(&deps.health);
    let app = Arc::new(app::App { config, deps });
    let watching = tokio::spawn(engines.watch(Arc::clone(&app)));
    web::serve(listener, app::router(&app), &app.config.connections(), &shutdown).await;
    watching.abort();
}
