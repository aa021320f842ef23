//! `receipts verify`: verdicts without a server.
//!
//! - [`evidence`]: receipts of evidence files
//! - [`explanation`]: what was signed, and every check with its result
//! - [`raw_signatures`]: signatures of anything, through the block verifier

mod evidence;
mod explanation;
mod raw_signatures;

use receipt::{Arrival, BodyKind, Judge, Judged, Limits, RejectReason};
use serde::Serialize;
use uuid::Uuid;

use crate::blocks::map_in_order;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{DOCUMENT_BYTES_MAX, Document, InputArg};
use crate::terminal::{RawOutput, note};

/// Parsed keys cached while a file is read.
const KEYS_MAX: usize = 10_000;

const AFTER_HELP: &str = "\
Writes a line {\"receiptId\",\"outcome\",\"reason\"} for each receipt, those of a batch each for itself; outcome is \
`verified` or `rejected`. The rules are the service's, for a receipt that arrives now: --received-at moves that \
instant for receipts of another time, and `any` leaves the timestamp's age out of the verdict.

Evidence (the answer of /api/v1/receipts/{receiptId}/evidence, or a receipt of an export) is accepted, too. Its \
receipts may be of any age, and everything in the file must be consistent with their bytes.

--explain shows the canonical bytes, the payload hash and every check, for people or with --json.

--raw-signatures checks signatures of anything. A line of input is {\"id\",\"algorithm\",\"publicKey\" (PEM),\"message\" \
(base64),\"signature\" (base64)}; a line of output, in the same order, is {\"id\",\"valid\",\"reason\"}. N checks go \
through the block verifier together; a verdict never depends on its block.

Examples:
  receipts verify receipt.json
  receipts verify --received-at 2025-03-01T00:00:00Z archive.ndjson
  receipts verify evidence.json
  receipts sign --key client.key batch.json | receipts verify --detail
  receipts verify --explain receipt.json
  receipts verify --explain --json receipt.json | jq -j .canonical | sha256sum
  receipts verify --raw-signatures --block 1 < checks.ndjson

Exit codes:
  0  every receipt is verified, or every signature valid
  1  at least one isn't
  2  wrong usage, or the input can't be read or is empty";

/// Check receipts and batches offline
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Verify {
    /// When the receipts count as received: RFC 3339, `now`, or `any`
    #[arg(long, value_name = "TIME", default_value = "now", value_parser = parse_received_at)]
    received_at: ReceivedAt,
    /// Add what was wrong, in words, to each line
    #[arg(long)]
    detail: bool,
    /// Show canonical bytes, payload hash and every check
    #[arg(long, conflicts_with = "detail")]
    explain: bool,
    /// Write a line of JSON for each explained document
    #[arg(long, requires = "explain")]
    json: bool,
    /// Check raw signatures, many together
    #[arg(long, conflicts_with_all = ["explain", "detail", "received_at"])]
    raw_signatures: bool,
    /// Number of raw signatures in a block
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    block: u32,
    #[command(flatten)]
    input: InputArg,
}

#[derive(Debug, Clone, Copy)]
enum ReceivedAt {
    At(i64),
    Any,
}

fn parse_received_at(text: &str) -> Result<ReceivedAt, String> {
    match text {
        "now" => Ok(ReceivedAt::At(jiff::Timestamp::now().as_millisecond())),
        "any" => Ok(ReceivedAt::Any),
        _ => match text.parse::<jiff::Timestamp>() {
            Ok(at) => Ok(ReceivedAt::At(at.as_millisecond())),
            Err(error) => Err(format!("must be RFC 3339, `now` or `any`: {error}")),
        },
    }
}

impl ReceivedAt {
    /// The time of arrival in milliseconds since the Unix epoch, and the limits that go with it.
    fn with_limits(self) -> (i64, Limits) {
        match self {
            Self::At(at) => (at, Limits::default()),
            Self::Any => (0, Limits::default().of_any_age()),
        }
    }
}

/// A line of output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VerifiedLine {
    receipt_id: Option<Uuid>,
    outcome: &'static str,
    reason: Option<RejectReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Verify {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let (received_at_ms, limits) = self.received_at.with_limits();
        if self.raw_signatures {
            return raw_signatures::check_all(&self.input, self.block as usize);
        }
        if self.explain {
            return explanation::explain_all(&self.input, &Judge::new(limits, KEYS_MAX), received_at_ms, self.json);
        }
        let judge = Judge::new(limits, KEYS_MAX);
        let judge_of_evidence = Judge::new(Limits::default().of_any_age(), KEYS_MAX);
        let documents = self.input.open()?.documents();
        let mut out = RawOutput::stdout();
        let (mut verified, mut rejected, mut out_of_time) = (0_u64, 0_u64, 0_u64);
        let result = map_in_order(
            documents,
            |document| match document.bytes.as_deref().and_then(evidence::payloads) {
                Some(payloads) => payloads
                    .iter()
                    .map(|payload| verdict_on_evidence(&judge_of_evidence, payload))
                    .collect(),
                None => verdicts(&judge, &document, received_at_ms),
            },
            |verdicts| {
                for mut verdict in verdicts {
                    match verdict.reason {
                        None => verified += 1,
                        Some(_) => rejected += 1,
                    }
                    out_of_time += u64::from(verdict.reason == Some(RejectReason::TimestampOutOfRange));
                    verdict.detail = verdict.detail.filter(|_| self.detail);
                    out.json(&verdict)?;
                }
                Ok(())
            },
        );
        out.flush()?;
        result?;
        if verified + rejected == 0 {
            return Err(CommandFailure::Input("there are no receipts in the input".to_owned()));
        }
        if out_of_time > 0 {
            note(format_args!(
                "{out_of_time} rejected for their timestamp alone: --received-at judges them as of another time"
            ));
        }
        Ok(if rejected == 0 {
            CommandOutcome::Good
        } else {
            CommandOutcome::Found
        })
    }
}

fn verdict_on_evidence(judge: &Judge, payload: &evidence::Payload) -> VerifiedLine {
    let rejected = |detail| VerifiedLine {
        receipt_id: None,
        outcome: "rejected",
        reason: Some(RejectReason::Malformed),
        detail: Some(detail),
    };
    match payload.receipt() {
        Ok(receipt) => judged(judge, BodyKind::Receipt, &receipt, 0)
            .pop()
            .unwrap_or_else(|| rejected("there is no receipt".to_owned())),
        Err(contradiction) => rejected(contradiction),
    }
}

fn verdicts(judge: &Judge, document: &Document, received_at_ms: i64) -> Vec<VerifiedLine> {
    let Some(body) = &document.bytes else {
        let detail = format!("line {} is longer than {DOCUMENT_BYTES_MAX} bytes", document.line);
        let reason = Some(RejectReason::Malformed);
        return vec![VerifiedLine {
            receipt_id: None,
            outcome: "rejected",
            reason,
            detail: Some(detail),
        }];
    };
    let kind = document.kind();
    let verdicts = judged(judge, kind, body, received_at_ms);
    debug_assert!(kind == BodyKind::Batch || verdicts.len() == 1);
    verdicts
}

fn judged(judge: &Judge, kind: BodyKind, body: &[u8], received_at_ms: i64) -> Vec<VerifiedLine> {
    let arrival = Arrival {
        kind,
        body,
        request_signature: None,
        received_at_ms,
    };
    judge.judge(&arrival, &|_, judged| match judged {
        Judged::Verified(verified) => VerifiedLine {
            receipt_id: Some(verified.receipt.receipt_id),
            outcome: "verified",
            reason: None,
            detail: None,
        },
        Judged::Rejected(rejected) => VerifiedLine {
            receipt_id: rejected.receipt_id,
            outcome: "rejected",
            reason: Some(rejected.reason),
            detail: Some(rejected.detail),
        },
    })
}
