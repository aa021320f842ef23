//! The publisher's side: API keys, domain verification, entries, data-subject rights. JSON over
//! HTTP/1.1 and h2c, on axum.
//!
//! - [`config`]: the section `[publisher]`
//! - `app`: what handlers share, and which address leads to which; `routes`: one file a noun
//! - `export`: everything that is stored of a publisher, page by page; [`erasing`]: erasures
//!   carried out
//! - `proofs`: published proofs of domains, checked again; claims of other accounts, decided
//! - `lease`: work that one replica does for all
//! - `operators`: key directories of AI operators, and proofs of possession
//! - `openapi`: the document of all of them (OpenAPI 3.1), made from the code
//! - [`jwt`]: tokens of an identity provider; `identity`: the user behind one
//! - `readiness`: whether the engines answer
//!
//! A client shows an API key, whose scope must be `read` for GET, `erase` where something is
//! erased, and `write` for anything else, or a JWT where the request is about a person and their
//! keys. Only lookups of entries by URL need neither. Someone else's row is 404, exactly as one
//! that doesn't exist.

#![forbid(unsafe_code)]

mod app;
pub mod config;
pub mod erasing;
pub mod expiry;
mod export;
mod identity;
pub mod jwt;
mod lease;
mod openapi;
mod operators;
mod proofs;
mod readiness;
mod routes;
mod tasks;
mod verification;

use std::sync::Arc;
use std::time::Duration;

use accounts::Accounts;
use service::cpu::CpuPool;
use service::health::Health;
use service::rate_limit::{QuotasConfig, RateLimiter};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use verification::Looker;
use warehouse::Warehouse;
use web::shares::Commons;

pub use config::PublisherConfig;
pub use erasing::Eraser;
pub use expiry::{Postman, SmtpConfig};
pub use jwt::{AuthConfig, Authority};
pub use openapi::document;
use operators::Directories;
pub use operators::operator_key;

/// Dependencies of the API.
#[derive(Clone)]
pub struct Deps {
    /// Accounts, keys, domains, entries.
    pub accounts: Accounts,
    /// Receipts, for export and erasure.
    pub warehouse: Warehouse,
    /// Counts requests by account.
    pub limiter: Arc<dyn RateLimiter>,
    /// The quota of each tier.
    pub quotas: QuotasConfig,
    /// Issuer whose JWTs are trusted.
    pub authority: Arc<Authority>,
    /// The way out to domains and webhooks that publishers name.
    pub outbound: outbound::Client,
    /// The server that takes mails.
    pub smtp: SmtpConfig,
    /// Reads home pages.
    pub cpu: CpuPool,
    /// Told how accounts and warehouse are (`publisher.accounts`, ...), and answers `/readyz`.
    pub health: Health,
}

/// Serves `listener` until `shutdown`, then finishes what is in progress, requests and a mail, for
/// at most `config.drain_ms_max` in all.
pub async fn run(listener: TcpListener, config: PublisherConfig, deps: Deps, shutdown: CancellationToken) {
    let engines = readiness::Engines::register(&deps.health);
    let eraser = Eraser::new(
        deps.accounts.clone(),
        deps.warehouse.clone(),
        config.erasure_look_after_days.into(),
        config.address_days_max.into(),
    );
    let pause = Duration::from_millis(config.erasure_interval_ms);
    let postman = Postman::new(deps.accounts.clone(), deps.smtp.clone());
    let expiry_pause = Duration::from_millis(config.expiry_interval_ms);
    let directories = Directories {
        accounts: deps.accounts.clone(),
        client: deps.outbound.clone(),
        cpu: deps.cpu.clone(),
    };
    let directory_pause = Duration::from_millis(config.directory_interval_ms);
    let local = listener.local_addr().unwrap_or(config.listen);
    let app = Arc::new(app::App {
        exports: export::stream::Places::new(config.exports_max),
        lookup_bodies: Commons::new(config.lookup_bodies_max),
        erasures_wanted: Arc::new(Notify::new()),
        looker: Looker::new(deps.outbound.clone(), deps.cpu.clone(), config.looks_max),
        expiry_mails: deps.smtp.host().is_some(),
        public_url: config.public_url.clone().unwrap_or_else(|| format!("http://{local}")),
        directories: directories.clone(),
        config,
        deps,
    });
    let erasing = tokio::spawn(erasing::watch(eraser, Arc::clone(&app.erasures_wanted), pause));
    let watching = tokio::spawn(engines.watch(Arc::clone(&app)));
    let fetching = {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            app.deps
                .authority
                .watch(&app.deps.health, || app.deps.accounts.now_ms())
                .await
        })
    };
    let directories = tokio::spawn(operators::watch(directories, directory_pause));
    let proving = tokio::spawn(proofs::watch(Arc::clone(&app), expiry_pause));
    let posting = tokio::spawn(expiry::watch(postman, expiry_pause, shutdown.clone()));
    let serving = web::serve(listener, app::router(&app), app.config.connections(), &shutdown);
    // A mail that is being sent is better finished, in the same time as the requests: both count
    // from the signal.
    let limit = Duration::from_millis(app.config.drain_ms_max);
    let ((), posted) = tokio::join!(serving, service::shutdown::drain("mails", &shutdown, limit, posting));
    watching.abort();
    fetching.abort();
    erasing.abort();
    directories.abort();
    proving.abort();
    if let Err(late) = posted {
        tracing::warn!(%late, "a mail was still being sent at the end");
    }
}
