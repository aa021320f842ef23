//! `receipts usage`: the aggregates of usage, compared with the receipts and rebuilt.

pub mod rebuilding;

use accounts::Domain;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use usage::{Mismatch, MismatchKind, Usage as Aggregates};
use warehouse::QueryScope;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose, inspect};
use crate::listing;
use crate::rejected::selection::instant;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{mark, report};
use rebuilding::{Rebuild, check, rebuild};

const CHECK_HELP: &str = "\
Compares the aggregates of usage, day by day, with each other and with the receipts: sums of all aggregates must be \
equal, every receipt must be counted exactly once, and every publisher must have as many as there are receipts. Reads \
all receipts of these days. Works while `receipts up` runs, and when it doesn't; what a writer is inserting is no \
finding.

Examples:
  receipts usage check
  receipts usage check --from 2026-07-01 --to 2026-08-01 --json
  receipts usage check --data /var/lib/receipts

Exit codes:
  0  all days are right
  1  some aren't; each difference is listed. `receipts usage rebuild` corrects them
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable, or its stored data is damaged (see `receipts repair --help`)";

const REBUILD_HELP: &str = "\
Makes a publisher's aggregates equal to the receipts, day by day. Days that are right don't change, and answers stay \
available. While `receipts up` runs, and on servers, the writer does it between two batches: the command stores a \
request and waits for it, for at most ten minutes. Otherwise it does it itself.

Examples:
  receipts usage rebuild --publisher news.example
  receipts usage rebuild --publisher news.example --before 2026-07-01
  receipts usage rebuild --publisher news.example \\
    --publisher blog.example --json

Exit codes:
  0  rebuilt
  1  requested, but no writer has executed it yet; one does as soon as it runs
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable, or its stored data is damaged (see `receipts repair --help`)";

/// Check and rebuild the aggregates of usage
#[derive(Debug, clap::Args)]
pub struct Usage {
    #[command(subcommand)]
    command: UsageCommand,
}

#[derive(Debug, clap::Subcommand)]
enum UsageCommand {
    /// Compare the aggregates with the receipts
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Make a publisher's aggregates equal to the receipts
    #[command(after_help = REBUILD_HELP)]
    Rebuild(RebuildArgs),
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Only days from this one on: 2026-07-01, in UTC
    #[arg(long, value_name = "DAY", value_parser = instant)]
    from: Option<i64>,
    /// Only days before this one
    #[arg(long, value_name = "DAY", value_parser = instant)]
    to: Option<i64>,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct RebuildArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The publisher's domain; may be given several times
    #[arg(long, value_name = "DOMAIN", required = true, value_delimiter = ',')]
    publisher: Vec<Domain>,
    /// Only days up to that of this instant: 2026-07-01T12:00:00Z, or 2026-07-01
    #[arg(long, value_name = "TIME", value_parser = instant)]
    before: Option<i64>,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

impl Usage {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        match self.command {
            UsageCommand::Check(arguments) => {
                if let (Some(from), Some(to)) = (arguments.from, arguments.to)
                    && from >= to
                {
                    return Err(CommandFailure::input("--from must be before --to"));
                }
                let settings = &arguments.settings;
                inspect(settings, InspectionPurpose::Audit, async |settings, inspection| {
                    run_check(settings, inspection, &arguments).await
                })
            }
            UsageCommand::Rebuild(arguments) => {
                let settings = &arguments.settings;
                inspect(settings, InspectionPurpose::Audit, async |_, inspection| {
                    run_rebuild(inspection, &arguments).await
                })
            }
        }
    }
}

async fn run_check(
    settings: &Settings,
    inspection: &Inspection,
    arguments: &CheckArgs,
) -> Result<CommandOutcome, CommandFailure> {
    let usage = Aggregates::new(inspection.warehouse.clone());
    let range = (arguments.from.unwrap_or(0), arguments.to.unwrap_or(i64::MAX));
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} days checked  eta {eta}") {
        bar.set_style(style);
    }
    let checked = check(&usage, range, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    let checked = checked.await;
    bar.finish_and_clear();
    let (days, mismatches) = checked?;
    let checked = Checked {
        ok: mismatches.is_empty(),
        data: settings.data.root().display().to_string(),
        days,
        mismatches: mismatches.iter().map(ShownMismatch::of).collect(),
    };
    let mut lines: Vec<String> = mismatches
        .iter()
        .map(|mismatch| format!("{} {} {mismatch}", mark(false), day(mismatch.day)))
        .collect();
    let result = format!("{days} days of usage were checked; {} mismatches", mismatches.len());
    lines.push(format!("{} {result}", mark(checked.ok)));
    listing::report(&checked, arguments.json, &lines)?;
    Ok(CommandOutcome::of(checked.ok))
}

async fn run_rebuild(inspection: &Inspection, arguments: &RebuildArgs) -> Result<CommandOutcome, CommandFailure> {
    let publishers: Vec<String> = arguments.publisher.iter().map(ToString::to_string).collect();
    let names = publishers.join(", ");
    let before_ms = arguments.before.unwrap_or_else(|| Timestamp::now().as_millisecond());
    let rebuilt = rebuild(inspection, &QueryScope::of(publishers), before_ms).await?;
    let done = rebuilt == Rebuild::Done;
    let line = match (arguments.json, done) {
        (true, _) => json!({"publishers": names, "rebuilt": done}).to_string(),
        (false, true) => format!("{} usage of {names} is equal to the receipts", mark(true)),
        (false, false) => format!(
            "{} requested, but no writer has rebuilt usage of {names} yet: one does as soon as it runs",
            mark(false)
        ),
    };
    report(line, CommandOutcome::of(done))
}

/// Result of a check.
#[derive(Serialize)]
struct Checked {
    ok: bool,
    data: String,
    days: u64,
    mismatches: Vec<ShownMismatch>,
}

/// A mismatch, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct ShownMismatch {
    day: String,
    publisher: String,
    kind: &'static str,
    grain: Option<&'static str>,
    more: i64,
}

impl ShownMismatch {
    pub(crate) fn of(mismatch: &Mismatch) -> Self {
        let (kind, grain) = match mismatch.kind {
            MismatchKind::Grain(grain) => ("grain", Some(grain.name())),
            MismatchKind::CountedKeys => ("countedKeys", None),
            MismatchKind::RepeatedKeys => ("repeatedKeys", None),
            MismatchKind::Receipts => ("receipts", None),
        };
        Self {
            day: day(mismatch.day),
            publisher: mismatch.publisher.clone(),
            kind,
            grain,
            more: mismatch.more,
        }
    }
}

/// A UTC day, as its date.
fn day(second: u32) -> String {
    let at = Timestamp::from_second(i64::from(second));
    at.map_or_else(|_| second.to_string(), |at| at.strftime("%Y-%m-%d").to_string())
}
