//! `receipts up`: every service in one process, on engines that need no server.
//!
//! - `one_address`: the services that share the gateway's address; `front`: its pages of links
//! - [`engines`]: the log, the warehouse and the accounts, opened and closed in order
//! - [`services`]: the services on them, started and drained in order

pub mod engines;
mod entries;
mod front;
mod one_address;
pub mod services;

use std::net::SocketAddr;

use accounts::{AccountRole, Accounts};
use http_server::admin::AdminPort;
use service::health::{Component, Health};
use service::telemetry::{self, LogFormat};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use warehouse::EmbeddedEngine;

use crate::data_dir::{Addresses, DataDir};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::login_link::{link, only_account};
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{FAINT, HEAD, Output, paint};
use engines::Engines;
use services::{Listeners, ServicePorts, Services};

const AFTER_HELP: &str = "\
One address serves everything but metrics: receipts, both APIs with their documentation (/docs), the dashboard \
(/dashboard), and a page of links (/). --analytics-listen and --publisher-listen give a service an address of its own. \
Everything stored is in the data directory: log/, verdicts/, warehouse/, accounts.sqlite, and while it runs warehouse.sock and \
addresses.json (where it listens, for scripts). Flags go over variables, variables over the file. Port 0 takes a \
free port. SIGTERM or Ctrl-C drains: the gateway finishes its requests, verifier and writer catch up, the engines close; \
a second one ends the process at once. Nothing acknowledged is lost either way. SIGHUP reads log level \
and certificates again.

Examples:
  receipts up
  receipts up --data /var/lib/receipts --config receipts.toml
  receipts up --listen 0.0.0.0:8080
  receipts up --gateway-listen 0.0.0.0:8080 --analytics-listen 127.0.0.1:0

Exit codes:
  0    drained after SIGTERM or Ctrl-C
  2    wrong usage or configuration; nothing was started
  3    an engine or a service failed, the data directory is in use, or a port can't be bound
  130  ended by a second signal";

/// Run all services in one process, at one address
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Up {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Address of the gateway, and of everything without an address of its own
    /// [default: gateway.listen, 127.0.0.1:8080]
    #[arg(long, visible_alias = "listen", value_name = "ADDRESS")]
    gateway_listen: Option<SocketAddr>,
    /// Address of the analytics API [default: analytics.listen, or the gateway's]
    #[arg(long, value_name = "ADDRESS")]
    analytics_listen: Option<SocketAddr>,
    /// Address of the publisher API [default: publisher.listen, or the gateway's]
    #[arg(long, value_name = "ADDRESS")]
    publisher_listen: Option<SocketAddr>,
    /// Address of /metrics, /healthz and /readyz
    /// [default: telemetry.metrics_listen, 127.0.0.1:9090]
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
}

impl Up {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let mut settings = self.settings.start(Settings::check_up)?;
        for (flag, setting) in [
            (self.gateway_listen, &mut settings.gateway.listen),
            (self.metrics_listen, &mut settings.telemetry.metrics_listen),
        ] {
            *setting = flag.unwrap_or(*setting);
        }
        for (flag, setting) in [
            (self.analytics_listen, &mut settings.analytics.listen),
            (self.publisher_listen, &mut settings.publisher.listen),
        ] {
            *setting = flag.or(*setting);
        }
        if settings.warehouse.url.is_none() {
            // Before anything is made: without it nothing can start.
            EmbeddedEngine::load(&settings.warehouse).map_err(CommandFailure::unavailable)?;
        }
        // Everything in the data directory is its owner's alone, also what libraries create.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        settings.data.create()?;
        warn_of_readers(&settings.data);
        let Some(lock) = settings.data.lock()? else {
            let (root, holder) = (settings.data.root().display(), settings.data.holder());
            return Err(CommandFailure::Unavailable(format!(
                "{root} is in use: {holder} has it open"
            )));
        };
        // A killed process leaves its own behind, which would send scripts to the wrong ports.
        settings.data.unpublish();
        http_server::listen::lift_open_files();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("services")
            .enable_all()
            .build()
            .map_err(CommandFailure::unavailable)?;
        let ended = runtime.block_on(run(&settings));
        drop(runtime);
        drop(lock);
        ended.map(|()| CommandOutcome::Good)
    }
}

fn warn_of_readers(data: &DataDir) {
    let root = data.root().display();
    match data.readers() {
        Ok(None) => {}
        Ok(Some(who)) => tracing::warn!("the data directory {root} can be read by {who}: chmod 700 {root}"),
        Err(error) => tracing::warn!(%error, "the data directory {root} can't be checked"),
    }
}

/// Binds, opens, serves until a signal or a failure, drains, closes. The engines are closed
/// whatever happened before.
async fn run(settings: &Settings) -> Result<(), CommandFailure> {
    let shutdown = service::shutdown::signals().map_err(CommandFailure::unavailable)?;
    let listeners = Listeners::bind(settings)?;
    let metrics = telemetry::install_metrics().map_err(CommandFailure::unavailable)?;
    crate::serve::publish(settings);
    let health = Health::new();
    // The services say how they are only once they run, and reading back a log and tables takes its
    // time.
    let opening = health.register("engines");
    let addresses = listeners.addresses()?;
    let (admin, listeners) = listeners.take_admin();
    let admin = AdminPort::serve(admin, metrics, health.clone());

    let engines = tokio::select! {
        opened = Engines::open(settings, &health) => opened?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let ended = serve(settings, listeners, &addresses, &engines, (&health, opening), &shutdown).await;
    settings.data.unpublish();
    engines.close().await;
    admin.stop().await;
    ended
}

/// Starts the services, says where they are, and runs them to their end.
async fn serve(
    settings: &Settings,
    ports: ServicePorts,
    addresses: &Addresses,
    engines: &Engines,
    (health, opening): (&Health, Component),
    shutdown: &CancellationToken,
) -> Result<(), CommandFailure> {
    settings.data.publish(addresses)?;
    let services = Services::start(settings, ports, addresses, engines, health)?;
    opening.ready();
    let sign_in = sign_in_link(settings, addresses, &engines.accounts).await;
    match announce(settings, addresses, sign_in.as_deref()) {
        // Nobody reads; the services are wanted all the same.
        Ok(()) | Err(CommandFailure::OutputClosed) => {}
        Err(failure) => warn!(%failure, "the addresses are in addresses.json only"),
    }
    services.run(shutdown, engines, health).await
}

/// A login link for the only account, or for a new one. None where people sign in at an identity
/// provider; for a log in JSON, which is stored and read by others; and where the dashboard and
/// sign-in have no address in common, because a browser sends a session to one address alone.
async fn sign_in_link(settings: &Settings, addresses: &Addresses, accounts: &Accounts) -> Option<String> {
    let is_log = settings.telemetry.log_format == LogFormat::Json;
    if is_log || !settings.auth.client_id.is_empty() || addresses.analytics != addresses.publisher {
        return None;
    }
    let base = settings.publisher.public_url.as_ref().unwrap_or(&addresses.publisher);
    let made = async {
        match only_account(accounts).await? {
            Ok(account) => link(accounts, account.as_deref(), AccountRole::Owner, base)
                .await
                .map(Some),
            Err(_) => Ok(None),
        }
    };
    made.await.unwrap_or_else(|failure: CommandFailure| {
        warn!(%failure, "no login link: `receipts login-link` prints one");
        None
    })
}

/// Says where everything is: to people, or in a line of a log in JSON.
fn announce(settings: &Settings, addresses: &Addresses, sign_in: Option<&str>) -> Result<(), CommandFailure> {
    let data = settings.data.root().display();
    if settings.telemetry.log_format == LogFormat::Json {
        let Addresses {
            gateway,
            analytics,
            publisher,
            metrics,
            ..
        } = addresses;
        info!(gateway, analytics, publisher, metrics, %data, "receipts is up");
        return Ok(());
    }
    let mut out = Output::stdout();
    let rows = [
        ("address", format!("{}/", addresses.gateway), "a page of links"),
        (
            "gateway",
            format!("{}/api/v1/receipts", addresses.gateway),
            "POST receipts; /batch, /explain",
        ),
        (
            "dashboard",
            format!("{}/dashboard", addresses.analytics),
            "with an API key, or by `receipts login-link`",
        ),
        (
            "analytics",
            format!("{}/docs/analytics/", addresses.analytics),
            "who used which content",
        ),
        (
            "publisher",
            format!("{}/docs/publisher/", addresses.publisher),
            "keys, domains, entries, rights",
        ),
        (
            "metrics",
            format!("{}/metrics", addresses.metrics),
            "also /healthz, /readyz",
        ),
        ("data", data.to_string(), "log/, verdicts/, warehouse/, accounts.sqlite"),
    ];
    out.line(paint(HEAD, "receipts is up"))?;
    for (name, what, hint) in rows {
        out.line(format_args!("  {name:<10} {what:<52} {}", paint(FAINT, hint)))?;
    }
    if let Some(link) = sign_in {
        out.line(format_args!("  sign in    {link}"))?;
        let hint = "once, within 15 minutes; `receipts login-link` prints another";
        out.line(format_args!("             {}", paint(FAINT, hint)))?;
    }
    let hint = format!("next: receipts keys create --data {data} --domain example.com     Ctrl-C drains and ends");
    out.line(format_args!("  {}", paint(FAINT, hint)))?;
    out.flush()
}
