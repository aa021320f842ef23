//! `receipts usage`: the aggregates of usage, compared with the receipts and rebuilt.

pub mod rebuilding;

use accounts::Domain;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde_json::json;
use usage::{Mismatch, MismatchKind, Usage as Aggregates};
use warehouse::QueryScope;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose};
use crate::rejected::selection::instant;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{Output, mark};
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
        let settings = match &self.command {
            UsageCommand::Check(arguments) => {
                if let (Some(from), Some(to)) = (arguments.from, arguments.to)
                    && from >= to
                {
                    return Err(CommandFailure::input("--from must be before --to"));
                }
                &arguments.settings
            }
            UsageCommand::Rebuild(arguments) => &arguments.settings,
        };
        let settings = settings.load()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("usage")
            .enable_all()
            .build()
            .map_err(CommandFailure::unavailable)?;
        runtime.block_on(async {
            let inspection = Inspection::open(&settings, InspectionPurpose::Audit).await?;
            let done = match &self.command {
                UsageCommand::Check(arguments) => run_check(&settings, &inspection, arguments).await,
                UsageCommand::Rebuild(arguments) => run_rebuild(&inspection, arguments).await,
            };
            inspection.close().await;
            done
        })
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
    let mut out = Output::stdout();
    if arguments.json {
        out.line(json!({
            "data": settings.data.root().display().to_string(),
            "days": days,
            "mismatches": mismatches.iter().map(as_json).collect::<Vec<_>>(),
            "ok": mismatches.is_empty(),
        }))?;
    } else {
        for mismatch in &mismatches {
            out.line(format!("{} {} {mismatch}", mark(false), day(mismatch.day)))?;
        }
        let result = format!("{days} days of usage were checked; {} mismatches", mismatches.len());
        out.line(format!("{} {result}", mark(mismatches.is_empty())))?;
    }
    out.flush()?;
    Ok(if mismatches.is_empty() {
        CommandOutcome::Good
    } else {
        CommandOutcome::Found
    })
}

async fn run_rebuild(inspection: &Inspection, arguments: &RebuildArgs) -> Result<CommandOutcome, CommandFailure> {
    let publishers: Vec<String> = arguments.publisher.iter().map(ToString::to_string).collect();
    let names = publishers.join(", ");
    let before_ms = arguments.before.unwrap_or_else(|| Timestamp::now().as_millisecond());
    let rebuilt = rebuild(inspection, &QueryScope::of(publishers), before_ms).await?;
    let done = rebuilt == Rebuild::Done;
    let mut out = Output::stdout();
    if arguments.json {
        out.line(json!({"publishers": names, "rebuilt": done}))?;
    } else if done {
        out.line(format!("{} usage of {names} is equal to the receipts", mark(true)))?;
    } else {
        out.line(format!(
            "{} requested, but no writer has rebuilt usage of {names} yet: one does as soon as it runs",
            mark(false)
        ))?;
    }
    out.flush()?;
    Ok(if done {
        CommandOutcome::Good
    } else {
        CommandOutcome::Found
    })
}

/// A mismatch, for programs.
pub(crate) fn as_json(mismatch: &Mismatch) -> serde_json::Value {
    let (kind, grain) = match mismatch.kind {
        MismatchKind::Grain(grain) => ("grain", Some(grain.name())),
        MismatchKind::CountedKeys => ("countedKeys", None),
        MismatchKind::RepeatedKeys => ("repeatedKeys", None),
        MismatchKind::Receipts => ("receipts", None),
    };
    json!({
        "day": day(mismatch.day),
        "publisher": mismatch.publisher,
        "kind": kind,
        "grain": grain,
        "more": mismatch.more,
    })
}

/// A UTC day, as its date.
fn day(second: u32) -> String {
    let at = Timestamp::from_second(i64::from(second));
    at.map_or_else(|_| second.to_string(), |at| at.strftime("%Y-%m-%d").to_string())
}
