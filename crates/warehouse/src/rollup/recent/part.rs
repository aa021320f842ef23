//! Receipts that are held together, and their sums: neither changes any more.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::fast::RandomState;
use uuid::Uuid;

use crate::rollup::sums::{EntrySum, SlotSum, Sum};

/// A receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurred {
    pub(super) at_ms: i64,
    pub(super) entry: Uuid,
    /// The place of its [`Use`](super::Use).
    pub(super) of: u32,
    /// The place of its URL; [`UNKNOWN`](super::placed::UNKNOWN) for one that wasn't read.
    pub(super) url: u32,
}

/// Receipts of one use in a half hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacedSum {
    /// The place of the [`Use`](super::Use).
    pub(crate) of: u32,
    /// Where the half hour begins.
    pub(crate) at_ms: i64,
    pub(crate) receipts: u64,
    pub(crate) last_ms: i64,
}

const HALF_HOUR_MS: i64 = SlotSum::SPAN_MS;

/// Adds up what is of one use in one half hour.
#[derive(Debug, Default)]
pub(super) struct PlacedSums(HashMap<(u32, i64), (u64, i64), RandomState>);

impl PlacedSums {
    pub(super) fn add(&mut self, one: &PlacedSum) {
        let (receipts, last_ms) = self.0.entry((one.of, one.at_ms)).or_insert((0, i64::MIN));
        *receipts += one.receipts;
        *last_ms = one.last_ms.max(*last_ms);
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = PlacedSum> {
        self.0.into_iter().map(|((of, at_ms), (receipts, last_ms))| PlacedSum {
            of,
            at_ms,
            receipts,
            last_ms,
        })
    }
}

#[derive(Debug)]
pub(super) struct Part {
    /// In order of entry, then of time.
    receipts: Box<[Occurred]>,
    first_ms: i64,
    last_ms: i64,
    entries: OnceLock<Box<[EntrySum]>>,
    uses: OnceLock<Box<[PlacedSum]>>,
}

impl Part {
    pub(super) fn of(mut receipts: Vec<Occurred>) -> Self {
        // This sort finds runs: of two parts that are joined it merges two.
        receipts.sort_by_key(|one| (one.entry, one.at_ms));
        let times = || receipts.iter().map(|one| one.at_ms);
        Self {
            first_ms: times().min().unwrap_or(i64::MAX),
            last_ms: times().max().unwrap_or(i64::MIN),
            receipts: receipts.into(),
            entries: OnceLock::new(),
            uses: OnceLock::new(),
        }
    }

    /// One of the receipts of two.
    pub(super) fn joined(&self, other: &Self) -> Self {
        Self::of(self.receipts.iter().chain(&other.receipts).copied().collect())
    }

    pub(super) fn len(&self) -> usize {
        self.receipts.len()
    }

    /// With the sums that were asked for.
    pub(super) fn bytes(&self) -> usize {
        let entries = self.entries.get().map_or(0, |all| size_of_val::<[_]>(all));
        let uses = self.uses.get().map_or(0, |all| size_of_val::<[_]>(all));
        128 + size_of_val::<[_]>(&self.receipts) + entries + uses
    }

    fn is_within(&self, range: &Range<i64>) -> bool {
        self.first_ms >= range.start && self.last_ms < range.end
    }

    /// Its receipts of a range, by entry.
    pub(super) fn entries(&self, range: &Range<i64>) -> Cow<'_, [EntrySum]> {
        let sums = || {
            let by_entry = self.receipts.chunk_by(|one, other| one.entry == other.entry);
            by_entry.filter_map(|all| sum_of(cut(all, range))).collect()
        };
        if self.is_within(range) {
            Cow::Borrowed(self.entries.get_or_init(sums))
        } else {
            Cow::Owned(sums().into())
        }
    }

    /// Its receipts of a range, by use and half hour.
    pub(super) fn uses(&self, range: &Range<i64>) -> Cow<'_, [PlacedSum]> {
        let sums = || {
            let mut sums = PlacedSums::default();
            for one in self.receipts.iter().filter(|one| range.contains(&one.at_ms)) {
                sums.add(&PlacedSum {
                    of: one.of,
                    at_ms: one.at_ms - one.at_ms.rem_euclid(HALF_HOUR_MS),
                    receipts: 1,
                    last_ms: one.at_ms,
                });
            }
            sums.into_all().collect()
        };
        if self.is_within(range) {
            Cow::Borrowed(self.uses.get_or_init(sums))
        } else {
            Cow::Owned(sums().into())
        }
    }

    /// Its receipts of an entry in a range, in order of time.
    pub(super) fn of_entry(&self, entry: Uuid, range: &Range<i64>) -> &[Occurred] {
        let from = self.receipts.partition_point(|one| one.entry < entry);
        let rest = self.receipts.get(from..).unwrap_or_default();
        let many = rest.partition_point(|one| one.entry == entry);
        cut(rest.get(..many).unwrap_or_default(), range)
    }
}

/// Those of a range; they are in order of time.
fn cut<'a>(all: &'a [Occurred], range: &Range<i64>) -> &'a [Occurred] {
    let before = |end_ms: i64| all.partition_point(|one| one.at_ms < end_ms);
    all.get(before(range.start)..before(range.end)).unwrap_or_default()
}

fn sum_of(all: &[Occurred]) -> Option<EntrySum> {
    let last = all.last()?;
    Some(EntrySum {
        entry: last.entry,
        receipts: all.len() as u64,
        last_ms: last.at_ms,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::super::placed::UNKNOWN;
    use super::{HALF_HOUR_MS, Occurred, Part, Range, Uuid};

    fn receipts(many: i64) -> Vec<Occurred> {
        let one = |number: i64| Occurred {
            // In no order, also below 0, and equal ones.
            at_ms: (number * 7_919) % 97 * 55_000 - HALF_HOUR_MS,
            entry: Uuid::from_u128(u128::try_from((number * 31) % 5).unwrap()),
            of: u32::try_from((number * 17) % 3).unwrap(),
            url: UNKNOWN,
        };
        (0..many).map(one).collect()
    }

    /// What a part says of a range is what its receipts say.
    fn hold(part: &Part, all: &[Occurred], range: &Range<i64>) {
        let ours = || all.iter().filter(|one| range.contains(&one.at_ms));
        let mut by_entry: BTreeMap<Uuid, (u64, i64)> = BTreeMap::new();
        let mut by_use: BTreeMap<(u32, i64), (u64, i64)> = BTreeMap::new();
        for one in ours() {
            let slot = one.at_ms.div_euclid(HALF_HOUR_MS) * HALF_HOUR_MS;
            for sum in [
                by_entry.entry(one.entry).or_insert((0, i64::MIN)),
                by_use.entry((one.of, slot)).or_insert((0, i64::MIN)),
            ] {
                *sum = (sum.0 + 1, sum.1.max(one.at_ms));
            }
        }
        let entries = part.entries(range);
        let found = entries.iter().map(|sum| (sum.entry, (sum.receipts, sum.last_ms)));
        assert_eq!(found.collect::<Vec<_>>(), by_entry.into_iter().collect::<Vec<_>>());
        let uses = part.uses(range);
        let found = uses
            .iter()
            .map(|sum| ((sum.of, sum.at_ms), (sum.receipts, sum.last_ms)));
        assert_eq!(found.clone().collect::<BTreeMap<_, _>>(), by_use);
        assert_eq!(found.count(), by_use.len(), "each once");
        for entry in 0..6 {
            let entry = Uuid::from_u128(entry);
            let mut expected: Vec<i64> = ours().filter(|one| one.entry == entry).map(|one| one.at_ms).collect();
            expected.sort_unstable();
            let found = part.of_entry(entry, range).iter().map(|one| one.at_ms);
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn its_sums_are_those_of_its_receipts_in_any_range() {
        let all = receipts(500);
        let (some, rest) = all.split_at(180);
        let part = Part::of(some.to_vec()).joined(&Part::of(rest.to_vec()));
        assert_eq!(part.len(), all.len());
        let (first, last) = (part.first_ms, part.last_ms);
        for range in [
            i64::MIN..i64::MAX,
            first..last + 1,
            first..last,
            first + 1..last + 1,
            -5..HALF_HOUR_MS + 1,
            0..0,
            last + 1..i64::MAX,
        ] {
            // Twice: what is kept of one range isn't another's.
            hold(&part, &all, &range);
            hold(&part, &all, &range);
        }
        hold(&Part::of(Vec::new()), &[], &(0..1));
    }

    #[test]
    fn what_was_asked_for_takes_memory() {
        let part = Part::of(receipts(100));
        let before = part.bytes();
        part.entries(&(0..10));
        assert_eq!(part.bytes(), before, "of a part of it nothing is kept");
        part.entries(&(i64::MIN..i64::MAX));
        part.uses(&(i64::MIN..i64::MAX));
        assert!(part.bytes() >= before + 5 * 32 + 3 * 32);
    }
}
