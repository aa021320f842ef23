//! The shard map: which shard of the warehouse stores a receipt.
//!
//! An entry of the map is in force for receipts whose timestamps are on its first UTC day or later.
//! So the shard depends on signed fields only, a duplicate always reaches the shard of the
//! original, and a new entry moves nothing that is stored.

mod cache;
mod store;

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::Domain;

pub use cache::{ShardMapCache, ShardMapUnavailable};
pub use store::{NewShardMapEntry, RegisteredShardMapEntry};

/// The most shards.
pub const SHARDS_MAX: u32 = 256;
/// The most split publishers of an entry.
pub const SPLITS_MAX: usize = 1_000;

const DAY_MS: i64 = 86_400_000;

/// Entry of the map, which is in force from a day on, until a later entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMapEntry {
    /// Counts the entries, from 1 on.
    pub version: u32,
    /// The first UTC day, in days since the Unix epoch.
    pub from_day: i64,
    /// Number of shards.
    pub shards: u32,
    /// Publishers whose receipts are spread over several shards, and over how many.
    pub splits: BTreeMap<Domain, u32>,
}

/// Why entries aren't a shard map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardMapError {
    /// A version is missing or occurs twice.
    #[error("the shard map has a gap: entry {found} follows where entry {expected} belongs")]
    Gap {
        /// The version that is missing.
        expected: u32,
        /// The version instead.
        found: u32,
    },
    /// An entry begins no later than the one before.
    #[error("the shard map has an overlap: entry {0} must begin on a later day than the entry before it")]
    Overlap(u32),
    /// The number of shards isn't usable.
    #[error("entry {0} of the shard map must have 1 to {SHARDS_MAX} shards")]
    Shards(u32),
    /// A split isn't usable.
    #[error(
        "entry {0} of the shard map has at most {SPLITS_MAX} split publishers, each over 2 shards or more, and no more \
         than there are"
    )]
    Splits(u32),
}

/// All entries. Without any, there is one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShardMap {
    /// By version and by day.
    entries: Vec<ShardMapEntry>,
    /// See [`ShardMap::hash`].
    hash: u64,
}

impl ShardMap {
    /// Checks the entries, in the order of their versions.
    pub fn new(entries: Vec<ShardMapEntry>) -> Result<Self, ShardMapError> {
        let mut hash = Sha256::new();
        let mut last_day = i64::MIN;
        for (expected, entry) in (1..).zip(&entries) {
            let found = entry.version;
            if found != expected {
                return Err(ShardMapError::Gap { expected, found });
            }
            if entry.from_day <= last_day {
                return Err(ShardMapError::Overlap(found));
            }
            if !(1..=SHARDS_MAX).contains(&entry.shards) {
                return Err(ShardMapError::Shards(found));
            }
            if entry.splits.len() > SPLITS_MAX || !entry.splits.values().all(|ways| (2..=entry.shards).contains(ways)) {
                return Err(ShardMapError::Splits(found));
            }
            last_day = entry.from_day;
            hash.update(format!("{found} {} {}\n", entry.from_day, entry.shards));
            for (publisher, ways) in &entry.splits {
                hash.update(format!("{} {ways}\n", publisher.as_str()));
            }
        }
        let hash = if entries.is_empty() { 0 } else { first_bytes(hash) };
        Ok(Self { entries, hash })
    }

    /// The shard of a receipt. `publisher` is in lower case, `timestamp_ms` in milliseconds since
    /// the Unix epoch.
    #[must_use]
    pub fn shard(&self, publisher: &str, timestamp_ms: i64, receipt_id: Uuid) -> u32 {
        let day = timestamp_ms.div_euclid(DAY_MS);
        let in_force = self.entries.iter().rev().find(|entry| entry.from_day <= day);
        let Some(entry) = in_force.filter(|entry| entry.shards > 1) else {
            return 0;
        };
        let shards = u64::from(entry.shards);
        let mut shard = first_bytes(Sha256::new_with_prefix(publisher)) % shards;
        if let Some(ways) = entry.splits.get(publisher) {
            let part = first_bytes(Sha256::new_with_prefix(receipt_id.as_bytes())) % u64::from(*ways);
            shard = (shard + part) % shards;
        }
        // Below the number of shards.
        u32::try_from(shard).unwrap_or(0)
    }

    /// Number of shards that any entry uses.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.entries.iter().map(|entry| entry.shards).max().unwrap_or(1)
    }

    /// Version of the last entry; 0 without any.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.version)
    }

    /// The first 8 bytes of the SHA-256 of all entries; 0 without any.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The entries, by version.
    #[must_use]
    pub fn entries(&self) -> &[ShardMapEntry] {
        &self.entries
    }

    /// Whether this map has the entries of `earlier`, and perhaps further ones.
    #[must_use]
    pub fn extends(&self, earlier: &Self) -> bool {
        self.entries.starts_with(&earlier.entries)
    }
}

/// The first 8 bytes of a hash, as a big-endian number.
fn first_bytes(hash: Sha256) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entry(version: u32, from_day: i64, shards: u32) -> ShardMapEntry {
        ShardMapEntry {
            version,
            from_day,
            shards,
            splits: BTreeMap::new(),
        }
    }

    fn split(mut entry: ShardMapEntry, publisher: &str, ways: u32) -> ShardMapEntry {
        entry.splits.insert(publisher.parse().unwrap(), ways);
        entry
    }

    #[test]
    fn without_entries_there_is_one_shard() {
        let map = ShardMap::default();
        assert_eq!((map.shards(), map.version(), map.hash()), (1, 0, 0));
        assert_eq!(map.shard("example.com", 0, Uuid::nil()), 0);
        assert_eq!(ShardMap::new(Vec::new()), Ok(map));
    }

    #[test]
    fn gaps_overlaps_and_impossible_numbers_are_refused() {
        let check = |entries: Vec<ShardMapEntry>| ShardMap::new(entries).unwrap_err();
        let gap = ShardMapError::Gap { expected: 2, found: 3 };
        assert_eq!(check(vec![entry(1, 5, 1), entry(3, 6, 2)]), gap);
        let first = ShardMapError::Gap { expected: 1, found: 2 };
        assert_eq!(check(vec![entry(2, 5, 1)]), first);
        assert_eq!(check(vec![entry(1, 5, 1), entry(2, 5, 2)]), ShardMapError::Overlap(2));
        assert_eq!(check(vec![entry(1, 5, 1), entry(2, 4, 2)]), ShardMapError::Overlap(2));
        assert_eq!(check(vec![entry(1, 5, 0)]), ShardMapError::Shards(1));
        assert_eq!(check(vec![entry(1, 5, 257)]), ShardMapError::Shards(1));
        assert_eq!(
            check(vec![split(entry(1, 5, 2), "a.example", 3)]),
            ShardMapError::Splits(1)
        );
        assert_eq!(
            check(vec![split(entry(1, 5, 2), "a.example", 1)]),
            ShardMapError::Splits(1)
        );
    }

    #[test]
    fn a_later_entry_moves_no_receipt_of_an_earlier_day() {
        let one = ShardMap::new(vec![entry(1, 10, 2)]).unwrap();
        let two = ShardMap::new(vec![entry(1, 10, 2), split(entry(2, 20, 3), "large.example", 3)]).unwrap();
        assert!(two.extends(&one) && !one.extends(&two) && one.extends(&ShardMap::default()));
        assert_ne!(one.hash(), two.hash());
        assert_eq!((two.shards(), two.version()), (3, 2));
        let mut seen = [[0; 3]; 3];
        for number in 0..300_u128 {
            let (publisher, receipt) = (format!("p{number}.example"), Uuid::from_u128(number));
            for (part, day) in [(0, 9), (1, 10), (1, 19), (2, 20)] {
                let shard = |map: &ShardMap| map.shard(&publisher, day * DAY_MS, receipt);
                if day < 20 {
                    assert_eq!(shard(&one), shard(&two));
                    assert_eq!(shard(&two), two.shard(&publisher, (day + 1) * DAY_MS - 1, Uuid::nil()));
                }
                seen[part][shard(&two) as usize] += 1;
            }
        }
        assert_eq!(seen[0], [300, 0, 0], "one shard before the first entry");
        assert!(seen[1][0] > 200 && seen[1][1] > 200 && seen[1][2] == 0, "{seen:?}");
        assert!(seen[2].iter().all(|receipts| *receipts > 60), "{seen:?}");
    }

    /// Other programs may compute the shard: the function is a part of the format.
    #[test]
    fn shards_are_those_written_down() {
        let map = ShardMap::new(vec![split(entry(1, 0, 5), "large.example", 4)]).unwrap();
        let at = |publisher, receipt| map.shard(publisher, 0, Uuid::from_u128(receipt));
        // SHA-256 of example.com begins with a379a6f6eeafb9a5, by sha256sum.
        assert_eq!(u64::from(at("example.com", 1)), 0xa379_a6f6_eeaf_b9a5 % 5);
        let parts: Vec<u32> = (0..40).map(|receipt| at("large.example", receipt)).collect();
        let mut distinct = parts.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{parts:?}");
    }
}
