//! What a question finds: a publisher's receipts of some hours.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use uuid::Uuid;

use super::part::{Occurred, Part, PlacedSum, PlacedSums};
use super::placed::Places;
use super::used::Use;
use crate::rollup::sums::EntrySum;

/// URLs of a publisher that were asked for.
const ASKED_URLS_MAX: usize = 2_000;
const ASKED_URL_BYTES_MAX: usize = 1_024;

/// Receipts of a publisher. Ranges are half-open, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    pub(super) uses: Places<Arc<Use>>,
    pub(super) urls: Places<Arc<str>>,
    pub(super) asked_urls: Arc<AskedUrls>,
    pub(super) parts: Vec<Arc<Part>>,
}

/// URLs of receipts that weren't read with theirs, once somebody asked: by entry and instant, with how many receipts that was of.
#[derive(Debug, Default)]
pub(super) struct AskedUrls(Mutex<HashMap<(Uuid, i64), OfMany, RandomState>>);

type OfMany = (usize, Arc<str>);

impl AskedUrls {
    fn put(&self, entry: Uuid, at_ms: i64, many: usize, url: Arc<str>) {
        let mut known = self.0.lock();
        if known.len() >= ASKED_URLS_MAX {
            known.clear();
        }
        known.insert((entry, at_ms), (many, url));
    }

    fn of(&self, entry: Uuid, at_ms: i64, many: usize) -> Option<Arc<str>> {
        let known = self.0.lock();
        let (of, url) = known.get(&(entry, at_ms))?;
        (*of == many).then(|| Arc::clone(url))
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.lock().values().map(|(_, url)| 96 + url.len()).sum()
    }
}

impl Recent {
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Their sums by entry.
    pub(crate) fn entries(&self, range: &Range<i64>) -> Vec<EntrySum> {
        let mut sums: HashMap<Uuid, EntrySum, RandomState> = HashMap::default();
        for part in &self.parts {
            for one in part.entries(range).iter() {
                let sum = sums.entry(one.entry).or_insert_with(|| EntrySum {
                    receipts: 0,
                    ..one.clone()
                });
                sum.receipts += one.receipts;
                sum.last_ms = sum.last_ms.max(one.last_ms);
            }
        }
        sums.into_values().collect()
    }

    /// Their sums by use and half hour.
    pub(crate) fn uses(&self, range: &Range<i64>) -> Vec<(Arc<Use>, PlacedSum)> {
        let mut sums = PlacedSums::default();
        for part in &self.parts {
            for one in part.uses(range).iter() {
                sums.add(one);
            }
        }
        let with_use = |sum: PlacedSum| Some((Arc::clone(self.uses.at(sum.of)?), sum));
        sums.into_all().filter_map(with_use).collect()
    }

    /// The clients that used an entry, each at least once.
    pub(crate) fn clients_of(&self, entry: Uuid, range: &Range<i64>) -> impl Iterator<Item = Uuid> {
        let of_entry = self.of_entry(entry, range);
        of_entry.filter_map(|one| Some(self.uses.at(one.of)?.client))
    }

    /// The greatest URL of the receipts of an entry and an instant; `None` if there are none, or one's isn't known.
    pub(crate) fn url_of(&self, entry: Uuid, at_ms: i64) -> Option<Arc<str>> {
        let instant = at_ms..at_ms.saturating_add(1);
        let mut many = 0;
        let mut greatest = None;
        let mut all_known = true;
        for one in self.of_entry(entry, &instant) {
            let url = self.urls.at(one.url);
            all_known &= url.is_some();
            greatest = greatest.max(url);
            many += 1;
        }
        if all_known {
            greatest.map(Arc::clone)
        } else {
            self.asked_urls.of(entry, at_ms, many)
        }
    }

    /// Keeps what the warehouse says that is.
    pub(crate) fn put_url(&self, entry: Uuid, at_ms: i64, url: Arc<str>) {
        let many = self.of_entry(entry, &(at_ms..at_ms.saturating_add(1))).count();
        if many > 0 && url.len() <= ASKED_URL_BYTES_MAX {
            self.asked_urls.put(entry, at_ms, many, url);
        }
    }

    fn of_entry(&self, entry: Uuid, range: &Range<i64>) -> impl Iterator<Item = &Occurred> {
        self.parts.iter().flat_map(move |part| part.of_entry(entry, range))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::placed::{Placed, UNKNOWN};
    use super::{Arc, Occurred, Part, Recent, Use, Uuid};

    fn recent(parts: &[&[(i64, u128, u32, u32)]]) -> Recent {
        let used = |client: u128| Use {
            client: Uuid::from_u128(client),
            purpose: "research".into(),
            name: "reader".into(),
            organization: "readers".into(),
            model: "".into(),
        };
        let one = |&(at_ms, entry, of, url): &(i64, u128, u32, u32)| Occurred {
            at_ms,
            entry: Uuid::from_u128(entry),
            of,
            url,
        };
        let part = |all: &&[(i64, u128, u32, u32)]| Arc::new(Part::of(all.iter().map(one).collect()));
        let (mut uses, mut urls) = (Placed::default(), Placed::<Arc<str>>::default());
        for number in 0..2_u8 {
            uses.put(Arc::new(used(7 + u128::from(number))), 1).unwrap();
            urls.put(format!("https://a.example/{}", number + 1).into(), 1).unwrap();
        }
        Recent {
            uses: uses.places(),
            urls: urls.places(),
            asked_urls: Arc::default(),
            parts: parts.iter().map(part).collect(),
        }
    }

    #[test]
    fn sums_are_over_all_parts() {
        let recent = recent(&[&[(10, 1, 0, 0), (20, 2, 1, 0)], &[(30, 1, 1, 0), (15, 2, 1, 0)]]);
        let mut entries: Vec<_> = recent.entries(&(0..100)).into_iter().collect();
        entries.sort_by_key(|sum| sum.entry);
        let found = entries
            .iter()
            .map(|sum| (sum.entry.as_u128(), sum.receipts, sum.last_ms));
        assert_eq!(found.collect::<Vec<_>>(), [(1, 2, 30), (2, 2, 20)]);
        let mut uses = recent.uses(&(11..100));
        uses.sort_by_key(|(used, _)| used.client);
        let found = uses
            .iter()
            .map(|(used, sum)| (used.client.as_u128(), sum.receipts, sum.last_ms));
        assert_eq!(found.collect::<Vec<_>>(), [(8, 3, 30)]);
        let clients: Vec<u128> = recent
            .clients_of(Uuid::from_u128(1), &(0..100))
            .map(|one| one.as_u128())
            .collect();
        assert_eq!(clients, [7, 8]);
    }

    #[test]
    fn a_url_is_known_if_all_of_its_instant_are() {
        let recent = recent(&[
            &[(10, 1, 0, 0), (20, 1, 0, 0), (30, 1, 0, 1)],
            &[(20, 1, 0, 1), (30, 1, 0, UNKNOWN), (40, 2, 0, 0)],
        ]);
        let of = |recent: &Recent, entry: u128, at_ms| {
            let url = recent.url_of(Uuid::from_u128(entry), at_ms)?;
            Some(url.trim_start_matches("https://a.example/").to_owned())
        };
        let url = |text: &str| Some(text.to_owned());
        assert_eq!(of(&recent, 1, 10), url("1"));
        assert_eq!(of(&recent, 1, 20), url("2"));
        assert_eq!(of(&recent, 1, 30), None);
        assert_eq!(of(&recent, 1, 40), None);
        assert_eq!(of(&recent, 2, 40), url("1"));
        // Asked for once, it is known of as many receipts.
        recent.put_url(Uuid::from_u128(1), 30, "https://a.example/3".into());
        recent.put_url(Uuid::from_u128(1), 40, "https://a.example/4".into());
        assert_eq!(of(&recent, 1, 30), url("3"));
        assert_eq!(of(&recent, 1, 40), None, "there is none");
        let mut more = recent.clone();
        let another = Occurred {
            at_ms: 30,
            entry: Uuid::from_u128(1),
            of: 0,
            url: 0,
        };
        more.parts.push(Arc::new(Part::of(vec![another])));
        assert_eq!(of(&more, 1, 30), None);
        assert_eq!(of(&recent, 1, 30), url("3"));
    }
}
