//! Report of an audit, for people and programs.

use serde::Serialize;
use warehouse::{AuditFinding, AuditState, AuditSums};

use super::counting::Counted;
use crate::inspection::StoredPartition;
use crate::terminal::{BAD, FAINT, GOOD, HEAD, mark, paint};

/// An audit's result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether nothing was found.
    pub ok: bool,
    /// Whether `receipts up` was running.
    pub live: bool,
    /// Whether the receipts were judged again.
    pub rechecked: bool,
    /// The ledger and the tables.
    #[serde(rename = "totals")]
    pub sums: AuditSums,
    /// The check that the analytics API runs, if it has saved its position.
    #[serde(rename = "runningCheck")]
    pub running: Option<RunningCheck>,
    /// The log, partition by partition.
    #[serde(rename = "partitions")]
    pub counted: Vec<CountedPartition>,
    /// Findings that don't add up.
    pub findings: Vec<AuditFinding>,
    /// Further differences, beside the first of each kind.
    pub further_findings: u64,
}

/// A partition of the log with what was counted in it.
#[derive(Debug, Serialize)]
pub struct CountedPartition {
    /// The partition.
    #[serde(flatten)]
    pub partition: StoredPartition,
    /// Counts of its blocks, records and receipts.
    #[serde(flatten)]
    pub counted: Counted,
}

/// Coverage of the running check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningCheck {
    /// The pass over all receipts, `None` between two passes.
    pub pass: Option<Pass>,
    /// Sections with differences that it checks again until they are repaired.
    pub wrong_sections: usize,
}

/// A pass over all receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// Receipts that it has compared.
    #[serde(rename = "receiptsCompared")]
    pub compared: u64,
    /// Receipts that it compares.
    #[serde(rename = "receipts")]
    pub all: u64,
    /// Seconds that the rest takes at the same speed; `None` if it can't be estimated yet.
    #[serde(rename = "restSeconds")]
    pub rest_s: Option<u64>,
}

impl RunningCheck {
    /// The check with these states of the shards, where the ledger has `all` receipts.
    #[must_use]
    pub fn of(states: &[AuditState], all: u64, now_ms: i64) -> Self {
        let compared = states.iter().map(|state| state.pass_receipts).sum::<u64>().min(all);
        let began_ms = states.iter().map(|state| state.pass_began_ms).min().unwrap_or(now_ms);
        let taken_s = u128::try_from(now_ms - began_ms).unwrap_or(0) / 1_000;
        let rest_s = (u128::from(all - compared) * taken_s).checked_div(u128::from(compared));
        let pass = Pass {
            compared,
            all,
            rest_s: rest_s.and_then(|rest_s| u64::try_from(rest_s).ok()),
        };
        Self {
            pass: states.iter().any(|state| !state.pass.is_empty()).then_some(pass),
            wrong_sections: states.iter().map(|state| state.wrong.len()).sum(),
        }
    }

    fn line(&self) -> String {
        let pass = match self.pass {
            None => "the running check has finished a pass over all receipts".to_owned(),
            Some(Pass { compared, all, rest_s }) => {
                let rest = rest_s.map_or(String::new(), |rest_s| {
                    format!("; the rest takes about {} min", rest_s.div_ceil(60))
                });
                format!("the running check has compared {compared} of {all} receipts in this pass{rest}")
            }
        };
        match self.wrong_sections {
            0 => pass,
            n => format!("{pass}; sections with differences: {n}"),
        }
    }
}

impl Report {
    /// As people read it.
    #[must_use]
    pub fn to_lines(&self) -> Vec<String> {
        let sums = &self.sums;
        let none_of = |kinds: &[&str]| !self.findings.iter().any(|finding| kinds.contains(&finding.kind));
        let count = |of: fn(&Counted) -> u64| -> u64 { self.counted.iter().map(|one| of(&one.counted)).sum() };
        let gone = count(|counted| counted.records_gone);
        let (records, receipts) = (count(|counted| counted.records), count(|counted| counted.receipts));
        let checks = [
            (
                none_of(&["ledger_gap", "ledger_overlap", "ledger_end"]),
                "every stored record is in one block of the ledger",
                format!("{} records, {} blocks", sums.records, sums.blocks),
            ),
            (
                none_of(&["log_count"]),
                match self.rechecked {
                    false => "the log has as many receipts as the ledger",
                    true => "the log, judged again, says what the ledger says",
                },
                format!("{receipts} receipts in {records} records"),
            ),
            (
                none_of(&["ledger_line"]),
                "in = accepted + rejected",
                format!("{} = {} + {}", sums.receipts_in, sums.accepted, sums.rejected),
            ),
            (
                none_of(&["accepted_sum"]),
                "accepted = occurrences in the table of receipts",
                format!(
                    "{} = {} of {} receipts",
                    sums.accepted, sums.stored_occurrences, sums.receipts
                ),
            ),
            (
                none_of(&["rejected_sum"]),
                "rejected = those in the table of rejected ones",
                format!("{} = {}", sums.rejected - sums.rejected_past, sums.stored_rejected),
            ),
            (
                none_of(&["in_both", "not_in_ledger"]),
                "no position has two outcomes, none is outside the ledger",
                String::new(),
            ),
        ];
        let mut lines: Vec<String> = checks
            .iter()
            .map(|(good, what, numbers)| format!("{} {what:<58} {}", mark(*good), paint(FAINT, numbers)))
            .collect();
        let sum = |waiting: fn(&StoredPartition) -> u64| -> u64 {
            self.counted.iter().map(|one| waiting(&one.partition)).sum()
        };
        for (number, what) in [
            (
                sum(|p| p.end_offset.saturating_sub(p.verified_offset)),
                "records in the log wait for the verifier",
            ),
            (
                sum(|p| p.verified_offset.saturating_sub(p.next_offset)),
                "records in the log wait for the writer",
            ),
            (
                gone,
                "stored records were deleted by retention and couldn't be counted again",
            ),
            (
                sums.blocks_past,
                "blocks before are so old that receipts may have reached their retention: only their offsets were compared",
            ),
            (
                sums.rejected_past,
                "rejected receipts are so old that they may have reached their retention: they weren't compared",
            ),
        ] {
            if number > 0 {
                lines.push(format!("  {}", paint(FAINT, format_args!("{number} {what}"))));
            }
        }
        lines.extend(
            self.running
                .map(|running| format!("  {}", paint(FAINT, running.line()))),
        );
        lines.push(match self.findings.len() as u64 + self.further_findings {
            0 => paint(GOOD, "everything adds up"),
            1 => paint(BAD, "1 difference"),
            n => paint(BAD, format!("{n} differences, the first of each kind")),
        });
        lines.extend(
            self.findings
                .iter()
                .map(|f| format!("  {}: {}", paint(HEAD, f.kind), f.detail)),
        );
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pass_receipts: u64, is_running: bool) -> AuditState {
        let offset = warehouse::CommittedOffset {
            epoch: 1,
            partition: 0,
            next_offset: 1,
        };
        AuditState {
            pass: if is_running { vec![offset] } else { Vec::new() },
            pass_began_ms: 1_000,
            pass_receipts,
            ..AuditState::default()
        }
    }

    #[test]
    fn the_rest_of_a_pass_is_estimated_by_what_it_has_compared() {
        let of = |pass_receipts, is_running| RunningCheck::of(&[state(pass_receipts, is_running)], 400, 61_000);
        let pass = |compared, rest_s| Pass {
            compared,
            all: 400,
            rest_s,
        };
        assert_eq!(of(100, true).pass, Some(pass(100, Some(180))));
        assert_eq!(of(0, true).pass, Some(pass(0, None)));
        assert_eq!(of(500, true).pass, Some(pass(400, Some(0))));
        assert_eq!(of(100, false).pass, None);
        let line = of(100, true).line();
        assert_eq!(
            line,
            "the running check has compared 100 of 400 receipts in this pass; the rest takes about 3 min"
        );
    }
}
