//! Good receipts that the warehouse refuses, turned into rejected ones.

use std::collections::BTreeMap;

use rayon::prelude::*;
use receipt::{Judge, Judged, RejectReason};
use receipt_log::{DeadLetter, LoggedRecord};
use uuid::Uuid;

use crate::judging::{JudgedBlock, Letters, arrival, dead_letter, encode_rejected};
use crate::rows::{Rows, RowsBuilder, Source};

/// The warehouse's words are kept up to this length.
const DETAIL_BYTES_MAX: usize = 1_000;

/// A row that the warehouse refuses even alone.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Whose row.
    pub source: Source,
    /// The warehouse's words.
    pub why: String,
}

/// The receipt of a refused row, as a rejected one.
#[derive(Debug)]
pub struct Turned {
    /// Whose row.
    pub source: Source,
    /// Where it stands in the log.
    pub position: u128,
    /// `receiptId`.
    pub receipt_id: Uuid,
    row: Vec<u8>,
    letter: Option<DeadLetter>,
}

/// Judges the records of the refused rows again, for what their rejected rows need. Runs on the calling thread's rayon
/// pool. Shorter than `refused` only if a record is judged otherwise than before, which can't be.
#[must_use]
pub fn turn(judge: &Judge, records: &[LoggedRecord], refused: &[Refused], letters: Letters) -> Vec<Turned> {
    let mut by_record: BTreeMap<u32, BTreeMap<u16, &str>> = BTreeMap::new();
    for Refused { source, why } in refused {
        by_record.entry(source.record).or_default().insert(source.index, why);
    }
    let by_record: Vec<_> = by_record.into_iter().collect();
    by_record
        .par_iter()
        .flat_map_iter(|(record, whys)| {
            let logged = &records[*record as usize];
            let turned = judge.judge(&arrival(logged), &|index, judged| {
                let (Some(why), Judged::Verified(verified)) = (whys.get(&index), judged) else {
                    return None;
                };
                let receipt_id = verified.receipt.receipt_id;
                let rejected = verified.rejected(RejectReason::RefusedByWarehouse, detail(why));
                Some(Turned {
                    source: Source { record: *record, index },
                    position: logged.position.receipt(index),
                    receipt_id,
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
            let partition = self.block.records[one.source.record as usize].position.partition;
            if let Some(line) = self.lines.iter_mut().find(|line| line.partition == partition) {
                line.accepted -= 1;
                line.rejected += 1;
            }
            *self
                .reasons
                .entry(RejectReason::RefusedByWarehouse.as_str())
                .or_insert(0) += 1;
            rows.push(&one.row, one.source);
            self.letters.extend(one.letter);
        }
        rows.finish()
    }
}
