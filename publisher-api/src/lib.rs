//! The publisher's side: API keys, domain verification, entries, data-subject rights. JSON over
//! HTTP/1.1 and h2c, on axum.
//!
//! - [`config`]: the section `[publisher]`
//! - `state`: what handlers and background work share
//! - `router`: all addresses and who may request them; `routes`: one file a noun
//! - `export`: everything that is stored of a publisher, page by page; [`erasing`]: erasures
//!   carried out
//! - `proofs`: published proofs of domains, checked again
//! - `lease`: work that one replica does for all
//! - `operators`: key directories of AI operators, and proofs of possession
//! - `openapi`: the document of all of them (OpenAPI 3.1), made from the code
//! - [`jwt`]: tokens of an identity provider; `identity`: the user behind one, or behind a session
//! - `oidc`: signing in at that provider
//! - `readiness`: whether the engines answer
//!
//! A client shows an API key, whose scope must be `read` for GET, `erase` where something is
//! erased, and `write` for anything else, or a JWT where the request is about a person and their
//! keys. Only lookups of entries by URL need neither. Someone else's row is 404, exactly as one
//! that doesn't exist.

#![forbid(unsafe_code)]

pub mod config;
pub mod erasing;
pub mod expiry;
mod export;
mod identity;
pub mod jwt;
mod lease;
mod oidc;
mod openapi;
mod operators;
mod proofs;
mod readiness;
mod router;
mod routes;
mod state;
mod tasks;
mod verification;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accounts::Accounts;
use axum::Router;
use service::cpu::CpuPool;
use service::health::Health;
use service::rate_limit::{QuotasConfig, RateLimiter};
use service::retry::cancel_after;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use verification::Looker;
use warehouse::Warehouse;
use web::shares::FairSemaphore;

pub use self::config::{DEFAULT_LISTEN, PublisherConfig};
pub use erasing::Eraser;
pub use expiry::{Postman, SmtpConfig};
pub use jwt::{AuthConfig, Authority};
pub use oidc::IdentityProvider;
use operators::Directories;
pub use operators::operator_key;
pub use router::document;
use state::PublisherState;

/// Prefixes of the addresses that no other service has, for ports and hosts that several share.
pub const PREFIXES: [&str; 8] = [
    "/api/v1/auth",
    "/api/v1/entries",
    "/api/v1/operators",
    "/api/v1/publisher",
    "/api/v1/user",
    "/api/v1/verification",
    "/docs/publisher",
    "/openapi/publisher.json",
];

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
    /// Identity provider at which people sign in, if there is one.
    pub provider: Option<Arc<IdentityProvider>>,
    /// The way out to domains and webhooks that publishers name.
    pub outbound: outbound::OutboundClient,
    /// The server that takes mails.
    pub smtp: SmtpConfig,
    /// Reads home pages.
    pub cpu: CpuPool,
    /// Told how accounts and warehouse are (`publisher.accounts`, ...), and answers `/readyz`.
    pub health: Health,
}

/// Regular work beside the requests. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "the work ends with it"]
pub struct PublisherWork {
    _tasks: [AbortOnDropHandle<()>; 5],
    posting: JoinHandle<()>,
    drain_wait_max: Duration,
}

impl PublisherWork {
    /// Waits for `shutdown`, and then until a mail that is being sent is finished, for at most
    /// `config.drain_ms_max`.
    pub async fn finish(&mut self, shutdown: &CancellationToken) {
        let posted = service::shutdown::drain("mails", shutdown, self.drain_wait_max, &mut self.posting).await;
        if let Err(late) = posted {
            tracing::warn!(%late, "a mail was still being sent at the end");
        }
    }
}

/// Starts the regular work, and returns it with all addresses, for a port at `local` that somebody
/// else serves.
pub fn start(
    config: PublisherConfig,
    deps: Deps,
    local: SocketAddr,
    shutdown: &CancellationToken,
) -> (Router, PublisherWork) {
    let engines = readiness::Engines::register(&deps.health);
    let eraser = Eraser::new(
        deps.accounts.clone(),
        deps.warehouse.clone(),
        config.erasure_look_after_days.into(),
        config.address_days_max.into(),
    );
    let pause = Duration::from_millis(config.erasure_interval_ms);
    let postman = Postman::new(deps.accounts.clone(), deps.smtp.clone(), config.public_url.as_deref());
    let expiry_pause = Duration::from_millis(config.expiry_interval_ms);
    let directories = Directories {
        accounts: deps.accounts.clone(),
        client: deps.outbound.clone(),
        cpu: deps.cpu.clone(),
    };
    let directory_pause = Duration::from_millis(config.directory_interval_ms);
    let drain_wait_max = Duration::from_millis(config.drain_ms_max);
    let app = Arc::new(PublisherState {
        exports: export::stream::ExportSlots::new(config.exports_max),
        lookup_bodies: FairSemaphore::new(config.lookup_bodies_max),
        erasures_wanted: Arc::new(Notify::new()),
        looker: Looker::new(deps.outbound.clone(), deps.cpu.clone(), config.looks_max),
        sends_mails: deps.smtp.host().is_some(),
        public_url: config.public_url.clone().unwrap_or_else(|| format!("http://{local}")),
        directories: directories.clone(),
        config,
        deps,
    });
    let fetching = {
        let app = Arc::clone(&app);
        async move {
            let deps = &app.deps;
            deps.authority.watch(&deps.health, || deps.accounts.now_ms()).await;
        }
    };
    let tasks = [
        tokio::spawn(erasing::watch(eraser, Arc::clone(&app.erasures_wanted), pause)),
        tokio::spawn(engines.watch(Arc::clone(&app))),
        tokio::spawn(fetching),
        tokio::spawn(operators::watch(directories, directory_pause)),
        tokio::spawn(proofs::watch(Arc::clone(&app), expiry_pause)),
    ];
    let work = PublisherWork {
        _tasks: tasks.map(AbortOnDropHandle::new),
        posting: tokio::spawn(expiry::watch(postman, expiry_pause, shutdown.clone())),
        drain_wait_max,
    };
    (router::router(&app), work)
}

/// Serves `listener` until `shutdown` and for `config.drain_delay_ms` more. Then it finishes what
/// is in progress, requests and a mail at the same time, for at most `config.drain_ms_max`.
pub async fn run(listener: TcpListener, config: PublisherConfig, deps: Deps, shutdown: CancellationToken) {
    let local = listener.local_addr().ok().or(config.listen).unwrap_or(DEFAULT_LISTEN);
    let connections = config.connections();
    let stop = CancellationToken::new();
    let delay = Duration::from_millis(config.drain_delay_ms);
    let _stops = cancel_after(shutdown.clone(), stop.clone(), delay);
    let (router, mut work) = start(config, deps, local, &stop);
    let serving = web::serve(listener, router, connections, &shutdown);
    tokio::join!(serving, work.finish(&stop));
}
