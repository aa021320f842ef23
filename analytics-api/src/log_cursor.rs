//! Cursors over the log `receipts`: a position in each of its partitions.
//!
//! Positions of one partition are stored in order, but partitions advance independently. So only a
//! position per partition says what has been seen.

use std::collections::BTreeMap;
use std::ops::Range;

use cursors::{LOG_PARTITIONS_MAX, LogPositions};
use warehouse::{LogRanges, ShardProgress};
use web::params::InvalidQuery;

/// Source records of a partition that are searched at most, back from its newest.
const RECORDS_BACK_MAX: u64 = 1_000_000;

/// Bits of an index in a record, and of an offset.
const INDEX_BITS: u32 = 16;
const OFFSET_BITS: u32 = 48;

/// The next position of each partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogCursor(LogPositions);

/// Ranges to search, and whether older positions are left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) ranges: LogRanges,
    pub(crate) is_truncated: bool,
}

/// The parts of a position.
pub(crate) fn parts(position: u128) -> (u32, u32, u64, u16) {
    // Each part is what the mask leaves.
    #[allow(clippy::cast_possible_truncation)]
    let (epoch, partition, low) = ((position >> 96) as u32, (position >> 64) as u32, position as u64);
    #[allow(clippy::cast_possible_truncation)]
    let index = low as u16;
    (epoch, partition, low >> INDEX_BITS, index)
}

fn position((epoch, partition): (u32, u32), low: u64) -> u128 {
    u128::from(epoch) << 96 | u128::from(partition) << 64 | u128::from(low)
}

impl LogCursor {
    /// Reads the parameter `after`.
    ///
    /// # Errors
    /// The text isn't a cursor of this list.
    pub(crate) fn read(text: &str) -> Result<Self, InvalidQuery> {
        let invalid = || InvalidQuery::new("after", "not a cursor of this list: hand back one that came with it");
        LogPositions::parse(text).map(Self).ok_or_else(invalid)
    }

    /// Formats the cursor.
    pub(crate) fn to_text(&self) -> String {
        self.0.to_text()
    }

    /// Ranges that are published behind this cursor. The cursor then has every partition.
    pub(crate) fn search(&mut self, shards: &[ShardProgress]) -> Search {
        let (mut ranges, mut is_truncated) = (Vec::new(), false);
        for (key, next_offset) in published(shards).into_iter().take(LOG_PARTITIONS_MAX) {
            let end = next_offset << INDEX_BITS;
            let oldest = next_offset.saturating_sub(RECORDS_BACK_MAX) << INDEX_BITS;
            let seen = self.0.0.entry(key).or_insert(oldest);
            is_truncated |= *seen < oldest;
            // A cursor may be ahead of a reading by another replica.
            *seen = (*seen).max(oldest);
            let range: Range<u128> = position(key, *seen)..position(key, end);
            if range.start < range.end {
                ranges.push(range);
            }
        }
        Search {
            ranges: LogRanges(ranges),
            is_truncated,
        }
    }

    /// Moves behind an occurrence.
    pub(crate) fn pass(&mut self, position: u128) {
        let (epoch, partition, offset, index) = parts(position);
        let low = (offset << INDEX_BITS | u64::from(index)).saturating_add(1);
        let seen = self.0.0.entry((epoch, partition)).or_default();
        *seen = (*seen).max(low);
    }

    /// Moves to the ends of ranges, up to `next` where not everything was searched.
    pub(crate) fn finish(&mut self, ranges: &LogRanges, next: Option<u128>) {
        for range in &ranges.0 {
            let end = next.map_or(range.end, |next| range.end.min(next.max(range.start)));
            if end > range.start {
                self.pass(end - 1);
            }
        }
    }
}

/// Offsets below which everything is stored in all shards, by epoch and partition.
fn published(shards: &[ShardProgress]) -> BTreeMap<(u32, u32), u64> {
    let mut published = BTreeMap::new();
    for one in shards.iter().flat_map(|shard| &shard.partitions) {
        let next_offset = one.next_offset.min((1 << OFFSET_BITS) - 1);
        let least = published.entry((one.epoch, one.partition)).or_insert(next_offset);
        *least = next_offset.min(*least);
    }
    published
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use warehouse::PartitionProgress;

    use super::*;

    fn shard(partitions: &[(u32, u64)]) -> ShardProgress {
        let progress = |&(partition, next_offset): &(u32, u64)| PartitionProgress {
            epoch: 1,
            partition,
            first_offset: 0,
            next_offset,
            complete_through_ms: 1,
        };
        ShardProgress {
            partitions: partitions.iter().map(progress).collect(),
            ..ShardProgress::default()
        }
    }

    fn at(partition: u32, offset: u64, index: u64) -> u128 {
        position((1, partition), offset << INDEX_BITS | index)
    }

    #[test]
    fn pages_meet_without_gap_or_overlap() {
        let shards = [shard(&[(0, 10), (1, 5)]), shard(&[(0, 8), (1, 7)])];
        let mut cursor = LogCursor::default();
        let search = cursor.search(&shards);
        // The least of both shards.
        assert_eq!(search.ranges.0, [at(0, 0, 0)..at(0, 8, 0), at(1, 0, 0)..at(1, 5, 0)]);
        assert!(!search.is_truncated);
        // A page that ends within the first partition.
        cursor.pass(at(0, 3, 2));
        cursor.finish(&search.ranges, Some(at(0, 3, 3)));
        let mut cursor = LogCursor::read(&cursor.to_text()).unwrap();
        let search = cursor.search(&shards);
        assert_eq!(search.ranges.0, [at(0, 3, 3)..at(0, 8, 0), at(1, 0, 0)..at(1, 5, 0)]);
        // One that ends within the second.
        cursor.finish(&search.ranges, Some(at(1, 2, 0)));
        let search = cursor.search(&shards);
        assert_eq!(
            (search.ranges.0.len(), &search.ranges.0[0]),
            (1, &(at(1, 2, 0)..at(1, 5, 0)))
        );
        cursor.finish(&search.ranges, None);
        assert_eq!(cursor.search(&shards).ranges.0, []);
        // New records, and a partition that was added.
        let shards = [shard(&[(0, 9), (1, 5), (2, 1)])];
        assert_eq!(
            cursor.search(&shards).ranges.0,
            [at(0, 8, 0)..at(0, 9, 0), at(2, 0, 0)..at(2, 1, 0)]
        );
    }

    #[test]
    fn what_is_far_back_is_left_out() {
        let shards = [shard(&[(0, RECORDS_BACK_MAX + 5)])];
        let mut first = LogCursor::default();
        let search = first.search(&shards);
        assert_eq!((search.ranges.0[0].start, search.is_truncated), (at(0, 5, 0), false));
        let mut old = LogCursor::default();
        old.pass(at(0, 1, 0));
        let search = old.search(&shards);
        assert_eq!((search.ranges.0[0].start, search.is_truncated), (at(0, 5, 0), true));
    }
}
