//! `receipts check-signature`: raw signatures through the block verifier.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipt::{Algorithm, KeyCache, SignatureCheck, verify_block};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blocks::for_each_block;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{Document, InputArg};
use crate::terminal::RawOutput;

/// Parsed keys kept while a file is read.
const KEYS_MAX: usize = 10_000;

const AFTER_HELP: &str = "\
A line of input is {\"id\",\"algorithm\",\"publicKey\" (PEM),\"message\" (base64),\"signature\" (base64)}; a line of \
output, in the same order, is {\"id\",\"valid\",\"reason\"}. N checks go through the block verifier together; a \
verdict never depends on its block.

Examples:
  receipts check-signature checks.ndjson
  receipts check-signature --block 1 < checks.ndjson

Exit codes:
  0  every signature is valid
  1  at least one isn't, or a line is malformed
  2  wrong usage, or the input can't be read";

/// Check raw signatures, many together
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct CheckSignature {
    /// Number of checks in a block
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    block: u32,
    #[command(flatten)]
    input: InputArg,
}

/// A line of input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: Value,
    algorithm: String,
    public_key: String,
    message: String,
    signature: String,
}

/// A signature to check, with its key and message.
struct RawSignature {
    algorithm: Algorithm,
    public_key: String,
    message: Vec<u8>,
    signature: Vec<u8>,
}

/// A line of output.
#[derive(Serialize)]
struct SignatureVerdict {
    id: Value,
    valid: bool,
    reason: Option<String>,
}

impl CheckSignature {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let keys = KeyCache::new(KEYS_MAX);
        let lines = self.input.open()?.lines();
        let mut out = RawOutput::stdout();
        let mut all_valid = true;
        let result = for_each_block(lines, self.block as usize, |block| {
            for verdict in check_block(&block, &keys) {
                all_valid &= verdict.valid;
                out.json(&verdict)?;
            }
            Ok(())
        });
        out.flush()?;
        result?;
        Ok(if all_valid {
            CommandOutcome::Good
        } else {
            CommandOutcome::Found
        })
    }
}

fn check_block(block: &[Document], keys: &KeyCache) -> Vec<SignatureVerdict> {
    let lines: Vec<(Value, Result<RawSignature, String>)> = block.iter().map(read_line).collect();
    let checks: Vec<SignatureCheck<'_>> = lines
        .iter()
        .filter_map(|(_, check)| check.as_ref().ok())
        .map(|check| SignatureCheck {
            algorithm: check.algorithm,
            public_key_pem: &check.public_key,
            message: &check.message,
            signature: &check.signature,
        })
        .collect();
    let mut results = verify_block(&checks, keys).into_iter();
    let verdicts = lines.iter().map(|(id, check)| {
        // A line that can't be checked took no place in the block.
        let reason = match check {
            Err(reason) => Some(reason.clone()),
            Ok(_) => match results.next() {
                Some(Ok(())) => None,
                Some(Err(reason)) => Some(reason.to_string()),
                None => Some("not_checked".to_owned()),
            },
        };
        SignatureVerdict {
            id: id.clone(),
            valid: reason.is_none(),
            reason,
        }
    });
    verdicts.collect()
}

/// The line's id, `null` where there is none, and what to check or why it can't be.
fn read_line(document: &Document) -> (Value, Result<RawSignature, String>) {
    let malformed = |what: String| Err(format!("malformed_input: {what}"));
    let Some(bytes) = &document.bytes else {
        return (Value::Null, malformed("the line is too long".to_owned()));
    };
    let line: Line = match serde_json::from_slice(bytes) {
        Ok(line) => line,
        Err(error) => {
            let id = match serde_json::from_slice::<Value>(bytes) {
                Ok(Value::Object(mut members)) => members.remove("id").unwrap_or_default(),
                _ => Value::Null,
            };
            return (id, malformed(error.to_string()));
        }
    };
    let Ok(algorithm) = line.algorithm.parse() else {
        return (line.id, Err("unsupported_algorithm".to_owned()));
    };
    let message = match STANDARD.decode(&line.message) {
        Ok(message) => message,
        Err(error) => return (line.id, malformed(format!("message isn't base64: {error}"))),
    };
    let signature = match STANDARD.decode(&line.signature) {
        Ok(signature) => signature,
        Err(error) => return (line.id, malformed(format!("signature isn't base64: {error}"))),
    };
    (
        line.id,
        Ok(RawSignature {
            algorithm,
            public_key: line.public_key,
            message,
            signature,
        }),
    )
}
