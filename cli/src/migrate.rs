//! `receipts migrate`: what the services make on servers when they start, made before they start.

use crate::failure::{CommandFailure, CommandOutcome};
use crate::serve::engines;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{Output, mark};

const AFTER_HELP: &str = "\
Makes or checks the topics on Kafka, and brings the tables of ClickHouse and PostgreSQL to this version, each where the \
configuration names a server. Run it before new services start: ours keep working on tables that are newer, but don't \
start on them. It can be repeated, also by several at once. The embedded engines are brought up to date by `receipts up`.

Examples:
  receipts migrate --config receipts.toml
  RECEIPTS_ACCOUNTS_URL=postgres://receipts:secret@postgres:5432/receipts \\
    receipts migrate

Exit codes:
  0  every server that is named is of this version
  2  the configuration can't be used, or names no server
  3  a server is unavailable, refuses, or is of a newer version";

/// Bring topics and tables on servers to this version
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Migrate {
    #[command(flatten)]
    settings: SettingsArgs,
}

impl Migrate {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.load()?;
        let mut out = Output::stdout();
        let mut none = true;
        let mut done = |name: &str, what: &str| {
            none = false;
            out.line(format_args!("{} {name:<10} {what}", mark(true)))
        };
        let runtime = crate::runtime::on_this_thread()?;
        // Blocks, so not on the runtime.
        if settings.kafka.is_shared() {
            topics(&settings)?;
            done(
                "kafka",
                &format!("{}, {}", settings.kafka.topic, settings.kafka.verdicts_topic),
            )?;
        }
        if settings.warehouse.url.is_some() {
            runtime.block_on(engines::warehouse(&settings))?;
            done("clickhouse", &settings.warehouse.database)?;
        }
        if settings.accounts.postgres_url().is_some() {
            runtime.block_on(accounts(&settings))?;
            done("postgresql", "accounts")?;
        }
        if none {
            let servers = "kafka.brokers, warehouse.url or accounts.url";
            return Err(CommandFailure::Input(format!("no server is named: give {servers}")));
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

/// The topics of the two logs.
fn topics(settings: &Settings) -> Result<(), CommandFailure> {
    engines::receipts(settings)?.close();
    engines::verdicts(settings)?.close();
    Ok(())
}

async fn accounts(settings: &Settings) -> Result<(), CommandFailure> {
    let accounts = engines::accounts(settings).await?;
    // A database that is away is no error of the opening.
    let there = accounts.ping().await.map_err(CommandFailure::unavailable);
    accounts.close().await;
    there
}
