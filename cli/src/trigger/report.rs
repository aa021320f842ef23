//! The end of a run.

use std::path::Path;

use clap::ValueEnum;
use receipt::{BodyKind, SigningKey};
use serde_json::{Value, json};

use super::sample::{Sample, SampleRequest};
use super::{path, text};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::service_client::{Answered, ServiceClient};
use crate::terminal::{BAD, FAINT, GOOD, HEAD, Output, WARN, mark, paint, visible};

/// A request that was answered.
pub(super) struct AnsweredSample {
    url: String,
    request: SampleRequest,
    status: u16,
    answer: Value,
}

impl AnsweredSample {
    pub(super) fn new(client: &ServiceClient, request: SampleRequest, answer: &Answered) -> Self {
        Self {
            url: client.url(path(request.kind)),
            status: answer.status.as_u16(),
            answer: answer.json(),
            request,
        }
    }

    /// The problem's code; that of the first fault where there are faults.
    fn code(&self) -> Option<&str> {
        text(&self.answer["errors"][0], "code").or_else(|| text(&self.answer, "code"))
    }
}

/// Everything about a run.
pub(super) struct TriggerReport<'a> {
    pub(super) sample: Sample,
    pub(super) publisher: &'a str,
    pub(super) url: &'a str,
    pub(super) key: &'a SigningKey,
    pub(super) key_file: Option<&'a Path>,
    pub(super) sent: Vec<AnsweredSample>,
    /// The outcome, once it was waited for; null if it wasn't there in time.
    pub(super) outcome: Option<Value>,
}

impl TriggerReport<'_> {
    /// The receipt that the sample is about, and the arrival of its last request, if that was
    /// acknowledged.
    pub(super) fn acknowledged(&self) -> Option<(String, String)> {
        let last = self.sent.last()?;
        let received_at = text(&last.answer["acknowledgement"], "receivedAt")?;
        Some((last.request.receipt_id.to_string(), received_at.to_owned()))
    }

    /// Writes everything.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub(super) fn write(&self, as_json: bool, waited: bool) -> Result<CommandOutcome, CommandFailure> {
        let mut out = Output::stdout();
        if as_json {
            out.line(self.to_json())?;
        } else {
            for line in self.lines(waited) {
                out.line(line)?;
            }
        }
        out.flush()?;
        Ok(if self.is_expected() {
            CommandOutcome::Good
        } else {
            CommandOutcome::Found
        })
    }

    fn is_expected(&self) -> bool {
        self.sent.iter().all(|sent| self.is_expected_answer(sent))
            && self.outcome.as_ref().is_none_or(|outcome| self.sample.expects(outcome))
    }

    fn is_expected_answer(&self, sent: &AnsweredSample) -> bool {
        let (status, code) = self.sample.expectation().answer;
        sent.status == status && (code.is_none() || sent.code() == code)
    }

    fn to_json(&self) -> Value {
        let requests = self.sent.iter().map(|sent| {
            json!({
                "url": sent.url,
                "receiptId": sent.request.receipt_id,
                "status": sent.status,
                "answer": sent.answer,
            })
        });
        json!({
            "sample": self.sample.to_possible_value().map(|value| value.get_name().to_owned()),
            "requests": requests.collect::<Vec<_>>(),
            "outcome": self.outcome,
            "asExpected": self.is_expected(),
        })
    }

    fn lines(&self, waited: bool) -> Vec<String> {
        let about = self.sample.to_possible_value();
        let about = about
            .and_then(|value| value.get_help().map(ToString::to_string))
            .unwrap_or_default();
        let key = match self.key_file {
            Some(file) => file.display().to_string(),
            None => format!("{} key made for this run", self.key.algorithm()),
        };
        let mut lines = vec![format!("{}  {}", paint(HEAD, about), paint(FAINT, format!("({key})")))];
        for sent in &self.sent {
            lines.push(format!(
                "  POST {}  {}",
                sent.url,
                paint(FAINT, sent.request.receipt_id)
            ));
            lines.extend(self.answer_lines(sent));
        }
        match &self.outcome {
            Some(Value::Null) => lines.push(format!("{} no outcome yet; --timeout waits longer", mark(false))),
            Some(outcome) => lines.push(self.outcome_line(outcome)),
            None => {}
        }
        lines.push(String::new());
        for (command, why) in self.next(waited) {
            lines.push(format!("next  {command}"));
            lines.push(format!("      {}", paint(FAINT, why)));
        }
        lines
    }

    fn answer_lines(&self, sent: &AnsweredSample) -> Vec<String> {
        let is_expected = self.is_expected_answer(sent);
        let style = if is_expected { GOOD } else { BAD };
        let what = match (sent.status, text(&sent.answer, "code")) {
            (202, _) => "stored durably".to_owned(),
            (_, Some(code)) => visible(code),
            (_, None) => "not an answer of a gateway".to_owned(),
        };
        let mut lines = vec![format!(
            "{} {}",
            mark(is_expected),
            paint(style, format!("{} {what}", sent.status))
        )];
        if let Some(position) = sent.answer["acknowledgement"]["logPosition"]["offset"].as_u64() {
            let count = sent.answer["receiptCount"].as_u64();
            let count = count.map_or_else(String::new, |count| format!(", {count} receipts"));
            lines.push(format!(
                "    at offset {position} of the log{count}, with a signed acknowledgement"
            ));
        }
        let faults = sent.answer["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        let whole = [sent.answer.clone()];
        let faults = if faults.is_empty() && sent.status != 202 {
            &whole
        } else {
            faults
        };
        for fault in faults {
            let shown = |name: &str| visible(text(fault, name).unwrap_or_default());
            let pointer = shown("pointer");
            let place = if pointer.is_empty() {
                String::new()
            } else {
                format!("{pointer}  ")
            };
            lines.push(format!("    {}{}", paint(WARN, place), shown("detail")));
        }
        lines
    }

    fn outcome_line(&self, outcome: &Value) -> String {
        let shown = |name: &str| visible(text(outcome, name).unwrap_or_default());
        let is_expected = self.sample.expects(outcome);
        let mut what = shown("status");
        if let Some(reason) = text(outcome, "reason") {
            what = format!("{what}: {}", visible(reason));
        }
        if outcome["conflict"] == true {
            what += ", a conflict: two payloads have this ID";
        }
        match outcome["duplicates"].as_u64() {
            Some(duplicates) if duplicates > 0 => what += &format!(", counted once, {duplicates} duplicate"),
            _ => {}
        }
        let style = if is_expected { GOOD } else { BAD };
        let detail = text(outcome, "detail").map_or_else(String::new, |detail| format!("\n    {}", visible(detail)));
        format!("{} {}{detail}", mark(is_expected), paint(style, what))
    }

    /// Commands that fit next, each with its reason.
    fn next(&self, waited: bool) -> Vec<(String, String)> {
        let (publisher, last) = (self.publisher, self.sent.last());
        let is_batch = last.is_some_and(|sent| sent.request.kind == BodyKind::Batch);
        let is_acknowledged = self.acknowledged().is_some();
        let is_early = self
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome["receipts"][0]["beforeVerification"] == true);
        let name = self.sample.to_possible_value();
        let name = name.as_ref().map_or("receipt", |value| value.get_name());
        if !is_acknowledged {
            let (url, what) = (self.url, if is_batch { "batch" } else { "receipt" });
            return vec![(
                format!("receipts trigger {what} --url {url}"),
                "nothing was stored; this sample is a good one".to_owned(),
            )];
        }
        if is_early {
            return vec![(
                format!("receipts keys create --domain {publisher}"),
                format!("{publisher} isn't recorded yet, so its totals leave this receipt out; then trigger again"),
            )];
        }
        if !waited {
            return vec![(
                format!("receipts trigger {name} --wait"),
                "a 202 says that the receipt is stored; --wait shows what became of it".to_owned(),
            )];
        }
        vec![(
            "receipts tail".to_owned(),
            format!("follows the receipts as they are counted, with the API key of {publisher} in RECEIPTS_API_KEY"),
        )]
    }
}
