//! `receipts canonicalize`: RFC 8785 for any I-JSON value.

use receipt::Limits;

use crate::failure::{Answer, Failure};
use crate::input::{DOCUMENT_BYTES_MAX, InputArg};
use crate::terminal::RawOutput;

const AFTER_HELP: &str = "\
The bytes are RFC 8785's (JCS), with no newline after them: what is signed and hashed. A receipt's signatures \
cover it without its own `signature` and `signatureAlgorithm`: `receipts explain` shows those bytes.

Examples:
  echo '{\"b\":1.0,\"a\":\"\\u20ac\"}' | receipts canonicalize
  receipts canonicalize receipt.json | sha256sum

Exit codes:
  0  the canonical bytes are on standard output
  2  the input isn't one I-JSON value (RFC 7493); the reason and the place are on standard error";

/// Write the canonical bytes of a JSON value
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Canonicalize {
    #[command(flatten)]
    input: InputArg,
}

impl Canonicalize {
    /// Runs the command.
    pub fn run(self) -> Result<Answer, Failure> {
        let json = self.input.open()?.read_all(DOCUMENT_BYTES_MAX)?;
        let canonical = receipt::canonicalize(&json, Limits::default().depth_max).map_err(Failure::input)?;
        let mut out = RawOutput::stdout();
        out.bytes(&canonical)?;
        out.flush()?;
        Ok(Answer::Good)
    }
}
