//! Raw signatures through the block verifier.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use receipt::{Algorithm, KeyCache, SignatureCheck, verify_block};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::KEYS_MAX;
use crate::blocks::for_each_block;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{Document, InputArg};
use crate::terminal::RawOutput;

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

/// Checks every line of the input, so many together.
///
/// # Errors
/// The input can't be read.
pub(super) fn check_all(input: &InputArg, block: usize) -> Result<CommandOutcome, CommandFailure> {
    let keys = KeyCache::new(KEYS_MAX);
    let mut out = RawOutput::stdout();
    let mut all_valid = true;
    let result = for_each_block(input.open()?.lines(), block, |block| {
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
        // A line that can't be checked took no position in the block.
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
