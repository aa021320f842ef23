//! `receipts explain`: what was signed, and every check with its result.

use receipt::{Arrival, Judge};

use crate::failure::{Answer, Failure};
use crate::input::InputArg;
use crate::terminal::Output;
use crate::verify::Arrived;

const AFTER_HELP: &str = "\
Examples:
  receipts explain receipt.json
  receipts explain --json receipt.json | jq -r .canonical

Exit codes:
  0  every check passed
  1  at least one failed
  2  wrong usage, or the input can't be read or is empty";

/// Show canonical bytes, payload hash and every check of a receipt or batch
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Explain {
    /// One line of JSON for each document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    arrived: Arrived,
    #[command(flatten)]
    input: InputArg,
}

impl Explain {
    /// Runs the command.
    pub fn run(self) -> Result<Answer, Failure> {
        let (received_at_ms, limits) = self.arrived.with_limits();
        let judge = Judge::new(limits, 64);
        let mut out = Output::stdout();
        let (mut explained, mut all_verified) = (0_u64, true);
        for document in self.input.open()?.documents() {
            let document = document?;
            let body = document.bytes()?;
            let arrival = Arrival {
                kind: document.kind(),
                body,
                request_signature: None,
                received_at_ms,
            };
            let explanation = judge.explain(&arrival);
            all_verified &= explanation.outcome == "verified";
            explained += 1;
            out.line(serde_json::to_string(&explanation).map_err(Failure::input)?)?;
        }
        out.flush()?;
        if explained == 0 {
            return Err(Failure::Input("there is nothing to explain in the input".to_owned()));
        }
        Ok(if all_verified { Answer::Good } else { Answer::Found })
    }
}
