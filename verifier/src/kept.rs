//! The cap on rejected receipts that are stored: so many of a key, a publisher and a day, and ten
//! times as many of a key over all publishers, whose names the sender chooses.
//!
//! Rejections cost the sender nothing but a valid outer signature. Beyond the cap their bytes
//! aren't stored, and one row counts those of a source record. So every receipt still has one
//! outcome in the counts, and a flood leaves less in the tables than it sends.
//!
//! Each verifier counts for itself, from its start on. The UTC day is that of the newest receipt:
//! late ones of the day before count as today's.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Keys that are counted apart; beyond, new ones share one count.
const KEYS_MAX: usize = 10_000;
/// Publishers of a key that are counted apart; beyond, new ones share one count.
const PUBLISHERS_MAX: usize = 100;
/// The cap of a key over all publishers, in caps of one publisher.
const PUBLISHERS_WORTH: u32 = 10;
const DAY_MS: i64 = 86_400_000;

/// Rejections of the current day.
#[derive(Debug)]
pub struct KeptRejections {
    per_day_max: u32,
    day: i64,
    hasher: RandomState,
    keys: HashMap<[u8; 32], StoredOfKey>,
    others: StoredOfKey,
}

/// Stored rejections of a key.
#[derive(Debug, Default)]
struct StoredOfKey {
    stored: u32,
    /// By the keyed hash of the publisher.
    publishers: HashMap<u64, u32>,
    others: u32,
}

impl KeptRejections {
    /// Stores so many rejections of a key, a publisher and a day.
    #[must_use]
    pub fn new(per_day_max: u32) -> Self {
        Self {
            per_day_max,
            day: i64::MIN,
            hasher: RandomState::new(),
            keys: HashMap::new(),
            others: StoredOfKey::default(),
        }
    }

    /// Whether one more rejection is stored, which counts then.
    pub(crate) fn keeps(&mut self, key_fingerprint: &[u8; 32], publisher: &str, received_at_ms: i64) -> bool {
        let day = received_at_ms.div_euclid(DAY_MS);
        if day > self.day {
            self.day = day;
            self.keys = HashMap::new();
            self.others = StoredOfKey::default();
        }
        let is_full = self.keys.len() >= KEYS_MAX;
        let of_key = match self.keys.get_mut(key_fingerprint) {
            Some(of_key) => of_key,
            None if is_full => &mut self.others,
            None => self.keys.entry(*key_fingerprint).or_default(),
        };
        of_key.keeps(self.hasher.hash_one(publisher), self.per_day_max)
    }
}

impl StoredOfKey {
    fn keeps(&mut self, publisher: u64, per_day_max: u32) -> bool {
        let is_full = self.publishers.len() >= PUBLISHERS_MAX;
        let of_publisher = match self.publishers.get_mut(&publisher) {
            Some(stored) => stored,
            None if is_full => &mut self.others,
            None => self.publishers.entry(publisher).or_default(),
        };
        let keeps = *of_publisher < per_day_max && self.stored < per_day_max.saturating_mul(PUBLISHERS_WORTH);
        *of_publisher += u32::from(keeps);
        self.stored += u32::from(keeps);
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_key_and_publisher_has_a_cap_a_day() {
        let mut kept = KeptRejections::new(2);
        let mut keeps = |key: u8, publisher, at_ms| kept.keeps(&[key; 32], publisher, at_ms);
        assert_eq!([0, 1, 2].map(|at_ms| keeps(1, "a.example", at_ms)), [true, true, false]);
        assert!(keeps(1, "b.example", 3) && keeps(2, "a.example", 3));
        assert!(!keeps(1, "a.example", DAY_MS - 1));
        assert!(keeps(1, "a.example", DAY_MS), "the next day");
        assert!(keeps(1, "a.example", DAY_MS - 1), "a late one counts as today's");
        assert!(!keeps(1, "a.example", DAY_MS + 5));
    }

    #[test]
    fn a_key_stores_ten_times_the_cap_whatever_publishers_it_names() {
        let mut kept = KeptRejections::new(2);
        let stored = (0..1_000)
            .filter(|number| kept.keeps(&[1; 32], &number.to_string(), 0))
            .count();
        assert_eq!(stored, 20);
        assert!(kept.keys[&[1; 32]].publishers.len() <= PUBLISHERS_MAX);
        assert!(kept.keeps(&[2; 32], "a.example", 0), "another key has its own cap");
    }

    #[test]
    fn keys_beyond_those_counted_apart_share_one_count() {
        let mut kept = KeptRejections::new(1);
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_be_bytes());
            key
        };
        let stored = (0..KEYS_MAX + 100)
            .filter(|number| kept.keeps(&key(*number), "a.example", 0))
            .count();
        assert_eq!(stored, KEYS_MAX + 1);
        assert_eq!(kept.keys.len(), KEYS_MAX);
    }
}
