//! The consumer's side of the pipeline: polls records, follows assignments, appends blocks.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use parking_lot::Mutex;
use receipt_log::{ConsumeError, LogInspector, LogProcessor, PollLimits, Polled};
use service::retry::{Pauses, Retry};
use tokio::time::Instant;
use tracing::error;

use crate::appending::{Appender, NotAppended};
use crate::assignment::Assignments;
use crate::config::VerifierConfig;
use crate::encoding::EncodedBlock;
use crate::error::VerifierError;
use crate::gathering::{Gathering, PolledBlock};
use crate::idle::Observed;
use crate::resumption::{PartitionResumeError, ResumedPartition, resume};
use crate::stages::Stages;

/// The longest wait of one poll.
const POLL_WAIT: Duration = Duration::from_millis(100);

/// The owner of the consumer.
pub struct PartitionConsumer {
    processor: Box<dyn LogProcessor>,
    receipts: Arc<dyn LogInspector>,
    verdicts: Arc<dyn LogInspector>,
    assignments: Assignments,
    gathering: Gathering,
    appender: Appender,
    retry: Retry,
    pauses: Pauses,
    idle_interval: Duration,
}

impl PartitionConsumer {
    /// A consumer without assignments.
    #[must_use]
    pub fn new(
        config: &VerifierConfig,
        processor: Box<dyn LogProcessor>,
        receipts: Arc<dyn LogInspector>,
        verdicts: Arc<dyn LogInspector>,
        retry: Retry,
    ) -> Self {
        let wait_max = Duration::from_millis(config.block_wait_ms_max);
        Self {
            processor,
            receipts,
            verdicts,
            assignments: Assignments::default(),
            gathering: Gathering::new(config.block_bytes_max, config.block_records_max, wait_max),
            appender: Appender {
                retry: retry.clone(),
                rejections: Mutex::default(),
            },
            pauses: retry.pauses(),
            idle_interval: Duration::from_millis(config.idle_interval_ms),
            retry,
        }
    }

    /// When the gathered block is to be closed; `None` while it is empty.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        self.gathering.due_at()
    }

    /// Whether the gathered block takes no more records.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.gathering.is_full()
    }

    /// Closes the gathered block.
    pub fn close_block(&mut self) -> PolledBlock {
        let block = self.gathering.close();
        for part in &block.partitions {
            self.assignments.began(part.claim);
        }
        block
    }

    /// Appends an encoded block.
    pub async fn append(&mut self, block: EncodedBlock) -> Result<(), NotAppended> {
        self.appender
            .append(self.processor.as_mut(), &mut self.assignments, block)
            .await
    }

    /// Appends idle records of the partitions that were observed without new records.
    pub async fn append_idle(&mut self, stages: &Stages, observed: &Observed) -> Result<(), NotAppended> {
        let Some(shard_map) = stages.last_shard_map() else {
            return Ok(());
        };
        let mut block = EncodedBlock::empty(Instant::now());
        for (settled, complete_through_ms) in observed.idle(&self.assignments, self.idle_interval) {
            if self.gathering.holds(settled.claim) {
                continue;
            }
            match stages.idle(&shard_map, &settled, complete_through_ms) {
                Ok(part) => {
                    self.assignments.began_idle(part.claim);
                    block.partitions.push(part);
                }
                Err(error) => error!(%error, "an idle record can't be encoded"),
            }
        }
        if block.partitions.is_empty() {
            return Ok(());
        }
        self.append(block).await
    }

    /// Polls once. A call that is dropped loses nothing.
    pub async fn poll(&mut self) -> Result<Polled, ConsumeError> {
        let limits = PollLimits {
            records_max: self.gathering.records_left(),
            bytes_max: self.gathering.bytes_left(),
            wait_max: POLL_WAIT,
        };
        self.processor.poll(limits).await
    }

    /// Takes over what a poll returned: assignments, revocations and records. Returns whether
    /// partitions were assigned.
    pub async fn accept(
        &mut self,
        polled: Result<Polled, ConsumeError>,
        stages: &Stages,
    ) -> Result<bool, PartitionResumeError> {
        match polled {
            Ok(polled) => {
                self.pauses = self.retry.pauses();
                self.retry.parts.recovered("log");
                self.accept_polled(polled, stages).await
            }
            Err(damaged @ ConsumeError::Damaged { .. }) => {
                Err(PartitionResumeError::Failed(VerifierError::Damaged(damaged)))
            }
            Err(ConsumeError::Unavailable(reason)) => {
                counter!("receipts_verifier_poll_failures_total").increment(1);
                self.retry.pause("log", &reason, &mut self.pauses).await?;
                Ok(false)
            }
        }
    }

    async fn accept_polled(&mut self, mut polled: Polled, stages: &Stages) -> Result<bool, PartitionResumeError> {
        for partition in polled.revoked {
            self.assignments.revoke(partition);
            self.gathering.drop_partition(partition);
        }
        for assignment in &polled.assigned {
            let ResumedPartition {
                next_offset,
                shard_map_version,
            } = resume(
                assignment,
                self.processor.as_mut(),
                self.receipts.as_ref(),
                self.verdicts.as_ref(),
                &self.retry,
            )
            .await?;
            if next_offset != assignment.next_offset {
                // Records that came with the assignment come again, from the new position.
                polled
                    .records
                    .retain(|logged| logged.position.partition != assignment.partition);
            }
            // The partition's verdicts continue in every shard that has some.
            stages.shard_map_at_least(shard_map_version).await?;
            self.assignments.assign(assignment, next_offset);
        }
        self.gathering.add(polled.records, &self.assignments);
        Ok(!polled.assigned.is_empty())
    }
}
