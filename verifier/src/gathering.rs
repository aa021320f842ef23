//! Blocks: runs of whole records, gathered until they are full or old enough.

use std::time::Duration;

use receipt_log::LoggedRecord;
use service::instant::CLOCKS_APART_MS_MAX;
use tokio::time::Instant;

use crate::assignment::{AppendClaim, Assignments};

/// Records of one partition, polled under one claim.
#[derive(Debug)]
pub struct PartitionRecords {
    /// The claim on the partition under which the records were polled.
    pub claim: AppendClaim,
    /// In offset order, without gaps, at least one.
    pub records: Vec<LoggedRecord>,
}

/// A run of polled records, by partition.
#[derive(Debug)]
#[must_use = "polled records must be judged"]
pub struct PolledBlock {
    /// At most one element per partition.
    pub partitions: Vec<PartitionRecords>,
    /// When the first record was polled.
    pub opened: Instant,
}

impl PolledBlock {
    /// All records, partition by partition.
    pub fn records(&self) -> impl Iterator<Item = &LoggedRecord> {
        self.partitions.iter().flat_map(|part| &part.records)
    }
}

/// Waits until a block is to be closed; forever without one.
pub async fn due(due_at: Option<Instant>) {
    match due_at {
        Some(due_at) => tokio::time::sleep_until(due_at).await,
        None => std::future::pending().await,
    }
}

/// The block that is being gathered.
#[derive(Debug)]
pub struct Gathering {
    partitions: Vec<PartitionRecords>,
    records: usize,
    bytes: usize,
    opened: Option<Instant>,
    bytes_max: usize,
    records_max: usize,
    wait_max: Duration,
}

impl Gathering {
    /// An empty block with these limits.
    #[must_use]
    pub fn new(bytes_max: usize, records_max: usize, wait_max: Duration) -> Self {
        Self {
            partitions: Vec::new(),
            records: 0,
            bytes: 0,
            opened: None,
            bytes_max,
            records_max,
            wait_max,
        }
    }

    /// Adds polled records. Records of partitions that aren't assigned are left out. An arrival
    /// that is later than its append was stamped by a clock that was ahead, so the append's instant
    /// replaces it.
    pub fn add(&mut self, records: Vec<LoggedRecord>, assignments: &Assignments) {
        for mut logged in records {
            let Some(claim) = assignments.claim(logged.position.partition) else {
                continue;
            };
            if logged.record.received_at_ms > logged.appended_at_ms + CLOCKS_APART_MS_MAX {
                logged.record.received_at_ms = logged.appended_at_ms;
            }
            self.opened.get_or_insert_with(Instant::now);
            self.bytes += logged.record.body.len();
            self.records += 1;
            match self.partitions.iter_mut().find(|part| part.claim == claim) {
                Some(part) => part.records.push(logged),
                None => self.partitions.push(PartitionRecords {
                    claim,
                    records: vec![logged],
                }),
            }
        }
    }

    /// Drops the records of a revoked partition: its next owner reads them again.
    pub fn drop_partition(&mut self, partition: u32) {
        self.partitions.retain(|part| part.claim.partition != partition);
        let records = || self.partitions.iter().flat_map(|part| &part.records);
        self.bytes = records().map(|logged| logged.record.body.len()).sum();
        self.records = records().count();
        if self.records == 0 {
            self.opened = None;
        }
    }

    /// Bytes of bodies that still fit.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// Records that still fit.
    #[must_use]
    pub fn records_left(&self) -> usize {
        self.records_max.saturating_sub(self.records)
    }

    /// Whether records of a partition are gathered.
    #[must_use]
    pub fn holds(&self, claim: AppendClaim) -> bool {
        self.partitions.iter().any(|part| part.claim == claim)
    }

    /// Whether nothing more fits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes_left() == 0 || self.records_left() == 0
    }

    /// When the block is to be closed: now if it is full, `None` while it is empty.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        let opened = self.opened?;
        Some(if self.is_full() { opened } else { opened + self.wait_max })
    }

    /// Closes the block and starts the next.
    pub fn close(&mut self) -> PolledBlock {
        self.bytes = 0;
        self.records = 0;
        PolledBlock {
            partitions: std::mem::take(&mut self.partitions),
            opened: self.opened.take().unwrap_or_else(Instant::now),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use bytes::Bytes;
    use receipt_log::{Assignment, Position, Record, RecordKind};

    use super::*;

    fn logged(partition: u32, offset: u64, bytes: usize) -> LoggedRecord {
        LoggedRecord {
            position: Position {
                epoch: 1,
                partition,
                offset,
            },
            appended_at_ms: 0,
            record: Record {
                kind: RecordKind::Receipt,
                body: Bytes::from(vec![0; bytes]),
                request_signature: None,
                request_id: String::new(),
                received_at_ms: 0,
                client_address: None,
                trace: None,
            },
        }
    }

    fn assignments(partitions: &[u32]) -> Assignments {
        let mut assignments = Assignments::default();
        for &partition in partitions {
            let assignment = Assignment {
                partition,
                epoch: 1,
                next_offset: 0,
                committed: None,
                begin_offset: 0,
            };
            assignments.assign(&assignment, 0);
        }
        assignments
    }

    fn gathering() -> Gathering {
        Gathering::new(100, 4, Duration::from_secs(1))
    }

    #[test]
    fn a_block_is_due_when_it_is_old_or_full() {
        let assignments = assignments(&[0]);
        let mut gathering = gathering();
        assert!(gathering.due_at().is_none() && !gathering.is_full());
        gathering.add(vec![logged(0, 0, 60)], &assignments);
        assert_eq!((gathering.bytes_left(), gathering.records_left()), (40, 3));
        assert!(gathering.due_at().unwrap() > Instant::now());
        gathering.add(vec![logged(0, 1, 60)], &assignments);
        assert!(gathering.is_full() && gathering.due_at().unwrap() <= Instant::now());
        let block = gathering.close();
        assert_eq!(block.records().count(), 2);
        assert!(gathering.due_at().is_none() && gathering.bytes_left() == 100 && gathering.records_left() == 4);
        gathering.add((2..6).map(|offset| logged(0, offset, 0)).collect(), &assignments);
        assert!(gathering.is_full(), "four records");
    }

    #[test]
    fn records_are_gathered_by_partition_and_dropped_with_it() {
        let mut assignments = assignments(&[0, 1]);
        let mut gathering = gathering();
        let records = vec![logged(0, 4, 10), logged(1, 9, 20), logged(0, 5, 10), logged(3, 0, 10)];
        gathering.add(records, &assignments);
        assert_eq!(gathering.records_left(), 1, "partition 3 isn't assigned");
        let claim = assignments.claim(1).unwrap();
        assert!(gathering.holds(claim));
        gathering.drop_partition(1);
        assignments.revoke(1);
        assert!(!gathering.holds(claim) && gathering.bytes_left() == 80 && gathering.records_left() == 2);
        let block = gathering.close();
        let offsets: Vec<_> = block.records().map(|logged| logged.position.offset).collect();
        assert_eq!((block.partitions.len(), offsets), (1, vec![4, 5]));
    }

    #[test]
    fn no_arrival_is_later_than_its_append() {
        let mut gathering = gathering();
        let arrived = |received_at_ms| {
            let mut one = logged(0, 0, 0);
            one.record.received_at_ms = received_at_ms;
            one
        };
        let arrivals = [-900, 40, CLOCKS_APART_MS_MAX, 86_400_000].map(arrived);
        gathering.add(arrivals.into(), &assignments(&[0]));
        let block = gathering.close();
        let arrivals: Vec<_> = block.records().map(|logged| logged.record.received_at_ms).collect();
        assert_eq!(arrivals, [-900, 40, CLOCKS_APART_MS_MAX, 0]);
    }

    #[test]
    fn a_block_whose_records_are_all_dropped_is_empty_again() {
        let mut gathering = gathering();
        gathering.add(vec![logged(0, 0, 10)], &assignments(&[0]));
        gathering.drop_partition(0);
        assert!(gathering.due_at().is_none());
    }
}
