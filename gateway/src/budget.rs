//! The budget of bytes: how many bytes of bodies and of long answers may be in memory, in all and
//! of one address. What bounds the gateway's memory is bytes, not requests.
//!
//! **In all.** An eighth takes bodies up to [`SMALL_BYTES_MAX`] only, so that single receipts get
//! in while batches wait for each other. Waiting is first come, first served, and short. A body
//! reserves what has arrived (`body`): while it is short, at most twice as much. When more than
//! [`SMALL_BYTES_MAX`] of it is here, all of its declared length is reserved at once: large bodies
//! that grew in steps would hold parts of the budget while they wait for each other's. A
//! reservation that can't grow within the wait is given up (503), so nobody waits for ever, and as
//! long as bodies end, the next in line gets in.
//!
//! **Of one address.** An address may hold a share of the unfinished exchanges (a body that isn't
//! whole, an answer that isn't read) and of their bytes. What has arrived whole is no longer its
//! sender's doing, and isn't charged: so most requests, which come in one piece, cost no account;
//! an eighth of all requests is for them, however many addresses leave theirs unfinished. A trusted
//! proxy's connection carries requests of many addresses, so each request charges its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_server::config::address_share;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::buffer::{Buffers, SMALL_BYTES_MAX};
use crate::config::GatewayConfig;

/// Why bytes aren't reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetFull {
    /// The address, or all of them, leave as much unfinished as they may.
    Address,
    /// The budget had no room within the wait.
    Bytes,
}

/// The budget, which all connections share.
#[derive(Debug)]
pub(crate) struct FairBudget {
    /// Bytes left for small bodies.
    small: Semaphore,
    /// Bytes left for any body.
    large: Semaphore,
    bytes_max: usize,
    wait_max: Duration,
    unfinished_max: usize,
    address_unfinished_max: usize,
    address_bytes_max: usize,
    unfinished: Mutex<UnfinishedExchanges>,
    buffers: Arc<Buffers>,
}

/// Exchanges that their addresses haven't finished.
#[derive(Debug, Default)]
struct UnfinishedExchanges {
    count: usize,
    by_address: HashMap<u128, AddressAccount>,
}

/// Unfinished exchanges and bytes of one address (IPv6: one /64).
#[derive(Debug)]
struct AddressAccount {
    unfinished: usize,
    /// Bytes left to it.
    bytes: Arc<Semaphore>,
}

/// Bytes of the budget, given back when dropped. It travels with the memory it represents.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<FairBudget>,
    /// Whether it may begin in the part for small bodies.
    takes_small: bool,
    small: usize,
    large: usize,
    charged: Option<Charged>,
}

/// Bytes of a reservation in the account of an address.
#[derive(Debug)]
struct Charged {
    address: u128,
    account: Arc<Semaphore>,
    bytes: usize,
}

/// A text on its way out.
struct Unsent {
    text: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl FairBudget {
    pub(crate) fn new(config: &GatewayConfig) -> Self {
        let (bytes_max, requests_max) = (config.inflight_bytes_max, config.requests_max);
        Self {
            small: Semaphore::new(bytes_max / 8),
            large: Semaphore::new(bytes_max - bytes_max / 8),
            bytes_max,
            wait_max: config.inflight_wait(),
            unfinished_max: (requests_max - requests_max / 8).max(1),
            address_unfinished_max: address_share(requests_max, config.address_share_percent_max),
            address_bytes_max: address_share(bytes_max, config.address_share_percent_max),
            unfinished: Mutex::default(),
            buffers: Arc::default(),
        }
    }

    /// Buffers of the reserved memory.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// Number of bytes that are reserved now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_max
            .saturating_sub(self.small.available_permits() + self.large.available_permits())
    }

    /// Reserves nothing yet, to grow with a body of at most `bytes_max`. A longer one takes nothing
    /// from the part of small ones, not even at its beginning: it may have to wait with that in
    /// hand.
    pub(crate) fn begin(self: &Arc<Self>, bytes_max: usize) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            takes_small: bytes_max <= SMALL_BYTES_MAX,
            small: 0,
            large: 0,
            charged: None,
        }
    }

    /// Reserves `bytes`, after a wait if need be.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation, BudgetFull> {
        let mut reservation = self.begin(bytes);
        reservation.grow(bytes).await?;
        Ok(reservation)
    }

    /// Reserves `bytes` that `address` is to read. They must fit into its account at once.
    pub(crate) async fn reserve_for(self: &Arc<Self>, address: u128, bytes: usize) -> Result<Reservation, BudgetFull> {
        let mut reservation = self.begin(bytes);
        reservation.charge(address)?;
        if !reservation.try_charge(bytes) {
            return Err(BudgetFull::Address);
        }
        reservation.grow(bytes).await?;
        Ok(reservation)
    }

    /// Counts a further unfinished exchange of an address. Returns the address's account.
    fn open(&self, address: u128) -> Result<Arc<Semaphore>, BudgetFull> {
        let mut unfinished = self.unfinished.lock();
        if unfinished.count >= self.unfinished_max {
            return Err(BudgetFull::Address);
        }
        let account = unfinished.by_address.entry(address).or_insert_with(|| AddressAccount {
            unfinished: 0,
            bytes: Arc::new(Semaphore::new(self.address_bytes_max)),
        });
        if account.unfinished >= self.address_unfinished_max {
            return Err(BudgetFull::Address);
        }
        account.unfinished += 1;
        let bytes = Arc::clone(&account.bytes);
        unfinished.count += 1;
        Ok(bytes)
    }

    fn close(&self, address: u128) {
        let mut unfinished = self.unfinished.lock();
        unfinished.count -= 1;
        if let Entry::Occupied(mut account) = unfinished.by_address.entry(address) {
            account.get_mut().unfinished -= 1;
            if account.get().unfinished == 0 {
                account.remove();
            }
        }
    }
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.small + self.large
    }

    /// The budget it is from.
    pub(crate) fn budget(&self) -> &Arc<FairBudget> {
        &self.budget
    }

    /// Whether an address is charged with it.
    pub(crate) fn is_charged(&self) -> bool {
        self.charged.is_some()
    }

    /// Counts an unfinished exchange of an address, whose account each growth is charged to from
    /// here until [`Reservation::settle`].
    pub(crate) fn charge(&mut self, address: u128) -> Result<(), BudgetFull> {
        let account = self.budget.open(address)?;
        self.charged = Some(Charged {
            address,
            account,
            bytes: 0,
        });
        Ok(())
    }

    /// Raises what the account is charged with, if there is one.
    fn try_charge(&mut self, bytes: usize) -> bool {
        let charged = self.charged.as_mut();
        charged.is_none_or(|charged| try_raise(&charged.account, &mut charged.bytes, bytes))
    }

    /// Raises it to `bytes` in all, if that is possible at once.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        if !self.try_charge(bytes) {
            return false;
        }
        if self.takes_small && self.large == 0 && bytes <= SMALL_BYTES_MAX {
            return try_raise(&self.budget.small, &mut self.small, bytes);
        }
        let grown = try_raise(&self.budget.large, &mut self.large, bytes);
        if grown {
            self.shrink_small(0);
        }
        grown
    }

    /// Raises it to `bytes` in all, after a wait if need be.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), BudgetFull> {
        if self.try_grow(bytes) {
            return Ok(());
        }
        let wait_max = self.budget.wait_max;
        let grown = timeout(wait_max, self.wait_for(bytes)).await;
        grown.unwrap_or(Err(BudgetFull::Bytes))
    }

    async fn wait_for(&mut self, bytes: usize) -> Result<(), BudgetFull> {
        if let Some(charged) = &mut self.charged {
            raise(&charged.account, &mut charged.bytes, bytes).await?;
        }
        if !self.try_grow(bytes) {
            raise(&self.budget.large, &mut self.large, bytes).await?;
            self.shrink_small(0);
        }
        Ok(())
    }

    /// Lowers it to `bytes`, of which nothing is its sender's doing any more.
    pub(crate) fn settle(&mut self, bytes: usize) {
        if let Some(charged) = self.charged.take() {
            charged.account.add_permits(charged.bytes);
            self.budget.close(charged.address);
        }
        self.shrink_small(bytes);
        if let Some(less) = self.large.checked_sub(bytes) {
            self.budget.large.add_permits(less);
            self.large = bytes;
        }
    }

    /// The body of an answer, which holds this reservation until it is sent.
    pub(crate) fn holding(self, text: Vec<u8>) -> Bytes {
        Bytes::from_owner(Unsent {
            text,
            _reservation: self,
        })
    }

    fn shrink_small(&mut self, bytes: usize) {
        if let Some(less) = self.small.checked_sub(bytes) {
            self.budget.small.add_permits(less);
            self.small = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.settle(0);
    }
}

/// Raises what is `taken` of a part to `bytes`, if that is possible at once.
fn try_raise(part: &Semaphore, taken: &mut usize, bytes: usize) -> bool {
    let Some(more) = bytes.checked_sub(*taken) else {
        return true;
    };
    let permits = u32::try_from(more).ok();
    let Some(Ok(permits)) = permits.map(|permits| part.try_acquire_many(permits)) else {
        return false;
    };
    permits.forget();
    *taken = bytes;
    true
}

/// Raises what is `taken` of a part to `bytes`, after a wait that the caller bounds.
async fn raise(part: &Semaphore, taken: &mut usize, bytes: usize) -> Result<(), BudgetFull> {
    let more = bytes.saturating_sub(*taken);
    let permits = u32::try_from(more).map_err(|_| BudgetFull::Bytes)?;
    let permits = part.acquire_many(permits).await.map_err(|_| BudgetFull::Bytes)?;
    permits.forget();
    *taken += more;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const MIB: usize = 1 << 20;

    /// A budget whose reservations wait for at most `wait_ms`.
    fn budget(wait_ms: u64) -> Arc<FairBudget> {
        Arc::new(FairBudget::new(&GatewayConfig {
            inflight_bytes_max: 8 * MIB,
            inflight_wait_ms_max: wait_ms,
            requests_max: 4,
            address_share_percent_max: 50,
            ..GatewayConfig::default()
        }))
    }

    #[tokio::test]
    async fn what_is_dropped_is_given_back() {
        let budget = budget(20);
        let small = budget.reserve(1_000).await.unwrap();
        let large = budget.reserve(3 * MIB).await.unwrap();
        assert_eq!(budget.bytes(), 1_000 + 3 * MIB);
        drop((small, large));
        assert_eq!(budget.bytes(), 0);
    }

    #[tokio::test]
    async fn large_bodies_cannot_take_the_part_of_small_ones() {
        let budget = budget(20);
        let all = budget.reserve(7 * MIB).await.unwrap();
        assert_eq!(
            budget.reserve(SMALL_BYTES_MAX + 1).await.unwrap_err(),
            BudgetFull::Bytes
        );
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
    async fn growing_moves_from_small_to_large_and_settling_gives_back() {
        let budget = budget(20);
        let mut one = budget.reserve(1_000).await.unwrap();
        one.grow(SMALL_BYTES_MAX).await.unwrap();
        assert_eq!((one.small, budget.bytes()), (SMALL_BYTES_MAX, SMALL_BYTES_MAX));
        one.grow(2 * MIB).await.unwrap();
        assert_eq!((one.small, one.large, budget.bytes()), (0, 2 * MIB, 2 * MIB));
        one.grow(3 * MIB).await.unwrap();
        assert_eq!((one.bytes(), budget.bytes()), (3 * MIB, 3 * MIB));
        assert!(!one.try_grow(8 * MIB));
        assert_eq!(one.grow(8 * MIB).await, Err(BudgetFull::Bytes));
        one.settle(10);
        assert_eq!(budget.bytes(), 10);
        drop(one);
        assert_eq!(budget.bytes(), 0);
    }

    #[tokio::test]
    async fn what_will_be_large_leaves_the_part_of_small_ones_alone_from_its_first_byte() {
        let budget = budget(20);
        let _all = budget.reserve(7 * MIB).await.unwrap();
        let mut large = budget.begin(SMALL_BYTES_MAX + 1);
        assert!(!large.try_grow(1));
        let mut small = budget.begin(SMALL_BYTES_MAX);
        assert!(small.try_grow(1) && small.try_grow(SMALL_BYTES_MAX));
        assert_eq!(budget.bytes(), 7 * MIB + SMALL_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_waiting_one_is_served_when_room_comes() {
        let budget = budget(60_000);
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

    /// An unfinished exchange of an address, of no bytes yet.
    fn begin(budget: &Arc<FairBudget>, address: u128) -> Result<Reservation, BudgetFull> {
        let mut reservation = budget.begin(8 * MIB);
        reservation.charge(address).map(|()| reservation)
    }

    #[tokio::test]
    async fn all_of_one_address_share_an_account_of_what_is_unfinished() {
        let budget = budget(20);
        let (mut first, second) = (begin(&budget, 1).unwrap(), begin(&budget, 1).unwrap());
        assert_eq!(begin(&budget, 1).unwrap_err(), BudgetFull::Address);
        assert!(first.try_grow(3 * MIB) && first.try_grow(4 * MIB) && first.try_grow(10));
        assert!(!first.try_grow(4 * MIB + 1));
        let mut other = begin(&budget, 2).unwrap();
        assert!(other.try_grow(3 * MIB));
        drop(second);
        // The account stays as long as anything is in it.
        let mut again = begin(&budget, 1).unwrap();
        assert!(!again.try_grow(1));
        let unread = budget.reserve_for(1, 1).await;
        assert_eq!(unread.unwrap_err(), BudgetFull::Address);
        // What has come whole is no longer its sender's doing, and stays reserved.
        first.settle(MIB);
        assert!(again.try_grow(3 * MIB));
        assert_eq!(budget.bytes(), 7 * MIB);
        let unread = budget.reserve_for(1, MIB).await;
        assert_eq!(unread.unwrap_err(), BudgetFull::Bytes);
        drop((first, other, again));
        assert_eq!(budget.bytes(), 0);
        assert!(budget.unfinished.lock().by_address.is_empty());
    }

    #[test]
    fn all_addresses_together_leave_an_eighth_for_what_comes_whole() {
        let budget = Arc::new(FairBudget::new(&GatewayConfig {
            requests_max: 16,
            ..GatewayConfig::default()
        }));
        let mut open: Vec<_> = (0..14).map(|address| begin(&budget, address).unwrap()).collect();
        assert_eq!(begin(&budget, 14).unwrap_err(), BudgetFull::Address);
        open.pop();
        open.push(begin(&budget, 14).unwrap());
        drop(open);
        assert!(budget.unfinished.lock().by_address.is_empty());
    }

    #[tokio::test]
    async fn a_reservation_waits_for_what_its_address_gives_back() {
        let budget = budget(60_000);
        let (mut first, mut second) = (begin(&budget, 1).unwrap(), begin(&budget, 1).unwrap());
        first.grow(3 * MIB).await.unwrap();
        let mut waiting = Box::pin(second.grow(2 * MIB));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        waiting.await.unwrap();
    }
}
