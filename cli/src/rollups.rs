//! `receipts rollups`: hours counted ahead, looked at, held against the receipts, and forgotten.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use warehouse::{CommittedOffset, OffBucket, RollupView};

use crate::failure::{Answer, Failure};
use crate::inspection::{Inspection, Purpose};
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{FAINT, Output, mark, paint};

/// Hours checked by one statement.
const CHECKED_HOURS: u32 = 168;
/// How often a difference must be found before it is believed, and the pause between: what is being written is different for a moment.
const CHECKS: u32 = 4;
const CHECK_PAUSE: Duration = Duration::from_secs(2);

const STATUS_HELP: &str = "\
Examples:
  receipts rollups status
  receipts rollups status --data /var/lib/receipts --json

Exit codes:
  0  told
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable";

const CHECK_HELP: &str = "\
Holds every rolled hour that answers are taken from against the receipts themselves: counts, and everything else that its \
rows tell. Works while `receipts up` runs, and when it doesn't.

Examples:
  receipts rollups check
  receipts rollups check --data /var/lib/receipts --json

Exit codes:
  0  all of them tell what the receipts tell
  1  some don't; each is listed. `receipts rollups reset` has them made anew
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable, or its stored data is damaged (see `receipts repair --help`)";

const RESET_HELP: &str = "\
Answers stay right and get slower, until the analytics API has rolled everything again.

Examples:
  receipts rollups reset
  receipts rollups reset --data /var/lib/receipts

Exit codes:
  0  forgotten
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable";

/// Look at the rollups, which the analytics API answers long ranges from, and check them
#[derive(Debug, clap::Args)]
pub struct Rollups {
    #[command(subcommand)]
    command: RollupsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RollupsCommand {
    /// Tell which hours are rolled
    #[command(after_help = STATUS_HELP)]
    Status(Arguments),
    /// Hold rolled hours against the receipts
    #[command(after_help = CHECK_HELP)]
    Check(Arguments),
    /// Forget everything that is rolled
    #[command(after_help = RESET_HELP)]
    Reset(Arguments),
}

#[derive(Debug, clap::Args)]
struct Arguments {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

impl Rollups {
    /// Runs the command.
    pub fn run(self) -> Result<Answer, Failure> {
        let (RollupsCommand::Status(arguments) | RollupsCommand::Check(arguments) | RollupsCommand::Reset(arguments)) =
            &self.command;
        let settings = arguments.settings.load()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("rollups")
            .enable_all()
            .build()
            .map_err(Failure::unavailable)?;
        runtime.block_on(async {
            let inspection = Inspection::open(&settings, Purpose::Audit).await?;
            let done = match &self.command {
                RollupsCommand::Status(arguments) => status(&inspection, arguments.json).await,
                RollupsCommand::Check(arguments) => check(&settings, &inspection, arguments.json).await,
                RollupsCommand::Reset(arguments) => reset(&inspection, arguments.json).await,
            };
            inspection.close().await;
            done
        })
    }
}

async fn status(inspection: &Inspection, json: bool) -> Result<Answer, Failure> {
    let standing = inspection.warehouse.rollup_standing().await;
    let standing = standing.map_err(Failure::unavailable)?;
    let mut out = Output::stdout();
    if json {
        out.line(json!({
            "version": standing.version,
            "from": time(standing.from_ms),
            "to": time(standing.to_ms),
            "dirtyHours": standing.dirty_hours,
            "erasures": standing.erasing,
        }))?;
    } else if standing.version == 0 {
        out.line("nothing is rolled: all answers come from the receipts")?;
    } else {
        out.line(format!(
            "rolled from {} to {}",
            time(standing.from_ms),
            time(standing.to_ms)
        ))?;
        out.line(format!(
            "hours of publishers that wait to be made anew: {}",
            standing.dirty_hours
        ))?;
        out.line(format!("erasures under way: {}", standing.erasing))?;
        out.line(paint(FAINT, format!("roll {}", standing.version)))?;
    }
    out.flush()?;
    Ok(Answer::Good)
}

async fn reset(inspection: &Inspection, json: bool) -> Result<Answer, Failure> {
    inspection
        .warehouse
        .reset_rollups()
        .await
        .map_err(Failure::unavailable)?;
    let mut out = Output::stdout();
    if json {
        out.line(json!({"reset": true}))?;
    } else {
        out.line(format!("{} nothing is rolled any more", mark(true)))?;
    }
    out.flush()?;
    Ok(Answer::Good)
}

async fn check(settings: &Settings, inspection: &Inspection, json: bool) -> Result<Answer, Failure> {
    let window = view(inspection).await?.window().unwrap_or_default();
    let mut off = Vec::new();
    for start in window.clone().step_by(CHECKED_HOURS as usize) {
        let end = start.saturating_add(CHECKED_HOURS).min(window.end);
        let mut found: Option<Vec<OffBucket>> = None;
        for turn in 0..CHECKS {
            if turn > 0 {
                if !inspection.live {
                    break;
                }
                tokio::time::sleep(CHECK_PAUSE).await;
            }
            let view = view(inspection).await?;
            let now = inspection.warehouse.check_rollups(&view, start..end).await;
            let now = now.map_err(Failure::unavailable)?;
            let still = match &found {
                None => now,
                Some(before) => now.into_iter().filter(|one| before.contains(one)).collect(),
            };
            let none = still.is_empty();
            found = Some(still);
            if none {
                break;
            }
        }
        off.extend(found.unwrap_or_default());
    }
    let mut out = Output::stdout();
    if json {
        let named = off.iter().map(|one| {
            json!({"publisher": one.publisher, "hour": hour(one.hour), "table": one.table, "receiptsMore": one.more})
        });
        out.line(json!({
            "data": settings.data.root().display().to_string(),
            "hours": window.len(),
            "off": named.collect::<Vec<_>>(),
            "ok": off.is_empty(),
        }))?;
    } else {
        for one in &off {
            out.line(format!(
                "{} {} {} in {}: {:+} receipts",
                mark(false),
                one.publisher,
                hour(one.hour),
                one.table,
                one.more
            ))?;
        }
        let all = format!("{} rolled hours were held against the receipts", window.len());
        out.line(format!(
            "{} {all}; {} of publishers are off",
            mark(off.is_empty()),
            off.len()
        ))?;
    }
    out.flush()?;
    Ok(if off.is_empty() { Answer::Good } else { Answer::Found })
}

/// As of now.
async fn view(inspection: &Inspection) -> Result<RollupView, Failure> {
    let partitions = inspection.partitions().await?;
    let committed = partitions.into_iter().filter(|partition| partition.next_offset > 0);
    let committed: Vec<CommittedOffset> = committed
        .map(|partition| CommittedOffset {
            epoch: partition.epoch,
            partition: partition.partition,
            next_offset: partition.next_offset,
        })
        .collect();
    let view = inspection.warehouse.rollup_view(&committed).await;
    view.map_err(Failure::unavailable)
}

fn hour(hour: u32) -> String {
    time(i64::from(hour) * 3_600_000)
}

fn time(at_ms: i64) -> String {
    Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| at.to_string())
}
