//! `receipts repair`: what was lost with damaged files of the warehouse, rebuilt from the log.
//!
//! - [`damaged_parts`]: set aside, so that the rest can be read
//! - the tables of receipts and rejected ones by [`verifier::repair`]
//! - [`ledger_overlaps`], [`ledger_gaps`]: the ledger
//! - and an audit at the end, whose word counts

pub mod damaged_parts;
pub mod ledger_gaps;
pub mod ledger_overlaps;

use std::sync::Arc;

use accounts::Accounts;
use indicatif::{ProgressBar, ProgressStyle};
use receipt::Judge;
use serde_json::json;
use service::cpu::CpuPool;
use verifier::PolicyBook;
use verifier::repair::{Repaired, repair};

use crate::audit::audit;
use crate::audit::counting::Depth;
use crate::audit::report::Report;
use crate::failure::{Answer, Failure};
use crate::inspection::{Inspection, Purpose, open_policy_book};
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{Output, mark};
use damaged_parts::DamagedPart;

const AFTER_HELP: &str = "\
For the day `receipts audit` finds that receipts are missing, or that the warehouse's files are damaged. Every file of \
the warehouse is read; damaged parts are detached (their files stay, in detached/ of their table), tables that are gone \
are made anew; every committed record still in the log is judged again and its rows are written again; ledger lines that \
overlap are thinned out, and missing ones are made. What wasn't lost doesn't change. It ends in an audit.

A damaged part that holds rows of records which retention has deleted from the log stays where it is, unless \
--accept-loss: those of its rows that can still be read would be gone from the tables, too. Works while `receipts up` \
runs, and when it doesn't; it can be interrupted and run again.

Examples:
  receipts repair
  receipts repair --data /var/lib/receipts --json
  receipts repair --accept-loss

Exit codes:
  0  everything is in the tables, and the audit passes
  1  something is still wrong; the output says what
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable";

/// Set damaged parts of the warehouse aside and write lost rows again, from the log
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
    pub fn run(self) -> Result<Answer, Failure> {
        let settings = self.settings.load()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("repair")
            .enable_all()
            .build()
            .map_err(Failure::unavailable)?;
        let done = runtime.block_on(async {
            let inspection = Inspection::open(&settings, Purpose::Repair).await?;
            let repaired = run(&settings, &inspection, self.accept_loss).await;
            inspection.close().await;
            repaired
        })?;
        let mut out = Output::stdout();
        if self.json {
            out.line(done.to_json()?)?;
        } else {
            for line in done.to_lines() {
                out.line(line)?;
            }
        }
        out.flush()?;
        Ok(if done.is_good() { Answer::Good } else { Answer::Found })
    }
}

/// What a run did, and what the audit says then.
#[derive(Debug)]
struct Done {
    tables_restored: Vec<String>,
    damaged: Vec<DamagedPart>,
    rows: Repaired,
    ledger_lines_deleted: u64,
    ledger_lines: u64,
    /// None where damage that stays keeps the audit from its end.
    audit: Option<Report>,
}

impl Done {
    fn is_good(&self) -> bool {
        let sound = self.damaged.iter().all(|part| part.detached);
        sound && self.audit.as_ref().is_some_and(|report| report.findings.is_empty())
    }

    fn to_json(&self) -> Result<String, Failure> {
        let mut value = serde_json::to_value(self.rows).map_err(Failure::input)?;
        value["tablesRestored"] = json!(self.tables_restored);
        value["damagedParts"] = json!(self.damaged);
        value["ledgerLines"] = json!(self.ledger_lines);
        value["ledgerLinesDeleted"] = json!(self.ledger_lines_deleted);
        value["audit"] = self.audit.as_ref().map_or(json!(null), Report::to_json);
        value["ok"] = json!(self.is_good());
        Ok(value.to_string())
    }

    fn to_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for table in &self.tables_restored {
            lines.push(format!("{} the table {table} was gone, and was made anew", mark(true)));
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
                    "  {lost} of its rows come from records that retention has deleted from the log: they can't be rebuilt{}",
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
            gone,
        } = self.rows;
        lines.push(format!(
            "{} {records} records written again: {accepted} accepted, {rejected} rejected",
            mark(true)
        ));
        for (number, what) in [
            (self.ledger_lines_deleted, "ledger lines deleted that overlapped others"),
            (self.ledger_lines, "ledger lines made again"),
        ] {
            if number > 0 {
                lines.push(format!("{} {number} {what}", mark(true)));
            }
        }
        if gone > 0 {
            lines.push(format!(
                "  {gone} records were deleted by retention before; rows of theirs that are lost can't be rebuilt"
            ));
        }
        match &self.audit {
            Some(report) => lines.extend(report.to_lines()),
            None => lines.push(format!("{} no audit: it can't read the damaged parts", mark(false))),
        }
        lines
    }
}

async fn run(settings: &Settings, inspection: &Inspection, accept_loss: bool) -> Result<Done, Failure> {
    let cpu = CpuPool::new("repair", 0, 4).map_err(Failure::unavailable)?;
    let judge = Arc::new(Judge::new(
        settings.limits.clone(),
        settings.verifier.key_cache_entries_max,
    ));
    // What is written again carries no marks; and rolled rows are made from the receipts, damaged ones too.
    let forget = || async { inspection.warehouse.reset_rollups().await.map_err(Failure::unavailable) };
    forget().await?;
    let checking = bar("{bar:30} {pos}/{len} parts checked  eta {eta}");
    let damaged = damaged_parts::set_aside(inspection, accept_loss, &checking).await;
    checking.finish_and_clear();
    let damaged = damaged?;
    let writing = bar("{bar:30} {pos}/{len} records  eta {eta}");
    let book = policy_book(settings).await?;
    let book = book.as_ref();
    let repaired = repair(
        &inspection.log,
        &inspection.warehouse,
        &cpu,
        &judge,
        book,
        |done, total| {
            writing.set_length(total);
            writing.set_position(done);
        },
    );
    let repaired = repaired.await;
    writing.finish_and_clear();
    // Also after a failure: a roll that began meanwhile knows nothing of what was written until then.
    forget().await?;
    let rows = repaired.map_err(Failure::unavailable)?;
    let stays = |table: &str| damaged.iter().any(|part| !part.detached && part.table == table);
    // The ledger's own lines can't be read past damage that stays, nor can anything be held against them.
    let (mut ledger_lines_deleted, mut ledger_lines, mut report) = (0, 0, None);
    if !stays("ledger") {
        ledger_lines_deleted = ledger_overlaps::settle(inspection).await?;
        ledger_lines = ledger_gaps::fill(inspection, &cpu, &judge, book).await?;
    }
    match audit(settings, inspection, Depth::Count).await {
        Ok(found) => report = Some(found),
        Err(_) if damaged.iter().any(|part| !part.detached) => {}
        Err(error) => return Err(error),
    }
    Ok(Done {
        tables_restored: inspection.tables_restored.clone(),
        damaged,
        rows,
        ledger_lines_deleted,
        ledger_lines,
        audit: report,
    })
}

/// The marks of records that were judged under a policy, if there is an account store that could hold them.
async fn policy_book(settings: &Settings) -> Result<Option<PolicyBook>, Failure> {
    if settings.policy.is_open() && !Accounts::is_given(&settings.accounts, settings.data.root()) {
        return Ok(None);
    }
    open_policy_book(settings).await.map(Some)
}

fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
