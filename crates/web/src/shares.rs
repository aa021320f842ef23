//! Places that each account has of its own, so that one of them can't take all there are.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// For each account that is doing something its places; others aren't kept.
#[derive(Debug)]
pub struct Shares {
    places: usize,
    accounts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Shares {
    /// Each account gets `places`.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self {
            places,
            accounts: Mutex::default(),
        }
    }

    /// The places of this account; they are never closed.
    #[must_use]
    pub fn of(&self, account_id: &str) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock();
        // A place that is taken or waited for holds its account's.
        accounts.retain(|_, places| Arc::strong_count(places) > 1);
        let places = accounts.entry(account_id.to_owned());
        Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(self.places))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_account_has_its_own_and_those_at_rest_are_forgotten() {
        let shares = Shares::new(1);
        let held = shares.of("acc_a").try_acquire_owned().unwrap();
        assert!(shares.of("acc_a").try_acquire_owned().is_err());
        drop(shares.of("acc_b").try_acquire_owned().unwrap());
        drop(held);
        drop(shares.of("acc_c"));
        drop(shares.of("acc_a").try_acquire_owned().unwrap());
        assert_eq!(shares.accounts.lock().len(), 1);
    }
}
