//! Pipeline of one shard.
//!
//! ```text
//! read -> deduplicated -> inserted -> committed
//! ```
//!
//! Requested rebuilds of `usage` are executed between batches.
//!
//! Reading drops records that were read before and checks that the others continue what is stored.

use metrics::{counter, gauge, histogram};
use receipt_log::Commit;
use service::retry::{Retry, Stopped};
use tokio::sync::mpsc;
use warehouse::{VerdictsPosition, Warehouse};

use crate::error::WriterError;
use crate::horizon;
use crate::inserting::{InsertedBatch, Inserter, NotInserted};
use crate::reading::{ReadBatch, ShardReader};
use crate::rebuilding::Rebuilder;
use crate::sequence::Sequence;

/// A shard that this process owns.
pub struct OwnedShard {
    /// The shard, which is a partition of `verdicts`.
    pub shard: u32,
    /// Reads and deduplicates.
    pub reader: ShardReader,
    /// Positions that are stored or in flight.
    pub sequence: Sequence,
    /// Inserts.
    pub inserter: Inserter,
    /// Rebuilds `usage` on request.
    pub rebuilder: Rebuilder,
    /// Warehouse that publishes the progress.
    pub warehouse: Warehouse,
    /// [`receipt_log::Log::deletes_after_ms`] of `verdicts`.
    pub deletes_after_ms: Option<u64>,
    /// The version of the last published progress.
    pub version: u64,
    /// Takes the consumer's new offset.
    pub commits: mpsc::UnboundedSender<Commit>,
    /// Repeats failed attempts.
    pub retry: Retry,
}

/// Why a shard's pipeline ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineEnd {
    /// The shard is no longer assigned.
    Revoked,
    /// Another process became the shard's writer.
    Superseded,
    /// The writer is stopping.
    Stopped,
}

impl OwnedShard {
    /// Runs until the shard is revoked.
    pub async fn run(mut self) -> Result<PipelineEnd, WriterError> {
        loop {
            let mut batch = None;
            if self.reader.wait(self.rebuilder.next_at()).await {
                batch = self.reader.read(&mut self.sequence).await?;
                if batch.is_none() {
                    return Ok(PipelineEnd::Revoked);
                }
            }
            match self.store(batch).await {
                Ok(()) => {}
                Err(NotInserted::Superseded) => return Ok(PipelineEnd::Superseded),
                Err(NotInserted::Stopped) => return Ok(PipelineEnd::Stopped),
            }
        }
    }

    async fn store(&mut self, batch: Option<ReadBatch>) -> Result<(), NotInserted> {
        if let Some(batch) = batch {
            let inserted = self.inserter.insert(batch).await?;
            self.commit(inserted).await?;
        }
        self.rebuilder.run(&mut self.inserter, &self.reader).await
    }

    /// Publishes what is stored, and moves the consumer's offset, which retention and scaling read.
    async fn commit(&mut self, inserted: InsertedBatch) -> Result<(), Stopped> {
        let Some(last) = inserted.batch.blocks.last() else {
            return Ok(());
        };
        self.version += 1;
        let next = VerdictsPosition {
            epoch: last.position.epoch,
            offset: last.position.offset + 1,
        };
        let progress = self.sequence.progress(self.shard, self.version, next);
        let publish = || self.warehouse.publish_progress(&progress, Some(self.inserter.epoch()));
        self.retry.until_done("warehouse", publish).await?;
        // The owner of the consumer may have gone: then nothing is to be committed.
        let _ = self.commits.send(Commit {
            partition: self.shard,
            epoch: next.epoch,
            next_offset: next.offset,
            metadata: String::new(),
        });
        horizon::state(crate::GROUP, self.shard, last.appended_at_ms, self.deletes_after_ms);
        self.measure(&inserted);
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)] // a gauge and a histogram
    fn measure(&self, inserted: &InsertedBatch) {
        counter!("receipts_writer_receipts_total", "outcome" => "accepted").increment(inserted.accepted);
        counter!("receipts_writer_receipts_total", "outcome" => "rejected").increment(inserted.rejected);
        histogram!("receipts_writer_batch_receipts").record((inserted.accepted + inserted.rejected) as f64);
        histogram!("receipts_writer_batch_seconds").record(inserted.batch.opened.elapsed().as_secs_f64());
        gauge!("receipts_writer_epoch", "shard" => self.shard.to_string()).set(self.inserter.epoch().number as f64);
    }
}
