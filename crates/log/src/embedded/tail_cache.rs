//! The newest records in memory, for consumers that keep up.

use std::collections::{HashMap, VecDeque};

use crate::{
    record::{LoggedRecord, Record},
    traits::PollLimits,
};

/// Bytes that a record takes beside its body and texts, roughly.
const RECORD_OVERHEAD_BYTES: usize = 256;

/// Holds records that at least one live consumer hasn't polled. With no live consumer it holds
/// nothing, so that a gateway of its own keeps no bodies.
#[derive(Debug)]
pub(super) struct TailCache {
    records: VecDeque<LoggedRecord>,
    bytes: usize,
    bytes_max: usize,
    /// The next offset of each group's live consumer.
    positions: HashMap<String, u64>,
}

fn weight(record: &Record) -> usize {
    let texts = record.request_id.len() + record.request_signature.as_ref().map_or(0, String::len);
    record.body.len() + texts + RECORD_OVERHEAD_BYTES
}

impl TailCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            records: VecDeque::new(),
            bytes: 0,
            bytes_max,
            positions: HashMap::new(),
        }
    }

    /// Whether anyone would read what is put in.
    pub(super) fn is_read(&self) -> bool {
        !self.positions.is_empty()
    }

    /// The group's live consumer reads from `next_offset` on.
    pub(super) fn follow(&mut self, group: &str, next_offset: u64) {
        match self.positions.get_mut(group) {
            Some(position) => *position = next_offset,
            None => {
                self.positions.insert(group.to_owned(), next_offset);
            }
        }
        self.drop_polled();
    }

    /// The group has no live consumer any more.
    pub(super) fn leave(&mut self, group: &str) {
        self.positions.remove(group);
        self.drop_polled();
    }

    /// Adds the newest durable record; the oldest ones make room.
    pub(super) fn push(&mut self, record: LoggedRecord) {
        self.bytes += weight(&record.record);
        self.records.push_back(record);
        while self.bytes > self.bytes_max && self.pop_front().is_some() {}
    }

    /// The group's next records, or `None` if they have to come from the files. With one consumer
    /// they are moved out.
    pub(super) fn take(&mut self, group: &str, offset: u64, limits: PollLimits) -> Option<Vec<LoggedRecord>> {
        let first = self.records.front()?.position.offset;
        let skip = usize::try_from(offset.checked_sub(first)?).ok()?;
        let mut bytes = 0;
        let wanted = self
            .records
            .iter()
            .skip(skip)
            .take(limits.records_max.max(1))
            .take_while(|next| {
                let first = bytes == 0;
                bytes += next.record.body.len().max(1);
                first || bytes <= limits.bytes_max
            });
        let count = wanted.count();
        if count == 0 {
            return None;
        }
        let alone = self.positions.len() == 1 && skip == 0;
        let taken: Vec<_> = if alone {
            (0..count).filter_map(|_| self.pop_front()).collect()
        } else {
            self.records.iter().skip(skip).take(count).cloned().collect()
        };
        self.follow(group, offset + count as u64);
        Some(taken)
    }

    fn pop_front(&mut self) -> Option<LoggedRecord> {
        let oldest = self.records.pop_front()?;
        self.bytes -= weight(&oldest.record);
        Some(oldest)
    }

    fn drop_polled(&mut self) {
        let needed = self.positions.values().copied().min().unwrap_or(u64::MAX);
        while self
            .records
            .front()
            .is_some_and(|oldest| oldest.position.offset < needed)
        {
            self.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::time::Duration;

    use super::*;
    use crate::record::{Position, RecordKind};

    fn logged(offset: u64, body: usize) -> LoggedRecord {
        LoggedRecord {
            position: Position {
                epoch: 1,
                partition: 0,
                offset,
            },
            appended_at_ms: 0,
            record: Record {
                kind: RecordKind::Receipt,
                body: vec![b'x'; body].into(),
                request_signature: None,
                request_id: String::new(),
                received_at_ms: 0,
                client_address: None,
                trace: None,
            },
        }
    }

    fn offsets(taken: Option<Vec<LoggedRecord>>) -> Vec<u64> {
        taken
            .unwrap_or_default()
            .iter()
            .map(|record| record.position.offset)
            .collect()
    }

    const ALL: PollLimits = PollLimits {
        records_max: 100,
        bytes_max: 100_000,
        wait_max: Duration::ZERO,
    };

    #[test]
    fn keeps_the_newest_within_its_bytes_and_drops_what_all_have_polled() {
        let mut cache = TailCache::new(4 * (100 + RECORD_OVERHEAD_BYTES));
        cache.follow("a", 0);
        cache.follow("b", 0);
        (0..6).for_each(|offset| cache.push(logged(offset, 100)));
        assert!(cache.take("a", 1, ALL).is_none(), "0 and 1 had to make room");
        assert_eq!(offsets(cache.take("a", 2, ALL)), [2, 3, 4, 5]);
        assert_eq!(
            offsets(cache.take("b", 3, PollLimits { records_max: 2, ..ALL })),
            [3, 4]
        );
        assert_eq!(cache.records.len(), 1, "only 5 is still wanted");
        cache.leave("b");
        assert_eq!((cache.records.len(), cache.bytes), (0, 0));
    }

    #[test]
    fn bytes_limit_a_poll_but_never_to_nothing() {
        let mut cache = TailCache::new(usize::MAX);
        cache.follow("a", 0);
        (0..4).for_each(|offset| cache.push(logged(offset, 100)));
        assert_eq!(offsets(cache.take("a", 0, PollLimits { bytes_max: 10, ..ALL })), [0]);
        assert_eq!(
            offsets(cache.take("a", 1, PollLimits { bytes_max: 200, ..ALL })),
            [1, 2]
        );
        assert_eq!(offsets(cache.take("a", 3, ALL)), [3]);
        assert!(cache.take("a", 4, ALL).is_none());
    }
}
