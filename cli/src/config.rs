//! `receipts config`: what the configuration comes to.

use crate::failure::{Answer, Failure};
use crate::settings::SettingsArgs;
use crate::terminal::{Output, mark};

const CHECK_HELP: &str = "\
Reads the file (--config, or RECEIPTS_CONFIG) and the RECEIPTS_<SECTION>_<KEY> variables as `receipts up` would, \
reports every fault, and starts nothing. receipts.example.toml lists every key with its default.

Examples:
  receipts config check --config receipts.toml
  RECEIPTS_GATEWAY_LISTEN=0.0.0.0:8080 receipts config check

Exit codes:
  0  it can be used
  2  it can't; every fault is listed";

/// Check the configuration
#[derive(Debug, clap::Args)]
pub struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(Check),
}

/// Read the configuration and report every fault
#[derive(Debug, clap::Args)]
#[command(after_help = CHECK_HELP)]
struct Check {
    #[command(flatten)]
    settings: SettingsArgs,
}

impl Config {
    /// Runs the command.
    pub fn run(self) -> Result<Answer, Failure> {
        let Command::Check(check) = self.command;
        let settings = check.settings.load()?;
        let mut out = Output::stdout();
        out.line(format_args!("{} the configuration can be used", mark(true)))?;
        for (name, value) in [
            ("data", settings.data.root().display().to_string()),
            ("gateway", settings.gateway.listen.to_string()),
            ("analytics", settings.analytics.listen.to_string()),
            ("metrics", settings.telemetry.metrics_listen.to_string()),
        ] {
            out.line(format_args!("  {name:<10} {value}"))?;
        }
        out.flush()?;
        Ok(Answer::Good)
    }
}
