//! Good receipts that the warehouse or a policy refuses, turned into rejected ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use receipt::{Judge, Judged, RejectReason};
use receipt_log::{DeadLetter, LoggedRecord};
use service::cpu::{CpuError, CpuPool};
use thiserror::Error;
use uuid::Uuid;
use warehouse::LedgerRow;

use crate::judging::{JudgedBlock, Letters, arrival, dead_letter, encode_rejected};
use crate::rows::{Rows, RowsBuilder, Source};

/// The warehouse's words are kept up to this length.
const DETAIL_BYTES_MAX: usize = 1_000;

/// A receipt whose every check passed, and that is refused all the same.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Which.
    pub source: Source,
    /// Why.
    pub refusal: Refusal,
}

/// Why a good receipt is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, as it is stored.
    pub reason: RejectReason,
    /// For a person. At most about a thousand bytes.
    pub detail: String,
}

impl Refusal {
    /// The warehouse doesn't take the row, in its words.
    #[must_use]
    pub fn by_warehouse(why: &str) -> Self {
        Self {
            reason: RejectReason::RefusedByWarehouse,
            detail: detail(why),
        }
    }
}

/// Refused receipts couldn't be made rejected ones. Going on would lose them in silence.
#[derive(Debug, Error)]
pub enum TurnError {
    /// Judging them again failed.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A record is judged otherwise than before, which can't be.
    #[error("{turned} of {refused} refused receipts are good when they are judged again")]
    Unsteady {
        /// How many were to be turned.
        refused: usize,
        /// How many were.
        turned: usize,
    },
}

/// A refused receipt, as a rejected one.
#[derive(Debug)]
pub struct Turned {
    /// Whose row.
    pub source: Source,
    /// Where it stands in the log.
    pub position: u128,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// `client.id`.
    pub client_id: Uuid,
    reason: RejectReason,
    row: Vec<u8>,
    letter: Option<DeadLetter>,
}

/// Judges the records of refused receipts again, for what their rejected rows need.
///
/// # Errors
/// [`TurnError`].
pub async fn turn(
    cpu: &CpuPool,
    judge: &Arc<Judge>,
    block: &JudgedBlock,
    refused: Vec<Refused>,
    letters: Letters,
) -> Result<Vec<Turned>, TurnError> {
    let (judge, records, wanted) = (Arc::clone(judge), block.block.records.clone(), refused.len());
    let turned = cpu
        .run_waiting(move || turn_all(&judge, &records, &refused, letters))
        .await?;
    if turned.len() == wanted {
        Ok(turned)
    } else {
        Err(TurnError::Unsteady {
            refused: wanted,
            turned: turned.len(),
        })
    }
}

/// Runs on the calling thread's rayon pool.
fn turn_all(judge: &Judge, records: &[LoggedRecord], refused: &[Refused], letters: Letters) -> Vec<Turned> {
    let mut by_record: BTreeMap<u32, BTreeMap<u16, &Refusal>> = BTreeMap::new();
    for Refused { source, refusal } in refused {
        by_record
            .entry(source.record)
            .or_default()
            .insert(source.index, refusal);
    }
    let by_record: Vec<_> = by_record.into_iter().collect();
    by_record
        .par_iter()
        .flat_map_iter(|(record, refusals)| {
            let logged = &records[*record as usize];
            let turned = judge.judge(&arrival(logged), &|index, judged| {
                let (Some(refusal), Judged::Verified(verified)) = (refusals.get(&index), judged) else {
                    return None;
                };
                let (receipt_id, client_id) = (verified.receipt.receipt_id, verified.receipt.client_id);
                let rejected = verified.rejected(refusal.reason, refusal.detail.clone());
                Some(Turned {
                    source: Source { record: *record, index },
                    position: logged.position.receipt(index),
                    receipt_id,
                    client_id,
                    reason: refusal.reason,
                    row: encode_rejected(logged, index, &rejected),
                    letter: (letters == Letters::Keep).then(|| dead_letter(logged, index, rejected)),
                })
            });
            turned.into_iter().flatten()
        })
        .collect()
}

fn detail(why: &str) -> String {
    let end = (0..=why.len().min(DETAIL_BYTES_MAX))
        .rev()
        .find(|&end| why.is_char_boundary(end));
    format!("the warehouse refuses the row: {}", &why[..end.unwrap_or(0)])
}

impl JudgedBlock {
    /// Counts these receipts as rejected instead of accepted, and returns their rows for the table of rejected receipts.
    pub fn reject(&mut self, turned: Vec<Turned>) -> Rows {
        let mut rows = RowsBuilder::default();
        for one in turned {
            let position = self.block.records[one.source.record as usize].position;
            let covers = |line: &&mut LedgerRow| {
                line.partition == position.partition
                    && (line.first_offset..=line.last_offset).contains(&position.offset)
            };
            if let Some(line) = self.lines.iter_mut().find(covers) {
                line.accepted -= 1;
                line.rejected += 1;
            }
            self.clients.turned(one.client_id);
            *self.reasons.entry(one.reason.as_str()).or_insert(0) += 1;
            rows.push(&one.row, one.source);
            self.letters.extend(one.letter);
        }
        rows.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bytes::Bytes;
    use receipt::RejectReason;
    use receipt_log::{LoggedRecord, Position, Record, RecordKind};
    use tokio::time::Instant;
    use uuid::Uuid;
    use warehouse::LedgerRow;

    use super::{Turned, detail};
    use crate::block::Block;
    use crate::judging::JudgedBlock;
    use crate::rows::{Rows, Source};

    fn logged(offset: u64) -> LoggedRecord {
        LoggedRecord {
            position: Position {
                epoch: 1,
                partition: 0,
                offset,
            },
            appended_at_ms: 0,
            record: Record {
                kind: RecordKind::Receipt,
                body: Bytes::new(),
                request_signature: None,
                request_id: String::new(),
                received_at_ms: 0,
                client_address: None,
                trace: None,
            },
        }
    }

    fn line(offset: u64) -> LedgerRow {
        LedgerRow {
            epoch: 1,
            partition: 0,
            first_offset: offset,
            last_offset: offset,
            records: 1,
            receipts_in: 1,
            accepted: 1,
            rejected: 0,
            verifier: String::new(),
            committed_at_ms: 0,
        }
    }

    /// A partition has several lines where earlier ones have done the records between.
    #[test]
    fn the_line_that_covers_the_record_counts_it() {
        let source = Source { record: 1, index: 0 };
        let mut block = JudgedBlock {
            receipts: Rows::default(),
            rejected: Rows::default(),
            letters: Vec::new(),
            facts: Vec::new(),
            lines: vec![line(3), line(9)],
            marks: Vec::new(),
            reasons: std::collections::BTreeMap::new(),
            clients: crate::offenders::Tallies::default(),
            block: Block {
                records: vec![logged(3), logged(9)],
                opened: Instant::now(),
                claims: HashMap::new(),
            },
        };
        let turned = Turned {
            source,
            position: logged(9).position.receipt(0),
            receipt_id: Uuid::nil(),
            client_id: Uuid::nil(),
            reason: RejectReason::RefusedByWarehouse,
            row: vec![1, 2, 3],
            letter: None,
        };
        let rows = block.reject(vec![turned]);
        assert_eq!(rows.all().concat(), [1, 2, 3]);
        let counted: Vec<_> = block.lines.iter().map(|line| (line.accepted, line.rejected)).collect();
        assert_eq!(counted, [(1, 0), (0, 1)]);
        assert_eq!(block.reasons["refused_by_warehouse"], 1);
    }

    #[test]
    fn words_are_kept_up_to_a_length_in_whole_characters() {
        assert!(detail("short").ends_with(": short"));
        let long = detail(&"ä".repeat(2_000));
        assert!(long.len() < 1_100 && long.ends_with('ä'));
    }
}
