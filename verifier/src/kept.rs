//! Selection of the rejected receipts that are stored with their bytes.
//!
//! Rejections cost their sender nothing but a valid outer signature, and keys cost nothing. So each
//! key has a cap by publisher and day, and ten times as much over all publishers, whose names the
//! sender chooses. All senders share the bytes of a day: a receipt is stored if the bytes stored of
//! all senders, of its address and of its key leave room for it, as one sum. Whoever stores most is
//! the first without room, however many keys it makes. One address fills half of the day's bytes,
//! ten addresses ten elevenths, and the first rejections of another one always have room.
//!
//! Beyond, bytes aren't stored, and one row counts the rejections of a source record. So every
//! receipt still has one outcome in the counts, and a flood leaves less in the tables than it
//! sends.
//!
//! Each verifier counts for itself, from its start on. The UTC day is that of the newest receipt:
//! late ones of the day before count as today's.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;

use service::address::address_key;
use service::instant::DAY_MS;

/// Keys and addresses that are counted apart, each; beyond, the half that stored least is evicted
/// and counts from 0 again.
const SENDERS_MAX: usize = 10_000;
/// Publishers of a key that are counted apart; beyond, new ones share one count.
const PUBLISHERS_MAX: usize = 100;
/// The cap of a key over all publishers, in caps of one publisher.
const PUBLISHERS_WORTH: u32 = 10;
/// Bytes of a row beside those of its receipt.
const ROW_BYTES: u64 = 512;

/// Stored rejections of the current day.
#[derive(Debug)]
pub struct KeptRejections {
    per_day_max: u32,
    bytes_per_day_max: u64,
    day: i64,
    hasher: RandomState,
    bytes: u64,
    keys: HashMap<[u8; 32], StoredOfKey>,
    /// Bytes by address.
    addresses: HashMap<u128, u64>,
}

/// A rejected receipt that may be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// Key whose signature of the request or batch was verified.
    pub(crate) key_fingerprint: &'a [u8; 32],
    /// Address of the sender, where the record has it.
    pub(crate) address: Option<IpAddr>,
    /// Publisher that the receipt states.
    pub(crate) publisher: &'a str,
    /// Bytes of the receipt.
    pub(crate) bytes: usize,
    /// When the gateway took it, Unix milliseconds.
    pub(crate) received_at_ms: i64,
}

/// Stored rejections of a key.
#[derive(Debug, Default)]
struct StoredOfKey {
    stored: u32,
    bytes: u64,
    /// By the keyed hash of the publisher.
    publishers: HashMap<u64, u32>,
    others: u32,
}

impl KeptRejections {
    /// Stores so many rejections of a key, a publisher and a day, and so many bytes of a day.
    #[must_use]
    pub fn new(per_day_max: u32, bytes_per_day_max: u64) -> Self {
        Self {
            per_day_max,
            bytes_per_day_max,
            day: i64::MIN,
            hasher: RandomState::new(),
            bytes: 0,
            keys: HashMap::new(),
            addresses: HashMap::new(),
        }
    }

    /// Whether one more rejection is stored, which counts then.
    pub(crate) fn keeps(&mut self, one: &Candidate<'_>) -> bool {
        let day = one.received_at_ms.div_euclid(DAY_MS);
        if day > self.day {
            self.day = day;
            self.bytes = 0;
            self.keys = HashMap::new();
            self.addresses = HashMap::new();
        }
        evict_smallest(&mut self.keys, |of_key| of_key.bytes);
        evict_smallest(&mut self.addresses, |bytes| *bytes);
        let of_key = self.keys.entry(*one.key_fingerprint).or_default();
        let of_address = self.addresses.entry(one.address.map_or(0, address_key)).or_default();
        let bytes = one.bytes as u64 + ROW_BYTES;
        let keeps = self.bytes + *of_address + of_key.bytes + bytes <= self.bytes_per_day_max
            && of_key.has_room(self.hasher.hash_one(one.publisher), self.per_day_max);
        if keeps {
            self.bytes += bytes;
            *of_address += bytes;
            of_key.bytes += bytes;
        }
        keeps
    }
}

/// Evicts the half that stored least, if no further sender can be counted.
fn evict_smallest<K: Eq + Hash, V>(senders: &mut HashMap<K, V>, bytes: impl Fn(&V) -> u64) {
    if senders.len() < SENDERS_MAX {
        return;
    }
    let mut sizes: Vec<u64> = senders.values().map(&bytes).collect();
    let (_, median, _) = sizes.select_nth_unstable(SENDERS_MAX / 2);
    senders.retain(|_, sender| bytes(sender) > *median);
}

impl StoredOfKey {
    /// Whether the key may store one more of the publisher, which counts then.
    fn has_room(&mut self, publisher: u64, per_day_max: u32) -> bool {
        let is_full = self.publishers.len() >= PUBLISHERS_MAX;
        let of_publisher = match self.publishers.get_mut(&publisher) {
            Some(stored) => stored,
            None if is_full => &mut self.others,
            None => self.publishers.entry(publisher).or_default(),
        };
        let has_room = *of_publisher < per_day_max && self.stored < per_day_max.saturating_mul(PUBLISHERS_WORTH);
        *of_publisher += u32::from(has_room);
        self.stored += u32::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key, address and publisher of a receipt, of 488 bytes: 1,000 with its row.
    fn one<'a>(key: &'a [u8; 32], address: u8, publisher: &'a str) -> Candidate<'a> {
        Candidate {
            key_fingerprint: key,
            address: Some(IpAddr::from([192, 0, 2, address])),
            publisher,
            bytes: 488,
            received_at_ms: 0,
        }
    }

    fn key(number: usize) -> [u8; 32] {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    #[test]
    fn each_pair_of_key_and_publisher_has_a_cap_a_day() {
        let mut kept = KeptRejections::new(2, u64::MAX);
        let mut keeps = |number, publisher, received_at_ms| {
            kept.keeps(&Candidate {
                received_at_ms,
                ..one(&key(number), 1, publisher)
            })
        };
        assert_eq!([0, 1, 2].map(|at_ms| keeps(1, "a.example", at_ms)), [true, true, false]);
        assert!(keeps(1, "b.example", 3) && keeps(2, "a.example", 3));
        assert!(!keeps(1, "a.example", DAY_MS - 1));
        assert!(keeps(1, "a.example", DAY_MS), "the next day");
        assert!(keeps(1, "a.example", DAY_MS - 1), "a late one counts as today's");
        assert!(!keeps(1, "a.example", DAY_MS + 5));
    }

    #[test]
    fn a_key_stores_ten_times_the_cap_whatever_publishers_it_names() {
        let mut kept = KeptRejections::new(2, u64::MAX);
        let publishers: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let stored = publishers.iter().filter(|publisher| {
            kept.keeps(&Candidate {
                publisher,
                ..one(&key(1), 1, "")
            })
        });
        assert_eq!(stored.count(), 20);
        assert!(kept.keys[&key(1)].publishers.len() <= PUBLISHERS_MAX);
        assert!(kept.keeps(&one(&key(2), 1, "a.example")), "another key has its own cap");
    }

    #[test]
    fn ever_new_keys_take_nothing_from_a_further_one() {
        let mut kept = KeptRejections::new(3, u64::MAX);
        let large = key(usize::MAX);
        assert!((0..3).all(|_| kept.keeps(&one(&large, 1, "a.example"))));
        for number in 0..3 * SENDERS_MAX {
            assert!(kept.keeps(&one(&key(number), 1, "a.example")), "{number}");
            assert!(kept.keys.len() <= SENDERS_MAX);
        }
        assert!(
            !kept.keeps(&one(&large, 1, "a.example")),
            "the largest is still counted"
        );
    }

    #[test]
    fn the_bytes_of_a_day_are_shared_and_the_largest_senders_are_the_first_without_room() {
        let mut kept = KeptRejections::new(u32::MAX, 1_200_000);
        let mut next = 0;
        let mut stored = |address, keys: usize| {
            let first = next;
            next += keys;
            let keys = (0..10_000).map(|number| key(first + number % keys));
            keys.filter(|key| kept.keeps(&one(key, address, "a.example"))).count()
        };
        assert_eq!(stored(1, 1), 400, "a third: one key of one address");
        assert_eq!(stored(1, 10_000), 200, "half in all: more keys of the address");
        assert_eq!(stored(2, 10_000), 300, "half of the rest: another address");
        assert_eq!(stored(3, 10_000), 150);
        assert!(stored(4, 1) > 10);
    }
}
