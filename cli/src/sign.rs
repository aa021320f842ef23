//! `receipts sign`: documents without signatures in, signed ones out.

use receipt::{BodyKind, Limits, SigningKey, sign_batch, sign_receipt};

use crate::blocks::map_in_order;
use crate::failure::{Answer, Failure};
use crate::input::{Document, InputArg};
use crate::key_file::KeyArg;
use crate::terminal::RawOutput;

const AFTER_HELP: &str = "\
A document with a member `receipts` is a batch: its receipts are signed, then the batch itself. A receipt \
without client.publicKey gets the key's. Input is one JSON value, an array of them, or NDJSON; output is NDJSON.

Examples:
  receipts sign --key client.key receipt.json > signed.json
  cat receipts.ndjson | receipts sign --key client.key | receipts send --url $URL --key client.key
  receipts sign --key client.key batch.json | receipts verify

Exit codes:
  0  everything is signed
  2  wrong usage, or a document that can't be signed; those before it were written";

/// Sign receipts and batches
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Sign {
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    input: InputArg,
}

impl Sign {
    /// Runs the command.
    pub fn run(self) -> Result<Answer, Failure> {
        let key = self.key.read()?;
        let documents = self.input.open()?.documents();
        let limits = Limits::default();
        let mut out = RawOutput::stdout();
        let mut signed = 0_u64;
        let result = map_in_order(
            documents,
            |document| sign(&document, &key, &limits),
            |document| {
                signed += 1;
                out.bytes(&document?)?;
                out.bytes(b"\n")
            },
        );
        out.flush()?;
        result?;
        if signed == 0 {
            return Err(Failure::Input("there is nothing to sign in the input".to_owned()));
        }
        Ok(Answer::Good)
    }
}

fn sign(document: &Document, key: &SigningKey, limits: &Limits) -> Result<Vec<u8>, Failure> {
    let bytes = document.bytes()?;
    let signed = match document.kind() {
        BodyKind::Receipt => sign_receipt(bytes, key, limits),
        BodyKind::Batch => sign_batch(bytes, key, limits),
    };
    signed.map_err(|e| Failure::Input(format!("line {}: {e}", document.line)))
}
