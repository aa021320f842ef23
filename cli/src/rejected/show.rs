//! `receipts rejected show`.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use receipt_log::ReceiptPosition;
use serde::Serialize;
use uuid::Uuid;
use warehouse::{Rejected, RejectedCursor, RejectedFilter, RejectedOrder};

use super::rendering::body;
use super::{ShownRejection, position};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose, inspect};
use crate::listing;
use crate::settings::SettingsArgs;
use crate::terminal::{FAINT, Output, RawOutput, note, paint};

/// Rejected receipts shown under one receipt id.
const SHOWN_MAX: u64 = 100;

const AFTER_HELP: &str = "\
Everything that is stored of a rejected receipt, or of each with this receipt id. Works while `receipts up` runs, and \
when it doesn't. `origin` says what the bytes are: `record` the whole body of a request, `signed_batch` one receipt of \
a batch whose signature is good, `not_stored` nothing, because more was rejected that day than the limits of [verifier] \
let be stored. With --json they are in `raw` if they are text, otherwise in `rawBase64`.

Examples:
  receipts rejected show 2863311530:0:41:0
  receipts rejected show 2863311530:0:41:0 --raw > receipt.json &&
    receipts verify --explain receipt.json
  receipts rejected show 3d9c1b1e-8c4f-4d0c-9d6e-0a6f6f0b8f11 --json

Exit codes:
  0  ok
  1  there is no such rejected receipt
  2  wrong usage, or --raw and more than one has this receipt id
  3  an engine is unavailable";

/// Show a rejected receipt with its bytes
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Show {
    #[command(flatten)]
    settings: SettingsArgs,
    /// A position, as `list` shows it, or a receipt id
    #[arg(value_name = "POSITION|RECEIPT_ID")]
    which: RejectionSelector,
    /// Write only the bytes, exactly as received
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Write one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy)]
enum RejectionSelector {
    Position(ReceiptPosition),
    ReceiptId(Uuid),
}

impl FromStr for RejectionSelector {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = text.parse().map(Self::ReceiptId);
        id.or_else(|_| text.parse().map(Self::Position))
            .map_err(|_| "neither a position (epoch:partition:offset:index) nor a receipt id (a UUID)")
    }
}

impl Show {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        inspect(&self.settings, InspectionPurpose::Audit, async |_, inspection| {
            self.show(inspection).await
        })
    }

    async fn show(&self, inspection: &Inspection) -> Result<CommandOutcome, CommandFailure> {
        let (position_asked, receipt_id) = match self.which {
            RejectionSelector::Position(position) => (Some(position.into()), None),
            RejectionSelector::ReceiptId(id) => (None, Some(id)),
        };
        let filter = RejectedFilter {
            position: position_asked,
            receipt_id,
            ..RejectedFilter::default()
        };
        let warehouse = &inspection.warehouse;
        let keys = warehouse.rejected_keys(&filter, RejectedOrder::Newest, None, SHOWN_MAX + 1);
        let mut keys = keys.await.map_err(CommandFailure::unavailable)?;
        let more = keys.len() as u64 > SHOWN_MAX;
        keys.truncate(100);
        let rows = warehouse.rejected(&keys).await.map_err(CommandFailure::unavailable)?;
        if rows.is_empty() {
            note(match self.which {
                RejectionSelector::Position(at) => format!("no rejected receipt stands at {at}"),
                RejectionSelector::ReceiptId(id) => format!("no rejected receipt has the id {id}"),
            });
            return Ok(CommandOutcome::Found);
        }
        if self.raw && rows.len() > 1 {
            let positions: Vec<String> = rows.iter().map(|row| position(row.position)).collect();
            let positions = positions.join("\n  ");
            return Err(CommandFailure::Input(format!(
                "more than one rejected receipt has this id; name one by its position:\n  {positions}"
            )));
        }
        let mut first = true;
        for (row, key) in rows.iter().zip(&keys) {
            if !std::mem::take(&mut first) && !self.json {
                let mut out = Output::stdout();
                out.line("")?;
                out.flush()?;
            }
            // One body in memory at a time.
            self.write(row, &raw_of(inspection, key).await?)?;
        }
        if more {
            note(paint(
                FAINT,
                format_args!("more than {SHOWN_MAX}: `receipts rejected list --receipt-id` has all of them"),
            ));
        }
        Ok(CommandOutcome::Good)
    }

    fn write(&self, row: &Rejected, raw: &[u8]) -> Result<(), CommandFailure> {
        if self.raw {
            let mut out = RawOutput::stdout();
            out.bytes(raw)?;
            return out.flush();
        }
        let rejection = ShownRejection::of(row);
        if self.json {
            let text = std::str::from_utf8(raw).ok();
            let raw_base64 = text.is_none().then(|| STANDARD.encode(raw));
            let shown = ShownBytes {
                rejection,
                raw: text,
                raw_base64,
            };
            return listing::show(&shown, true, &[]).map(|_| ());
        }
        let _ = listing::show(&rejection, false, &[])?;
        let mut out = Output::stdout();
        out.line(format_args!("\n{}", body(raw)))?;
        out.flush()
    }
}

/// A rejected receipt with its bytes, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownBytes<'a> {
    #[serde(flatten)]
    rejection: ShownRejection<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_base64: Option<String>,
}

async fn raw_of(inspection: &Inspection, key: &RejectedCursor) -> Result<Vec<u8>, CommandFailure> {
    let raw = inspection.warehouse.rejected_raw(std::slice::from_ref(key)).await;
    let mut raw = raw.map_err(CommandFailure::unavailable)?;
    raw.remove(&key.position)
        .ok_or_else(|| CommandFailure::unavailable("the row went away while it was read"))
}
