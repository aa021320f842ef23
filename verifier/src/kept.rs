//! The cap on rejected receipts that are stored: so many of a key, a publisher and a day.
//!
//! Rejections cost the sender nothing but a valid outer signature. Beyond the cap their bytes
//! aren't stored, and one row counts those of a source record. So every receipt still has one
//! outcome in the counts, and a flood leaves less in the tables than it sends.
//!
//! Each verifier counts for itself, from its start on. The UTC day is that of the newest receipt:
//! late ones of the day before count as today's.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Pairs of key and publisher that are counted apart; beyond, new ones share one count.
const PAIRS_MAX: usize = 100_000;
const DAY_MS: i64 = 86_400_000;

/// Rejections of the current day.
#[derive(Debug)]
pub struct KeptRejections {
    per_day_max: u32,
    day: i64,
    hasher: RandomState,
    /// Stored rejections by the keyed hash of key and publisher.
    stored: HashMap<u64, u32>,
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
            stored: HashMap::new(),
            others: 0,
        }
    }

    /// Whether one more rejection is stored, which counts then.
    pub(crate) fn keeps(&mut self, key_fingerprint: &[u8; 32], publisher: &str, received_at_ms: i64) -> bool {
        let day = received_at_ms.div_euclid(DAY_MS);
        if day > self.day {
            self.day = day;
            self.stored = HashMap::new();
            self.others = 0;
        }
        let pair = self.hasher.hash_one((key_fingerprint, publisher));
        let is_full = self.stored.len() >= PAIRS_MAX;
        let stored = match self.stored.get_mut(&pair) {
            Some(stored) => stored,
            None if is_full => &mut self.others,
            None => self.stored.entry(pair).or_default(),
        };
        let keeps = *stored < self.per_day_max;
        *stored += u32::from(keeps);
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
    fn pairs_beyond_those_counted_apart_share_one_count() {
        let mut kept = KeptRejections::new(1);
        let stored = (0..PAIRS_MAX + 100)
            .filter(|number| kept.keeps(&[1; 32], &number.to_string(), 0))
            .count();
        assert_eq!(stored, PAIRS_MAX + 1);
        assert_eq!(kept.stored.len(), PAIRS_MAX);
    }
}
