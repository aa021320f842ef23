//! `receipts audit`: compares ledger, tables and log.
//!
//! - [`counting`]: the ledger's blocks against the records in the log
//! - [`report`]: what was found, for people and programs

pub mod counting;
pub mod report;

use indicatif::{ProgressBar, ProgressStyle};
use receipt::Judge;
use warehouse::{AuditFinding, AuditSums};

use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose, inspect};
use crate::listing;
use crate::settings::{Settings, SettingsArgs};
use counting::{Counter, Depth};
use report::{CountedPartition, Report, RunningCheck};

const AFTER_HELP: &str = "\
Checks that every log record up to the stored position is in exactly one block of the ledger, that each block has as \
many receipts as its records in the log, that in = accepted + rejected, and that accepted and rejected are what is in \
the tables. Records behind that position wait for the verifier or the writer: they are no finding. Works while \
`receipts up` runs (through its socket), and when it doesn't. Records that retention has deleted can't be counted \
again; the report says how many. It also says what the running check of the analytics API has covered, and how long \
the rest takes.

Examples:
  receipts audit
  receipts audit --data /var/lib/receipts --json
  receipts audit --recheck    # verifies every signature in the log again

Exit codes:
  0  everything adds up
  1  something doesn't; each difference is listed
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable, or its stored data is damaged (see `receipts repair --help`)";

/// Check the conservation ledger against log and tables
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Audit {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Judge every record in the log again, instead of only counting its receipts
    #[arg(long)]
    recheck: bool,
    /// Write the report as JSON
    #[arg(long)]
    json: bool,
}

impl Audit {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let depth = if self.recheck { Depth::Judge } else { Depth::Count };
        let report = inspect(
            &self.settings,
            InspectionPurpose::Audit,
            async |settings, inspection| audit(settings, inspection, depth).await,
        )?;
        listing::report(&report, self.json, &report.to_lines())?;
        Ok(CommandOutcome::of(report.ok))
    }
}

/// Holds the ledger against log and tables.
///
/// # Errors
/// An engine is unavailable, or the warehouse's stored data is damaged; differences are findings.
pub async fn audit(settings: &Settings, inspection: &Inspection, depth: Depth) -> Result<Report, CommandFailure> {
    let partitions = inspection.partitions().await?;
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} records compared{msg}  eta {eta}") {
        bar.set_style(style);
    }
    let progress = |compared, all| {
        bar.set_length(all);
        bar.set_position(compared);
    };
    let shards = inspection.warehouse.shards().len();
    let (mut sums, mut states) = (AuditSums::default(), Vec::new());
    for (number, warehouse) in inspection.shards() {
        if shards > 1 {
            bar.set_message(format!(", shard {number}"));
        }
        let committed = inspection.stored(number).await?.committed();
        let of_shard = warehouse.audit_with(&committed, progress).await;
        sums.add(of_shard.map_err(CommandFailure::unavailable)?);
        states.extend(warehouse.audit_state().await.map_err(CommandFailure::unavailable)?);
    }
    bar.finish_and_clear();
    let now_ms = service::instant::now_ms();
    let running = (!states.is_empty()).then(|| RunningCheck::of(&states, sums.receipts_in, now_ms));
    let judge = Judge::new(settings.limits.clone(), settings.verifier.key_cache_entries_max);
    let counter = Counter {
        inspection,
        judge: &judge,
        depth,
    };
    let mut findings: Vec<AuditFinding> = sums.findings.clone();
    let mut counted = Vec::new();
    for partition in partitions {
        let count = counter.count(&partition, &mut findings).await?;
        counted.push(CountedPartition {
            partition,
            counted: count,
        });
    }
    Ok(Report {
        ok: findings.is_empty(),
        live: inspection.live,
        rechecked: depth == Depth::Judge,
        further_findings: sums.unnamed,
        sums,
        running,
        counted,
        findings,
    })
}
