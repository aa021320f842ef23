//! Admission: how many bytes of bodies may be in memory. What bounds the gateway's memory is bytes,
//! not requests.
//!
//! The budget has two parts: an eighth takes bodies up to [`SMALL_BYTES_MAX`] only, so that single
//! receipts get in while batches wait for each other. Waiting is first come, first served, and
//! short.
//!
//! Reservations follow the bytes that have arrived (`body`): while a body is short, at most twice
//! as much. When more than [`SMALL_BYTES_MAX`] of it is here, all of its declared length is
//! reserved at once: large bodies that grew in steps would hold parts of the budget while they wait
//! for each other's. A reservation that can't grow within the wait is given up (503), so nobody
//! waits for ever, and as long as bodies end, the next in line gets in.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::buffer::{Buffers, SMALL_BYTES_MAX};

/// The budget. Shared.
#[derive(Debug)]
pub(crate) struct Admission {
    small: Semaphore,
    large: Semaphore,
    bytes_max: usize,
    wait_max: Duration,
    buffers: Arc<Buffers>,
}

/// The budget had no room within the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetFull;

/// Part of the budget, by the size of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetPart {
    Small,
    Large,
}

/// Bytes taken from the budget, given back when dropped. It travels with the memory it represents.
#[derive(Debug)]
pub(crate) struct Reservation {
    admission: Arc<Admission>,
    part: BudgetPart,
    bytes: usize,
}

impl Admission {
    pub(crate) fn new(bytes_max: usize, wait_max: Duration) -> Self {
        let small = bytes_max / 8;
        Self {
            small: Semaphore::new(small),
            large: Semaphore::new(bytes_max - small),
            bytes_max,
            wait_max,
            buffers: Arc::default(),
        }
    }

    /// Buffers of the reserved memory.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// Number of bytes that are taken now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_max
            .saturating_sub(self.small.available_permits() + self.large.available_permits())
    }

    /// Longest time that a request may wait for its share.
    pub(crate) fn wait_max(&self) -> Duration {
        self.wait_max
    }

    /// Reserves nothing yet, to grow with a body of at most `bytes_max`. A longer one takes nothing
    /// from the part of small ones, not even at its beginning: it may have to wait with that in
    /// hand.
    pub(crate) fn begin(self: &Arc<Self>, bytes_max: usize) -> Reservation {
        Reservation {
            admission: Arc::clone(self),
            part: if bytes_max <= SMALL_BYTES_MAX {
                BudgetPart::Small
            } else {
                BudgetPart::Large
            },
            bytes: 0,
        }
    }

    /// Takes `bytes`, after a wait if need be.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, BudgetFull> {
        let taken = |part| Reservation {
            admission: Arc::clone(self),
            part,
            bytes,
        };
        if bytes <= SMALL_BYTES_MAX && self.take_now(BudgetPart::Small, bytes) {
            return Ok(taken(BudgetPart::Small));
        }
        self.take(BudgetPart::Large, bytes)
            .await
            .map(|()| taken(BudgetPart::Large))
    }

    fn part(&self, part: BudgetPart) -> &Semaphore {
        match part {
            BudgetPart::Small => &self.small,
            BudgetPart::Large => &self.large,
        }
    }

    fn take_now(&self, part: BudgetPart, bytes: usize) -> bool {
        let Ok(permits) = u32::try_from(bytes) else {
            return false;
        };
        self.part(part)
            .try_acquire_many(permits)
            .map(tokio::sync::SemaphorePermit::forget)
            .is_ok()
    }

    async fn take(&self, part: BudgetPart, bytes: usize) -> Result<(), BudgetFull> {
        if self.take_now(part, bytes) {
            return Ok(());
        }
        let permits = u32::try_from(bytes).map_err(|_| BudgetFull)?;
        match tokio::time::timeout(self.wait_max, self.part(part).acquire_many(permits)).await {
            Ok(Ok(permit)) => {
                permit.forget();
                Ok(())
            }
            _ => Err(BudgetFull),
        }
    }

    fn give_back(&self, part: BudgetPart, bytes: usize) {
        self.part(part).add_permits(bytes);
    }
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The budget it is from.
    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Raises it to `bytes` in all, after a wait if need be.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), BudgetFull> {
        if self.try_grow(bytes) {
            return Ok(());
        }
        // What is held already counts as waiting time well spent: a part of Large is added to, not
        // requested again.
        let more = if self.part == BudgetPart::Large {
            bytes - self.bytes
        } else {
            bytes
        };
        self.admission.take(BudgetPart::Large, more).await?;
        self.moved_to_large(bytes);
        Ok(())
    }

    /// Raises it to `bytes` in all, if that is possible at once.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return true;
        };
        if self.part == BudgetPart::Small && bytes <= SMALL_BYTES_MAX {
            if !self.admission.take_now(BudgetPart::Small, more) {
                return false;
            }
            self.bytes = bytes;
            return true;
        }
        let more = if self.part == BudgetPart::Large { more } else { bytes };
        let taken = self.admission.take_now(BudgetPart::Large, more);
        if taken {
            self.moved_to_large(bytes);
        }
        taken
    }

    /// Lowers it to `bytes`, if it is more.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if let Some(less) = self.bytes.checked_sub(bytes) {
            self.admission.give_back(self.part, less);
            self.bytes = bytes;
        }
    }

    fn moved_to_large(&mut self, bytes: usize) {
        if self.part == BudgetPart::Small {
            self.admission.give_back(BudgetPart::Small, self.bytes);
            self.part = BudgetPart::Large;
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.admission.give_back(self.part, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const MIB: usize = 1 << 20;

    fn budget() -> Arc<Admission> {
        Arc::new(Admission::new(8 * MIB, Duration::from_millis(20)))
    }

    #[tokio::test]
    async fn what_is_dropped_is_given_back() {
        let budget = budget();
        let small = budget.reserve(1_000).await.unwrap();
        let large = budget.reserve(3 * MIB).await.unwrap();
        assert_eq!(budget.bytes(), 1_000 + 3 * MIB);
        drop((small, large));
        assert_eq!(budget.bytes(), 0);
    }

    #[tokio::test]
    async fn large_bodies_cannot_take_the_part_of_small_ones() {
        let budget = budget();
        let all = budget.reserve(7 * MIB).await.unwrap();
        assert_eq!(budget.reserve(SMALL_BYTES_MAX + 1).await.unwrap_err(), BudgetFull);
        let receipts: Vec<_> = {
            let mut taken = Vec::new();
            while let Ok(one) = budget.reserve(SMALL_BYTES_MAX).await {
                taken.push(one);
            }
            taken
        };
        assert_eq!(receipts.len(), MIB / SMALL_BYTES_MAX);
        assert_eq!(budget.bytes(), 8 * MIB);
        drop((all, receipts));
        assert_eq!(budget.bytes(), 0);
    }

    #[tokio::test]
    async fn growing_moves_from_small_to_large_and_shrinking_gives_back() {
        let budget = budget();
        let mut one = budget.reserve(1_000).await.unwrap();
        one.grow(SMALL_BYTES_MAX).await.unwrap();
        assert_eq!((one.part, budget.bytes()), (BudgetPart::Small, SMALL_BYTES_MAX));
        one.grow(2 * MIB).await.unwrap();
        assert_eq!((one.part, budget.bytes()), (BudgetPart::Large, 2 * MIB));
        one.grow(3 * MIB).await.unwrap();
        assert_eq!((one.bytes(), budget.bytes()), (3 * MIB, 3 * MIB));
        assert!(!one.try_grow(8 * MIB));
        assert_eq!(one.grow(8 * MIB).await, Err(BudgetFull));
        one.shrink(10);
        assert_eq!(budget.bytes(), 10);
        drop(one);
        assert_eq!(budget.bytes(), 0);
    }

    #[tokio::test]
    async fn what_will_be_large_leaves_the_part_of_small_ones_alone_from_its_first_byte() {
        let budget = budget();
        let _all = budget.reserve(7 * MIB).await.unwrap();
        let mut large = budget.begin(SMALL_BYTES_MAX + 1);
        assert!(!large.try_grow(1));
        let mut small = budget.begin(SMALL_BYTES_MAX);
        assert!(small.try_grow(1) && small.try_grow(SMALL_BYTES_MAX));
        assert_eq!(budget.bytes(), 7 * MIB + SMALL_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_waiting_one_is_served_when_room_comes() {
        let budget = Arc::new(Admission::new(8 * MIB, Duration::from_secs(60)));
        let first = budget.reserve(7 * MIB).await.unwrap();
        let second = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.reserve(MIB).await.map(|taken| taken.bytes()) }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert_eq!(second.await.unwrap(), Ok(MIB));
        assert_eq!(budget.bytes(), 0);
    }
}
