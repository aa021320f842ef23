//! `receipts canonicalize`: RFC 8785 for any I-JSON value.

use receipt::Limits;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{DOCUMENT_BYTES_MAX, InputArg};
use crate::terminal::RawOutput;

const AFTER_HELP: &str = "\
The bytes are RFC 8785's (JCS), with no newline after them: what is signed and hashed. A receipt's signatures \
cover it without its own `signature` and `signatureAlgorithm`: `receipts verify --explain` shows those bytes.

Examples:
  echo '{\"b\":1.0,\"a\":\"\\u20ac\"}' | receipts canonicalize
  receipts canonicalize receipt.json | sha256sum
  printf '%s\\n' '[1.0]' '[2e3]' | receipts canonicalize --lines

Exit codes:
  0  the canonical bytes are on standard output
  2  the input isn't one I-JSON value (RFC 7493), or with --lines one a line; the reason and the position are on standard \
error";

/// Write the canonical bytes of a JSON value
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Canonicalize {
    #[command(flatten)]
    input: InputArg,
    /// Read a JSON value a line, and write the canonical form of each on a line
    #[arg(long)]
    lines: bool,
}

impl Canonicalize {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let depth_max = Limits::default().depth_max;
        let input = self.input.open()?;
        let mut out = RawOutput::stdout();
        if self.lines {
            for document in input.lines() {
                let document = document?;
                let canonical = receipt::canonicalize(document.bytes()?, depth_max)
                    .map_err(|fault| CommandFailure::Input(format!("line {}: {fault}", document.line)))?;
                out.bytes(&canonical)?;
                out.bytes(b"\n")?;
            }
        } else {
            let json = input.read_all(DOCUMENT_BYTES_MAX)?;
            let canonical = receipt::canonicalize(&json, depth_max).map_err(CommandFailure::input)?;
            out.bytes(&canonical)?;
        }
        out.flush()?;
        Ok(CommandOutcome::Good)
    }
}
