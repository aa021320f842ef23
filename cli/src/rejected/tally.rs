//! Results of a replay.

use std::collections::BTreeMap;

use receipt::RejectReason;
use serde::Serialize;

use super::rendering::count;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::terminal::{BAD, FAINT, Output, WARN, mark, paint};

/// Positions named one by one.
const NAMED_MAX: usize = 100;
/// Positions named to people.
const SHOWN_MAX: usize = 10;

/// Rejected receipts by what became of them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayTally {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// All that were looked at.
    pub selected: u64,
    /// Pass now, and were appended to the log.
    pub appended: u64,
    /// Pass now, and the same payload counts already.
    pub already_counted: u64,
    /// Are rejected still, by their present reason.
    pub still_rejected: BTreeMap<&'static str, u64>,
    /// Can't be judged without the record they arrived in, which the log no longer has.
    pub not_judged: u64,
    /// The first of these.
    pub not_judged_positions: Vec<String>,
}

impl ReplayTally {
    /// Counts one that is still rejected.
    pub fn still_rejected(&mut self, reason: RejectReason) {
        *self.still_rejected.entry(reason.as_str()).or_default() += 1;
    }

    /// Counts one that can't be judged.
    pub fn not_judged(&mut self, position: String) {
        self.not_judged += 1;
        if self.not_judged_positions.len() < NAMED_MAX {
            self.not_judged_positions.push(position);
        }
    }

    /// Whether all that was selected counts now.
    pub fn answer(&self) -> CommandOutcome {
        if self.still_rejected.is_empty() && self.not_judged == 0 {
            CommandOutcome::Good
        } else {
            CommandOutcome::Found
        }
    }

    /// Writes it to standard output.
    ///
    /// # Errors
    /// Standard output can't be written.
    pub fn write(&self, json: bool) -> Result<(), CommandFailure> {
        let mut out = Output::stdout();
        if json {
            out.line(serde_json::to_string(self).map_err(CommandFailure::input)?)?;
        } else {
            for line in self.lines() {
                out.line(line)?;
            }
        }
        out.flush()
    }

    fn lines(&self) -> Vec<String> {
        let receipts = |n| count(n, "rejected receipt");
        if self.selected == 0 {
            return vec![format!("{} nothing to replay", mark(true))];
        }
        let mut lines = Vec::new();
        if self.appended > 0 || self.answer() == CommandOutcome::Good {
            let done = if self.dry_run {
                "would be appended to the log"
            } else {
                "appended to the log; the verifier counts what it reads there"
            };
            lines.push(format!("{} {} {done}", mark(true), receipts(self.appended)));
        }
        if self.already_counted > 0 {
            lines.push(format!(
                "{} {} counted already",
                mark(true),
                receipts(self.already_counted)
            ));
        }
        if !self.still_rejected.is_empty() {
            let still = receipts(self.still_rejected.values().sum());
            lines.push(format!("{} {still} stay as they are:", mark(false)));
            let reason = |(reason, n): (&&str, &u64)| format!("    {} {n}", paint(BAD, format_args!("{reason:<23}")));
            lines.extend(self.still_rejected.iter().map(reason));
        }
        if self.not_judged > 0 {
            lines.push(format!(
                "{} {} can't be judged again: what became of them depends on the whole record they came in (the\n  \
                 signature of a batch is over all of it), and the log no longer has it. Let their sender send the batch\n  \
                 again, or each receipt alone: `receipts rejected show POSITION --raw` has its bytes.",
                paint(WARN, "!"),
                receipts(self.not_judged)
            ));
            let named = self.not_judged_positions.iter().take(SHOWN_MAX);
            lines.extend(named.map(|position| format!("    {position}")));
            let further = self.not_judged.saturating_sub(SHOWN_MAX as u64);
            if further > 0 {
                lines.push(paint(FAINT, format_args!("    and {further} more")));
            }
        }
        lines
    }
}
