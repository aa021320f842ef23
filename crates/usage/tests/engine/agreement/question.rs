//! Random scopes, filters, ranges and buckets.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use warehouse::{BeforeVerification, Below, Filter, Scope, Trust};

use super::harness::{NOON_MS, Receipt};
use super::model::{DAY_MS, DAYS, HALF_HOUR_MS, HOUR_MS, MINUTE_MS, Model, PUBLISHERS};

/// Minutes between UTC and local time.
const OFFSETS: [i64; 5] = [0, 345, -210, 60, -570];

const BEFORE_VERIFICATION: [BeforeVerification; 4] = [
    BeforeVerification::Exclude,
    BeforeVerification::Exclude,
    BeforeVerification::Include,
    BeforeVerification::Only,
];

pub(crate) fn random_question(rng: &mut StdRng, model: &Model) -> (Scope, Filter) {
    let chance = *[0.0, 0.0, 0.25, 0.5].choose(rng).unwrap();
    let some = |rng: &mut StdRng| -> Option<Receipt> {
        rng.random_bool(chance)
            .then(|| model.receipts.choose(rng).unwrap().clone())
    };
    let range = random_range(rng, model);
    let filter = Filter {
        from_ms: range.start,
        to_ms: range.end,
        purpose: some(rng).map(|receipt| receipt.purpose),
        client_id: some(rng).map(|receipt| receipt.client_id),
        entry_id: some(rng).map(|receipt| receipt.entry_id),
        model_id: some(rng).map(|receipt| receipt.model_id),
        trust: some(rng).map(|receipt| Trust::of(&receipt.operator)),
        operator: some(rng).map(|receipt| receipt.operator),
        key_fingerprint: some(rng).map(|receipt| receipt.key),
        before_verification: *BEFORE_VERIFICATION.choose(rng).unwrap(),
    };
    (random_scope(rng), filter)
}

fn random_scope(rng: &mut StdRng) -> Scope {
    let count = rng.random_range(1..=PUBLISHERS.len());
    let publishers = PUBLISHERS.sample(rng, count).map(|name| (*name).to_owned()).collect();
    let mut scope = Scope::of(publishers);
    if rng.random_bool(0.3) {
        let except = rng.random_range(0..2);
        scope.below.push(Below {
            parent: (*["example", "news.example"].choose(rng).unwrap()).to_owned(),
            except: PUBLISHERS.sample(rng, except).map(|name| (*name).to_owned()).collect(),
        });
        scope.publishers.truncate(rng.random_range(0..2));
    }
    scope
}

fn random_range(rng: &mut StdRng, model: &Model) -> std::ops::Range<i64> {
    let begin = NOON_MS - DAYS * DAY_MS;
    match rng.random_range(0..10) {
        0 => return i64::MIN..i64::MAX,
        1 => return rng.random_range(begin..NOON_MS)..i64::MAX,
        2 => {
            // From one receipt to another, one of them included.
            let at = |rng: &mut StdRng| model.receipts.choose(rng).unwrap().timestamp_ms;
            let (one, other) = (at(rng), at(rng));
            return one.min(other)..one.max(other);
        }
        _ => {}
    }
    // To the millisecond, or where somebody's days, hours or quarters of them begin.
    let unit_ms = *[1, MINUTE_MS, HALF_HOUR_MS / 2, HALF_HOUR_MS, HOUR_MS, DAY_MS, DAY_MS]
        .choose(rng)
        .unwrap();
    let offset_ms = OFFSETS.choose(rng).unwrap() * MINUTE_MS;
    let cut = |at: i64| (at + offset_ms) / unit_ms * unit_ms - offset_ms;
    let to_ms = cut(NOON_MS + rng.random_range(-DAYS..2) * DAY_MS + rng.random_range(0..DAY_MS));
    let longest = *[HOUR_MS, 3 * DAY_MS, 40 * DAY_MS, DAYS * DAY_MS].choose(rng).unwrap();
    cut(to_ms - rng.random_range(0..longest))..to_ms
}

/// Starts of buckets; sometimes later than the range, or not all of it.
pub(crate) fn random_boundaries(rng: &mut StdRng, filter: &Filter) -> Vec<i64> {
    let begin = NOON_MS - DAYS * DAY_MS;
    let offset_ms = OFFSETS.choose(rng).unwrap() * MINUTE_MS;
    let first = filter.from_ms.max(begin) + rng.random_range(0..2) * DAY_MS;
    let interval = rng.random_range(0..6);
    let unit_ms = match interval {
        0 => MINUTE_MS,
        1 => HOUR_MS,
        _ => DAY_MS,
    };
    let first = if rng.random_bool(0.5) {
        (first + offset_ms) / unit_ms * unit_ms - offset_ms
    } else {
        first
    };
    let mut boundaries = vec![first];
    while boundaries.len() < rng.random_range(1..150) {
        let length_ms = match interval {
            // As around a change of the clocks.
            3 => rng.random_range(23..=25) * HOUR_MS,
            // As in Lord Howe.
            4 => DAY_MS + rng.random_range(-1..=1) * HALF_HOUR_MS,
            5 => rng.random_range(28..=31) * DAY_MS,
            _ => unit_ms,
        };
        boundaries.push(boundaries.last().unwrap() + length_ms);
    }
    boundaries
}
