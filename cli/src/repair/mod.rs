//! `receipts repair`: rows lost with a damaged part of the warehouse, rebuilt from the log.
//!
//! - the tables of receipts and rejected ones by [`verifier::repair`]
//! - [`ledger_gaps`]: the ledger

pub mod ledger_gaps;

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use receipt::Judge;
use service::cpu::CpuPool;
use verifier::repair::{Repaired, repair};

use crate::failure::{Answer, Failure};
use crate::inspection::Inspection;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{Output, mark};

const AFTER_HELP: &str = "\
For the day `receipts audit` finds that receipts are missing from the tables, or lines from the ledger: every \
committed record still in the log is judged again and its rows are written again, and ledger lines are made for \
records without one. What wasn't lost doesn't change. Works while `receipts up` runs, and when it doesn't; it can \
be interrupted and run again.

Examples:
  receipts repair && receipts audit
  receipts repair --data /var/lib/receipts --json

Exit codes:
  0  everything the log still holds is in the tables
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable";

/// Write lost rows of the warehouse again, from the log
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Repair {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Write what was done as JSON
    #[arg(long)]
    json: bool,
}

impl Repair {
    /// Runs the command.
    pub fn run(self) -> Result<Answer, Failure> {
        let settings = self.settings.load()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("repair")
            .enable_all()
            .build()
            .map_err(Failure::unavailable)?;
        let done = runtime.block_on(async {
            let inspection = Inspection::open(&settings).await?;
            let repaired = run(&settings, &inspection).await;
            inspection.close().await;
            repaired
        })?;
        let mut out = Output::stdout();
        if self.json {
            out.line(serde_json::to_string(&done).map_err(Failure::input)?)?;
        } else {
            let Repaired {
                records,
                accepted,
                rejected,
                gone,
            } = done.rows;
            out.line(format_args!(
                "{} {records} records written again: {accepted} accepted, {rejected} rejected",
                mark(true)
            ))?;
            if done.ledger_lines > 0 {
                out.line(format_args!(
                    "{} {} ledger lines made again",
                    mark(true),
                    done.ledger_lines
                ))?;
            }
            if gone > 0 {
                out.line(format_args!(
                    "  {gone} records were deleted by retention before; their rows can't be rebuilt"
                ))?;
            }
        }
        out.flush()?;
        Ok(Answer::Good)
    }
}

/// What a run wrote.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    #[serde(flatten)]
    rows: Repaired,
    ledger_lines: u64,
}

async fn run(settings: &Settings, inspection: &Inspection) -> Result<Done, Failure> {
    let cpu = CpuPool::new("repair", 0, 4).map_err(Failure::unavailable)?;
    let judge = Arc::new(Judge::new(
        settings.limits.clone(),
        settings.verifier.key_cache_entries_max,
    ));
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} records  eta {eta}") {
        bar.set_style(style);
    }
    let repaired = repair(&inspection.log, &inspection.warehouse, &cpu, &judge, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    let repaired = repaired.await;
    bar.finish_and_clear();
    let rows = repaired.map_err(Failure::unavailable)?;
    let ledger_lines = ledger_gaps::fill(inspection, &cpu, &judge).await?;
    Ok(Done { rows, ledger_lines })
}
