//! Places that each account has of its own, or of those that all have, so that one of them can't
//! take all there are.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Permits of each account that is doing something; others have no entry.
#[derive(Debug)]
pub struct Shares {
    permits: usize,
    accounts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Shares {
    /// Each account gets `permits`.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self {
            permits,
            accounts: Mutex::default(),
        }
    }

    /// The permits of this account; they are never closed.
    #[must_use]
    pub fn of(&self, account_id: &str) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock();
        // A permit that is taken or waited for holds its account's.
        accounts.retain(|_, permits| Arc::strong_count(permits) > 1);
        let permits = accounts.entry(account_id.to_owned());
        Arc::clone(permits.or_insert_with(|| Arc::new(Semaphore::new(self.permits))))
    }
}

/// Places for all accounts, of which each takes as many as it leaves free: one alone half of them,
/// two a third each. So the next one finds a permit, as long as there aren't as many accounts as
/// permits (dynamic thresholds, Choudhury and Hahne 1998). An account may have parts that share its
/// permits by the same rule, and so may a part.
#[derive(Debug)]
pub struct FairSemaphore {
    permits: usize,
    /// By path, as [`path_name`] formats it; that of all is empty.
    taken: Mutex<HashMap<String, usize>>,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FairSemaphoreFull {
    /// The account, or its part, has as many as it leaves free.
    Account,
    /// All are taken.
    All,
}

/// Permit that is given back when it is dropped.
#[derive(Debug)]
pub struct FairPermit<'a> {
    semaphore: &'a FairSemaphore,
    /// Names of all, the account, its part, and so on.
    names: Vec<String>,
}

/// Name of an account (one element), or of a part of it (further elements).
#[must_use]
pub fn path_name(path: &[&str]) -> String {
    path.join("\n")
}

impl FairSemaphore {
    /// So many `permits`.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self {
            permits,
            taken: Mutex::default(),
        }
    }

    /// A permit for an account, or for a part of it: `path` has the account, its part, the part's
    /// part, and so on.
    ///
    /// # Errors
    /// [`FairSemaphoreFull`], at once.
    pub fn take(&self, path: &[&str]) -> Result<FairPermit<'_>, FairSemaphoreFull> {
        let names: Vec<String> = (0..=path.len()).map(|depth| path_name(&path[..depth])).collect();
        let mut taken = self.taken.lock();
        let of = |name: &String| taken.get(name).copied().unwrap_or(0);
        let mut permits = self.permits;
        if names.first().is_some_and(|all| of(all) >= permits) {
            return Err(FairSemaphoreFull::All);
        }
        for pair in names.windows(2) {
            let (all, own) = (of(&pair[0]), of(&pair[1]));
            if own >= permits.saturating_sub(all) {
                return Err(FairSemaphoreFull::Account);
            }
            // As many as it could have while the others keep theirs.
            permits = (permits - (all - own)).div_ceil(2);
        }
        for name in &names {
            *taken.entry(name.clone()).or_default() += 1;
        }
        Ok(FairPermit { semaphore: self, names })
    }
}

impl Drop for FairPermit<'_> {
    fn drop(&mut self) {
        let mut taken = self.semaphore.taken.lock();
        for name in &self.names {
            if let Some(own) = taken.get_mut(name) {
                *own -= 1;
                if *own == 0 {
                    taken.remove(name);
                }
            }
        }
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

    #[test]
    fn accounts_take_as_many_as_they_leave_free() {
        let semaphore = FairSemaphore::new(12);
        let most = |account: &str| std::iter::from_fn(|| semaphore.take(&[account]).ok()).collect::<Vec<_>>();
        let first = most("acc_a");
        assert_eq!(
            (first.len(), semaphore.take(&["acc_a"]).unwrap_err()),
            (6, FairSemaphoreFull::Account)
        );
        let second = most("acc_b");
        assert_eq!(second.len(), 3);
        drop(first);
        let (second_more, first) = (most("acc_b"), most("acc_a"));
        assert_eq!((second_more.len(), first.len()), (3, 3));
        let others = ["c", "d", "e"].map(|account| semaphore.take(&[account]).unwrap());
        assert_eq!(semaphore.take(&["f"]).unwrap_err(), FairSemaphoreFull::All);
        drop((first, second, second_more, others));
        assert!(semaphore.taken.lock().is_empty());
    }
    #[test]
    fn parts_of_an_account_share_its_permits() {
        let semaphore = FairSemaphore::new(64);
        let most = |path: &[&str]| std::iter::from_fn(|| semaphore.take(path).ok()).collect::<Vec<_>>();
        let one = most(&["a", "1", "x"]);
        assert_eq!(one.len(), 8);
        // Whatever its parts do, a part leaves the account's other parts their permits.
        let parts: Vec<_> = ('a'..='z')
            .flat_map(|key| most(&["a", "1", &key.to_string()]))
            .collect();
        assert_eq!(one.len() + parts.len(), 16);
        assert_eq!(most(&["a", "2", "x"]).len(), 4);
        // And so does the account.
        let accounts: Vec<_> = (2..40).flat_map(|part| most(&["a", &part.to_string()])).collect();
        assert_eq!(one.len() + parts.len() + accounts.len(), 32);
        assert_eq!(most(&["b"]).len(), 16);
        drop((one, parts, accounts));
        assert!(semaphore.taken.lock().is_empty());
    }
}
