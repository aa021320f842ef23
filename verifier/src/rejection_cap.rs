//! Selection of the rejected receipts that are stored with their bytes.
//!
//! Rejections cost their sender nothing but a valid outer signature, and keys cost nothing. So each
//! key has a cap by publisher and day, and ten times as much over all publishers, whose names the
//! sender chooses. The bytes of a day have two halves:
//!
//! - All senders share one half. A receipt is stored if the bytes stored of all senders, of its
//!   address and of its key leave room for it, as one sum. Whoever stores most is the first without
//!   room, however many keys it makes. Each further address takes part of what is left, so about 20
//!   addresses in turn exhaust this half.
//! - The other half is for the first rejections of each key, where the shared half has no room.
//!   A network takes at most 1/1024 of it, with any number of keys and addresses. So 1,024 networks
//!   have to fill their parts before the first rejections from another network have no room.
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

use service::address::{address_key, network_key};
use service::instant::DAY_MS;

/// Keys, addresses and networks that are counted apart, each; beyond, the half that stored least is
/// evicted and counts from 0 again.
const SENDERS_MAX: usize = 10_000;
/// Publishers of a key that are counted apart; beyond, new ones share one count.
const PUBLISHERS_MAX: usize = 100;
/// The cap of a key over all publishers, in caps of one publisher.
const PUBLISHERS_WORTH: u32 = 10;
/// First rejections of a key that are stored where the shared half has no room: enough to show
/// each usual mistake of a sender that is being set up.
const FIRST_OF_KEY: u32 = 8;
/// Networks that have to fill their parts of the bytes for first rejections to exhaust them.
const NETWORKS: u64 = 1_024;
/// Bytes of a row beside those of its receipt.
const ROW_BYTES: u64 = 512;

/// Stored rejections of the current day.
#[derive(Debug)]
pub struct RejectionCap {
    per_day_max: u32,
    bytes_per_day_max: u64,
    day: i64,
    hasher: RandomState,
    /// Bytes in the shared half.
    shared: u64,
    /// Bytes in the half for first rejections.
    first: u64,
    keys: HashMap<[u8; 32], StoredOfKey>,
    /// Bytes in the shared half by address.
    addresses: HashMap<u128, u64>,
    /// Bytes in the half for first rejections by network.
    networks: HashMap<u128, u64>,
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

impl RejectionCap {
    /// Stores so many rejections of a key, a publisher and a day, and so many bytes of a day.
    #[must_use]
    pub fn new(per_day_max: u32, bytes_per_day_max: u64) -> Self {
        Self {
            per_day_max,
            bytes_per_day_max,
            day: i64::MIN,
            hasher: RandomState::new(),
            shared: 0,
            first: 0,
            keys: HashMap::new(),
            addresses: HashMap::new(),
            networks: HashMap::new(),
        }
    }

    /// Whether one more rejection is stored, which counts then.
    pub(crate) fn keeps(&mut self, one: &Candidate<'_>) -> bool {
        let day = one.received_at_ms.div_euclid(DAY_MS);
        if day > self.day {
            self.day = day;
            self.shared = 0;
            self.first = 0;
            self.keys = HashMap::new();
            self.addresses = HashMap::new();
            self.networks = HashMap::new();
        }
        evict_smallest(&mut self.keys, |of_key| of_key.bytes);
        evict_smallest(&mut self.addresses, |bytes| *bytes);
        evict_smallest(&mut self.networks, |bytes| *bytes);
        let of_key = self.keys.entry(*one.key_fingerprint).or_default();
        let of_address = self.addresses.entry(one.address.map_or(0, address_key)).or_default();
        let of_network = self.networks.entry(one.address.map_or(0, network_key)).or_default();
        let bytes = one.bytes as u64 + ROW_BYTES;
        let first_max = self.bytes_per_day_max / 2;
        let shared_max = self.bytes_per_day_max - first_max;
        let is_shared = self.shared + *of_address + of_key.bytes + bytes <= shared_max;
        let is_first = of_key.stored < FIRST_OF_KEY
            && self.first + bytes <= first_max
            && *of_network + bytes <= first_max / NETWORKS;
        let publisher = self.hasher.hash_one(one.publisher);
        if !(is_shared || is_first) || !of_key.has_room(publisher, self.per_day_max) {
            return false;
        }
        of_key.bytes += bytes;
        if is_shared {
            self.shared += bytes;
            *of_address += bytes;
        } else {
            self.first += bytes;
            *of_network += bytes;
        }
        true
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
    use std::net::Ipv6Addr;

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
        let mut cap = RejectionCap::new(2, u64::MAX);
        let mut keeps = |number, publisher, received_at_ms| {
            cap.keeps(&Candidate {
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
        let mut cap = RejectionCap::new(2, u64::MAX);
        let publishers: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let stored = publishers.iter().filter(|publisher| {
            cap.keeps(&Candidate {
                publisher,
                ..one(&key(1), 1, "")
            })
        });
        assert_eq!(stored.count(), 20);
        assert!(cap.keys[&key(1)].publishers.len() <= PUBLISHERS_MAX);
        assert!(cap.keeps(&one(&key(2), 1, "a.example")), "another key has its own cap");
    }

    #[test]
    fn ever_new_keys_take_nothing_from_a_further_one() {
        let mut cap = RejectionCap::new(3, u64::MAX);
        let large = key(usize::MAX);
        assert!((0..3).all(|_| cap.keeps(&one(&large, 1, "a.example"))));
        for number in 0..3 * SENDERS_MAX {
            assert!(cap.keeps(&one(&key(number), 1, "a.example")), "{number}");
            assert!(cap.keys.len() <= SENDERS_MAX);
        }
        assert!(!cap.keeps(&one(&large, 1, "a.example")), "the largest is still counted");
    }

    #[test]
    fn the_largest_senders_are_the_first_without_room_in_the_shared_half() {
        let mut cap = RejectionCap::new(u32::MAX, 2_400_000);
        let mut next = 0;
        let mut stored = |address, keys: usize| {
            let first = next;
            next += keys;
            let keys = (0..10_000).map(|number| key(first + number % keys));
            keys.filter(|key| cap.keeps(&one(key, address, "a.example"))).count()
        };
        assert_eq!(stored(1, 1), 400, "a third: one key of one address");
        let first = 1;
        assert_eq!(stored(1, 10_000), 200 + first, "half in all: more keys of the address");
        assert_eq!(stored(2, 10_000), 300, "half of the rest: another address");
        assert_eq!(stored(3, 10_000), 150);
        assert!(stored(4, 1) > 10);
    }

    /// Bytes of a day of which one network has 8 first rejections, each of 1,000 bytes.
    const EIGHT_OF_A_NETWORK: u64 = 2 * NETWORKS * 8_000;

    fn from<'a>(key: &'a [u8; 32], address: impl Into<IpAddr>) -> Candidate<'a> {
        Candidate {
            address: Some(address.into()),
            ..one(key, 1, "a.example")
        }
    }

    /// Fills the shared half from one /24, one address after the other.
    fn without_shared_half(per_day_max: u32) -> RejectionCap {
        let mut cap = RejectionCap::new(per_day_max, EIGHT_OF_A_NETWORK);
        for address in 1..=30 {
            for number in 0..8_192 {
                cap.keeps(&from(&key(usize::from(address) << 32 | number), [192, 0, 2, address]));
            }
        }
        assert!(cap.shared + 1_000 > EIGHT_OF_A_NETWORK / 2, "{}", cap.shared);
        cap
    }

    #[test]
    fn a_new_key_of_another_network_is_stored_after_addresses_that_filled_up_one_after_the_other() {
        let mut cap = without_shared_half(u32::MAX);
        assert!(
            !cap.keeps(&from(&key(usize::MAX), [192, 0, 2, 31])),
            "the network's part is full"
        );
        let stored = (0..20).filter(|_| cap.keeps(&from(&key(usize::MAX), [198, 51, 100, 1])));
        assert_eq!(stored.count(), 8);
        assert!(
            !cap.keeps(&from(&key(usize::MAX), [203, 0, 113, 1])),
            "the key's first are stored"
        );
    }

    #[test]
    fn a_key_that_the_shared_half_stored_has_its_first_rejections_already() {
        let mut cap = RejectionCap::new(u32::MAX, EIGHT_OF_A_NETWORK);
        for number in 0..8_192 {
            cap.keeps(&from(&key(number % 2), [192, 0, 2, 1]));
        }
        assert_eq!(cap.first, 0);
    }

    #[test]
    fn the_cap_of_a_key_and_publisher_holds_for_first_rejections() {
        let mut cap = without_shared_half(3);
        let stored = (0..20).filter(|_| cap.keeps(&from(&key(usize::MAX), [198, 51, 100, 1])));
        assert_eq!(stored.count(), 3);
    }

    #[test]
    fn a_48_of_ipv6_takes_one_networks_part_and_1_024_networks_take_them_all() {
        let mut cap = without_shared_half(u32::MAX);
        let ipv6 = |site: u128, subnet: u128| Ipv6Addr::from_bits(0x2001_0db8 << 96 | site << 80 | subnet << 64);
        let first = cap.first;
        for subnet in 0..20_000 {
            cap.keeps(&from(&key(1 << 48 | subnet), ipv6(1, subnet as u128)));
            assert!(cap.networks.len() <= SENDERS_MAX && cap.addresses.len() <= SENDERS_MAX);
        }
        assert_eq!(cap.first, first + 8_000);
        for (index, network) in (2..NETWORKS + 10).enumerate() {
            for number in 0..10 {
                let key = key(1 << 49 | index << 8 | number);
                let has_room = network < NETWORKS && number < 8;
                assert_eq!(cap.keeps(&from(&key, ipv6(network.into(), 0))), has_room, "{network}");
            }
        }
        assert!(cap.shared + cap.first <= EIGHT_OF_A_NETWORK);
        assert!(cap.first + 1_000 > EIGHT_OF_A_NETWORK / 2, "{}", cap.first);
    }
}
