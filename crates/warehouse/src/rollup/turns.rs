//! Of those who ask at once for the same, one asks the tables.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use tokio::sync::{Mutex, MutexGuard};

const LOCKS: u64 = 256;

/// A lock for each name; some names share one.
#[derive(Debug)]
pub(super) struct Turns {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
        }
    }
}

impl Turns {
    /// Waits until nobody else is at this name: as long as it takes, as whoever is at it has its own limit, and everybody reading the same
    /// for themselves would take all of them longer.
    pub(super) async fn of(&self, name: &str) -> MutexGuard<'_, ()> {
        let place = self.hasher.hash_one(name) % LOCKS;
        // At most 255.
        #[allow(clippy::cast_possible_truncation)]
        let lock = &self.locks[place as usize];
        lock.lock().await
    }
}
