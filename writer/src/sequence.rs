//! The check that no source record is missing in `verdicts` or occurs twice.

use std::collections::BTreeMap;

use blocks::Header;
use service::instant::now_ms;
use thiserror::Error;
use warehouse::{PartitionProgress, ShardProgress, VerdictsPosition};

/// Why a record of `verdicts` isn't the next one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SequenceError {
    /// Source records without verdicts.
    #[error(
        "partition {partition} of receipts: offsets {expected} to {found} have no verdicts. Stop the verifiers and run \
         `receipts rewind`, which sets them back to {expected}"
    )]
    Gap {
        /// The source partition.
        partition: u32,
        /// The next offset that is to be stored.
        expected: u64,
        /// The offset at which the record begins.
        found: u64,
    },
    /// Source records that have verdicts already.
    #[error(
        "partition {partition} of receipts: the verdicts begin at offset {found}, but everything before {expected} is \
         stored: verifiers of two groups, or one that was set back, appended them again. Nothing is counted twice; stop \
         the verifiers, move the log verdicts aside and run `receipts rewind`"
    )]
    Overlap {
        /// The source partition.
        partition: u32,
        /// The next offset that is to be stored.
        expected: u64,
        /// The offset at which the record begins.
        found: u64,
    },
}

/// Positions of a shard: what is stored, and what comes next.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    partitions: BTreeMap<(u32, u32), PartitionProgress>,
    source_partitions: u32,
    shards: u32,
}

impl Sequence {
    /// Continues behind what is stored.
    #[must_use]
    pub fn new(stored: &ShardProgress) -> Self {
        let partitions = stored.partitions.iter();
        Self {
            partitions: partitions.map(|one| ((one.epoch, one.partition), *one)).collect(),
            source_partitions: stored.source_partitions,
            shards: stored.shards,
        }
    }

    /// Takes the next record. A partition that isn't known yet may begin anywhere: the shard may be
    /// new, or retention may have removed the first records before any verifier ran.
    ///
    /// # Errors
    /// [`SequenceError`]; then nothing changes.
    pub fn advance(&mut self, header: &Header) -> Result<(), SequenceError> {
        let source = &header.source;
        let key = (source.epoch, source.partition);
        let (partition, found) = (source.partition, source.first.offset);
        if let Some(stored) = self.partitions.get(&key) {
            let expected = stored.next_offset;
            if found > expected {
                return Err(SequenceError::Gap {
                    partition,
                    expected,
                    found,
                });
            }
            if found < expected {
                return Err(SequenceError::Overlap {
                    partition,
                    expected,
                    found,
                });
            }
        } else {
            // A log that was recreated has another epoch: nothing more comes of the old one.
            self.partitions.retain(|(epoch, _), _| *epoch == source.epoch);
        }
        let stored = self.partitions.get(&key);
        let complete_before = stored.map_or(0, |stored| stored.complete_through_ms);
        // A later instant than now was published by a clock that was ahead.
        let is_past = complete_before <= now_ms();
        let complete_through_ms = match header.complete_through_ms {
            0 => complete_before,
            stated if is_past => stated.max(complete_before),
            stated => stated,
        };
        let next = PartitionProgress {
            epoch: source.epoch,
            partition,
            first_offset: stored.map_or(found, |stored| stored.first_offset),
            next_offset: source.end.offset,
            complete_through_ms,
        };
        self.partitions.insert(key, next);
        self.source_partitions = self.source_partitions.max(header.source_partitions);
        self.shards = self.shards.max(header.shards);
        Ok(())
    }

    /// Returns what is to be published once everything so far is stored.
    #[must_use]
    pub fn progress(&self, shard: u32, version: u64, verdicts: VerdictsPosition) -> ShardProgress {
        ShardProgress {
            shard,
            version,
            verdicts,
            source_partitions: self.source_partitions,
            shards: self.shards,
            partitions: self.partitions.values().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use blocks::{ReceiptCounts, SourceIndex, SourceRange};

    use super::*;

    fn header(epoch: u32, partition: u32, first: u64, end: u64) -> Header {
        Header {
            version: blocks::VERSION,
            source: SourceRange {
                epoch,
                partition,
                first: SourceIndex {
                    offset: first,
                    index: 0,
                },
                end: SourceIndex { offset: end, index: 0 },
            },
            source_partitions: 2,
            shard: 0,
            shards: 1,
            shard_map_version: 0,
            shard_map: 0,
            first_appended_at_ms: 1,
            complete_through_ms: i64::try_from(end).unwrap_or(0) * 10,
            block: ReceiptCounts::default(),
            shard_counts: ReceiptCounts::default(),
            verifier: "test".to_owned(),
        }
    }

    #[test]
    fn ranges_of_a_partition_must_meet() {
        let mut sequence = Sequence::default();
        assert_eq!(
            sequence.advance(&header(1, 0, 5, 7)),
            Ok(()),
            "the first may begin anywhere"
        );
        assert_eq!(sequence.advance(&header(1, 1, 0, 3)), Ok(()));
        assert_eq!(sequence.advance(&header(1, 0, 7, 7)), Ok(()), "an idle record");
        assert_eq!(sequence.advance(&header(1, 0, 7, 9)), Ok(()));
        let gap = SequenceError::Gap {
            partition: 0,
            expected: 9,
            found: 10,
        };
        assert_eq!(sequence.advance(&header(1, 0, 10, 11)), Err(gap));
        let overlap = SequenceError::Overlap {
            partition: 1,
            expected: 3,
            found: 2,
        };
        assert_eq!(sequence.advance(&header(1, 1, 2, 3)), Err(overlap));
        let progress = sequence.progress(0, 4, VerdictsPosition::default());
        let ends: Vec<_> = progress
            .partitions
            .iter()
            .map(|one| (one.partition, one.next_offset))
            .collect();
        assert_eq!((ends, progress.source_partitions), (vec![(0, 9), (1, 3)], 2));
    }

    #[test]
    fn an_instant_that_has_not_come_ends_with_the_next_one() {
        let tomorrow = now_ms() + 86_400_000;
        let mut sequence = Sequence::new(&ShardProgress {
            partitions: vec![PartitionProgress {
                epoch: 1,
                partition: 0,
                first_offset: 0,
                next_offset: 7,
                complete_through_ms: tomorrow,
            }],
            ..ShardProgress::default()
        });
        let mut advanced = |first, end, complete_through_ms| {
            let header = Header {
                complete_through_ms,
                ..header(1, 0, first, end)
            };
            assert_eq!(sequence.advance(&header), Ok(()));
            sequence.progress(0, 1, VerdictsPosition::default()).partitions[0].complete_through_ms
        };
        assert_eq!(
            advanced(7, 8, 0),
            tomorrow,
            "nothing better is known: readers refuse it"
        );
        assert_eq!(advanced(8, 9, 500), 500);
        assert_eq!(advanced(9, 10, 0), 500);
        assert_eq!(advanced(10, 11, 400), 500, "otherwise it never falls");
    }

    #[test]
    fn a_new_epoch_replaces_the_old_one() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.advance(&header(1, 0, 0, 7)), Ok(()));
        assert_eq!(sequence.advance(&header(2, 0, 0, 1)), Ok(()));
        let progress = sequence.progress(0, 1, VerdictsPosition::default());
        assert_eq!(progress.partitions.len(), 1);
        assert_eq!(
            progress.partitions[0].complete_through_ms, 10,
            "the watermark begins again"
        );
    }
}
