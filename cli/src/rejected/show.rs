//! `receipts rejected show`.

use std::str::FromStr;

use accounts::Fingerprint;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use receipt_log::ReceiptPosition;
use serde_json::json;
use service::instant::rfc3339_ms;
use uuid::Uuid;
use warehouse::{Rejected, RejectedCursor, RejectedFilter, RejectedOrder};

use super::rendering::body;
use super::{on_runtime, position, sha256, to_json};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose};
use crate::settings::SettingsArgs;
use crate::terminal::{BAD, FAINT, HEAD, Output, RawOutput, note, paint, visible};

/// Rejected receipts shown under one receipt id.
const SHOWN_MAX: u64 = 100;

const AFTER_HELP: &str = "\
Everything that is kept of a rejected receipt, or of each with this receipt id. Works while `receipts up` runs, and \
when it doesn't. With --json the bytes are in `raw` if they are text, otherwise in `rawBase64`.

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
        let settings = self.settings.load()?;
        on_runtime(&settings, async |settings| {
            let inspection = Inspection::open(&settings, InspectionPurpose::Audit).await?;
            let shown = self.show(&inspection).await;
            inspection.close().await;
            shown
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
        let mut out = Output::stdout();
        if self.json {
            let mut object = to_json(row);
            match std::str::from_utf8(raw) {
                Ok(text) => object["raw"] = json!(text),
                Err(_) => object["rawBase64"] = json!(STANDARD.encode(raw)),
            }
            out.line(object)?;
        } else {
            for (name, value) in members(row) {
                out.line(format_args!("{} {value}", paint(HEAD, format_args!("{name:<18}"))))?;
            }
            out.line("")?;
            out.line(body(raw))?;
        }
        out.flush()
    }
}

async fn raw_of(inspection: &Inspection, key: &RejectedCursor) -> Result<Vec<u8>, CommandFailure> {
    let raw = inspection.warehouse.rejected_raw(std::slice::from_ref(key)).await;
    let mut raw = raw.map_err(CommandFailure::unavailable)?;
    raw.remove(&key.position)
        .ok_or_else(|| CommandFailure::unavailable("the row went away while it was read"))
}

/// Members for people.
fn members(row: &Rejected) -> Vec<(&'static str, String)> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| paint(FAINT, "-"));
    let id = |id: Option<Uuid>| or_none(id.map(|id| id.to_string()));
    let text = |text: &str| or_none((!text.is_empty()).then(|| visible(text)));
    let bytes_are = match (row.origin.as_str(), row.kind.as_str()) {
        ("record", "batch") => "the whole body of a batch",
        ("record", _) => "the whole body of a request",
        ("not_kept", _) => "not stored: more was rejected that day than the limits of [verifier] let be stored",
        _ => "one receipt of a batch whose signature is good",
    };
    vec![
        ("position", position(row.position)),
        ("reason", paint(BAD, visible(&row.reason))),
        ("detail", text(&row.detail)),
        ("received", rfc3339_ms(row.received_at_ms)),
        ("publisher", text(&row.publisher)),
        ("receipt id", id(row.receipt_id)),
        ("client id", id(row.client_id)),
        ("entry id", id(row.entry_id)),
        ("payload hash", or_none(row.payload_hash.map(|hash| sha256(&hash)))),
        ("request id", text(&row.request_id)),
        (
            "request signature",
            or_none(row.request_signature.as_deref().map(visible)),
        ),
        ("client address", text(&row.client_address)),
        (
            "key fingerprint",
            or_none(row.key_fingerprint.map(|key| Fingerprint(key).to_string())),
        ),
        ("receipts", row.receipts.to_string()),
        ("bytes", format!("{}, {bytes_are}", row.raw_bytes)),
    ]
}
