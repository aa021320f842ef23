//! A dry run that shows its work: canonical bytes, payload hash, each check and its result.

use serde::Serialize;
use uuid::Uuid;

use crate::fault::{Fault, FormatError};
use crate::judge::{Arrival, BAD_SIGNATURES_MAX, BodyKind, Judge, JudgingState, ReceiptToJudge, STEP};
use crate::mistakes;
use crate::reason::{advised, describe, reason_of};
use crate::scratch::{self, Scratch};
use crate::verdict::RejectReason;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// The check passed.
    Passed,
    /// The check failed.
    Failed,
    /// The check wasn't made: an earlier one failed, or there was nothing to check.
    Skipped,
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedCheck {
    /// `format`, `public_key`, `signature`, `batch_signature` or `request_signature`.
    pub check: &'static str,
    /// Result of the check.
    pub result: CheckResult,
    /// Finding.
    pub detail: String,
}

/// Verdict that a receipt or batch would get, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `verified` or `rejected`; for a batch `verified` only if all of its receipts are.
    pub outcome: &'static str,
    /// Why it is rejected; for a batch the reason that concerns all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<RejectReason>,
    /// `receiptId`, where it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<Uuid>,
    /// `batchId` of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    /// The canonical bytes that the signature is over, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// SHA-256 of the canonical bytes, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_hash: Option<String>,
    /// Every check, in the order they are made.
    pub checks: Vec<ExplainedCheck>,
    /// Faults of the format.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// A batch's receipts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Explanation>,
}

impl Explanation {
    fn new() -> Self {
        Self {
            outcome: "verified",
            reason: None,
            receipt_id: None,
            batch_id: None,
            canonical: None,
            payload_hash: None,
            checks: Vec::new(),
            faults: Vec::new(),
            receipts: Vec::new(),
        }
    }

    fn note(&mut self, check: &'static str, result: CheckResult, detail: impl Into<String>) {
        self.checks.push(ExplainedCheck {
            check,
            result,
            detail: detail.into(),
        });
    }

    fn reject(&mut self, reason: RejectReason) {
        self.outcome = "rejected";
        self.reason.get_or_insert(reason);
    }

    /// Notes a check of a signature and rejects if it failed.
    fn signature(&mut self, check: &'static str, result: Result<(), (RejectReason, String)>) {
        match result {
            Ok(()) => self.note(check, CheckResult::Passed, ""),
            Err((reason, detail)) => {
                self.note(check, CheckResult::Failed, detail);
                self.reject(reason);
            }
        }
    }

    /// Notes a format check that failed. A key's own fault is distinguished.
    fn format(&mut self, error: FormatError) {
        let reason = reason_of(&error);
        let (check, other) = match reason {
            RejectReason::BadPublicKey | RejectReason::KeyAlgorithmMismatch => ("public_key", "format"),
            _ => ("format", "public_key"),
        };
        if other == "format" {
            self.note(other, CheckResult::Passed, "");
        }
        self.note(check, CheckResult::Failed, error.to_string());
        if other == "public_key" {
            self.note(other, CheckResult::Skipped, "");
        }
        self.faults = error.faults;
        self.reject(reason);
    }
}

impl Judge {
    /// Explains what [`judge`](Judge::judge) would say of a record. For people: it makes copies of
    /// everything.
    #[must_use]
    pub fn explain(&self, arrival: &Arrival<'_>) -> Explanation {
        let text = match self.text(arrival) {
            Ok(text) => text,
            Err(error) => {
                let mut explanation = Explanation::new();
                explanation.format(error);
                return explanation;
            }
        };
        match arrival.kind {
            BodyKind::Receipt => self.explain_receipt(
                text,
                arrival.received_at_ms,
                Some(arrival.request_signature),
                true,
                true,
            ),
            BodyKind::Batch => self.explain_batch(text, arrival.received_at_ms),
        }
    }

    fn explain_batch(&self, text: &str, received_at_ms: i64) -> Explanation {
        let mut explanation = Explanation::new();
        let mut payload = Vec::new();
        let batch = match self.read_batch(text, &mut payload) {
            Ok(batch) => batch,
            Err(error) => {
                explanation.format(error);
                return explanation;
            }
        };
        explanation.note(
            "format",
            CheckResult::Passed,
            format!("{} receipts", batch.receipts.len()),
        );
        explanation.batch_id = Some(batch.batch_id.clone().into_owned());
        let signed = self.check_batch_signature(&batch, &payload).map(|_| ());
        let signed = signed.map_err(
            |(reason, detail)| match batch.key_pem.as_deref().map(|pem| self.keys.get(pem)) {
                Some(Ok(key)) if key.algorithm() == batch.algorithm => {
                    let advice = mistakes::advice(&key, &payload, &batch.signature, None, false);
                    (reason, format!("{detail}; {advice}"))
                }
                _ => (reason, detail),
            },
        );
        explanation.signature("batch_signature", signed);
        explanation.payload_hash = Some(hex::encode(aws_lc_rs::digest::digest(
            &aws_lc_rs::digest::SHA256,
            &payload,
        )));
        explanation.canonical = String::from_utf8(payload).ok();
        // Receipts of a batch are usually signed in one way: the first bad one shows which.
        let (mut is_first, mut bad, mut verifies) = (true, 0, true);
        for (index, range) in batch.receipts.iter().enumerate() {
            if index % STEP == 0 {
                verifies = bad < BAD_SIGNATURES_MAX;
            }
            let receipt = self.explain_receipt(&text[range.clone()], received_at_ms, None, verifies, is_first);
            bad += usize::from(receipt.reason == Some(RejectReason::BadSignature));
            if receipt.reason.is_some() {
                explanation.outcome = "rejected";
                is_first = false;
            }
            explanation.receipts.push(receipt);
        }
        explanation
    }

    /// Explains a receipt. `request_signature` is `None` for one of a batch, whose request has
    /// none; `verifies` is false once the batch is abandoned. With `diagnoses`, a bad signature is
    /// compared with the usual mistakes.
    fn explain_receipt(
        &self,
        text: &str,
        received_at_ms: i64,
        request_signature: Option<Option<&str>>,
        verifies: bool,
        diagnoses: bool,
    ) -> Explanation {
        let mut explanation = Explanation::new();
        let examined = scratch::with(|scratch: &mut Scratch| {
            let candidate = ReceiptToJudge {
                text,
                received_at_ms,
                request_signature: request_signature.flatten(),
                verifies,
            };
            let examined = self.examine_one(candidate, diagnoses, scratch);
            if examined.payload_hash.is_some() {
                explanation.canonical = Some(String::from_utf8_lossy(&scratch.canonical).into_owned());
            }
            examined
        });
        explanation.payload_hash = examined.payload_hash.map(hex::encode);
        let is_sent = examined.outer.is_ok();
        let outer = examined.outer.map(|_| ()).map_err(|bad| (bad.reason, bad.to_string()));
        match examined.state {
            JudgingState::Unreadable(unreadable) => {
                explanation.receipt_id = unreadable.receipt_id;
                if !is_sent {
                    explanation.signature("request_signature", outer);
                }
                explanation.format(unreadable.error);
                if is_sent && request_signature.is_some() {
                    explanation.note("request_signature", CheckResult::Skipped, "");
                }
                explanation.note("signature", CheckResult::Skipped, "");
            }
            JudgingState::Unsigned(ref receipt)
            | JudgingState::Abandoned(ref receipt)
            | JudgingState::Good(ref receipt, _) => {
                explanation.receipt_id = Some(receipt.receipt_id);
                explanation.note("format", CheckResult::Passed, "");
                explanation.note("public_key", CheckResult::Passed, receipt.algorithm.as_str());
                match request_signature {
                    None => {}
                    Some(None) => explanation.note("request_signature", CheckResult::Skipped, "there is none"),
                    Some(Some(_)) => explanation.signature("request_signature", outer),
                }
                let reason = RejectReason::BadSignature;
                if !is_sent {
                    explanation.note("signature", CheckResult::Skipped, "");
                } else if !verifies {
                    let reason = RejectReason::BatchAbandoned;
                    explanation.note("signature", CheckResult::Skipped, describe(reason));
                    explanation.reject(reason);
                } else if matches!(examined.state, JudgingState::Good(..)) {
                    explanation.signature("signature", Ok(()));
                } else {
                    explanation.signature("signature", Err((reason, advised(reason, examined.advice))));
                }
            }
        }
        explanation
    }
}
