//! `receipts serve`: one service in a process of its own.
//!
//! - `process`: the process, from its engines to its drain
//! - [`engines`] and [`deps`]: the engines, and the dependencies of the services on them; also for
//!   `receipts up`

pub mod deps;
pub mod engines;
mod process;

use std::net::SocketAddr;

use accounts::{Accounts, ClientPolicy};
use clap::ValueEnum;
use config::ConfigFaults;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::{Settings, SettingsArgs};

const AFTER_HELP: &str = "\
Production runs each service in processes of its own, on the Kafka, ClickHouse, PostgreSQL and Redis that the configuration \
names: kafka.brokers, warehouse.url, accounts.url, redis.url. A service opens only the engines that it uses. Without servers it \
uses the data directory: the logs in it belong to one process at a time, and the APIs find its warehouse while `receipts up` \
runs there. Flags go over variables, variables over the file.

SIGTERM or Ctrl-C drains, a second one ends the process at once, SIGHUP reads log level and certificates again. /metrics, /healthz and /readyz are on \
telemetry.metrics_listen.

Examples:
  receipts serve gateway --config receipts.toml
  receipts serve verifier --config receipts.toml --metrics-listen 0.0.0.0:9090
  receipts serve analytics-api --data /var/lib/receipts --listen 127.0.0.1:8081
  receipts serve webhook --data /var/lib/webhook --listen 127.0.0.1:8080

Exit codes:
  0    drained after SIGTERM or Ctrl-C
  2    wrong usage or configuration; nothing was started
  3    an engine or the service failed, a port can't be bound, or a drain wasn't over in time
  130  ended by a second signal";

/// Run one service, in production
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Serve {
    /// The service
    #[arg(value_enum)]
    service: ServiceName,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Address of the service, if it has one [default: gateway.listen, analytics.listen or
    /// publisher.listen]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address of /metrics, /healthz and /readyz
    /// [default: telemetry.metrics_listen, 127.0.0.1:9090]
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
}

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServiceName {
    /// Takes receipts over HTTP, and acknowledges what the log has stored
    Gateway,
    /// Checks receipts of the log, and appends verdicts to the log of verdicts
    Verifier,
    /// Inserts verdicts into ClickHouse
    Writer,
    /// Answers publishers' queries
    AnalyticsApi,
    /// Publishers' keys, domains, entries and rights
    PublisherApi,
    /// A publisher's own receiver of receipts that AI clients deliver
    Webhook,
}

impl Serve {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let service = self.service;
        let mut settings = self
            .settings
            .start(|settings, faults| service.check(settings, faults))?;
        if let Some(address) = self.metrics_listen {
            settings.telemetry.metrics_listen = address;
        }
        if let Some(address) = self.listen {
            match self.service {
                ServiceName::Gateway | ServiceName::Webhook => settings.gateway.listen = address,
                ServiceName::AnalyticsApi => settings.analytics.listen = Some(address),
                ServiceName::PublisherApi => settings.publisher.listen = Some(address),
                ServiceName::Verifier | ServiceName::Writer => {
                    let reason = "--listen: this service has no address but that of --metrics-listen";
                    return Err(CommandFailure::Input(reason.to_owned()));
                }
            }
        }
        process::run(self.service, &settings)?;
        Ok(CommandOutcome::Good)
    }
}

impl ServiceName {
    /// Checks what a service needs of the sections that it reads. The chart leaves out the others.
    fn check(self, settings: &Settings, faults: &mut ConfigFaults) {
        match self {
            Self::Gateway => {
                settings.check_gateway(faults);
                settings.check_shared_keys(faults);
                let has_store = || Accounts::is_given(&settings.accounts, settings.data.root());
                faults.require(
                    "policy.clients",
                    settings.policy.clients == ClientPolicy::Open || has_store(),
                    "is `registered`, so the gateway needs the account store with the client keys: set accounts.url to its \
                     PostgreSQL",
                );
            }
            Self::Webhook => settings.check_gateway(faults),
            Self::Verifier => {
                // A file of this process's own would never have the shard map.
                faults.require(
                    "accounts.url",
                    settings.accounts.postgres_url().is_some() || !settings.kafka.is_shared(),
                    "is missing: a verifier on Kafka reads the shard map from the account store",
                );
                settings.check_verdicts(faults);
            }
            Self::Writer => settings.check_shards(faults),
            // So that a wrong directory stays unchanged.
            Self::AnalyticsApi => {
                if settings.warehouse.url.is_none() && !settings.data.warehouse().is_dir() {
                    let fault = format!(
                        "{} contains no warehouse: name the directory of `receipts up`, or set warehouse.url to a \
                         ClickHouse",
                        settings.data.root().display()
                    );
                    faults.push("data.dir", fault);
                }
            }
            Self::PublisherApi => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use config::{ConfigError, Source};

    use super::*;

    /// Checks a service on a configuration of the sections that the chart gives it.
    fn check(service: ServiceName, text: &str) -> Result<(), ConfigError> {
        let source = Source::from_parts(text, Vec::<(String, String)>::new()).unwrap();
        Settings::read(source, |settings, faults| service.check(settings, faults)).map(drop)
    }

    #[test]
    fn a_section_that_a_service_is_not_given_refuses_nothing() {
        let kafka = "[kafka]\nbrokers = 'kafka:9092'\n";
        let warehouse = "[warehouse]\nurl = 'http://one:8123'\ncluster = 'main'\n\
                         shards = ['http://one:8123/r0', 'http://two:8123/r1']\n";
        // Batches are small, which only [limits] says, and the gateway's waits are long.
        let inserts = "insert_bytes_max = 2097152\n";
        check(ServiceName::Writer, &format!("{kafka}{warehouse}{inserts}")).unwrap();
        for service in [ServiceName::AnalyticsApi, ServiceName::PublisherApi] {
            check(service, &format!("{warehouse}{inserts}")).unwrap();
        }
        let store = "[accounts]\nurl = 'postgres://receipts@postgres/receipts'\n";
        let waits = "delivery_wait_ms_max = 8000\n";
        check(ServiceName::Verifier, &format!("{kafka}{waits}{store}")).unwrap();
        check(
            ServiceName::Gateway,
            &format!("{kafka}{waits}[gateway]\nacknowledgement_keys = ['key']\n"),
        )
        .unwrap_err();
    }
}
