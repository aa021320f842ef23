//! Records of `verdicts`, decoded and gathered into batches.

use std::time::Duration;

use blocks::{Block, Header};
use receipt_log::LoggedRecord;
use service::cpu::CpuPool;
use service::instant::{CLOCKS_APART_MS_MAX, now_ms};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use warehouse::VerdictsPosition;

use crate::config::WriterConfig;
use crate::error::WriterError;
use crate::sequence::Sequence;

/// The part of the interval in which a batch gathers records at least.
const GATHERING_PART: u32 = 5;

/// A decoded record of `verdicts`.
#[derive(Debug)]
pub struct ReadBlock {
    /// Position in `verdicts`.
    pub position: VerdictsPosition,
    /// When the record was appended there, in milliseconds since the Unix epoch.
    pub appended_at_ms: i64,
    /// The block.
    pub block: Block,
}

/// Consecutive blocks of one shard.
#[derive(Debug)]
#[must_use = "blocks must be inserted"]
pub struct ReadBatch {
    /// In the order of the log, at least one.
    pub blocks: Vec<ReadBlock>,
    /// When the first one was read.
    pub opened: Instant,
}

/// Reads one shard's records.
pub struct ShardReader {
    records: mpsc::Receiver<Vec<LoggedRecord>>,
    cpu: CpuPool,
    interval: Duration,
    receipts_max: usize,
    bytes_max: usize,
    /// Records that [`Self::wait`] received; none inside if the shard is no longer assigned.
    first: Option<Option<Vec<LoggedRecord>>>,
    /// Why nothing is read behind the last batch.
    failed: Option<WriterError>,
    /// Position behind the last record that was read.
    next: VerdictsPosition,
    /// When the last batch was complete.
    closed: Instant,
}

impl ShardReader {
    /// Reads from `next` on.
    #[must_use]
    pub fn new(
        config: &WriterConfig,
        cpu: CpuPool,
        records: mpsc::Receiver<Vec<LoggedRecord>>,
        next: VerdictsPosition,
    ) -> Self {
        Self {
            records,
            cpu,
            interval: Duration::from_millis(config.insert_interval_ms),
            receipts_max: config.batch_receipts_max,
            bytes_max: config.batch_bytes_max,
            first: None,
            failed: None,
            next,
            closed: Instant::now(),
        }
    }

    /// Waits for records until `deadline`. Whether [`Self::read`] has something to return: records,
    /// or the end.
    pub async fn wait(&mut self, deadline: Instant) -> bool {
        if self.first.is_none() && self.failed.is_none() {
            self.first = timeout_at(deadline, self.records.recv()).await.ok();
        }
        self.first.is_some() || self.failed.is_some()
    }

    /// Whether no more records come: the shard was revoked, or the writer is stopping.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.records.is_closed()
    }

    /// The next batch, which continues `sequence`; `None` once the shard is no longer assigned.
    /// Records that precede a wrong one come before the error.
    pub async fn read(&mut self, sequence: &mut Sequence) -> Result<Option<ReadBatch>, WriterError> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let first = match self.first.take() {
            Some(first) => first,
            None => self.records.recv().await,
        };
        let Some(first) = first else {
            return Ok(None);
        };
        let mut batch = ReadBatch {
            blocks: Vec::new(),
            opened: Instant::now(),
        };
        // Records have waited while the last batch was inserted. Behind a long insert, some time is
        // left to gather what the log has by now.
        let due = (self.closed + self.interval).max(batch.opened + self.interval / GATHERING_PART);
        let (mut receipts, mut bytes) = (0, 0);
        let mut records = Some(first);
        while let Some(some) = records.take() {
            bytes += some.iter().map(|logged| logged.record.body.len()).sum::<usize>();
            let blocks;
            (blocks, self.failed) = self.decode(some).await;
            for read in blocks {
                if let Err(sequence) = sequence.advance(&read.block.header) {
                    let offset = read.position.offset;
                    self.failed = Some(WriterError::Sequence { offset, sequence });
                    break;
                }
                receipts += usize::try_from(read.block.header.shard_counts.received).unwrap_or(usize::MAX);
                batch.blocks.push(read);
            }
            if self.failed.is_none() && receipts < self.receipts_max && bytes < self.bytes_max {
                records = timeout_at(due, self.records.recv()).await.ok().flatten();
            }
        }
        self.closed = Instant::now();
        match self.failed.take_if(|_| batch.blocks.is_empty()) {
            Some(failed) => Err(failed),
            None => Ok(Some(batch)),
        }
    }

    /// Decodes records that weren't read before, up to one that can't be decoded.
    async fn decode(&mut self, mut records: Vec<LoggedRecord>) -> (Vec<ReadBlock>, Option<WriterError>) {
        records.retain(|logged| logged.position.epoch != self.next.epoch || logged.position.offset >= self.next.offset);
        if let Some(last) = records.last() {
            self.next = VerdictsPosition {
                epoch: last.position.epoch,
                offset: last.position.offset + 1,
            };
        }
        let decode_all = move || {
            let mut blocks = Vec::with_capacity(records.len());
            for logged in &records {
                match decode(logged) {
                    Ok(block) => blocks.push(block),
                    Err(failed) => return (blocks, Some(failed)),
                }
            }
            (blocks, None)
        };
        self.cpu.run_waiting(decode_all).await.unwrap_or_else(|panicked| {
            let failed = WriterError::Undecodable {
                offset: self.next.offset,
                detail: panicked.to_string(),
            };
            (Vec::new(), Some(failed))
        })
    }
}

/// The instant through which a record of `verdicts` completes its partition, never later than
/// `now_ms`; 0 if it was stated by a clock that was ahead. Published, such an instant would outlast
/// the correction of that clock, and hide what the partition lacks meanwhile.
fn believable_ms(header: &Header, appended_at_ms: i64, now_ms: i64) -> i64 {
    let stated_ms = header.complete_through_ms;
    // The log `receipts` stamps its records, so the last one's instant can't be later than the
    // verdict on it. An idle record has the verifier's own instant.
    let by_wrong_log = !header.source.is_empty() && stated_ms > appended_at_ms + CLOCKS_APART_MS_MAX;
    let complete_ms = stated_ms.min(appended_at_ms);
    if by_wrong_log || complete_ms > now_ms + CLOCKS_APART_MS_MAX {
        tracing::warn!(
            stated_ms,
            appended_at_ms,
            now_ms,
            "a record of verdicts is from the future: completeThrough stays until the next one; check NTP on the \
             log's brokers, the verifiers and here"
        );
        return 0;
    }
    complete_ms.min(now_ms)
}

/// Decodes a record of `verdicts`.
pub fn decode(logged: &LoggedRecord) -> Result<ReadBlock, WriterError> {
    let mut block = Block::decode(&logged.record.body).map_err(|error| WriterError::Undecodable {
        offset: logged.position.offset,
        detail: error.to_string(),
    })?;
    block.header.complete_through_ms = believable_ms(&block.header, logged.appended_at_ms, now_ms());
    Ok(ReadBlock {
        position: VerdictsPosition {
            epoch: logged.position.epoch,
            offset: logged.position.offset,
        },
        appended_at_ms: logged.appended_at_ms,
        block,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use blocks::{ReceiptCounts, SourceIndex, SourceRange};

    use super::*;

    const DAY_MS: i64 = 86_400_000;
    const NOW_MS: i64 = 20_000 * DAY_MS;

    fn header(records: u64, complete_through_ms: i64) -> Header {
        let at = |offset| SourceIndex { offset, index: 0 };
        Header {
            version: blocks::VERSION,
            source: SourceRange {
                epoch: 1,
                partition: 0,
                first: at(7),
                end: at(7 + records),
            },
            source_partitions: 1,
            shard: 0,
            shards: 1,
            shard_map_version: 0,
            shard_map: 0,
            first_appended_at_ms: complete_through_ms,
            complete_through_ms,
            block: ReceiptCounts::default(),
            shard_counts: ReceiptCounts::default(),
            verifier: "test".to_owned(),
        }
    }

    #[test]
    fn no_instant_of_a_clock_that_is_ahead_is_believed() {
        let instant = |records, stated_ms, appended_at_ms| {
            believable_ms(&header(records, NOW_MS + stated_ms), NOW_MS + appended_at_ms, NOW_MS) - NOW_MS
        };
        assert_eq!(instant(3, -900, -400), -900);
        assert_eq!(instant(3, 20, 40), 0, "clocks that NTP leaves apart");
        assert_eq!(instant(3, DAY_MS, DAY_MS), -NOW_MS, "both logs were a day ahead");
        assert_eq!(instant(3, DAY_MS, -400), -NOW_MS, "the log of receipts was a day ahead");
        assert_eq!(instant(0, DAY_MS, DAY_MS), -NOW_MS);
        assert_eq!(
            instant(0, DAY_MS, -400),
            -400,
            "the verifier is a day ahead: as of its append"
        );
    }
}
