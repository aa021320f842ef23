//! Records of `verdicts` and positions in `receipts`, stored in one transaction.

use metrics::{counter, histogram};
use parking_lot::Mutex;
use receipt_log::{Commit, CommitError, LogProcessor};
use service::retry::{Retry, Stopped};
use tokio::time::Instant;
use tracing::info;

use crate::assignment::Assignments;
use crate::encoding::{EncodedBlock, EncodedPartition};
use crate::error::VerifierError;
use crate::rejections::HighRejectionClients;

/// Appends encoded blocks in order.
pub struct Appender {
    /// Repeats failed attempts.
    pub retry: Retry,
    /// Clients most of whose receipts are rejected.
    pub rejections: Mutex<HighRejectionClients>,
}

/// Why a block wasn't appended.
#[derive(Debug)]
pub enum NotAppended {
    /// The verifier is stopping.
    Stopped,
    /// No pause cures it.
    Failed(VerifierError),
}

impl From<Stopped> for NotAppended {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<NotAppended> for Result<(), VerifierError> {
    fn from(ended: NotAppended) -> Self {
        match ended {
            NotAppended::Stopped => Ok(()),
            NotAppended::Failed(failed) => Err(failed),
        }
    }
}

impl Appender {
    /// Appends a block's verdicts and commits the positions behind its records, for the partitions
    /// that are still owned. Repeats until it succeeds; the next owner reads what wasn't appended.
    pub async fn append(
        &self,
        processor: &mut dyn LogProcessor,
        assignments: &mut Assignments,
        mut block: EncodedBlock,
    ) -> Result<(), NotAppended> {
        let started = Instant::now();
        let mut pauses = self.retry.pauses();
        loop {
            block.partitions.retain(|part| assignments.holds(part.claim));
            if block.partitions.is_empty() {
                return Ok(());
            }
            match processor.append_and_commit(records(&block), commits(&block)).await {
                Ok(()) => break,
                Err(CommitError::Fenced(partition)) => {
                    counter!("receipts_verifier_fenced_total").increment(1);
                    info!(
                        partition,
                        "another verifier owns this partition now; its records are dropped"
                    );
                    assignments.revoke(partition);
                }
                Err(CommitError::Unavailable(reason)) => {
                    self.retry.pause("verdicts", &reason, &mut pauses).await?;
                }
                Err(CommitError::Invalid(reason)) => return Err(NotAppended::Failed(VerifierError::Append(reason))),
            }
        }
        self.retry.parts.recovered("verdicts");
        for part in &block.partitions {
            count(part);
            assignments.appended(part.claim, part.next_offset(), part.complete_through_ms);
        }
        self.rejections.lock().add_block(&block.clients, Instant::now());
        for (reason, rejected) in &block.reasons {
            counter!("receipts_verifier_rejected_total", "reason" => *reason).increment(*rejected);
        }
        let records = block.partitions.iter().map(|part| part.source_records).sum();
        block.traces.log_appended(records, started.elapsed());
        let seconds = started.elapsed().as_secs_f64();
        histogram!("receipts_verifier_stage_seconds", "stage" => "append").record(seconds);
        histogram!("receipts_verifier_block_seconds").record(block.opened.elapsed().as_secs_f64());
        Ok(())
    }
}

fn records(block: &EncodedBlock) -> Vec<(u32, receipt_log::Record)> {
    block
        .partitions
        .iter()
        .flat_map(|part| part.records.iter().cloned())
        .collect()
}

fn commits(block: &EncodedBlock) -> Vec<Commit> {
    let commit = |part: &EncodedPartition| Commit {
        partition: part.claim.partition,
        epoch: part.epoch,
        next_offset: part.next_offset(),
        metadata: String::new(),
    };
    block.partitions.iter().map(commit).collect()
}

#[allow(clippy::cast_precision_loss)] // a histogram
fn count(part: &EncodedPartition) {
    counter!("receipts_verifier_records_total").increment(part.source_records);
    counter!("receipts_verifier_receipts_total", "outcome" => "accepted").increment(part.counts.accepted);
    counter!("receipts_verifier_receipts_total", "outcome" => "rejected").increment(part.counts.rejected);
    if part.counts.received > 0 {
        histogram!("receipts_verifier_block_receipts").record(part.counts.received as f64);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use receipt::RejectReason;
    use service::metrics::labels::{Values, values_of};

    /// So that each is counted from 0.
    #[test]
    fn every_reason_is_a_value_of_its_metric() {
        let listed = values_of("receipts_verifier_rejected_total", "reason").unwrap();
        let reasons: Vec<&str> = RejectReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(listed, Values::OneOf(reasons.leak()));
    }
}
