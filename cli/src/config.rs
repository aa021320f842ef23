//! `receipts config`: what the configuration comes to.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;

use service::data::DataConfig;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{Output, mark};

/// Placeholder for a password.
const MASK: &str = "***";

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
        let settings = self.settings.load()?;
        let mut faults: Vec<String> = named_files(&settings).iter().filter_map(unreadable).collect();
        faults.extend(shared_ports(&settings));
        faults.extend(settings.has_shared_keys().err().map(|failure| failure.to_string()));
        if !faults.is_empty() {
            return Err(CommandFailure::Input(faults.join("\n")));
        }
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

/// Files that the configuration names, by key.
fn named_files(settings: &Settings) -> Vec<(&'static str, PathBuf)> {
    let text = |path: &String| Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
    let Settings {
        kafka,
        warehouse,
        redis,
        gateway,
        auth,
        ..
    } = settings;
    let one = [
        ("gateway.webhook_entries_file", gateway.webhook_entries_file.clone()),
        ("auth.jwks_file", text(&auth.jwks_file)),
        ("kafka.ssl_ca", text(&kafka.ssl_ca)),
        ("kafka.ssl_certificate", text(&kafka.ssl_certificate)),
        ("kafka.ssl_key", text(&kafka.ssl_key)),
        ("warehouse.tls_ca_file", warehouse.tls_ca_file.clone()),
        ("warehouse.tls_certificate_file", warehouse.tls_certificate_file.clone()),
        ("warehouse.tls_key_file", warehouse.tls_key_file.clone()),
        ("redis.tls_ca_file", redis.tls_ca_file.clone()),
    ];
    let keys = gateway.acknowledgement_keys.iter().cloned();
    let keys = keys.map(|path| ("gateway.acknowledgement_keys", path));
    one.into_iter()
        .filter_map(|(key, path)| path.map(|path| (key, path)))
        .chain(keys)
        .collect()
}

/// Why a file can't be read.
fn unreadable((key, path): &(&'static str, PathBuf)) -> Option<String> {
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut [0]));
    let why = match read {
        Ok(0) => "it is empty".to_owned(),
        Ok(_) => return None,
        Err(error) => error.to_string(),
    };
    Some(format!("{key}: {} can't be used: {why}", path.display()))
}

/// Listening addresses that are the metrics' too: every process listens there as well.
fn shared_ports(settings: &Settings) -> Vec<String> {
    let metrics = settings.telemetry.metrics_listen;
    let overlap = |other: &SocketAddr| {
        let is_any = metrics.ip().is_unspecified() || other.ip().is_unspecified();
        metrics.port() != 0 && metrics.port() == other.port() && (is_any || metrics.ip() == other.ip())
    };
    let services = [
        ("gateway", Some(settings.gateway.listen)),
        ("analytics", settings.analytics.listen),
        ("publisher", settings.publisher.listen),
    ];
    let shared = services
        .into_iter()
        .filter(|(_, listen)| listen.as_ref().is_some_and(overlap));
    shared
        .map(|(name, _)| format!("{name}.listen is telemetry.metrics_listen, {metrics}, too: give one another port"))
        .collect()
}

impl Print {
    fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.load()?;
        let mut out = Output::stdout();
        let text = effective(&settings)
            .map_err(|e| CommandFailure::Input(format!("the configuration can't be written: {e}")))?;
        out.line(text.trim_end())?;
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}

/// Every section as TOML, without its secrets.
fn effective(settings: &Settings) -> Result<String, toml::ser::Error> {
    let mut settings = settings.clone();
    for url in [
        &mut settings.accounts.url,
        &mut settings.warehouse.url,
        &mut settings.redis.url,
    ] {
        *url = url.take().filter(|url| !url.trim().is_empty()).map(|url| masked(&url));
    }
    let password = settings.smtp.password.take();
    settings.smtp.password = password
        .filter(|password| !password.is_empty())
        .map(|_| MASK.to_owned());
    if !settings.auth.hs256_secret.is_empty() {
        // As long as a secret must be, so that what is printed can be read again.
        settings.auth.hs256_secret = MASK.repeat(11);
    }
    let data = DataConfig {
        dir: settings.data.root().to_owned(),
    };
    let mut text = String::new();
    let mut write = |name: &str, section: Result<String, toml::ser::Error>| {
        section.map(|section| text.push_str(&format!("[{name}]\n{section}\n")))
    };
    write("data", toml::to_string(&data))?;
    write("gateway", toml::to_string(&settings.gateway))?;
    write("verifier", toml::to_string(&settings.verifier))?;
    write("writer", toml::to_string(&settings.writer))?;
    write("publisher", toml::to_string(&settings.publisher))?;
    write("auth", toml::to_string(&settings.auth))?;
    write("outbound", toml::to_string(&settings.outbound))?;
    write("smtp", toml::to_string(&settings.smtp))?;
    write("analytics", toml::to_string(&settings.analytics))?;
    write("log", toml::to_string(&settings.log))?;
    write("verdicts", toml::to_string(&settings.verdicts))?;
    write("kafka", toml::to_string(&settings.kafka))?;
    write("warehouse", toml::to_string(&settings.warehouse))?;
    write("accounts", toml::to_string(&settings.accounts))?;
    write("policy", toml::to_string(&settings.policy))?;
    write("telemetry", toml::to_string(&settings.telemetry))?;
    write("limits", toml::to_string(&settings.limits))?;
    write("quotas", toml::to_string(&settings.quotas))?;
    write("redis", toml::to_string(&settings.redis))?;
    Ok(text)
}

/// A URL without its passwords: the one before the host, whose own `@` need not be escaped, and
/// those among its parameters.
fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + "://".len()));
    let (user, rest) = rest
        .rsplit_once('@')
        .map_or((None, rest), |(user, rest)| (Some(user), rest));
    let user = user.map(|user| match user.split_once(':') {
        Some((name, _)) => format!("{name}:{MASK}@"),
        None => format!("{user}@"),
    });
    let (address, query) = rest
        .split_once('?')
        .map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}={MASK}"),
        _ => parameter.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(parameter).collect::<Vec<_>>().join("&"));
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    format!("{scheme}{}{address}{query}", user.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn no_password_of_a_url_is_shown() {
        for (url, shown) in [
            ("postgres://host/db", "postgres://host/db"),
            ("postgres://user@host:5432/db", "postgres://user@host:5432/db"),
            ("postgres://user:pass@host/db", "postgres://user:***@host/db"),
            ("postgres://user:p@ss/w?rd@host/db", "postgres://user:***@host/db"),
            (
                "postgres://host/db?user=u&password=pass&sslmode=require",
                "postgres://host/db?user=u&password=***&sslmode=require",
            ),
            (
                "postgres://u:pass@h/db?sslPassword=pass",
                "postgres://u:***@h/db?sslPassword=***",
            ),
            ("rediss://:pass@h/1", "rediss://:***@h/1"),
            ("http://u:pass@[::1]:8123", "http://u:***@[::1]:8123"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
