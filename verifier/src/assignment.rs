//! The partitions of `receipts` that this verifier owns.

use std::collections::HashMap;

use receipt_log::Assignment;
use tokio::time::Instant;

/// The right to append verdicts for a partition. Each assignment has a number of its own, so that
/// records polled before a partition was revoked and assigned again are never appended under the
/// new assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AppendClaim {
    /// The partition.
    pub partition: u32,
    /// The number of the assignment in this process.
    pub number: u64,
}

#[derive(Debug)]
struct OwnedPartition {
    claim: AppendClaim,
    epoch: u32,
    /// Offset behind the last record whose verdict is stored.
    appended: u64,
    /// Blocks of this partition between polling and appending.
    in_flight: usize,
    complete_through_ms: i64,
    idle_at: Option<Instant>,
}

/// A partition whose records all have stored verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The claim on it.
    pub claim: AppendClaim,
    /// The epoch of the log.
    pub epoch: u32,
    /// Offset behind the last record whose verdict is stored.
    pub next_offset: u64,
    /// Instant that the partition's last appended record states.
    pub complete_through_ms: i64,
    /// When the last idle record was appended.
    pub idle_at: Option<Instant>,
}

/// The partitions that are assigned.
#[derive(Debug, Default)]
pub struct Assignments {
    owned: HashMap<u32, OwnedPartition>,
    last: u64,
}

impl Assignments {
    /// Takes a newly assigned partition, whose reading continues at `next_offset`.
    pub fn assign(&mut self, assignment: &Assignment, next_offset: u64) {
        self.last += 1;
        let claim = AppendClaim {
            partition: assignment.partition,
            number: self.last,
        };
        let owned = OwnedPartition {
            claim,
            epoch: assignment.epoch,
            appended: next_offset,
            in_flight: 0,
            complete_through_ms: 0,
            idle_at: None,
        };
        self.owned.insert(assignment.partition, owned);
    }

    /// Gives a partition up.
    pub fn revoke(&mut self, partition: u32) {
        self.owned.remove(&partition);
    }

    /// The current claim on a partition.
    #[must_use]
    pub fn claim(&self, partition: u32) -> Option<AppendClaim> {
        self.owned.get(&partition).map(|owned| owned.claim)
    }

    /// Whether verdicts of records that were polled under `claim` may still be appended.
    #[must_use]
    pub fn holds(&self, claim: AppendClaim) -> bool {
        self.claim(claim.partition) == Some(claim)
    }

    /// Counts a block of the partition that leaves for judging.
    pub fn began(&mut self, claim: AppendClaim) {
        if let Some(owned) = self.current(claim) {
            owned.in_flight += 1;
        }
    }

    /// Counts a block of the partition whose verdicts are stored up to `next_offset`.
    pub fn appended(&mut self, claim: AppendClaim, next_offset: u64, complete_through_ms: i64) {
        if let Some(owned) = self.current(claim) {
            owned.in_flight = owned.in_flight.saturating_sub(1);
            owned.appended = next_offset;
            owned.complete_through_ms = complete_through_ms;
        }
    }

    /// Notes that an idle record of the partition is being appended.
    pub fn began_idle(&mut self, claim: AppendClaim) {
        self.began(claim);
        if let Some(owned) = self.current(claim) {
            owned.idle_at = Some(Instant::now());
        }
    }

    /// The partition's position if none of its blocks is between polling and appending.
    #[must_use]
    pub fn settled(&self, partition: u32) -> Option<Settled> {
        let owned = self.owned.get(&partition).filter(|owned| owned.in_flight == 0)?;
        Some(Settled {
            claim: owned.claim,
            epoch: owned.epoch,
            next_offset: owned.appended,
            complete_through_ms: owned.complete_through_ms,
            idle_at: owned.idle_at,
        })
    }

    fn current(&mut self, claim: AppendClaim) -> Option<&mut OwnedPartition> {
        self.owned
            .get_mut(&claim.partition)
            .filter(|owned| owned.claim == claim)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn assigned(next_offset: u64) -> Assignments {
        let mut assignments = Assignments::default();
        assignments.assign(&assignment(), next_offset);
        assignments
    }

    fn assignment() -> Assignment {
        Assignment {
            partition: 2,
            epoch: 7,
            next_offset: 0,
            committed: None,
            begin_offset: 0,
        }
    }

    #[test]
    fn a_claim_ends_with_its_assignment() {
        let mut assignments = assigned(0);
        let claim = assignments.claim(2).unwrap();
        assert!(assignments.holds(claim));
        assignments.revoke(2);
        assert!(!assignments.holds(claim) && assignments.claim(2).is_none() && assignments.settled(2).is_none());
        assignments.assign(&assignment(), 0);
        assert!(!assignments.holds(claim), "the same partition, under another claim");
        assert!(assignments.holds(assignments.claim(2).unwrap()));
    }

    #[test]
    fn a_partition_is_settled_while_no_block_is_in_flight() {
        let mut assignments = assigned(5);
        let claim = assignments.claim(2).unwrap();
        assert_eq!(assignments.settled(2).unwrap().next_offset, 5);
        assignments.began(claim);
        assignments.began(claim);
        assignments.appended(claim, 6, 100);
        assert!(assignments.settled(2).is_none());
        assignments.appended(claim, 9, 90);
        let settled = assignments.settled(2).unwrap();
        assert_eq!(
            (settled.epoch, settled.next_offset, settled.complete_through_ms),
            (7, 9, 90),
            "a clock that was set back"
        );
        assert!(settled.idle_at.is_none());
        assignments.began_idle(claim);
        assert!(assignments.settled(2).is_none());
        assignments.appended(claim, 9, 120);
        let settled = assignments.settled(2).unwrap();
        assert!(settled.idle_at.is_some() && settled.complete_through_ms == 120);
    }

    #[test]
    fn blocks_of_an_earlier_claim_change_nothing() {
        let mut assignments = assigned(5);
        let claim = assignments.claim(2).unwrap();
        assignments.assign(&assignment(), 7);
        assignments.began(claim);
        assignments.appended(claim, 100, 100);
        let settled = assignments.settled(2).unwrap();
        assert_eq!((settled.next_offset, settled.complete_through_ms), (7, 0));
    }
}
