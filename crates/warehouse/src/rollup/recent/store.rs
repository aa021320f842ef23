//! What is held, and for how long.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use uuid::Uuid;

use super::Basis;
use super::found::{AskedUrls, Recent};
use super::hour::{Hour, Keyed};
use super::part::Occurred;
use super::placed::{Placed, UNKNOWN};
use super::used::Use;
use crate::Hours;
use crate::rollup::mark::hour_of;

/// What all of it may take.
const BYTES_MAX: usize = 320 << 20;
/// Different uses of one publisher: with more it is let go of.
const USES_MAX: usize = 50_000;
/// Its URLs, and what they take: with more those before are forgotten.
const URLS_MAX: usize = 30_000;
const URLS_BYTES_MAX: usize = 8 << 20;
/// Bytes of publishers' names: what a parameter of a server may hold.
const NAMES_BYTES_MAX: usize = 48 << 10;
/// How often what came in is weighed.
const ROOM_AFTER: Duration = Duration::from_secs(1);
/// After what time an hour is let go of that nobody asked for, and everything if nothing was read for so long.
const UNUSED_MAX: Duration = Duration::from_secs(900);

#[derive(Debug)]
enum Content {
    /// What came in since it was asked for.
    Waiting(Vec<Keyed>),
    All(Hour),
}

#[derive(Debug)]
struct Held {
    content: Content,
    used_at: Instant,
}

impl Held {
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Waiting(some) => some.capacity() * size_of::<Keyed>(),
            Content::All(hour) => hour.bytes(),
        }
    }
}

#[derive(Debug, Default)]
struct Publisher {
    uses: Placed<Arc<Use>>,
    urls: Placed<Arc<str>>,
    asked_urls: Arc<AskedUrls>,
    hours: BTreeMap<u32, Held>,
}

impl Publisher {
    /// The place of each; `None` if they are too many.
    fn places_of(&mut self, uses: Vec<Use>) -> Option<Vec<u32>> {
        uses.into_iter().map(|one| self.place_of(one)).collect()
    }

    fn place_of(&mut self, one: Use) -> Option<u32> {
        if let Some(place) = self.uses.of(&one) {
            return Some(place);
        }
        if self.uses.len() >= USES_MAX {
            return None;
        }
        let texts = one.purpose.len() + one.name.len() + one.organization.len() + one.model.len();
        self.uses.put(Arc::new(one), 128 + size_of::<Use>() + texts)
    }

    fn place_of_url(&mut self, url: &str) -> u32 {
        if url.is_empty() {
            return UNKNOWN;
        }
        if let Some(place) = self.urls.of(url) {
            return place;
        }
        if self.urls.len() >= URLS_MAX || self.urls.bytes() >= URLS_BYTES_MAX {
            self.urls.clear();
        }
        self.urls.put(url.into(), 96 + url.len()).unwrap_or(UNKNOWN)
    }

    fn bytes(&self) -> usize {
        let urls = self.urls.bytes() + self.asked_urls.bytes();
        self.uses.bytes() + urls + self.hours.values().map(Held::bytes).sum::<usize>()
    }
}

/// Receipts of one use.
pub(super) struct Group {
    pub(super) publisher: String,
    pub(super) of: Use,
    pub(super) receipts: Vec<Told>,
    /// Those of the receipts, if they were read; empty texts are unknown.
    pub(super) urls: Vec<String>,
}

/// When, the entry, the key.
pub(super) type Told = (i64, u128, u128);

/// What a view needs of what has come in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// All that is below its commits was read.
    Nothing,
    /// The newest block of rows; nothing is held.
    Begin,
    Read(Wanted),
}

/// What has come in is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Whose.
    pub(super) publishers: Vec<String>,
    /// Offsets by partition: what lies below was read.
    pub(super) low: Vec<u64>,
    /// The number of the newest block of rows before the last reading.
    pub(super) block: u64,
    registered: u64,
}

/// Everything.
#[derive(Debug)]
pub(super) struct Store {
    bytes_max: usize,
    basis: Option<Basis>,
    /// Nothing is held while it isn't known.
    block: Option<u64>,
    read_at: Option<Instant>,
    tidied_at: Option<Instant>,
    roomed_at: Option<Instant>,
    /// How often hours were asked for.
    registered: u64,
    publishers: HashMap<Arc<str>, Publisher, RandomState>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            bytes_max: BYTES_MAX,
            basis: None,
            block: None,
            read_at: None,
            tidied_at: None,
            roomed_at: None,
            registered: 0,
            publishers: HashMap::default(),
        }
    }
}

impl Store {
    /// Lets go of what doesn't hold for a view, of everything without one, and of what nobody has asked for in a while.
    pub(super) fn tidy(&mut self, basis: Option<&Basis>, now: Instant) {
        let unused = |at: Instant| now.saturating_duration_since(at) > UNUSED_MAX;
        let goes_on = |known: &Basis| basis.is_some_and(|basis| known.goes_on(basis));
        if self.basis.as_ref().is_some_and(|known| !goes_on(known)) || self.read_at.is_some_and(unused) {
            self.clear();
        }
        let lately = |at: Instant| now.saturating_duration_since(at) < UNUSED_MAX / 15;
        if self.tidied_at.is_some_and(lately) {
            return;
        }
        self.tidied_at = Some(now);
        for publisher in self.publishers.values_mut() {
            publisher.hours.retain(|_, hour| !unused(hour.used_at));
        }
        self.publishers.retain(|_, publisher| !publisher.hours.is_empty());
        self.make_room(now);
    }

    /// What is to be read for a view.
    pub(super) fn want(&mut self, basis: &Basis, now: Instant) -> Wants {
        self.tidy(Some(basis), now);
        if self.publishers.is_empty() {
            self.clear();
            (self.basis, self.read_at) = (Some(basis.clone()), Some(now));
            return Wants::Begin;
        }
        let (Some(known), Some(block)) = (&self.basis, self.block) else {
            return Wants::Begin;
        };
        self.read_at = Some(now);
        if basis.is_within(known) {
            return Wants::Nothing;
        }
        let low = known.low();
        Wants::Read(Wanted {
            publishers: self.named(),
            low,
            block,
            registered: self.registered,
        })
    }

    /// Whose receipts are held: those used last, as far as a statement may name them. The others are let go of.
    fn named(&mut self) -> Vec<String> {
        let used_at = |publisher: &Publisher| publisher.hours.values().map(|hour| hour.used_at).max();
        let mut all: Vec<_> = self
            .publishers
            .iter()
            .map(|(name, one)| (used_at(one), Arc::clone(name)))
            .collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let mut bytes = 0;
        let mut named = Vec::new();
        for (_, name) in all {
            bytes += name.len() + 4;
            if bytes <= NAMES_BYTES_MAX {
                named.push(name.to_string());
            } else {
                self.publishers.remove(&name);
            }
        }
        named
    }

    /// Whether hours can be asked for.
    pub(super) fn is_begun(&self) -> bool {
        self.block.is_some()
    }

    /// The newest block of rows, before anything is asked for.
    pub(super) fn begin(&mut self, block: u64) {
        self.block = Some(block);
    }

    /// What was read of what has come in.
    pub(super) fn came(&mut self, basis: &Basis, wanted: &Wanted, block: u64, groups: Vec<Group>) {
        let mut new: HashMap<String, BTreeMap<u32, Vec<Keyed>>, RandomState> = HashMap::default();
        for group in groups {
            let Some(publisher) = self.publishers.get_mut(group.publisher.as_str()) else {
                continue;
            };
            let is_held = |at_ms: i64| publisher.hours.contains_key(&hour_of(at_ms));
            if !group.receipts.iter().any(|(at_ms, ..)| is_held(*at_ms)) {
                continue;
            }
            let Some(place) = publisher.place_of(group.of) else {
                self.publishers.remove(group.publisher.as_str());
                continue;
            };
            let of_publisher = new.entry(group.publisher).or_default();
            let urls = group.urls.iter().map(String::as_str).chain(std::iter::repeat(""));
            for ((at_ms, entry, key), url) in group.receipts.into_iter().zip(urls) {
                let hour = hour_of(at_ms);
                if !publisher.hours.contains_key(&hour) {
                    continue;
                }
                let one = Occurred {
                    at_ms,
                    entry: Uuid::from_u128(entry),
                    of: place,
                    url: publisher.place_of_url(url),
                };
                of_publisher.entry(hour).or_default().push((key, one));
            }
        }
        for (name, hours) in new {
            let Some(publisher) = self.publishers.get_mut(name.as_str()) else {
                continue;
            };
            for (hour, came) in hours {
                match publisher.hours.get_mut(&hour).map(|held| &mut held.content) {
                    Some(Content::Waiting(some)) => some.extend(came),
                    Some(Content::All(hour)) => hour.add(came),
                    None => {}
                }
            }
        }
        // Who registered meanwhile wasn't read for: such blocks are looked at again.
        if self.registered == wanted.registered {
            self.block = Some(block);
        }
        self.basis = Some(basis.clone());
        self.weigh(Instant::now());
    }

    /// Makes room now and then: for what came in, and for sums that were asked for.
    fn weigh(&mut self, now: Instant) {
        let lately = |at: Instant| now.saturating_duration_since(at) <= ROOM_AFTER;
        if !self.roomed_at.is_some_and(lately) {
            self.roomed_at = Some(now);
            self.make_room(now);
        }
    }

    pub(super) fn clear(&mut self) {
        self.publishers.clear();
        tell(0);
        (self.basis, self.block) = (None, None);
    }

    /// Which of the hours are to be read; from now on what comes in is gathered for them. `None` where nothing can be held for the view.
    pub(super) fn register(&mut self, basis: &Basis, publisher: &str, hours: &Hours) -> Option<Vec<u32>> {
        self.block?;
        self.basis.as_ref().filter(|known| known.goes_on(basis))?;
        let held = self.publishers.entry(publisher.into()).or_default();
        let mut missing = Vec::new();
        for hour in hours.ranges().flatten() {
            let now = Instant::now();
            let held = held.hours.entry(hour).or_insert_with(|| Held {
                content: Content::Waiting(Vec::new()),
                used_at: now,
            });
            held.used_at = now;
            if matches!(held.content, Content::Waiting(_)) {
                missing.push(hour);
            }
        }
        self.registered += u64::from(!missing.is_empty());
        Some(missing)
    }

    /// The places of uses that were read; `None` if they are too many, or the publisher was let go of.
    pub(super) fn places(&mut self, publisher: &str, uses: Vec<Use>) -> Option<Vec<u32>> {
        self.publishers.get_mut(publisher)?.places_of(uses)
    }

    /// Hours that were read. Those that were let go of meanwhile are left out.
    pub(super) fn fill(&mut self, publisher: &str, hours: BTreeMap<u32, Hour>) {
        let Some(held) = self.publishers.get_mut(publisher) else {
            return;
        };
        for (hour, mut read) in hours {
            let Some(held) = held.hours.get_mut(&hour) else {
                continue;
            };
            if let Content::Waiting(came) = &mut held.content {
                read.add(std::mem::take(came));
                held.content = Content::All(read);
            }
        }
    }

    /// The receipts of these hours, if all are held.
    pub(super) fn recent(&mut self, basis: &Basis, publisher: &str, hours: &Hours) -> Option<Recent> {
        self.basis.as_ref().filter(|known| known.goes_on(basis))?;
        self.weigh(Instant::now());
        let held = self.publishers.get_mut(publisher)?;
        let mut recent = Recent {
            uses: held.uses.places(),
            urls: held.urls.places(),
            asked_urls: Arc::clone(&held.asked_urls),
            parts: Vec::new(),
        };
        for hour in hours.ranges().flatten() {
            let held = held.hours.get_mut(&hour)?;
            let Content::All(all) = &held.content else {
                return None;
            };
            recent.parts.extend(all.parts().iter().cloned());
            held.used_at = Instant::now();
        }
        Some(recent)
    }

    /// Lets go of what was used longest ago until the rest fits. False if it doesn't, with all that was used since `since`.
    pub(super) fn make_room(&mut self, since: Instant) -> bool {
        let bytes = |publishers: &HashMap<Arc<str>, Publisher, RandomState>| {
            publishers.values().map(Publisher::bytes).sum::<usize>()
        };
        let mut taken = bytes(&self.publishers);
        if taken <= self.bytes_max {
            tell(taken);
            return true;
        }
        let all = self.publishers.iter().flat_map(|(name, publisher)| {
            let hours = publisher.hours.iter();
            hours.map(move |(hour, held)| (held.used_at, Arc::clone(name), *hour, held.bytes()))
        });
        let mut oldest: Vec<_> = all.filter(|(used_at, ..)| *used_at < since).collect();
        oldest.sort_unstable();
        for (_, name, hour, bytes) in oldest {
            if taken <= self.bytes_max {
                break;
            }
            if let Some(publisher) = self.publishers.get_mut(&name) {
                publisher.hours.remove(&hour);
                taken = taken.saturating_sub(bytes);
            }
        }
        self.publishers.retain(|_, publisher| !publisher.hours.is_empty());
        let taken = bytes(&self.publishers);
        tell(taken);
        taken <= self.bytes_max
    }

    /// How many receipts are held.
    pub(super) fn receipts(&self) -> usize {
        let hours = self.publishers.values().flat_map(|publisher| publisher.hours.values());
        let all = hours.filter_map(|held| match &held.content {
            Content::All(hour) => Some(hour.len()),
            Content::Waiting(_) => None,
        });
        all.sum()
    }

    /// Lets go of hours of a publisher; whether they were there.
    pub(super) fn drop_hours(&mut self, publisher: &str, hours: &[u32]) -> bool {
        let Some(held) = self.publishers.get_mut(publisher) else {
            return false;
        };
        let before = held.hours.len();
        held.hours.retain(|hour, _| !hours.contains(hour));
        let dropped = held.hours.len() < before;
        if held.hours.is_empty() {
            self.publishers.remove(publisher);
        }
        dropped
    }
}

#[allow(clippy::cast_precision_loss)] // A gauge.
fn tell(bytes: usize) {
    metrics::gauge!("receipts_rollup_recent_bytes").set(bytes as f64);
}

/// Receipts of one use by their hours; their URLs weren't read.
pub(super) fn by_hour(receipts: Vec<Told>, of: u32) -> BTreeMap<u32, Vec<Keyed>> {
    let mut hours: BTreeMap<u32, Vec<Keyed>> = BTreeMap::new();
    for (at_ms, entry, key) in receipts {
        let one = Occurred {
            at_ms,
            entry: Uuid::from_u128(entry),
            of,
            url: UNKNOWN,
        };
        hours.entry(hour_of(at_ms)).or_default().push((key, one));
    }
    hours
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{
        Basis, Group, Hour, Hours, Instant, NAMES_BYTES_MAX, Recent, Store, UNUSED_MAX, URLS_MAX, Use, Uuid, Wanted,
        Wants, by_hour,
    };
    use crate::CommittedOffset;

    const HOUR_MS: i64 = 3_600_000;

    fn basis(next_offset: u64) -> Basis {
        let committed = CommittedOffset {
            epoch: 1,
            partition: 2,
            next_offset,
        };
        Basis {
            committed: vec![committed],
            since: 3,
            erasures: Vec::new(),
            floor: 1,
        }
    }

    fn read(store: &mut Store, basis: &Basis) -> Wanted {
        match store.want(basis, Instant::now()) {
            Wants::Read(wanted) => wanted,
            other => panic!("{other:?}"),
        }
    }

    fn used(client: u128) -> Use {
        Use {
            client: Uuid::from_u128(client),
            purpose: "research".into(),
            name: "reader".into(),
            organization: "readers".into(),
            model: "".into(),
        }
    }

    /// Receipts of an hour with these keys.
    fn group(publisher: &str, hour: i64, keys: impl IntoIterator<Item = u128>) -> Group {
        let at = |key: u128| (hour * HOUR_MS + i64::try_from(key).unwrap(), 7, key);
        Group {
            publisher: publisher.to_owned(),
            of: used(1),
            receipts: keys.into_iter().map(at).collect(),
            urls: Vec::new(),
        }
    }

    fn hours(all: &[u32]) -> Hours {
        Hours::of_all(all.iter().map(|hour| (*hour, hour + 1)))
    }

    /// As after a reading of an hour.
    fn fill(store: &mut Store, group: Group, hour: u32) {
        let places = store.places(&group.publisher, vec![group.of]).unwrap();
        let mut read = Hour::default();
        read.add(by_hour(group.receipts, places[0]).into_values().flatten());
        store.fill(&group.publisher, [(hour, read)].into());
    }

    fn times(recent: &Recent) -> Vec<i64> {
        let of_entry = recent
            .parts
            .iter()
            .flat_map(|part| part.of_entry(Uuid::from_u128(7), &(0..i64::MAX)));
        let mut times: Vec<i64> = of_entry.map(|one| one.at_ms % HOUR_MS).collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn an_hour_has_what_was_read_and_what_came_meanwhile_and_since_once() {
        let mut store = Store::default();
        assert_eq!(store.want(&basis(10), Instant::now()), Wants::Begin);
        assert_eq!(
            store.register(&basis(10), "a.example", &hours(&[5])),
            None,
            "its block isn't known"
        );
        store.begin(100);
        assert_eq!(
            store.register(&basis(10), "a.example", &hours(&[5, 6])),
            Some(vec![5, 6])
        );
        assert!(store.recent(&basis(10), "a.example", &hours(&[5])).is_none());
        let wanted = read(&mut store, &basis(20));
        assert_eq!((wanted.low.clone(), wanted.block), (vec![0, 0, 10], 100));
        assert_eq!(wanted.publishers, ["a.example"]);
        // While the hour is read; another hour, and another publisher, aren't asked for.
        let came = vec![
            group("a.example", 5, [3, 4]),
            group("a.example", 9, [8]),
            group("b.example", 5, [9]),
        ];
        store.came(&basis(20), &wanted, 110, came);
        fill(&mut store, group("a.example", 5, [1, 2, 3]), 5);
        let recent = store.recent(&basis(20), "a.example", &hours(&[5])).unwrap();
        assert_eq!(times(&recent), [1, 2, 3, 4]);
        assert!(store.recent(&basis(20), "a.example", &hours(&[5, 6])).is_none());
        let wanted = read(&mut store, &basis(30));
        assert_eq!((wanted.low.clone(), wanted.block), (vec![0, 0, 20], 110));
        store.came(&basis(30), &wanted, 120, vec![group("a.example", 5, [2, 5])]);
        let recent = store.recent(&basis(30), "a.example", &hours(&[5])).unwrap();
        assert_eq!(times(&recent), [1, 2, 3, 4, 5]);
        assert_eq!((recent.len(), store.receipts()), (5, 5));
    }

    #[test]
    fn urls_are_those_of_what_came_in_and_begin_anew_when_they_are_too_many() {
        let mut store = Store::default();
        store.want(&basis(10), Instant::now());
        store.begin(100);
        store.register(&basis(10), "a.example", &hours(&[5]));
        fill(&mut store, group("a.example", 5, [1]), 5);
        let came = |store: &mut Store, next_offset, urls: Vec<(u128, String)>| {
            let wanted = read(store, &basis(next_offset));
            let (keys, urls) = urls.into_iter().unzip::<_, _, Vec<_>, _>();
            let group = Group {
                urls,
                ..group("a.example", 5, keys)
            };
            // Another hour's aren't kept.
            let other = Group {
                urls: vec!["https://a.example/other".to_owned()],
                ..super::tests::group("a.example", 9, [1])
            };
            store.came(&basis(next_offset), &wanted, 110, vec![group, other]);
        };
        let url = |key: u128| format!("https://a.example/{key}");
        came(
            &mut store,
            20,
            vec![(1, url(1)), (2, url(2)), (3, String::new()), (4, url(4))],
        );
        let of = |recent: &Recent, key: i64| {
            let found = recent.url_of(Uuid::from_u128(7), 5 * HOUR_MS + key);
            found.map(|url| url.to_string())
        };
        let before = store.recent(&basis(20), "a.example", &hours(&[5])).unwrap();
        let found: Vec<_> = (1..5).map(|key| of(&before, key)).collect();
        // The first was read with its hour.
        assert_eq!(found, [None, Some(url(2)), None, Some(url(4))]);
        assert_eq!(store.publishers["a.example"].urls.len(), 3);
        let many = u128::try_from(URLS_MAX).unwrap();
        came(&mut store, 30, (10..10 + many).map(|key| (key, url(key))).collect());
        let after = store.recent(&basis(30), "a.example", &hours(&[5])).unwrap();
        assert_eq!(of(&after, 2), None);
        assert_eq!(of(&after, 9 + i64::try_from(many).unwrap()), Some(url(9 + many)));
        assert!(store.publishers["a.example"].urls.len() <= URLS_MAX);
        assert_eq!(of(&before, 2), Some(url(2)), "who asked before still finds it");
    }

    #[test]
    fn blocks_are_looked_at_again_where_somebody_registered_meanwhile() {
        let mut store = Store::default();
        store.want(&basis(10), Instant::now());
        store.begin(100);
        store.register(&basis(10), "a.example", &hours(&[5]));
        let wanted = read(&mut store, &basis(20));
        store.register(&basis(10), "b.example", &hours(&[5]));
        store.came(&basis(20), &wanted, 150, Vec::new());
        let wanted = read(&mut store, &basis(30));
        assert_eq!(wanted.block, 100);
        assert_eq!(wanted.publishers.len(), 2);
        store.came(&basis(30), &wanted, 150, Vec::new());
        assert_eq!(read(&mut store, &basis(40)).block, 150);
    }

    #[test]
    fn erasures_new_rolls_and_another_log_end_it() {
        let begun = || {
            let mut store = Store::default();
            store.want(&basis(10), Instant::now());
            store.begin(100);
            store.register(&basis(10), "a.example", &hours(&[5]));
            fill(&mut store, group("a.example", 5, [1]), 5);
            store
        };
        let with = |change: fn(&mut Basis)| {
            let mut basis = basis(20);
            change(&mut basis);
            basis
        };
        for other in [
            with(|basis| basis.since += 1),
            with(|basis| basis.erasures.push(Uuid::nil())),
            with(|basis| basis.committed[0].epoch += 1),
            with(|basis| basis.committed.clear()),
        ] {
            let mut store = begun();
            // A question of another view neither finds nor leaves anything.
            assert!(store.recent(&other, "a.example", &hours(&[5])).is_none());
            assert_eq!(store.register(&other, "a.example", &hours(&[6])), None);
            assert_eq!(store.want(&other, Instant::now()), Wants::Begin);
            assert_eq!(store.receipts(), 0);
        }
        let mut store = begun();
        store.tidy(None, Instant::now());
        assert_eq!(store.receipts(), 0, "no view");
        let mut store = begun();
        assert_eq!(
            store.want(&basis(10), Instant::now()),
            Wants::Nothing,
            "it is all there"
        );
        store.tidy(Some(&basis(20)), Instant::now() + UNUSED_MAX / 2);
        assert_eq!(store.receipts(), 1);
        store.tidy(Some(&basis(20)), Instant::now() + 2 * UNUSED_MAX);
        assert_eq!(store.receipts(), 0, "nobody asks");
    }

    #[test]
    fn no_more_publishers_are_held_than_a_statement_can_name() {
        let mut store = Store::default();
        store.want(&basis(10), Instant::now());
        store.begin(100);
        let name = |number: usize| format!("{number:0>200}.example");
        let fitting = NAMES_BYTES_MAX / (name(0).len() + 4);
        for number in 0..fitting + 10 {
            store.register(&basis(10), &name(number), &hours(&[5]));
            fill(&mut store, group(&name(number), 5, [1]), 5);
        }
        let wanted = read(&mut store, &basis(20));
        assert_eq!(wanted.publishers.len(), fitting);
        assert!(wanted.publishers.contains(&name(fitting + 9)));
        assert_eq!(store.receipts(), fitting);
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut store = Store {
            bytes_max: 2 << 20,
            ..Store::default()
        };
        store.want(&basis(10), Instant::now());
        store.begin(100);
        let large = || 0..15_000_u128;
        for name in ["a.example", "b.example"] {
            store.register(&basis(10), name, &hours(&[5]));
            fill(&mut store, group(name, 5, large()), 5);
            assert!(store.make_room(Instant::now()));
        }
        store.recent(&basis(10), "a.example", &hours(&[5])).unwrap();
        store.register(&basis(10), "c.example", &hours(&[5]));
        let began = Instant::now();
        fill(&mut store, group("c.example", 5, large()), 5);
        store.recent(&basis(10), "c.example", &hours(&[5])).unwrap();
        assert!(store.make_room(began));
        assert!(store.recent(&basis(10), "b.example", &hours(&[5])).is_none());
        assert!(store.recent(&basis(10), "a.example", &hours(&[5])).is_some());
        store.register(&basis(10), "d.example", &hours(&[5]));
        fill(&mut store, group("d.example", 5, 0..60_000), 5);
        store.recent(&basis(10), "d.example", &hours(&[5])).unwrap();
        assert!(!store.make_room(began), "more than there may be");
    }
}
