//! `receipts rejected list`.

use serde::Serialize;
use service::instant::rfc3339_ms;
use warehouse::{Rejected, RejectedCursor, RejectedOrder};

use super::rendering::count;
use super::selection::{RejectedListCursor, Selection};
use super::{ShownRejection, position};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose, inspect};
use crate::listing;
use crate::settings::SettingsArgs;
use crate::terminal::{BAD, FAINT, HEAD, Output, note, paint, visible};

/// Rows requested at a time.
const PAGE_ROWS: u64 = 500;

const AFTER_HELP: &str = "\
Newest first, without their bytes (`receipts rejected show` has them). Works while `receipts up` runs, and when it \
doesn't. With --json each line is one receipt, and its `cursor` goes on after it.

Examples:
  receipts rejected list
  receipts rejected list --reason bad_signature \\
    --domain news.example --from 2026-07-01
  receipts rejected list --limit 0 --json | jq -r .reason |
    sort | uniq -c
  receipts rejected list --after 1782907200007@2863311530:0:41:0

Exit codes:
  0  ok, also if there are none
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable";

/// List rejected receipts, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    selection: Selection,
    /// At most so many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Go on after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<RejectedListCursor>,
    /// Write one JSON object per line
    #[arg(long)]
    json: bool,
}

impl List {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        inspect(&self.settings, InspectionPurpose::Audit, async |_, inspection| {
            self.list(inspection).await
        })
    }

    async fn list(&self, inspection: &Inspection) -> Result<CommandOutcome, CommandFailure> {
        let filter = self.selection.filter()?;
        let mut out = Output::stdout();
        let mut after: Option<RejectedCursor> = self.after.map(RejectedListCursor::key);
        let mut left = if self.limit == 0 { u64::MAX } else { self.limit };
        let mut shown = 0_u64;
        loop {
            // One more than is shown, so that the end is known.
            let rows_max = left.min(PAGE_ROWS);
            let warehouse = &inspection.warehouse;
            let keys = warehouse.rejected_keys(&filter, RejectedOrder::Newest, after.as_ref(), rows_max + 1);
            let mut keys = keys.await.map_err(CommandFailure::unavailable)?;
            let more = keys.len() as u64 > rows_max;
            keys.truncate(usize::try_from(rows_max).unwrap_or(usize::MAX));
            let rows = warehouse.rejected(&keys).await.map_err(CommandFailure::unavailable)?;
            if !self.json && shown == 0 && !rows.is_empty() {
                out.line(heading())?;
            }
            for row in &rows {
                self.line(&mut out, row)?;
            }
            shown += keys.len() as u64;
            left -= keys.len() as u64;
            after = keys.pop().or(after);
            if !more || left == 0 {
                out.flush()?;
                if !self.json {
                    self.end(shown, more.then_some(()).and(after));
                }
                return Ok(CommandOutcome::Good);
            }
        }
    }

    fn line(&self, out: &mut Output, row: &Rejected) -> Result<(), CommandFailure> {
        if !self.json {
            return out.line(text(row));
        }
        let cursor = RejectedListCursor::after(&RejectedCursor {
            publisher: String::new(),
            received_at_ms: row.received_at_ms,
            position: row.position,
        });
        out.line(listing::to_json(&ListedRejection {
            rejection: ShownRejection::of(row),
            cursor: cursor.to_string(),
        })?)
    }

    fn end(&self, shown: u64, more_after: Option<RejectedCursor>) {
        if let Some(key) = more_after {
            note(paint(
                FAINT,
                format_args!("more: --after {}", RejectedListCursor::after(&key)),
            ));
        } else if shown == 0 {
            note(paint(FAINT, "no rejected receipts"));
        } else {
            note(paint(FAINT, count(shown, "rejected receipt")));
        }
    }
}

/// A line of JSON.
#[derive(Serialize)]
struct ListedRejection<'a> {
    #[serde(flatten)]
    rejection: ShownRejection<'a>,
    /// Goes on after this receipt.
    cursor: String,
}

fn heading() -> String {
    paint(
        HEAD,
        format_args!(
            "{:<24}  {:<22}  {:<24}  {:<36}  POSITION",
            "RECEIVED", "REASON", "PUBLISHER", "RECEIPT"
        ),
    )
}

fn text(row: &Rejected) -> String {
    let received = rfc3339_ms(row.received_at_ms);
    let receipt = match row.receipt_id {
        Some(id) => id.to_string(),
        None if row.receipts > 1 => count(row.receipts.into(), "receipt"),
        None => "-".to_owned(),
    };
    let publisher = if row.publisher.is_empty() { "-" } else { &row.publisher };
    let reason = paint(BAD, format_args!("{:<22}", visible(&row.reason)));
    format!(
        "{received:<24}  {reason}  {:<24}  {receipt:<36}  {}",
        visible(publisher),
        position(row.position),
    )
}
