//! Random receipts, refusals and blocks of them, at the times that are hard to count.

use jiff::tz::TimeZone;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use receipt::Purpose;
use uuid::Uuid;
use warehouse::{LedgerRow, Touched, VerdictsPosition};

use crate::calendar::{HOUR_MS, changes, first_instant, milliseconds};
use crate::model::{Fact, Model, Refused};
use crate::progress::EPOCH;

/// Zones with changes in both directions, of an hour and of half of one, at midnight, and offsets
/// of half hours.
pub(crate) const ZONES: [&str; 9] = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Havana",
    "Africa/Cairo",
    "UTC",
];

/// Domains: an account has `news.example` with its subdomains but `rival.news.example`, which
/// another has, and `blog.example` alone.
pub(crate) const PUBLISHERS: [&str; 9] = [
    "news.example",
    "sport.news.example",
    "live.sport.news.example",
    "rival.news.example",
    "shop.rival.news.example",
    "blog.example",
    "old.blog.example",
    "fakenews.example",
    "other.example",
];

pub(crate) const PURPOSES: [&str; Purpose::ALL.len()] = {
    let mut names = [""; Purpose::ALL.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = Purpose::ALL[number].as_str();
        number += 1;
    }
    names
};
pub(crate) const PARTITIONS: u32 = 3;
const MODELS: [&str; 5] = ["", "m-large-3", "m-small-1", "m \"quoted\", 3", "mödel"];
const REASONS: [&str; 4] = ["bad_signature", "malformed", "bad_content_hash", "client_key_unknown"];
/// Keys of signers, their operators, and the milliseconds after [`RECEIVED_MS`] from and to which
/// the operators list them.
const KEYS: [(u8, &str, std::ops::Range<i64>); 5] = [
    (1, "ai.example", 0..i64::MAX),
    (2, "ai.example", 150_000..i64::MAX),
    (3, "xn--knstlich-65a.example", 100_000..400_000),
    (4, "", 0..0),
    (5, "", 0..0),
];
/// Operators as queries write them.
const OPERATORS: [(&str, &str); 5] = [
    ("ai.example", "ai.example"),
    ("AI.Example.", "ai.example"),
    ("künstlich.example", "xn--knstlich-65a.example"),
    ("XN--knstlich-65a.example", "xn--knstlich-65a.example"),
    ("nobody.example", "nobody.example"),
];
const ENTRIES: u128 = 30;
const CLIENTS: u128 = 12;
/// When the gateway took the first record.
pub(crate) const RECEIVED_MS: i64 = 1_780_300_800_000;

pub(crate) fn entry(number: u128) -> Uuid {
    Uuid::from_u128((0xe0 << 120) | number << 90 | (number + 7))
}

pub(crate) fn client(number: u128) -> Uuid {
    Uuid::from_u128((0xc0 << 120) | number << 70 | number)
}

pub(crate) fn any_entry(rng: &mut StdRng) -> Uuid {
    entry(rng.random_range(0..ENTRIES + 2))
}

pub(crate) fn any_client(rng: &mut StdRng) -> Uuid {
    match rng.random_range(0..10) {
        0 => Uuid::nil(),
        _ => client(rng.random_range(0..CLIENTS + 1)),
    }
}

pub(crate) fn any_model(rng: &mut StdRng) -> &'static str {
    MODELS[1..].choose(rng).unwrap()
}

/// The operator of a key at an instant; empty if it is nobody's.
fn operator_of(key: &[u8; 32], received_ms: i64) -> &'static str {
    let listed = KEYS
        .iter()
        .find(|(number, _, when)| *number == key[0] && when.contains(&(received_ms - RECEIVED_MS)));
    listed.map_or("", |(_, operator, _)| *operator)
}

/// Whether a publisher's domain was verified before an instant: the first one's was only later.
fn is_verified(publisher: &str, received_ms: i64) -> bool {
    publisher != PUBLISHERS[0] || received_ms > RECEIVED_MS + 200_000
}

/// An operator as a query writes it, and its domain.
pub(crate) fn any_operator(rng: &mut StdRng) -> (&'static str, &'static str) {
    *OPERATORS.choose(rng).unwrap()
}

/// A signer's key; the last one is nobody's.
pub(crate) fn any_key(rng: &mut StdRng) -> [u8; 32] {
    [rng.random_range(1..=6); 32]
}

pub(crate) fn any_reason(rng: &mut StdRng) -> &'static str {
    REASONS.choose(rng).unwrap()
}

pub(crate) fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

/// Instants at which something begins or ends: changes of offset, months, a leap day, hours, and
/// now.
pub(crate) fn hard_instants(now_ms: i64) -> Vec<i64> {
    let mut found = Vec::new();
    for name in ZONES {
        let tz = zone(name);
        found.extend(changes(&tz));
        for date in [
            "2024-02-29",
            "2024-03-01",
            "2025-01-01",
            "2025-03-01",
            "2025-12-01",
            "2026-11-01",
        ] {
            found.push(first_instant(date.parse().unwrap(), &tz));
        }
    }
    found.extend(["2025-03-30T12:00:00Z", "2025-03-30T13:00:00Z", "2025-03-31T23:00:00Z"].map(milliseconds));
    let this_hour_ms = now_ms.div_euclid(HOUR_MS) * HOUR_MS;
    found.extend([
        this_hour_ms,
        this_hour_ms - HOUR_MS,
        this_hour_ms - 24 * HOUR_MS,
        this_hour_ms + HOUR_MS,
    ]);
    found
}

/// Makes blocks; what it made can come again.
pub(crate) struct Maker {
    pub(crate) instants: Vec<i64>,
    now_ms: i64,
    made: Vec<Fact>,
    number: u128,
    received_ms: i64,
    /// Blocks so far, each a record of `verdicts`.
    blocks: u64,
}

/// A run of whole records of one partition, judged.
pub(crate) struct Block {
    pub(crate) line: LedgerRow,
    pub(crate) accepted: Vec<(Fact, u128, i64)>,
    pub(crate) refused: Vec<Refused>,
}

impl Block {
    pub(crate) fn add_to(&self, model: &mut Model) {
        for (fact, position, received_ms) in &self.accepted {
            model.take(fact, *position, *received_ms);
        }
        for refused in &self.refused {
            model.refuse(refused.clone());
        }
    }
}

impl Maker {
    pub(crate) fn new(now_ms: i64) -> Self {
        Self {
            instants: hard_instants(now_ms),
            now_ms,
            made: Vec::new(),
            number: 0,
            received_ms: RECEIVED_MS,
            blocks: 0,
        }
    }

    pub(crate) fn any_receipt(&self, rng: &mut StdRng) -> Uuid {
        self.made.choose(rng).map_or(Uuid::from_u128(1), |fact| fact.receipt_id)
    }

    /// A time at or around a hard instant, within days that have many receipts, or of the last
    /// days, some ahead of the clock.
    pub(crate) fn any_time(&self, rng: &mut StdRng) -> i64 {
        let instant = *self.instants.choose(rng).unwrap();
        match rng.random_range(0..8) {
            0 => instant,
            1 => instant + rng.random_range(-1..=1),
            2 => instant + rng.random_range(-HOUR_MS..=HOUR_MS),
            3 | 4 => milliseconds("2025-03-29T00:00:00Z") + rng.random_range(0..72 * HOUR_MS),
            5 => self.now_ms - rng.random_range(0..48 * HOUR_MS),
            6 => self.now_ms + rng.random_range(0..24 * HOUR_MS),
            _ => milliseconds("2024-01-01T00:00:00Z") + rng.random_range(0..700 * 24 * HOUR_MS),
        }
    }

    fn fact(&mut self, rng: &mut StdRng) -> Fact {
        self.number += 1;
        // A few entries and clients have most.
        let (entry_number, client_number) = (
            rng.random_range(0..ENTRIES).min(rng.random_range(0..ENTRIES)),
            rng.random_range(0..CLIENTS).min(rng.random_range(0..CLIENTS)),
        );
        let mut payload_hash = [0; 32];
        payload_hash[..16].copy_from_slice(&self.number.to_le_bytes());
        Fact {
            publisher: PUBLISHERS.choose(rng).unwrap(),
            timestamp_ms: self.any_time(rng),
            entry_id: entry(entry_number),
            receipt_id: Uuid::from_u128((0xa0 << 120) | self.number),
            payload_hash,
            url: format!("https://x.example/{entry_number}?v={}&ü='", rng.random_range(0..3)),
            client_id: client(client_number),
            // Most receipts of a client have one key, and others use its ID.
            key: match rng.random_range(0..4) {
                0 => [KEYS.choose(rng).unwrap().0; 32],
                _ => [KEYS[usize::try_from(client_number).unwrap() % KEYS.len()].0; 32],
            },
            operator: "",
            publisher_verified: true,
            name: format!("client 'n°{client_number}' {}", rng.random_range(0..2)),
            version: format!("1.{}", rng.random_range(0..4)),
            organization: format!("org \"{}\"", client_number / 2),
            purpose: PURPOSES.choose(rng).unwrap(),
            model_id: (*MODELS.choose(rng).unwrap()).to_owned(),
        }
    }

    fn refused(&mut self, rng: &mut StdRng, position: u128) -> Refused {
        // Now and then of a receipt that counts elsewhere.
        let receipt_id = match rng.random_range(0..4) {
            0 => None,
            1 => Some(Uuid::from_u128((0xb0 << 120) | position)),
            _ => Some(self.any_receipt(rng)),
        };
        Refused {
            position,
            reason: REASONS.choose(rng).unwrap(),
            detail: format!("=what \"was\", found {}", rng.random_range(0..3)),
            publisher: PUBLISHERS.choose(rng).unwrap(),
            receipt_id,
            client_id: rng.random_bool(0.7).then(|| any_client(rng)).filter(|id| !id.is_nil()),
            received_ms: self.received_ms,
            request_id: format!("request-{}", rng.random_range(0..1_000)),
        }
    }

    /// A block from `first_offset` of `partition` on, with retries and receipts under ids of
    /// before.
    pub(crate) fn block(&mut self, rng: &mut StdRng, partition: u32, first_offset: u64) -> Block {
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        let records: u64 = rng.random_range(1..60);
        for offset in first_offset..first_offset + records {
            self.received_ms += rng.random_range(1..5_000);
            for index in 0..rng.random_range(1..5_u128) {
                let position =
                    (u128::from(EPOCH) << 96) | (u128::from(partition) << 64) | (u128::from(offset) << 16) | index;
                let mut fact = match rng.random_range(0..20) {
                    0 | 1 if !self.made.is_empty() => self.made.choose(rng).unwrap().clone(),
                    2 if !self.made.is_empty() => {
                        let other = self.made.choose(rng).unwrap().receipt_id;
                        Fact {
                            receipt_id: other,
                            ..self.fact(rng)
                        }
                    }
                    3 => {
                        refused.push(self.refused(rng, position));
                        continue;
                    }
                    _ => self.fact(rng),
                };
                fact.operator = operator_of(&fact.key, self.received_ms);
                fact.publisher_verified = is_verified(fact.publisher, self.received_ms);
                self.made.push(fact.clone());
                accepted.push((fact, position, self.received_ms));
            }
        }
        let mut touched = Touched::default();
        for (fact, _, _) in &accepted {
            touched.add(fact.timestamp_ms, fact.publisher);
        }
        let (taken, turned_away) = (accepted.len() as u64, refused.len() as u64);
        let line = LedgerRow {
            epoch: EPOCH,
            partition,
            first_offset,
            last_offset: first_offset + records - 1,
            records,
            receipts_in: taken + turned_away,
            accepted: taken,
            rejected: turned_away,
            verifier: "test".to_owned(),
            committed_at_ms: self.received_ms,
            shard: 0,
            verdicts: VerdictsPosition {
                epoch: EPOCH,
                offset: self.blocks,
            },
            touched,
        };
        self.blocks += 1;
        Block {
            line,
            accepted,
            refused,
        }
    }
}
