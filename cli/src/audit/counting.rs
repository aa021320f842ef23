//! The ledger's blocks against the records in the log.

use std::collections::HashMap;

use rayon::prelude::*;
use receipt::{Arrival, BodyKind, Judge, Judged, check_batch};
use receipt_log::{InspectError, LogInspector, LoggedRecord, Position, RecordKind};
use serde::Serialize;
use warehouse::{AuditFinding, LedgerRow, StandingRejection};

use crate::failure::CommandFailure;
use crate::inspection::{Inspection, StoredPartition};

/// Bodies read from the log at a time, in bytes.
const STEP_BYTES: usize = 16 << 20;
/// Ledger lines read at a time.
const STEP_LINES: u64 = 10_000;
/// Differences of this kind that are listed one by one.
const FINDINGS_MAX: usize = 20;

/// Depth of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Counts the receipts only.
    Count,
    /// Judges the receipts.
    Judge,
}

/// Counts of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// Ledger blocks.
    pub blocks: u64,
    /// Blocks whose records were all still there to be counted.
    pub blocks_counted: u64,
    /// Records counted.
    #[serde(rename = "recordsCounted")]
    pub records: u64,
    /// Receipts in them.
    #[serde(rename = "receiptsCounted")]
    pub receipts: u64,
    /// Stored records that retention has deleted from the log.
    pub records_gone: u64,
}

/// Counts a log's records.
pub struct Counter<'a> {
    /// Logs and tables to inspect.
    pub inspection: &'a Inspection,
    /// The rules.
    pub judge: &'a Judge,
    /// Depth of the inspection.
    pub depth: Depth,
}

/// The receipts of a run of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RecordTally {
    receipts: u64,
    /// Of these, rejected; only known when judged.
    rejected: u64,
}

impl RecordTally {
    fn add(self, other: Self) -> Self {
        Self {
            receipts: self.receipts + other.receipts,
            rejected: self.rejected + other.rejected,
        }
    }
}

/// Records read ahead: `(offset, tally)` in order.
#[derive(Default)]
struct ReadAhead {
    tallies: std::collections::VecDeque<(u64, RecordTally)>,
    next_offset: u64,
}

impl Counter<'_> {
    /// Goes through one partition's ledger and log side by side, below the stored position.
    ///
    /// # Errors
    /// An engine is unavailable; differences are findings.
    pub async fn count(
        &self,
        partition: &StoredPartition,
        findings: &mut Vec<AuditFinding>,
    ) -> Result<Counted, CommandFailure> {
        let mut counted = Counted {
            records_gone: partition.begin_offset.min(partition.next_offset),
            ..Counted::default()
        };
        let mut ahead = ReadAhead {
            next_offset: partition.begin_offset,
            ..ReadAhead::default()
        };
        let mut wrong = 0;
        // The next offset that no block has covered yet.
        let mut covered = 0;
        loop {
            let page = self
                .inspection
                .warehouse
                .ledger(partition.epoch, partition.partition, covered, STEP_LINES);
            let lines = page.await.map_err(CommandFailure::unavailable)?;
            let last_page = (lines.len() as u64) < STEP_LINES;
            for line in lines.iter().filter(|line| line.last_offset < partition.next_offset) {
                counted.blocks += 1;
                covered = covered.max(line.last_offset + 1);
                let Some((records, mut tally)) = self.block(partition, line, &mut ahead, &mut counted).await? else {
                    continue;
                };
                if self.difference(line, records, tally).is_some() {
                    // By the present rules; the ledger was written by those of its time.
                    tally = self.recount(line, tally).await?;
                }
                if let Some(detail) = self.difference(line, records, tally) {
                    wrong += 1;
                    if wrong <= FINDINGS_MAX {
                        findings.push(AuditFinding {
                            kind: "log_count",
                            detail,
                        });
                    }
                }
            }
            if last_page
                || lines
                    .last()
                    .is_none_or(|line| line.last_offset >= partition.next_offset)
            {
                break;
            }
        }
        if wrong > FINDINGS_MAX {
            let detail = format!("{} further blocks differ from the log", wrong - FINDINGS_MAX);
            findings.push(AuditFinding {
                kind: "log_count",
                detail,
            });
        }
        if covered != partition.next_offset {
            let (location, next) = (location(partition), partition.next_offset);
            let detail = format!("{location}: verdicts are stored up to offset {next}, the ledger ends at {covered}");
            findings.push(AuditFinding {
                kind: "ledger_end",
                detail,
            });
        }
        Ok(counted)
    }

    /// Counts a block's records in the log; `None` where some are gone.
    async fn block(
        &self,
        partition: &StoredPartition,
        line: &LedgerRow,
        ahead: &mut ReadAhead,
        counted: &mut Counted,
    ) -> Result<Option<(u64, RecordTally)>, CommandFailure> {
        let whole = line.first_offset >= partition.begin_offset;
        let (mut records, mut tally) = (0, RecordTally::default());
        loop {
            match ahead.tallies.front() {
                Some((offset, _)) if *offset > line.last_offset => break,
                Some((offset, one)) => {
                    if *offset >= line.first_offset {
                        records += 1;
                        tally = tally.add(*one);
                    }
                    ahead.tallies.pop_front();
                }
                None if ahead.next_offset > line.last_offset => break,
                None => self.read_ahead(partition, ahead, counted).await?,
            }
        }
        counted.records += records;
        counted.receipts += tally.receipts;
        if !whole || ahead.next_offset == u64::MAX {
            return Ok(None);
        }
        counted.blocks_counted += 1;
        Ok(Some((records, tally)))
    }

    async fn read_ahead(
        &self,
        partition: &StoredPartition,
        ahead: &mut ReadAhead,
        counted: &mut Counted,
    ) -> Result<(), CommandFailure> {
        let mut records = match self
            .inspection
            .log
            .read(partition.partition, ahead.next_offset, STEP_BYTES)
            .await
        {
            Ok(records) => records,
            // Retention went on while we read.
            Err(InspectError::Gone { begin, .. }) => {
                counted.records_gone += begin.saturating_sub(ahead.next_offset);
                ahead.next_offset = begin.max(ahead.next_offset + 1);
                return Ok(());
            }
            Err(error) => return Err(CommandFailure::unavailable(error)),
        };
        records.retain(|record| record.position.offset < partition.next_offset);
        let Some(last) = records.last() else {
            // The log ends before what is stored of it: blocks beyond can't be counted.
            ahead.next_offset = u64::MAX;
            return Ok(());
        };
        ahead.next_offset = last.position.offset + 1;
        let tallies: Vec<(u64, RecordTally)> = records
            .par_iter()
            .map(|record| (record.position.offset, self.tally(record, &HashMap::new())))
            .collect();
        ahead.tallies.extend(tallies);
        Ok(())
    }

    /// Counts a block again with the stored verdicts: a batch once rejected whole is one receipt,
    /// and what a policy or the warehouse rejected is rejected, although both may pass now.
    async fn recount(&self, line: &LedgerRow, by_present_rules: RecordTally) -> Result<RecordTally, CommandFailure> {
        let at = |offset, index| {
            let (epoch, partition) = (line.epoch, line.partition);
            let record = Position {
                epoch,
                partition,
                offset,
            };
            record.receipt(index)
        };
        let (first, last) = (at(line.first_offset, 0), at(line.last_offset, u16::MAX));
        let standing = self.inspection.warehouse.standing_rejections(first, last).await;
        let standing: HashMap<u128, StandingRejection> = standing
            .map_err(CommandFailure::unavailable)?
            .into_iter()
            .filter(|one| one.whole_batch || one.passes_now)
            .map(|one| (one.position, one))
            .collect();
        if standing.is_empty() {
            return Ok(by_present_rules);
        }
        // Rows that count several receipts are rejections by a policy here: each would pass.
        let further = standing.values().map(|one| u64::from(one.receipts) - 1).sum();
        let mut tally = RecordTally {
            receipts: 0,
            rejected: further,
        };
        let mut offset = line.first_offset;
        while offset <= line.last_offset {
            let log = &self.inspection.log;
            let mut records = match log.read(line.partition, offset, STEP_BYTES).await {
                Ok(records) => records,
                // Retention went on since: what was counted stays a finding.
                Err(InspectError::Gone { .. }) => return Ok(by_present_rules),
                Err(error) => return Err(CommandFailure::unavailable(error)),
            };
            records.retain(|record| record.position.offset <= line.last_offset);
            let Some(read) = records.last() else { break };
            offset = read.position.offset + 1;
            let tallies: Vec<RecordTally> = records.par_iter().map(|record| self.tally(record, &standing)).collect();
            tally = tallies.into_iter().fold(tally, RecordTally::add);
        }
        Ok(tally)
    }

    /// The receipts of one record. What isn't a receipt or batch at all counts as one, rejected;
    /// `standing` are verdicts that go before the present rules.
    fn tally(&self, logged: &LoggedRecord, standing: &HashMap<u128, StandingRejection>) -> RecordTally {
        let record = &logged.record;
        let stands = |index| standing.get(&logged.position.receipt(index));
        if stands(0).is_some_and(|one| one.whole_batch) {
            return RecordTally {
                receipts: 1,
                rejected: 1,
            };
        }
        let kind = match record.kind {
            RecordKind::Batch => BodyKind::Batch,
            RecordKind::Receipt | RecordKind::Verdicts => BodyKind::Receipt,
        };
        if self.depth == Depth::Count {
            if kind == BodyKind::Receipt {
                return RecordTally {
                    receipts: 1,
                    rejected: 0,
                };
            }
            if let Ok(batch) = check_batch(&record.body, record.received_at_ms, self.judge.limits()) {
                return RecordTally {
                    receipts: u64::from(batch.receipt_count),
                    rejected: 0,
                };
            }
        }
        let arrival = Arrival {
            kind,
            body: &record.body,
            request_signature: record.request_signature.as_deref(),
            received_at_ms: record.received_at_ms,
        };
        let rejected = self.judge.judge(&arrival, &|index, judged| {
            matches!(judged, Judged::Rejected(_)) || stands(index).is_some()
        });
        RecordTally {
            receipts: rejected.len() as u64,
            rejected: rejected.into_iter().map(u64::from).sum(),
        }
    }

    fn difference(&self, line: &LedgerRow, records: u64, tally: RecordTally) -> Option<String> {
        let same = (records, tally.receipts) == (line.records, line.receipts_in)
            && (self.depth == Depth::Count || tally.rejected == line.rejected);
        if same {
            return None;
        }
        let rejected = match self.depth {
            Depth::Count => String::new(),
            Depth::Judge => format!(", {} rejected", tally.rejected),
        };
        Some(format!(
            "block of partition {}, offsets {} to {}: the ledger has {} receipts in {} records, {} rejected; the log has {} in {records}{rejected}",
            line.partition,
            line.first_offset,
            line.last_offset,
            line.receipts_in,
            line.records,
            line.rejected,
            tally.receipts,
        ))
    }
}

fn location(partition: &StoredPartition) -> String {
    format!("partition {} (epoch {})", partition.partition, partition.epoch)
}
