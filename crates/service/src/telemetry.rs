//! Telemetry: log lines on stderr through `tracing`, metrics through the Prometheus recorder.

mod collapse;
mod slow;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use metrics_exporter_prometheus::PrometheusHandle;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{EnvFilter, reload};

use config::{ConfigFaults, Section};

pub use slow::is_slow;

/// The section `[telemetry]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryConfig {
    /// Level of the log: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as
    /// `info,gateway=debug`.
    pub log_level: String,
    /// Format of a line.
    pub log_format: LogFormat,
    /// A request that takes so long says where the time went, in milliseconds; 0 logs none.
    pub slow_request_ms: u64,
    /// Address of `/metrics`, `/healthz` and `/readyz`.
    pub metrics_listen: SocketAddr,
}

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            slow_request_ms: 1_000,
            metrics_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
        }
    }
}

impl Section for TelemetryConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        let allowed = "must be error, warn, info, debug, trace, off or a filter such as `info,gateway=debug`";
        if let Err(error) = EnvFilter::builder().parse(&self.log_level) {
            faults.push("log_level", format!("{error}; {allowed}"));
        }
        // The filter takes any other word for a module, of which alone everything is logged.
        let words = self.log_level.split(',').map(str::trim);
        let is_level = |word: &str| word.contains(['=', '[']) || word.parse::<LevelFilter>().is_ok();
        for word in words.filter(|word| !word.is_empty() && !is_level(word)) {
            faults.push("log_level", format!("`{word}` is no level; {allowed}"));
        }
        faults.require("log_level", !self.log_level.trim().is_empty(), "must not be empty");
    }
}

/// Telemetry that can't start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `log_level` isn't a filter.
    #[error("telemetry.log_level: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// A subscriber of someone else's is in place.
    #[error("logging is already set up: {0}")]
    Logging(#[from] tracing_subscriber::util::TryInitError),
    /// [`init_logging`] wasn't called.
    #[error("no log was started")]
    NoLog,
    /// The recorder's own configuration, or a recorder of someone else's in place.
    #[error("metrics can't be set up: {0}")]
    Metrics(String),
}

/// Replaces the filter of the running log.
type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>;

/// Set by [`init_logging`].
static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

/// Starts log lines on stderr, in colour only on a terminal. A line that repeats is left out and
/// counted.
///
/// # Errors
/// The filter is wrong, or a subscriber is set already.
pub fn init_logging(config: &TelemetryConfig) -> Result<(), TelemetryError> {
    use std::io::IsTerminal;
    use tracing_subscriber::util::SubscriberInitExt;

    slow::set(config.slow_request_ms);

    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(config)?)
        .with_writer(std::io::stderr)
        // Its way to report a line that can't be written is `eprintln!`, which panics on the same
        // full disk.
        .log_internal_errors(false);
    match config.log_format {
        LogFormat::Text => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let format = collapse::Collapse::new(tracing_subscriber::fmt::format(), false);
            let lines = lines.with_ansi(colour).event_format(format).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.finish().try_init()?;
            set_filter_by(move |filter| handle.reload(filter));
        }
        LogFormat::Json => {
            let format = tracing_subscriber::fmt::format().json().flatten_event(true);
            let format = collapse::Collapse::new(format, true);
            let lines = lines.json().event_format(format).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.finish().try_init()?;
            set_filter_by(move |filter| handle.reload(filter));
        }
    }
    Ok(())
}

fn filter(config: &TelemetryConfig) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    // h2 warns of every connection that it ends, so whoever connects could fill the log; what is
    // given stands over it.
    EnvFilter::builder().parse(format!("h2=error,{}", config.log_level))
}

fn set_filter_by(set: impl Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync + 'static) {
    // A second subscriber was refused before.
    let _ = SET_FILTER.set(Box::new(set));
}

/// Has the running log use `log_level` of `config` from now on.
///
/// # Errors
/// The filter is wrong, or no log was started.
pub fn reload_log_level(config: &TelemetryConfig) -> Result<(), TelemetryError> {
    let filter = filter(config)?;
    let set = SET_FILTER.get().ok_or(TelemetryError::NoLog)?;
    set(filter).map_err(|_| TelemetryError::NoLog)
}

/// Buckets of everything in seconds: 50 microseconds to a minute, about 2.5 steps a decade.
const SECONDS_BUCKETS: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0,
];

/// Buckets of sizes in bytes: 256 bytes to 64 MiB in fours.
const BYTES_BUCKETS: &[f64] = &[
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Buckets of every other distribution, which are counts: 1 to 100,000.
const COUNT_BUCKETS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 50_000.0, 100_000.0,
];

/// Installs the process's one recorder, or returns the handle of the one installed before. Call it
/// before anything keeps a metric's handle.
///
/// # Errors
/// Another recorder is in place.
pub fn install_metrics() -> Result<PrometheusHandle, TelemetryError> {
    static INSTALLED: OnceLock<PrometheusHandle> = OnceLock::new();
    static INSTALLING: Mutex<()> = Mutex::new(());

    let _one_at_a_time = INSTALLING.lock();
    if let Some(handle) = INSTALLED.get() {
        return Ok(handle.clone());
    }
    let failed = |error: &dyn std::fmt::Display| TelemetryError::Metrics(error.to_string());
    let recorder = PrometheusBuilder::new()
        .set_buckets(COUNT_BUCKETS)
        .and_then(|b| b.set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS))
        .and_then(|b| b.set_buckets_for_metric(Matcher::Suffix("_bytes".to_owned()), BYTES_BUCKETS))
        .map_err(|error| failed(&error))?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| failed(&error))?;
    crate::metrics::describe();
    metrics::gauge!("receipts_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(INSTALLED.get_or_init(|| handle).clone())
}

/// Lets one log line through per period and counts the others: an engine that is away must not fill
/// the disk with the same sentence. Make it a `static` beside the line it guards.
#[derive(Debug)]
pub struct LineLimit {
    what: &'static str,
    period: Duration,
    last: Mutex<Option<Instant>>,
    suppressed: AtomicU64,
}

impl LineLimit {
    /// Makes a limit of one line per `period`; `what` labels the metric.
    #[must_use]
    pub const fn new(what: &'static str, period: Duration) -> Self {
        Self {
            what,
            period,
            last: Mutex::new(None),
            suppressed: AtomicU64::new(0),
        }
    }

    /// `Some(n)` if the line may be written now, with how many were left out since the last one.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut last = self.last.lock();
        if last.is_some_and(|last| now.saturating_duration_since(last) < self.period) {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("receipts_telemetry_lines_suppressed_total", "what" => self.what).increment(1);
            return None;
        }
        *last = Some(now);
        Some(self.suppressed.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn histograms_get_buckets_by_their_unit_and_descriptions_are_served() {
        let handle = install_metrics().unwrap();
        metrics::histogram!("receipts_cpu_run_seconds", "pool" => "telemetry-test").record(0.002);
        metrics::histogram!("receipts_test_size_bytes").record(300.0);
        metrics::histogram!("receipts_test_block_receipts").record(3.0);
        let text = install_metrics().unwrap().render();
        assert!(
            handle.render().contains("receipts_build_info{version="),
            "one recorder behind both handles"
        );
        assert!(
            text.contains(r#"receipts_cpu_run_seconds_bucket{pool="telemetry-test",le="0.0025"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"receipts_cpu_run_seconds_bucket{pool="telemetry-test",le="0.001"} 0"#),
            "{text}"
        );
        assert!(
            text.contains(r#"receipts_test_size_bytes_bucket{le="1024"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"receipts_test_block_receipts_bucket{le="5"} 1"#),
            "{text}"
        );
        assert!(
            text.contains("# HELP receipts_cpu_run_seconds Time a CPU job ran."),
            "{text}"
        );
    }

    #[test]
    fn one_line_a_period_and_the_rest_counted() {
        let limit = LineLimit::new("test", Duration::from_secs(10));
        let start = Instant::now();
        assert_eq!(limit.pass_at(start), Some(0));
        assert_eq!(limit.pass_at(start + Duration::from_secs(1)), None);
        assert_eq!(limit.pass_at(start + Duration::from_secs(9)), None);
        assert_eq!(limit.pass_at(start + Duration::from_secs(10)), Some(2));
        assert_eq!(limit.pass_at(start + Duration::from_secs(25)), Some(0));
    }
}
