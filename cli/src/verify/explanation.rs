//! Explanations: the bytes that were signed, and every check with its result.

use receipt::{Arrival, CheckResult, Explanation, Judge};

use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::InputArg;
use crate::terminal::{BAD, FAINT, GOOD, HEAD, Output, is_hidden, mark, paint, visible};

/// Explains every document of the input, with `json` as lines of JSON.
///
/// # Errors
/// The input can't be read or is empty.
pub(super) fn explain_all(
    input: &InputArg,
    judge: &Judge,
    received_at_ms: i64,
    json: bool,
) -> Result<CommandOutcome, CommandFailure> {
    let mut out = Output::stdout();
    let (mut explained, mut all_verified) = (0_u64, true);
    for document in input.open()?.documents() {
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
        if json {
            out.line(serde_json::to_string(&explanation).map_err(CommandFailure::input)?)?;
        } else {
            if explained > 0 {
                out.line("")?;
            }
            for line in lines(&explanation, true) {
                out.line(line)?;
            }
        }
        explained += 1;
    }
    out.flush()?;
    if explained == 0 {
        return Err(CommandFailure::Input(
            "there is nothing to explain in the input".to_owned(),
        ));
    }
    Ok(if all_verified {
        CommandOutcome::Good
    } else {
        CommandOutcome::Found
    })
}

/// An explanation for people, `with_bytes` with its canonical bytes; a batch's receipts below it,
/// indented.
fn lines(explanation: &Explanation, with_bytes: bool) -> Vec<String> {
    let good = explanation.outcome == "verified";
    let what = match (&explanation.batch_id, &explanation.receipt_id) {
        (Some(id), _) => format!("batch {}", visible(id)),
        (None, Some(id)) => format!("receipt {id}"),
        (None, None) => "no receipt could be read".to_owned(),
    };
    let verdict = match explanation.reason {
        Some(reason) => format!("{}: {reason}", explanation.outcome),
        None => explanation.outcome.to_owned(),
    };
    let style = if good { GOOD } else { BAD };
    let mut lines = vec![format!(
        "{} {}  {}",
        mark(good),
        paint(style, verdict),
        paint(HEAD, what)
    )];
    for check in &explanation.checks {
        let detail = visible(&check.detail);
        let (sign, detail) = match check.result {
            CheckResult::Passed => (mark(true), detail),
            CheckResult::Failed => (mark(false), detail),
            CheckResult::Skipped if detail.is_empty() => (paint(FAINT, "-"), "not checked".to_owned()),
            CheckResult::Skipped => (paint(FAINT, "-"), format!("not checked: {detail}")),
        };
        lines.push(format!("  {sign} {:<18} {}", check.check, paint(FAINT, detail)));
    }
    if let Some(hash) = &explanation.payload_hash {
        lines.push(format!("  payload hash  sha256:{hash}"));
    }
    match &explanation.canonical {
        Some(canonical) if with_bytes && explanation.receipts.is_empty() => {
            lines.push(format!(
                "  canonical     {} bytes, signed by the signature:",
                canonical.len()
            ));
            lines.push(format!("  {}", visible(canonical)));
            if canonical.contains(is_hidden) {
                lines.push(paint(
                    FAINT,
                    "  (\\u{...} is written for a character that isn't shown; --json has the bytes)",
                ));
            }
        }
        Some(canonical) => {
            lines.push(format!(
                "  canonical     {} bytes ({})",
                canonical.len(),
                paint(FAINT, "--json shows them")
            ));
        }
        None => {}
    }
    for receipt in &explanation.receipts {
        lines.extend(
            self::lines(receipt, false)
                .into_iter()
                .map(|line| format!("    {line}")),
        );
    }
    lines
}
