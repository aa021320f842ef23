//! `receipts repair`: what was lost with damaged files of the warehouse, rebuilt from the log of
//! verdicts.
//!
//! - [`damaged_parts`]: set aside, so that the rest can be read
//! - [`ledger_overlaps`]: lines that can't all be right
//! - rows and missing ledger lines by [`writer::repair`]
//! - aggregates of usage, rebuilt where they differ from the receipts
//! - and an audit at the end, which decides the exit code

pub mod damaged_parts;
pub mod ledger_overlaps;
pub mod usage_repair;

use indicatif::{ProgressBar, ProgressStyle};
use receipt_log::LogInspector;
use serde::Serialize;
use service::cpu::CpuPool;
use warehouse::{ShardProgress, Warehouse};
use writer::repair::{Repair as Rebuild, RepairLedger, Repaired, begins};

use crate::audit::audit;
use crate::audit::counting::Depth;
use crate::audit::report::Report;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose, inspect};
use crate::listing;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::mark;
use damaged_parts::DamagedPart;
use usage_repair::UsageRepair;

const AFTER_HELP: &str = "\
For the day `receipts audit` finds that receipts are missing, or that the warehouse's files are damaged. Every file of \
the warehouse is read; damaged parts are detached (their files stay, in detached/ of their table); tables that are gone \
are made again; the rows of every stored verdict that is still in the log of verdicts are inserted again; ledger lines \
that overlap are deleted, and missing ones are inserted. Aggregates of usage that differ from the receipts are \
rebuilt: by the writer while `receipts up` runs and on servers, and here otherwise. No receipt is judged again, and what wasn't lost doesn't change. \
It ends in an audit.

A damaged part that holds rows whose verdicts retention has deleted from the log stays where it is, unless \
--accept-loss: those of its rows that can still be read would be gone from the tables, too. Works while `receipts up` \
runs, and when it doesn't; it can be interrupted and run again. If the log of verdicts itself is lost, see \
`receipts rewind --help`.

Examples:
  receipts repair
  receipts repair --data /var/lib/receipts --json
  receipts repair --accept-loss

Exit codes:
  0  everything is in the tables, and the audit passes
  1  something is still wrong; the output says what
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable";

/// Set damaged parts aside, and insert lost rows again
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Repair {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Also detach damaged parts with rows that the log can't rebuild any more
    #[arg(long)]
    accept_loss: bool,
    /// Write what was done as JSON
    #[arg(long)]
    json: bool,
}

impl Repair {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let done = inspect(
            &self.settings,
            InspectionPurpose::Repair,
            async |settings, inspection| run(settings, inspection, self.accept_loss).await,
        )?;
        listing::report(&done, self.json, &done.to_lines())?;
        Ok(CommandOutcome::of(done.ok))
    }
}

/// Results of a run, and the audit after it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    /// Whether everything is in the tables and adds up.
    ok: bool,
    tables_restored: Vec<String>,
    #[serde(rename = "damagedParts")]
    damaged: Vec<DamagedPart>,
    #[serde(flatten)]
    rows: Repaired,
    ledger_lines_deleted: u64,
    /// Differences between aggregates of usage and receipts, before the rebuild; none where damage
    /// that stays can't be read.
    usage: Option<UsageRepair>,
    /// Audit; `None` where damage that stays keeps it from its end.
    audit: Option<Report>,
}

impl Done {
    fn to_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for table in &self.tables_restored {
            lines.push(format!("{} the table {table} was gone, and was made again", mark(true)));
        }
        for part in &self.damaged {
            let DamagedPart {
                table,
                part: name,
                rows,
                fault,
                cannot_be_rebuilt,
                detached,
            } = part;
            lines.push(if *detached {
                format!(
                    "{} part {name} of {table} ({rows} rows) was damaged and is detached: {fault}",
                    mark(true)
                )
            } else {
                format!(
                    "{} part {name} of {table} ({rows} rows) is damaged: {fault}",
                    mark(false)
                )
            });
            if let Some(lost) = cannot_be_rebuilt {
                lines.push(format!(
                    "  {lost} of its rows come from records whose verdicts retention has deleted from the log: they can't be rebuilt{}",
                    if *detached {
                        ""
                    } else {
                        ". It stays where it is; `receipts repair --accept-loss` detaches it, which takes those of them \
                         that can still be read out of the tables (its files stay in detached/)"
                    }
                ));
            }
        }
        let Repaired {
            records,
            accepted,
            rejected,
            ledger_lines,
            gone,
        } = self.rows;
        lines.push(format!(
            "{} verdicts on {records} records inserted again: {accepted} accepted, {rejected} rejected",
            mark(true)
        ));
        for (number, what) in [
            (self.ledger_lines_deleted, "ledger lines deleted that overlapped others"),
            (ledger_lines, "missing ledger lines inserted"),
        ] {
            if number > 0 {
                lines.push(format!("{} {number} {what}", mark(true)));
            }
        }
        if gone > 0 {
            lines.push(format!(
                "  verdicts on {gone} records are no longer in the log; rows of theirs that are lost can't be rebuilt"
            ));
        }
        lines.extend(self.usage.iter().flat_map(UsageRepair::to_lines));
        match &self.audit {
            Some(report) => lines.extend(report.to_lines()),
            None => lines.push(format!("{} no audit: it can't read the damaged parts", mark(false))),
        }
        lines
    }
}

async fn run(settings: &Settings, inspection: &Inspection, accept_loss: bool) -> Result<Done, CommandFailure> {
    let cpu = CpuPool::new("repair", 0, 4).map_err(CommandFailure::unavailable)?;
    let verdicts = inspection.verdicts(settings)?;
    let (mut damaged, mut rows, mut ledger_lines_deleted) = (Vec::new(), Repaired::default(), 0);
    for (number, warehouse) in inspection.shards() {
        let shard = Shard {
            warehouse,
            stored: inspection.stored(number).await?,
            verdicts: verdicts.as_ref(),
            cpu: &cpu,
            evidence: settings.writer.evidence,
        };
        let (parts, deleted) = shard.set_aside(accept_loss).await?;
        let ledger = match parts.iter().any(|part| !part.detached && part.table == "ledger") {
            true => RepairLedger::Leave,
            false => RepairLedger::Fill,
        };
        damaged.extend(parts);
        ledger_lines_deleted += deleted;
        // Ledger lines may have been deleted.
        let stored = inspection.stored(number).await?;
        rows.add(shard.insert_again(&stored, ledger).await?);
    }
    let usage = match usage_repair::repair(inspection).await {
        Ok(usage) => Some(usage),
        Err(_) if damaged.iter().any(|part| !part.detached) => None,
        Err(error) => return Err(error),
    };
    let audit = match audit(settings, inspection, Depth::Count).await {
        Ok(report) => Some(report),
        Err(_) if damaged.iter().any(|part| !part.detached) => None,
        Err(error) => return Err(error),
    };
    let is_sound = damaged.iter().all(|part| part.detached);
    let is_rebuilt = usage.as_ref().is_some_and(|usage| usage.rebuilt);
    Ok(Done {
        ok: is_sound && is_rebuilt && audit.as_ref().is_some_and(|report| report.ok),
        tables_restored: inspection.tables_restored.clone(),
        damaged,
        rows,
        ledger_lines_deleted,
        usage,
        audit,
    })
}

/// A shard that is being repaired.
struct Shard<'a> {
    warehouse: &'a Warehouse,
    stored: ShardProgress,
    verdicts: &'a dyn LogInspector,
    cpu: &'a CpuPool,
    evidence: bool,
}

impl Shard<'_> {
    /// Detaches damaged parts, and deletes overlapping ledger lines. Returns the parts and the
    /// number of lines.
    async fn set_aside(&self, accept_loss: bool) -> Result<(Vec<DamagedPart>, u64), CommandFailure> {
        let found = begins(self.verdicts, &self.stored).await;
        let found = found.map_err(CommandFailure::unavailable)?;
        let checking = bar("{bar:30} {pos}/{len} parts checked  eta {eta}");
        let damaged = damaged_parts::set_aside(self.warehouse, &found, accept_loss, &checking).await;
        checking.finish_and_clear();
        let damaged = damaged?;
        // The ledger can't be read past damage that stays.
        let is_readable = !damaged.iter().any(|part| !part.detached && part.table == "ledger");
        let deleted = match is_readable {
            true => ledger_overlaps::delete(self.warehouse, &found).await?,
            false => 0,
        };
        Ok((damaged, deleted))
    }

    async fn insert_again(&self, stored: &ShardProgress, ledger: RepairLedger) -> Result<Repaired, CommandFailure> {
        let inserting = bar("{bar:30} {pos}/{len} records of verdicts  eta {eta}");
        let rebuild = Rebuild {
            verdicts: self.verdicts,
            warehouse: self.warehouse,
            cpu: self.cpu,
            ledger,
            evidence: self.evidence,
        };
        let rebuilt = rebuild.run(stored, |done, total| {
            inserting.set_length(total);
            inserting.set_position(done);
        });
        let rebuilt = rebuilt.await;
        inserting.finish_and_clear();
        rebuilt.map_err(CommandFailure::unavailable)
    }
}

fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
