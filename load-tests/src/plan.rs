//! The arguments, and what they come to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use receipt::Algorithm;

/// Sends signed receipts to a gateway and checks, to the last one, that they are counted as they
/// should be
#[derive(Debug, Parser)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  receipts-load run --gateway http://127.0.0.1:8080 --analytics http://127.0.0.1:8080 --api-key KEY --publisher example.com --count 100000 --batch 500
  receipts-load run ... --rate 2000 --duration 30        open loop: 2,000 receipts/s for 30 s, latency from the intended start
  receipts-load run ... --concurrency 64 --count 50000   closed loop: 64 requests at a time

Exit codes: 0 every number is right, 1 a number differs or a request was never acknowledged, 2 the run could not be made."
)]
pub struct Arguments {
    /// The gateway's base address; several, with commas, are used in turn.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_delimiter = ',')]
    pub gateway: Vec<String>,
    /// The analytics API's base address.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    pub analytics: String,
    /// A publisher's API key (`receipts keys create`); without one nothing is checked but the
    /// answers.
    #[arg(long, env = "RECEIPTS_LOAD_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// The publisher's domain the key represents. Use one that has no receipts yet.
    #[arg(long, default_value = "load.example")]
    pub publisher: String,
    /// Client keys.
    #[arg(long, default_value_t = 20)]
    pub clients: usize,
    /// Index entries that receipts are for.
    #[arg(long, default_value_t = 200)]
    pub entries: usize,
    /// The mix of algorithms, by weight.
    #[arg(long, default_value = "Ed25519=8,RSA-2048=1,ECDSA-P256=1")]
    pub algorithms: String,
    /// Receipts a request: 1 sends single receipts, more sends batches.
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Receipts in all.
    #[arg(long, conflicts_with = "duration")]
    pub count: Option<u64>,
    /// Seconds to run.
    #[arg(long)]
    pub duration: Option<u64>,
    /// Open loop: receipts a second, whatever the answers take.
    #[arg(long)]
    pub rate: Option<f64>,
    /// Requests at a time, at most (in the open loop too, where waiting counts as latency).
    #[arg(long, default_value_t = 64)]
    pub concurrency: usize,
    /// Share of receipts that repeat an earlier one, 0 to 1.
    #[arg(long, default_value_t = 0.05)]
    pub duplicates: f64,
    /// Share of receipts changed after signing.
    #[arg(long, default_value_t = 0.05)]
    pub tampered: f64,
    /// Share of requests that are not receipts at all.
    #[arg(long, default_value_t = 0.01)]
    pub malformed: f64,
    /// Tries a request at most, as an ordinary client makes them.
    #[arg(long, default_value_t = 200)]
    pub tries_max: u32,
    /// Milliseconds to wait for an answer before the request is sent again.
    #[arg(long, default_value_t = 30_000)]
    pub answer_wait_ms_max: u64,
    /// Seconds to wait for the watermark at the end.
    #[arg(long, default_value_t = 120)]
    pub wait_max: u64,
    /// Seed of everything random but the keys.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The data directory of `receipts up`: the ledger and the tables are then compared too, by
    /// `receipts audit`.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Whether the audit is compared too, where RECEIPTS_* variables or RECEIPTS_CONFIG name the
    /// engines.
    #[arg(long)]
    pub audit: bool,
    /// Environment of the audit's process beside this one's.
    #[arg(skip)]
    pub audit_environment: Vec<(String, String)>,
    /// The `receipts` binary for the audit; by default the one beside this program.
    #[arg(long)]
    pub receipts: Option<PathBuf>,
    /// Interval at which the dashboard is queried for freshness, in milliseconds; 0 doesn't query.
    #[arg(long, default_value_t = 50)]
    pub sample_ms: u64,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// When the generator stops.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    /// After so many receipts.
    Receipts(u64),
    /// After so long.
    Time(Duration),
}

/// A checked set of arguments.
#[derive(Debug)]
pub struct Plan {
    /// The gateways' base addresses, without a trailing slash.
    pub gateways: Vec<String>,
    /// The analytics API's base address, without a trailing slash.
    pub analytics: String,
    /// The key that reads the publisher's numbers.
    pub api_key: Option<String>,
    /// The publisher's domain.
    pub publisher: String,
    /// Client keys.
    pub clients: usize,
    /// Index entries.
    pub entries: usize,
    /// Algorithms with their weights.
    pub algorithms: Vec<(Algorithm, u32)>,
    /// Receipts a request.
    pub batch: usize,
    /// When to stop.
    pub extent: Extent,
    /// Receipts a second in the open loop; `None` is the closed loop.
    pub rate: Option<f64>,
    /// Requests at a time.
    pub concurrency: usize,
    /// Share of duplicates.
    pub duplicates: f64,
    /// Share of tampered receipts.
    pub tampered: f64,
    /// Share of malformed requests.
    pub malformed: f64,
    /// Tries a request.
    pub tries_max: u32,
    /// Longest wait for an answer.
    pub answer_wait_max: Duration,
    /// Longest wait for the watermark.
    pub wait_max: Duration,
    /// The seed.
    pub seed: u64,
    /// Whether the ledger is audited.
    pub audit: bool,
    /// The data directory for the audit, where it isn't left to the environment.
    pub data: Option<PathBuf>,
    /// Variables for the audit.
    pub audit_environment: Vec<(String, String)>,
    /// The `receipts` binary.
    pub receipts: PathBuf,
    /// Pause between two looks at the dashboard.
    pub sample_wait: Option<Duration>,
    /// Report as JSON.
    pub json: bool,
}

impl Plan {
    /// Checks the arguments.
    ///
    /// # Errors
    /// An argument is out of its range; the text says which and what is allowed.
    pub fn from_arguments(arguments: Arguments) -> Result<Self> {
        for (name, share) in [
            ("--duplicates", arguments.duplicates),
            ("--tampered", arguments.tampered),
            ("--malformed", arguments.malformed),
        ] {
            ensure!(
                (0.0..=0.9).contains(&share),
                "{name} is a share from 0 to 0.9, not {share}"
            );
        }
        ensure!(
            arguments.clients > 0 && arguments.entries > 0,
            "--clients and --entries must be at least 1"
        );
        ensure!((1..=10_000).contains(&arguments.batch), "--batch goes from 1 to 10000");
        // Larger batches may be abandoned, which the expected outcomes don't know.
        ensure!(
            arguments.batch <= 512 || arguments.tampered <= 0.0,
            "--batch goes to 512 with --tampered: behind 100 bad signatures the rest of a batch isn't judged"
        );
        ensure!(!arguments.gateway.is_empty(), "--gateway must name one");
        ensure!(arguments.concurrency > 0, "--concurrency must be at least 1");
        ensure!(arguments.rate.is_none_or(|rate| rate > 0.0), "--rate must be above 0");
        let extent = match (arguments.count, arguments.duration) {
            (Some(count), None) => Extent::Receipts(count),
            (None, Some(seconds)) => Extent::Time(Duration::from_secs(seconds)),
            (None, None) => Extent::Receipts(10_000),
            (Some(_), Some(_)) => bail!("--count and --duration exclude each other"),
        };
        let receipts = match arguments.receipts {
            Some(path) => path,
            None => std::env::current_exe()?.with_file_name("receipts"),
        };
        Ok(Self {
            gateways: arguments
                .gateway
                .iter()
                .map(|gateway| gateway.trim_end_matches('/').to_owned())
                .collect(),
            analytics: arguments.analytics.trim_end_matches('/').to_owned(),
            api_key: arguments.api_key,
            publisher: arguments.publisher,
            clients: arguments.clients,
            entries: arguments.entries,
            algorithms: parse_mix(&arguments.algorithms)?,
            batch: arguments.batch,
            extent,
            rate: arguments.rate,
            concurrency: arguments.concurrency,
            duplicates: arguments.duplicates,
            tampered: arguments.tampered,
            malformed: arguments.malformed,
            tries_max: arguments.tries_max.max(1),
            answer_wait_max: Duration::from_millis(arguments.answer_wait_ms_max),
            wait_max: Duration::from_secs(arguments.wait_max),
            seed: arguments.seed,
            audit: arguments.audit || arguments.data.is_some(),
            data: arguments.data,
            audit_environment: arguments.audit_environment,
            receipts,
            sample_wait: (arguments.sample_ms > 0).then(|| Duration::from_millis(arguments.sample_ms)),
            json: arguments.json,
        })
    }
}

fn parse_mix(text: &str) -> Result<Vec<(Algorithm, u32)>> {
    let mut mix = Vec::new();
    for part in text.split(',') {
        let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
        let Ok(algorithm) = name.trim().parse::<Algorithm>() else {
            bail!("--algorithms: {name:?} is none of Ed25519, RSA-2048, ECDSA-P256");
        };
        let Ok(weight) = weight.trim().parse::<u32>() else {
            bail!("--algorithms: the weight of {name} must be a whole number, not {weight:?}");
        };
        if weight > 0 {
            mix.push((algorithm, weight));
        }
    }
    ensure!(
        !mix.is_empty(),
        "--algorithms: at least one algorithm needs a weight above 0"
    );
    Ok(mix)
}
