//! Sources: what one address holds of what all share.
//!
//! An address may hold a share of the unfinished exchanges (a body that isn't whole, an explanation
//! that isn't read) and of their bytes. What has arrived whole is no longer its sender's doing, and
//! isn't counted here: so most requests, which come in one piece, cost no account; an eighth of all
//! requests is kept for them, however many addresses leave theirs unfinished. A trusted proxy's
//! connection carries requests of many addresses, so what is unfinished is counted for each
//! request's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_server::config::address_share;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::admission::BudgetFull;
use crate::config::GatewayConfig;

/// Limits of one address.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    unfinished: usize,
    bytes: usize,
}

/// All addresses that hold something.
#[derive(Debug)]
pub(crate) struct Sources {
    allowed: Allowed,
    /// Unfinished exchanges of all addresses together.
    unfinished_max: usize,
    unfinished: AtomicUsize,
    accounts: Mutex<HashMap<u128, Account>>,
}

/// Use of one address (IPv6: one /64).
#[derive(Debug)]
struct Account {
    unfinished: usize,
    /// Bytes it may still hold.
    bytes: Arc<Semaphore>,
}

/// Address whose account is opened when there is something to put into it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressSource<'a> {
    sources: &'a Arc<Sources>,
    key: u128,
}

/// An unfinished exchange in the account of its address, with the bytes it holds; given up when
/// dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    sources: Arc<Sources>,
    key: u128,
    allowance: Arc<Semaphore>,
    bytes: usize,
}

impl Sources {
    pub(crate) fn new(config: &GatewayConfig) -> Self {
        let share = |all| address_share(all, config.address_share_percent_max);
        Self {
            allowed: Allowed {
                unfinished: share(config.requests_max),
                bytes: share(config.inflight_bytes_max),
            },
            unfinished_max: (config.requests_max - config.requests_max / 8).max(1),
            unfinished: AtomicUsize::new(0),
            accounts: Mutex::default(),
        }
    }

    fn settle(&self, key: u128, change: impl FnOnce(&mut Account)) {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get_mut(&key) {
            change(account);
            if account.unfinished == 0 {
                accounts.remove(&key);
            }
        }
    }
}

impl Account {
    fn new(allowed: Allowed) -> Self {
        Self {
            unfinished: 0,
            bytes: Arc::new(Semaphore::new(allowed.bytes)),
        }
    }
}

impl<'a> AddressSource<'a> {
    pub(crate) fn new(sources: &'a Arc<Sources>, key: u128) -> Self {
        Self { sources, key }
    }

    /// Counts a further unfinished exchange, of no bytes yet.
    pub(crate) fn begin(self) -> Result<Claim, BudgetFull> {
        let Self { sources, key } = self;
        let mut accounts = sources.accounts.lock();
        let account = accounts.entry(key).or_insert_with(|| Account::new(sources.allowed));
        let others = sources.unfinished.fetch_add(1, Ordering::Relaxed);
        account.unfinished += 1;
        let (of_address, allowance) = (account.unfinished, Arc::clone(&account.bytes));
        drop(accounts);
        let claim = Claim {
            sources: Arc::clone(sources),
            key,
            allowance,
            bytes: 0,
        };
        if of_address > sources.allowed.unfinished || others >= sources.unfinished_max {
            return Err(BudgetFull);
        }
        Ok(claim)
    }
}

impl Claim {
    /// Raises it to `bytes` in all, if that is possible at once.
    pub(crate) fn try_raise(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return true;
        };
        let Ok(permits) = u32::try_from(more) else { return false };
        match self.allowance.try_acquire_many(permits) {
            Ok(taken) => taken.forget(),
            Err(_) => return false,
        }
        self.bytes = bytes;
        true
    }

    /// Raises it to `bytes` in all, after a wait if need be. Whoever calls this bounds the wait.
    pub(crate) async fn raise(&mut self, bytes: usize) -> Result<(), BudgetFull> {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return Ok(());
        };
        let permits = u32::try_from(more).map_err(|_| BudgetFull)?;
        self.allowance
            .acquire_many(permits)
            .await
            .map_err(|_| BudgetFull)?
            .forget();
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.allowance.add_permits(self.bytes);
        self.sources.unfinished.fetch_sub(1, Ordering::Relaxed);
        self.sources.settle(self.key, |account| account.unfinished -= 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn sources() -> Arc<Sources> {
        let config = GatewayConfig {
            requests_max: 4,
            inflight_bytes_max: 1_000,
            address_share_percent_max: 50,
            ..GatewayConfig::default()
        };
        Arc::new(Sources::new(&config))
    }

    #[test]
    fn all_of_one_address_share_an_account_of_what_is_unfinished() {
        let sources = sources();
        let begin = |key| AddressSource::new(&sources, key).begin();
        let (mut first, second) = (begin(1).unwrap(), begin(1).unwrap());
        assert_eq!(begin(1).unwrap_err(), BudgetFull);
        assert!(first.try_raise(300) && first.try_raise(500) && first.try_raise(10));
        assert!(!first.try_raise(501));
        let mut other = begin(2).unwrap();
        assert!(other.try_raise(500));
        drop(second);
        // The account stays as long as anything is in it.
        let mut again = begin(1).unwrap();
        assert!(!again.try_raise(1));
        drop(first);
        assert!(again.try_raise(500));
        drop((other, again));
        assert!(sources.accounts.lock().is_empty());
    }

    #[test]
    fn all_addresses_together_leave_an_eighth_for_what_comes_whole() {
        let config = GatewayConfig {
            requests_max: 16,
            ..GatewayConfig::default()
        };
        let sources = Arc::new(Sources::new(&config));
        let mut claims: Vec<_> = (0..14)
            .map(|key| AddressSource::new(&sources, key).begin().unwrap())
            .collect();
        assert_eq!(AddressSource::new(&sources, 14).begin().unwrap_err(), BudgetFull);
        claims.pop();
        claims.push(AddressSource::new(&sources, 14).begin().unwrap());
        drop(claims);
        assert!(sources.accounts.lock().is_empty());
    }

    #[tokio::test]
    async fn a_claim_waits_for_what_its_address_gives_back() {
        let sources = sources();
        let begin = || AddressSource::new(&sources, 1).begin().unwrap();
        let (mut first, mut second) = (begin(), begin());
        first.raise(400).await.unwrap();
        let mut waiting = Box::pin(second.raise(200));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        waiting.await.unwrap();
    }
}
