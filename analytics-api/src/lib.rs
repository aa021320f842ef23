//! Analytics API for publishers: dashboard, content, clients, time series, receipt lookup. JSON
//! over HTTP/1.1 and h2c, on axum.
//!
//! - [`config`]: the section `[analytics]`
//! - `hints`: what a sender should change; `log_cursor`: positions in all partitions of the log
//! - `sender`: callers who prove a key; `cached_senders`: keys that have sent receipts; `waiting`:
//!   requests that wait for an outcome
//! - `access`: the domains a caller may see; keys, quotas and the envelope of answers are the crate
//!   `web`'s
//! - `state`: what handlers share; `router`: which address leads to which, and who may request it;
//!   `routes`: one file an address; `answers`: types that several answers share
//! - [`range`], `selection`: the times and the filter of a query string
//! - [`buckets`]: where the points of a time series begin and end
//! - [`progress`], [`watermark`]: what the writers have stored, and `completeThrough`; [`gate`]:
//!   how many queries are at work
//! - `parameters`: every parameter, as it is in the OpenAPI document that `openapi` makes;
//!   `cursor`: positions in lists
//! - `receipt_query`: a query of receipts and the form of its answer
//! - `snapshot`: what an answer is made from; `streams`: limits of streamed answers
//! - `format`: an answer as JSON or rows; `labels`: what publishers call their entries; `signers`:
//!   whether an account trusts them, and who claims their client IDs
//! - `page`: the dashboard page's files
//! - `live`: server-sent events; [`cost`]: the cost of a request in units of the quota
//! - `readiness`: whether the engines answer; `freshness`: how far behind `completeThrough` is;
//!   `auditing`: whether the tables hold what the ledger counts; `usage_check`: whether
//!   aggregates are equal to the receipts; `reports`: mails about numbers
//!
//! Every answer is scoped to the verified domains of the caller's key, and says by
//! `completeThrough` up to when everything acknowledged is counted in it. Ranges are half-open,
//! `[from, to)`, over the time of access that a receipt states (refusals: the time the gateway took
//! it), and all there is without `from` and `to`; only time series have ranges of their own then.
//! An unknown receipt is 200 with status `unknown`; an entry or client without any receipt is 404,
//! unless the account lists the entry.

#![forbid(unsafe_code)]

mod access;
mod answers;
mod audit_findings;
mod auditing;
pub mod buckets;
mod cached_senders;
pub mod completeness;
pub mod config;
pub mod cost;
mod cursor;
mod format;
mod freshness;
pub mod gate;
mod hints;
mod labels;
mod live;
mod log_cursor;
mod openapi;
mod page;
mod parameters;
pub mod progress;
mod query_parsing;
pub mod range;
mod ranking;
mod readiness;
mod receipt_query;
mod reports;
mod router;
mod routes;
mod selection;
mod sender;
mod signers;
mod snapshot;
mod state;
mod streams;
mod usage_check;
mod waiting;
pub mod watermark;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accounts::Accounts;
use axum::Router;
use service::health::Health;
use service::rate_limit::{QuotasConfig, RateLimiter};
use service::retry::cancel_after;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use warehouse::Warehouse;

use live::Live;
use state::AnalyticsState;

pub use self::config::{AnalyticsConfig, DEFAULT_LISTEN};
pub use progress::Progress;
pub use reports::Reporter;
pub use router::document;

/// Prefixes of the addresses that no other service has, for ports and hosts that several share.
pub const PREFIXES: [&str; 6] = [
    "/api/v1/analytics",
    "/api/v1/client",
    "/api/v1/receipts",
    "/dashboard",
    "/docs/analytics",
    "/openapi/analytics.json",
];

/// Dependencies of the API.
#[derive(Clone)]
pub struct Deps {
    /// Warehouse of the numbers.
    pub warehouse: Warehouse,
    /// API keys and domains.
    pub accounts: Accounts,
    /// The writers' progress, for `completeThrough`: usually the warehouse.
    pub progress: Arc<dyn Progress>,
    /// Counts requests by account.
    pub limiter: Arc<dyn RateLimiter>,
    /// The quota of each tier.
    pub quotas: QuotasConfig,
    /// Shows the state of warehouse, progress and accounts (`analytics.warehouse`, ...), and
    /// answers `/readyz`.
    pub health: Health,
}

/// Regular work beside the requests. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the work ends with it"]
pub struct AnalyticsWork {
    _tasks: [AbortOnDropHandle<()>; 5],
}

/// Starts the regular work, and returns it with all addresses, for a port at `local` that somebody
/// else serves. Streams and waiting requests end with `shutdown`.
pub fn start(
    config: AnalyticsConfig,
    deps: Deps,
    local: SocketAddr,
    shutdown: &CancellationToken,
) -> (Router, AnalyticsWork) {
    if config.public_url.is_none() && !local.ip().is_loopback() {
        tracing::warn!(
            "analytics.public_url isn't set: senders' signed requests are accepted for {local} and loopback names \
             only; set it to the URL that clients use"
        );
    }
    let engines = readiness::CheckedEngines::register(&deps.health);
    let app = Arc::new(AnalyticsState::new(config, deps, shutdown.clone()));
    let live = Arc::new(Live::new(Arc::clone(&app), shutdown.clone()));
    let tasks = [
        tokio::spawn(engines.watch(Arc::clone(&app))),
        tokio::spawn(auditing::watch(Arc::clone(&app))),
        tokio::spawn(usage_check::watch(Arc::clone(&app))),
        tokio::spawn(live::follower::follow(Arc::clone(&live))),
        tokio::spawn(Reporter::of(Arc::clone(&app)).watch()),
    ];
    let work = AnalyticsWork {
        _tasks: tasks.map(AbortOnDropHandle::new),
    };
    (router::router(&app, live, local), work)
}

/// Serves `listener` until `shutdown` and for `config.drain_delay_ms` more. Then it ends streams
/// and finishes what is in progress, for at most `config.drain_ms_max`.
pub async fn run(listener: TcpListener, config: AnalyticsConfig, deps: Deps, shutdown: CancellationToken) {
    let local = listener.local_addr().ok().or(config.listen).unwrap_or(DEFAULT_LISTEN);
    let connections = config.connections();
    let stop = CancellationToken::new();
    let delay = Duration::from_millis(config.drain_delay_ms);
    let _stops = cancel_after(shutdown.clone(), stop.clone(), delay);
    let (router, work) = start(config, deps, local, &stop);
    web::serve(listener, router, connections, &shutdown).await;
    drop(work);
}
