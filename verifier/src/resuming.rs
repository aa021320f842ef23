//! Where the reading of a newly assigned partition goes on when its committed position is lost or was set back.
//!
//! A ledger line is written only after the commit of its block, and a block is committed only after its rows stand in
//! the warehouse. So what a line covers is done, whatever the committed position says: it is passed over, and the
//! position is committed where the lines end. Without this the records would be judged again in blocks cut elsewhere,
//! and their lines would overlap those that stand.
//!
//! This holds only while the log is the one that the lines were made from. A log that ends before the lines do, or
//! holds younger records where they end, was set back itself; its new records have the offsets of others, and none of
//! them may be passed over.

use std::collections::HashMap;

use metrics::counter;
use receipt_log::{Assignment, ConsumeError, LogConsumer, LoggedRecord};
use tracing::{error, warn};
use warehouse::{LedgerRow, LedgerRun};

use crate::pipeline::VerifierError;
use crate::writing::{Backoff, Stopped, Writer};

/// How much later than its block's commit a record may seem to be appended, in milliseconds: two machines' clocks.
const CLOCKS_APART_MS_MAX: i64 = 60_000;

/// What the ledger says is done of the assigned partitions, ahead of where they are read.
#[derive(Debug, Default)]
pub struct Resuming {
    /// In log order; a partition that is read where nothing was done yet isn't here.
    done: HashMap<u32, Vec<Done>>,
}

#[derive(Debug)]
struct Done {
    run: LedgerRun,
    /// Whether the position is to be committed at the run's end: nothing before it is left to do.
    commit: bool,
}

/// Why a partition can't be taken on.
pub enum NotResumed {
    /// The verifier is stopping.
    Stopped,
    /// No pause cures it.
    Failed(VerifierError),
}

impl Resuming {
    /// Looks whether anything from the assignment's position on is done already, and if so moves the consumer to the
    /// end of it. Whether it moved: then the partition's records that came with the assignment come again.
    ///
    /// # Errors
    /// [`NotResumed`].
    pub async fn assign(
        &mut self,
        assignment: &Assignment,
        consumer: &mut dyn LogConsumer,
        writer: &Writer,
    ) -> Result<bool, NotResumed> {
        let Assignment {
            partition,
            epoch,
            next_offset,
            ..
        } = *assignment;
        self.done.remove(&partition);
        let runs = writer.ledger_runs(epoch, partition, next_offset).await;
        let mut runs = runs.map_err(|Stopped| NotResumed::Stopped)?;
        runs.retain(|run| run.end > next_offset);
        let Some(last) = runs.last() else { return Ok(false) };
        counter!("receipts_verifier_positions_behind_total").increment(1);
        warn!(
            partition,
            next_offset,
            ledger_end = last.end,
            "the committed position is behind the ledger: it was lost or set back; going on behind what is done"
        );
        // Also for a gap between runs: the log must reach the last of them.
        seek(consumer, partition, last.end, writer).await?;
        let mut done: Vec<Done> = runs.into_iter().map(|run| Done { run, commit: false }).collect();
        let mut read_from = next_offset;
        let (runs, mut meets) = (done.len(), false);
        if let Some(first) = done.first_mut().filter(|first| first.run.start <= next_offset) {
            meets = true;
            first.commit = true;
            // The run's last record is read, to see that it is the one that the ledger means.
            read_from = first.run.end - 1;
        }
        if runs > 1 || !meets {
            error!(
                partition,
                "ledger lines are missing between others; their records are judged again"
            );
        }
        seek(consumer, partition, read_from, writer).await?;
        self.done.insert(partition, done);
        Ok(true)
    }

    /// Forgets a partition that went away.
    pub fn forget(&mut self, partition: u32) {
        self.done.remove(&partition);
    }

    /// Takes out the records that are done; returns the lines whose ends are to be committed.
    ///
    /// # Errors
    /// [`VerifierError::SetBack`].
    pub fn pass_over(&mut self, records: &mut Vec<LoggedRecord>) -> Result<Vec<LedgerRow>, VerifierError> {
        let mut ends = Vec::new();
        if self.done.is_empty() {
            return Ok(ends);
        }
        let mut left = Vec::with_capacity(records.len());
        for logged in records.drain(..) {
            let position = logged.position;
            let Some(done) = self.done.get_mut(&position.partition) else {
                left.push(logged);
                continue;
            };
            done.retain(|done| done.run.end > position.offset);
            let Some(next) = done.first().filter(|next| next.run.start <= position.offset) else {
                left.push(logged);
                continue;
            };
            if position.offset + 1 < next.run.end {
                continue;
            }
            let line = &next.run.last;
            if logged.appended_at_ms > line.committed_at_ms.saturating_add(CLOCKS_APART_MS_MAX) {
                return Err(VerifierError::SetBack {
                    partition: position.partition,
                    ledger_end: next.run.end,
                    detail: format!("its record at offset {} is younger than the ledger's", position.offset),
                });
            }
            if next.commit {
                ends.push(line.clone());
            }
            done.remove(0);
        }
        self.done.retain(|_, done| !done.is_empty());
        *records = left;
        Ok(ends)
    }
}

async fn seek(consumer: &mut dyn LogConsumer, partition: u32, offset: u64, writer: &Writer) -> Result<(), NotResumed> {
    let mut backoff = Backoff::new(&writer.config);
    loop {
        match consumer.seek(partition, offset).await {
            Ok(()) => return Ok(()),
            Err(ConsumeError::Damaged { detail, .. }) => {
                return Err(NotResumed::Failed(VerifierError::SetBack {
                    partition,
                    ledger_end: offset,
                    detail,
                }));
            }
            Err(ConsumeError::Unavailable(reason)) => {
                warn!(reason, "the log can't be read; trying again");
                tokio::select! {
                    () = writer.stop.cancelled() => return Err(NotResumed::Stopped),
                    () = tokio::time::sleep(backoff.next_wait()) => {}
                }
            }
        }
    }
}
