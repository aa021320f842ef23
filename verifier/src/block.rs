//! Blocks: runs of whole records, gathered until they are full or old enough.

use std::collections::HashMap;
use std::time::Duration;

use receipt_log::{Assignment, LoggedRecord};
use tokio::time::Instant;

/// A run of records on its way through the pipeline, with the claim on each partition it rests on.
#[derive(Debug)]
pub struct Block {
    /// In offset order within each partition, without gaps.
    pub records: Vec<LoggedRecord>,
    /// When its first record was polled.
    pub opened: Instant,
    /// The claims under which its records were polled, by partition.
    pub claims: HashMap<u32, u64>,
}

/// Which partitions are ours. Each assignment is a claim with a number of its own, so that a block
/// polled before a partition went away and came back is never committed under the new claim.
#[derive(Debug, Default)]
pub struct Claims {
    by_partition: HashMap<u32, u64>,
    last: u64,
}

impl Claims {
    /// Takes a newly assigned partition.
    pub fn assign(&mut self, assignment: &Assignment) {
        self.last += 1;
        self.by_partition.insert(assignment.partition, self.last);
    }

    /// Gives a partition up.
    pub fn revoke(&mut self, partition: u32) {
        self.by_partition.remove(&partition);
    }

    /// Whether a block polled under `claim` may still be committed.
    #[must_use]
    pub fn holds(&self, partition: u32, claim: u64) -> bool {
        self.by_partition.get(&partition) == Some(&claim)
    }

    /// The current claim on a partition.
    #[must_use]
    pub fn of(&self, partition: u32) -> Option<u64> {
        self.by_partition.get(&partition).copied()
    }
}

/// The block being gathered.
#[derive(Debug)]
pub struct Gathering {
    records: Vec<LoggedRecord>,
    claims: HashMap<u32, u64>,
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
            records: Vec::new(),
            claims: HashMap::new(),
            bytes: 0,
            opened: None,
            bytes_max,
            records_max,
            wait_max,
        }
    }

    /// Adds polled records; those of partitions that aren't ours are left out.
    pub fn add(&mut self, records: Vec<LoggedRecord>, claims: &Claims) {
        for logged in records {
            let partition = logged.position.partition;
            let Some(claim) = claims.of(partition) else { continue };
            self.claims.insert(partition, claim);
            self.opened.get_or_insert_with(Instant::now);
            self.bytes += logged.record.body.len();
            self.records.push(logged);
        }
    }

    /// Drops what was gathered from a partition that went away: its next owner reads it again.
    pub fn forget(&mut self, partition: u32) {
        self.records.retain(|logged| logged.position.partition != partition);
        self.claims.remove(&partition);
        self.bytes = self.records.iter().map(|logged| logged.record.body.len()).sum();
        if self.records.is_empty() {
            self.opened = None;
        }
    }

    /// How many bytes of bodies still fit.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// How many records still fit.
    #[must_use]
    pub fn records_left(&self) -> usize {
        self.records_max.saturating_sub(self.records.len())
    }

    /// No room for more.
    #[must_use]
    pub fn full(&self) -> bool {
        self.bytes_left() == 0 || self.records_left() == 0
    }

    /// Nothing gathered yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How long until this block must be closed; `None` while it is empty.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.opened.map(|opened| self.wait_max.saturating_sub(opened.elapsed()))
    }

    /// Full or old enough to be closed.
    #[must_use]
    pub fn due(&self) -> bool {
        !self.is_empty() && (self.full() || self.time_left() == Some(Duration::ZERO))
    }

    /// Closes the block and starts the next.
    pub fn close(&mut self) -> Block {
        self.bytes = 0;
        Block {
            records: std::mem::take(&mut self.records),
            claims: std::mem::take(&mut self.claims),
            opened: self.opened.take().unwrap_or_else(Instant::now),
        }
    }
}
