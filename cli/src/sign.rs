//! `receipts sign`: documents without signatures in, signed ones out.

use receipt::{
    BodyKind, FormatError, Limits, SignError, SigningKey, check_batch, check_receipt, sign_batch, sign_receipt,
};
use service::instant::now_ms;

use crate::blocks::map_in_order;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{Document, InputArg};
use crate::key_file::KeyArg;
use crate::terminal::RawOutput;

const AFTER_HELP: &str = "\
A document with a member `receipts` is a batch: its receipts are signed, then the batch itself. A receipt \
without client.publicKey gets the key's. Input is one JSON value, an array of them, or NDJSON; output is NDJSON.

Each document is checked by the rules of the format, as the gateway will check it now, and every fault is listed with \
its JSON Pointer. --force signs what has faults, too; only JSON that isn't a receipt or batch at all is refused then.

Examples:
  receipts sign --key client.key receipt.json > signed.json
  receipts sign --key client.key receipts.ndjson |
    receipts send --url http://127.0.0.1:8080 --key client.key
  receipts sign --key client.key batch.json | receipts verify

Exit codes:
  0  everything is signed
  2  wrong usage, or a document with faults; those before it were written";

/// Sign receipts and batches
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Sign {
    #[command(flatten)]
    key: KeyArg,
    /// Sign documents with faults of the format, too
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    input: InputArg,
}

impl Sign {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let key = self.key.read()?;
        let documents = self.input.open()?.documents();
        let limits = Limits::default();
        let mut out = RawOutput::stdout();
        let mut signed = 0_u64;
        let result = map_in_order(
            documents,
            |document| sign(&document, &key, &limits, self.force),
            |document| {
                signed += 1;
                out.bytes(&document?)?;
                out.bytes(b"\n")
            },
        );
        out.flush()?;
        result?;
        if signed == 0 {
            return Err(CommandFailure::Input(
                "there is nothing to sign in the input".to_owned(),
            ));
        }
        Ok(CommandOutcome::Good)
    }
}

fn sign(document: &Document, key: &SigningKey, limits: &Limits, force: bool) -> Result<Vec<u8>, CommandFailure> {
    let bytes = document.bytes()?;
    let signed = match document.kind() {
        BodyKind::Receipt => sign_receipt(bytes, key, limits),
        BodyKind::Batch => sign_batch(bytes, key, limits),
    };
    let signed = signed.map_err(|error| match error {
        SignError::Format(faults) => {
            CommandFailure::Input(format!("line {} can't be signed:{}", document.line, list(&faults)))
        }
        other => CommandFailure::Input(format!("line {}: {other}", document.line)),
    })?;
    if force {
        return Ok(signed);
    }
    let faults = match document.kind() {
        BodyKind::Receipt => check_receipt(&signed, now_ms(), limits).err(),
        BodyKind::Batch => check_batch(&signed, now_ms(), limits).err(),
    };
    let Some(faults) = faults else { return Ok(signed) };
    Err(CommandFailure::Input(format!(
        "line {} would be refused, so it isn't signed (--force signs it):{}",
        document.line,
        list(&faults)
    )))
}

/// A line for each fault.
fn list(error: &FormatError) -> String {
    let mut text = String::new();
    for fault in &error.faults {
        let location = if fault.pointer.is_empty() {
            "the document"
        } else {
            &fault.pointer
        };
        text += &format!("\n  {location}: {} ({})", fault.detail, fault.code);
    }
    if error.more {
        text += "\n  and more";
    }
    text
}
