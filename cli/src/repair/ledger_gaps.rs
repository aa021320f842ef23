//! Ledger lines that went with a damaged part, made again from the records they stood for.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use receipt::Judge;
use receipt_log::LogInspector;
use service::cpu::CpuPool;
use service::instant::now_ms;
use tokio::time::Instant;
use verifier::PolicyBook;
use verifier::block::Block;
use verifier::repair::judge_again;
use warehouse::LedgerRow;

use crate::failure::Failure;
use crate::inspection::{CommittedPartition, Inspection};

/// Bodies in one new block, in bytes.
const BLOCK_BYTES: usize = 16 << 20;
/// Ledger lines read at a time.
const STEP_LINES: u64 = 10_000;
/// Who the new lines say wrote them.
const WRITER: &str = "repair";

/// Writes a line for every run of committed records that no line covers, as far as the log still has them; returns how
/// many lines. A commit, not a line, decides what is verified, so this changes no outcome.
///
/// # Errors
/// An engine is unavailable. Lines written until then are right.
pub async fn fill(
    inspection: &Inspection,
    cpu: &CpuPool,
    judge: &Arc<Judge>,
    book: Option<&PolicyBook>,
) -> Result<u64, Failure> {
    let mut written = 0;
    for partition in inspection.committed().await? {
        for gap in gaps(inspection, &partition).await? {
            let mut offset = gap.start.max(partition.begin_offset);
            while offset < gap.end {
                let read = inspection.log.read(partition.partition, offset, BLOCK_BYTES).await;
                let mut records = read.map_err(Failure::unavailable)?;
                records.retain(|record| record.position.offset < gap.end);
                let Some(last) = records.last() else { break };
                offset = last.position.offset + 1;
                let block = Block {
                    records,
                    opened: Instant::now(),
                    claims: HashMap::new(),
                };
                let judged = judge_again(book, cpu, judge, block, WRITER).await;
                let lines = judged.map_err(Failure::unavailable)?.lines;
                let lines: Vec<LedgerRow> = lines
                    .into_iter()
                    .map(|line| LedgerRow {
                        committed_at_ms: now_ms(),
                        ..line
                    })
                    .collect();
                inspection
                    .warehouse
                    .insert_ledger(&lines)
                    .await
                    .map_err(Failure::unavailable)?;
                written += lines.len() as u64;
            }
        }
    }
    Ok(written)
}

/// The runs of committed offsets that no line covers.
async fn gaps(inspection: &Inspection, partition: &CommittedPartition) -> Result<Vec<Range<u64>>, Failure> {
    let mut gaps = Vec::new();
    let mut covered = 0;
    loop {
        let page = inspection
            .warehouse
            .ledger(partition.epoch, partition.partition, covered, STEP_LINES);
        let lines = page.await.map_err(Failure::unavailable)?;
        for line in lines.iter().filter(|line| line.last_offset < partition.next_offset) {
            if line.first_offset > covered {
                gaps.push(covered..line.first_offset);
            }
            covered = covered.max(line.last_offset + 1);
        }
        let reached = lines
            .last()
            .is_none_or(|line| line.last_offset >= partition.next_offset);
        if reached || (lines.len() as u64) < STEP_LINES {
            break;
        }
    }
    if covered < partition.next_offset {
        gaps.push(covered..partition.next_offset);
    }
    Ok(gaps)
}
