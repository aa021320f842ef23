//! Results of everything that was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;
use receipts_client::retrying::{Refusal, SubmissionOutcome};
use serde_json::{Value, json};

use super::grouping::PreparedRequest;
use crate::terminal::{BAD, FAINT, GOOD, WARN, mark, paint, visible};

/// Requests, and the receipts in them.
#[derive(Debug, Default, Clone, Copy)]
struct SubmissionCount {
    requests: u64,
    receipts: u64,
}

impl SubmissionCount {
    fn add(&mut self, request: &PreparedRequest) {
        self.requests += 1;
        self.receipts += request.receipts;
    }
}

/// The refusals of one code: how many, and the first of them.
#[derive(Debug)]
struct Refused {
    count: SubmissionCount,
    line: u64,
    first: Refusal,
}

/// A number in its column.
fn number(style: Style, value: u64) -> String {
    paint(style, format_args!("{value:>9}"))
}

/// Counts of everything.
#[derive(Debug, Default)]
pub struct Summary {
    accepted: SubmissionCount,
    refused: BTreeMap<(u16, String), Refused>,
    unknown: SubmissionCount,
    retries: u64,
}

impl Summary {
    /// Counts one request's end.
    pub fn count(&mut self, request: &PreparedRequest, outcome: SubmissionOutcome, retries: u64) {
        self.retries += retries;
        match outcome {
            SubmissionOutcome::Accepted(_) => self.accepted.add(request),
            SubmissionOutcome::Unavailable(_) => self.unknown.add(request),
            SubmissionOutcome::Refused(refusal) => {
                let key = (refusal.status, refusal.code.clone());
                let line = request.line;
                let refused = self.refused.entry(key).or_insert_with(|| Refused {
                    count: SubmissionCount::default(),
                    line,
                    first: refusal.clone(),
                });
                if line < refused.line {
                    (refused.line, refused.first) = (line, refusal);
                }
                refused.count.add(request);
            }
        }
    }

    /// Whether nothing was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accepted.requests == 0 && self.refused.is_empty() && self.unknown.requests == 0
    }

    /// Whether everything was accepted.
    #[must_use]
    pub fn all_accepted(&self) -> bool {
        self.refused.is_empty() && self.unknown.requests == 0
    }

    fn refused_receipts(&self) -> u64 {
        self.refused.values().map(|refused| refused.count.receipts).sum()
    }

    /// A few words for the progress bar.
    #[must_use]
    pub fn progress(&self) -> String {
        format!(
            "{} accepted, {} refused, {} retries",
            self.accepted.receipts,
            self.refused_receipts(),
            self.retries
        )
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self, took: Duration) -> Value {
        let refused: Vec<Value> = self
            .refused
            .iter()
            .map(|((status, code), refused)| {
                json!({
                    "status": status,
                    "code": code,
                    "receipts": refused.count.receipts,
                    "requests": refused.count.requests,
                    "first": {
                        "line": refused.line,
                        "pointer": refused.first.pointer,
                        "detail": refused.first.detail,
                    },
                })
            })
            .collect();
        json!({
            "accepted": {"receipts": self.accepted.receipts, "requests": self.accepted.requests},
            "refused": refused,
            "unknown": {"receipts": self.unknown.receipts, "requests": self.unknown.requests},
            "retries": self.retries,
            "seconds": took.as_secs_f64(),
        })
    }

    /// For people.
    #[must_use]
    pub fn to_lines(&self, took: Duration) -> Vec<String> {
        let seconds = took.as_secs_f64();
        let rate = self.accepted.receipts as f64 / seconds.max(0.001);
        let speed = paint(
            FAINT,
            format!(
                "{} requests, {seconds:.1} s, {rate:.0} receipts/s",
                self.accepted.requests
            ),
        );
        let good = self.all_accepted();
        let mut lines = vec![format!(
            "{} accepted {}  {speed}",
            mark(good),
            number(GOOD, self.accepted.receipts)
        )];
        for ((status, code), refused) in &self.refused {
            let whole_body = refused.first.pointer.is_empty();
            let location = if whole_body {
                "the body"
            } else {
                &visible(&refused.first.pointer)
            };
            lines.push(format!(
                "{} refused  {}  {status} {}: first on line {}, at {location}: {}",
                mark(false),
                number(BAD, refused.count.receipts),
                visible(code),
                refused.line,
                visible(&refused.first.detail),
            ));
        }
        if self.unknown.requests > 0 {
            let hint = "no answer; sending them again is harmless";
            lines.push(format!(
                "{} unknown  {}  {hint}",
                mark(false),
                number(BAD, self.unknown.receipts)
            ));
        }
        if self.retries > 0 {
            lines.push(format!("  retried  {}", number(WARN, self.retries)));
        }
        lines
    }
}
