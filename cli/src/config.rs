//! `receipts config`: what the configuration comes to.

use std::io::Read;
use std::path::PathBuf;

use config::ConfigFaults;
use rustix::fs::Access;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{Output, mark};

const CHECK_HELP: &str = "\
Reads the file (--config, or RECEIPTS_CONFIG) and the RECEIPTS_<SECTION>_<KEY> variables as `receipts up` would, \
opens every file that they name, reports every fault, and starts nothing. receipts.example.toml lists every key with its \
default.

Examples:
  receipts config check --config receipts.toml
  RECEIPTS_GATEWAY_LISTEN=0.0.0.0:8080 receipts config check

Exit codes:
  0  it can be used
  2  it can't; every fault is listed";

const PRINT_HELP: &str = "\
Writes what `receipts up` would run with, as a configuration file: the file's values, the variables over them, and the \
defaults of everything else. Passwords are masked. Keys that aren't set and have no default are left out.

Examples:
  receipts config print
  RECEIPTS_LIMITS_DEPTH_MAX=16 receipts config print --config receipts.toml

Exit codes:
  0  ok
  2  it can't be used; every fault is listed";

/// Check or show the configuration
#[derive(Debug, clap::Args)]
pub struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(Check),
    Print(Print),
}

/// Read the configuration and report every fault
#[derive(Debug, clap::Args)]
#[command(after_help = CHECK_HELP)]
struct Check {
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Write the configuration as it takes effect, as TOML
#[derive(Debug, clap::Args)]
#[command(after_help = PRINT_HELP)]
struct Print {
    #[command(flatten)]
    settings: SettingsArgs,
}

impl Config {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        match self.command {
            Command::Check(check) => check.run(),
            Command::Print(print) => print.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.read(|settings, faults| {
            settings.check_up(faults);
            check_files(settings, faults);
            check_data_dir(settings, faults);
            check_ports(settings, faults);
        })?;
        let mut out = Output::stdout();
        out.line(format_args!("{} the configuration can be used", mark(true)))?;
        for (name, value) in [
            ("data", settings.data.root().display().to_string()),
            ("gateway", settings.gateway.listen.to_string()),
            (
                "analytics",
                settings.analytics.listen.unwrap_or(settings.gateway.listen).to_string(),
            ),
            (
                "publisher",
                settings.publisher.listen.unwrap_or(settings.gateway.listen).to_string(),
            ),
            ("metrics", settings.telemetry.metrics_listen.to_string()),
        ] {
            out.line(format_args!("  {name:<10} {value}"))?;
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

/// Opens the files that the configuration names and no section has read.
fn check_files(settings: &Settings, faults: &mut ConfigFaults) {
    let Settings {
        kafka,
        redis,
        gateway,
        warehouse,
        ..
    } = settings;
    let text = |path: &String| Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
    let one = [
        ("gateway.webhook_entries_file", gateway.webhook_entries_file.clone()),
        ("kafka.ssl_ca", text(&kafka.ssl_ca)),
        ("kafka.ssl_certificate", text(&kafka.ssl_certificate)),
        ("kafka.ssl_key", text(&kafka.ssl_key)),
        ("redis.tls_ca_file", redis.tls_ca_file.clone()),
        (
            "warehouse.library",
            warehouse.library.clone().filter(|_| warehouse.url.is_none()),
        ),
    ];
    let keys = gateway.acknowledgement_keys.iter().cloned().map(Some);
    let files = one
        .into_iter()
        .chain(keys.map(|path| ("gateway.acknowledgement_keys", path)));
    for (key, path) in files.filter_map(|(key, path)| path.map(|path| (key, path))) {
        let read = std::fs::File::open(&path).and_then(|mut file| file.read(&mut [0]));
        let why = match read {
            Ok(0) => "it is empty".to_owned(),
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        faults.push(key, format!("{} can't be used: {why}", path.display()));
    }
}

/// Finds the nearest folder above the data directory that exists.
fn check_data_dir(settings: &Settings, faults: &mut ConfigFaults) {
    let data = settings.data.root();
    let Some(found) = data.ancestors().find(|folder| folder.exists()) else {
        return;
    };
    let shown = found.display();
    if !found.is_dir() {
        faults.push("data.dir", format!("{shown} is no folder"));
    } else if let Err(error) = rustix::fs::access(found, Access::WRITE_OK | Access::EXEC_OK) {
        faults.push("data.dir", format!("{shown} can't be written: {error}"));
    }
}

/// Listening addresses that clash: with the metrics', where every process listens as well, or with
/// another service's, unless it is the same.
fn check_ports(settings: &Settings, faults: &mut ConfigFaults) {
    let metrics = ("telemetry.metrics_listen", Some(settings.telemetry.metrics_listen));
    let services = [
        ("gateway.listen", Some(settings.gateway.listen)),
        ("analytics.listen", settings.analytics.listen),
        ("publisher.listen", settings.publisher.listen),
    ];
    for (number, (key, listen)) in services.into_iter().enumerate() {
        for (other_key, other) in services[..number].iter().copied().chain([metrics]) {
            let (Some(listen), Some(other)) = (listen, other) else {
                continue;
            };
            let is_shared = listen == other && other_key != metrics.0;
            let is_any = other.ip().is_unspecified() || listen.ip().is_unspecified();
            let overlap = listen.port() == other.port() && (is_any || listen.ip() == other.ip());
            if listen.port() != 0 && overlap && !is_shared {
                let fault = format!("is {listen}, and {other_key} is {other}: give one another port");
                faults.push(key, fault);
            }
        }
    }
}

impl Print {
    fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.load()?;
        let mut out = Output::stdout();
        let text = settings
            .to_toml()
            .map_err(|e| CommandFailure::Input(format!("the configuration can't be written: {e}")))?;
        out.line(text.trim_end())?;
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}
