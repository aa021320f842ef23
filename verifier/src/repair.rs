//! Rebuilding lost rows from the log: after a warehouse part was damaged, every stored record before the committed
//! positions is judged and written again. Rows are a pure function of their record, so what was not lost doesn't change,
//! and neither the ledger nor the positions are touched.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use receipt::Judge;
use receipt_log::{InspectError, LogInspector};
use service::cpu::{CpuError, CpuPool};
use thiserror::Error;
use tokio::time::Instant;
use warehouse::{StandingRejection, Warehouse, WarehouseError};

use crate::GROUP;
use crate::admitting::{ReadmitError, readmit};
use crate::block::Block;
use crate::judging::{Facts, JudgedBlock, Letters, judge_block};
use crate::policy::PolicyBook;
use crate::rows::Source;

/// Bodies read and written at a time, in bytes.
const STEP_BYTES: usize = 8 << 20;

/// Judges committed records as they were judged then.
///
/// # Errors
/// [`RepairError::Cpu`] or [`RepairError::Policy`].
pub async fn judge_again(
    book: Option<&PolicyBook>,
    cpu: &CpuPool,
    judge: &Arc<Judge>,
    block: Block,
    verifier: &'static str,
) -> Result<JudgedBlock, RepairError> {
    let (facts, to_judge) = (
        if book.is_some() { Facts::Keep } else { Facts::Drop },
        Arc::clone(judge),
    );
    let mut judged = cpu
        .run_waiting(move || judge_block(&to_judge, block, verifier, Letters::Drop, facts))
        .await?;
    if let Some(book) = book {
        readmit(book, cpu, judge, &mut judged).await?;
    }
    Ok(judged)
}

/// What a repair wrote again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repaired {
    /// Records read from the log.
    pub records: u64,
    /// Rows written to the table of receipts.
    pub accepted: u64,
    /// Rows written to the table of rejected receipts.
    pub rejected: u64,
    /// Committed records that retention has already removed: their rows can't be rebuilt from here.
    pub gone: u64,
}

/// Why a repair stopped. What it wrote until then is right; it can be run again.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The log can't be read.
    #[error(transparent)]
    Log(#[from] InspectError),
    /// The warehouse doesn't take the rows.
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    /// Judging failed.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// What a policy refused can't be told.
    #[error(transparent)]
    Policy(#[from] ReadmitError),
}

/// Writes every row again that the log can still prove. `book` has the marks of records that were judged under a policy, if any were. `progress` hears of each step: records done, records in all.
///
/// # Errors
/// [`RepairError`].
pub async fn repair(
    log: &dyn LogInspector,
    warehouse: &Warehouse,
    cpu: &CpuPool,
    judge: &Arc<Judge>,
    book: Option<&PolicyBook>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Repaired, RepairError> {
    let partitions = log.partitions(GROUP).await?;
    let committed = |state: &receipt_log::PartitionState| {
        state
            .committed
            .as_ref()
            .filter(|committed| committed.epoch == state.epoch)
            .map_or(0, |c| c.next_offset)
    };
    let total: u64 = partitions
        .iter()
        .map(|state| committed(state).saturating_sub(state.begin_offset))
        .sum();
    let mut repaired = Repaired::default();
    for state in &partitions {
        repaired.gone += state.begin_offset.min(committed(state));
        let mut offset = state.begin_offset;
        while offset < committed(state) {
            let mut records = log.read(state.partition, offset, STEP_BYTES).await?;
            records.retain(|logged| logged.position.offset < committed(state));
            let (Some(first), Some(last)) = (records.first(), records.last()) else {
                break;
            };
            offset = last.position.offset + 1;
            let (first, last) = (first.position.receipt(0), last.position.receipt(u16::MAX));
            let standing = warehouse.standing_rejections(first, last).await?;
            repaired.records += records.len() as u64;
            let block = Block {
                records,
                opened: Instant::now(),
                claims: HashMap::new(),
            };
            let judged = judge_again(book, cpu, judge, block, "repair").await?;
            // What was once rejected is rejected, whatever the rules or the warehouse say now: the ledger says so. A
            // batch that was rejected whole is one receipt there, and its row has its bytes.
            let whole = |one: &StandingRejection| one.whole_batch.then_some(one.position >> 16);
            let whole: HashSet<u128> = standing.iter().filter_map(whole).collect();
            let standing: HashSet<u128> = standing.iter().map(|one| one.position).collect();
            let position = |source: Source| {
                let logged = &judged.block.records[source.record as usize];
                logged.position.receipt(source.index)
            };
            let apart = |source: Source| !whole.contains(&(position(source) >> 16));
            let receipts = judged
                .receipts
                .retained(|source| apart(source) && !standing.contains(&position(source)));
            let rejections = judged.rejected.retained(apart);
            let (accepted, rejected) = (receipts.count() as u64, rejections.count() as u64);
            warehouse.insert_receipts(receipts.all(), accepted).await?;
            warehouse.insert_rejected(rejections.all(), rejected).await?;
            repaired.accepted += accepted;
            repaired.rejected += rejected;
            progress(repaired.records, total);
        }
    }
    Ok(repaired)
}
