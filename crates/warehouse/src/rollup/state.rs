//! What the rollups are said to be: one text, of which the greatest version counts.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::hours::Hours;
use super::view::{View, Whose};
use crate::CommittedOffset;

/// Ranges of dirty hours that are kept by publisher; more are those of all publishers.
const RANGES_MAX: usize = 3_000;
/// Bytes of publishers' names in them: with the ranges, what a parameter of a server may hold.
const NAMES_BYTES_MAX: usize = 48 << 10;

/// Hours of publishers; under the empty name those of all publishers.
pub(crate) type Dirty = BTreeMap<String, Hours>;

/// A state. It is the one point that decides: what isn't said by it doesn't count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The roll that wrote it.
    pub(crate) version: u32,
    /// The first version that counts: the roll that began anew.
    pub(crate) since: u32,
    /// Versions between the two that don't count: of rolls that didn't come to their end, or that this one's state
    /// doesn't build on.
    pub(crate) skipped: Vec<(u32, u32)>,
    /// The last roll that made any rows (0: this one): until there is another, which roll made an hour stays as it is.
    #[serde(default)]
    pub(crate) made: u32,
    /// Rolled hours.
    pub(crate) window: (u32, u32),
    /// Whether no receipt lies below the window.
    #[serde(default)]
    pub(crate) nothing_below: bool,
    /// No receipt below the commits is in a later hour; `None` in states of before.
    #[serde(default)]
    pub(crate) last_hour: Option<u32>,
    /// All marks below (epoch, partition, offset) are accounted for in `dirty`.
    pub(crate) committed: Vec<(u32, u32, u64)>,
    /// Hours in the window that aren't told right.
    pub(crate) dirty: Dirty,
    /// Erasures that have begun.
    pub(crate) erasing: Vec<Erasing>,
    /// Erasures that have ended, are accounted for in `dirty`, and whose marks may still stand.
    pub(crate) erased: Vec<Uuid>,
    /// The version at the last tidying (0: this one's), and when that was, in Unix seconds by the warehouse's clock.
    pub(crate) tidied: (u32, u32),
}

/// An erasure under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Erasing {
    /// Its id.
    pub(crate) erasure: Uuid,
    /// Whom it is about.
    pub(crate) whose: Whose,
    /// When it began, in Unix seconds by the warehouse's clock.
    pub(crate) begun_s: u32,
}

impl State {
    /// One that begins anew at these commits, with nothing rolled below or above `hour`.
    pub(crate) fn fresh(hour: u32, committed: &[CommittedOffset], now_s: u32) -> Self {
        let committed = committed.iter().map(|one| (one.epoch, one.partition, one.next_offset));
        Self {
            window: (hour, hour),
            committed: committed.collect(),
            tidied: (0, now_s),
            ..Self::default()
        }
    }

    /// Up to where marks are accounted for of a partition of the log in this epoch; `None` where the epoch is another's.
    pub(crate) fn accounted(&self, epoch: u32, partition: u32) -> Option<u64> {
        let known = self.committed.iter().find(|known| known.1 == partition);
        known.map_or(Some(0), |known| (known.0 == epoch).then_some(known.2))
    }

    pub(crate) fn window(&self) -> Range<u32> {
        self.window.0..self.window.1
    }

    /// The same as the work of roll `number`.
    pub(crate) fn made_by(mut self, number: u32) -> Self {
        if self.since == 0 {
            (self.since, self.skipped) = (number, Vec::new());
        } else if number > self.version + 1 {
            self.skipped.push((self.version + 1, number - 1));
        }
        self.version = number;
        if self.made == 0 {
            self.made = number;
        }
        if self.tidied.0 == 0 {
            self.tidied.0 = number;
        }
        self
    }

    /// Whether its dirty hours are on the way to being those of all publishers.
    pub(crate) fn is_crowded(&self) -> bool {
        let (ranges, names_bytes) = self.dirty_size();
        ranges > RANGES_MAX / 2 || names_bytes > NAMES_BYTES_MAX / 2
    }

    fn dirty_size(&self) -> (usize, usize) {
        let ranges = self.dirty.values().map(|hours| hours.ranges().count()).sum();
        (ranges, self.dirty.keys().map(String::len).sum())
    }

    /// Brings its hours into the window and to a bounded number.
    pub(crate) fn bounded(mut self) -> Self {
        let window = self.window();
        for hours in self.dirty.values_mut() {
            *hours = hours.within(window.clone());
        }
        self.dirty.retain(|_, hours| !hours.is_empty());
        let (ranges, names_bytes) = self.dirty_size();
        if ranges > RANGES_MAX || names_bytes > NAMES_BYTES_MAX {
            let ranges = self.dirty.values().flat_map(Hours::ranges);
            let all = Hours::of_all(ranges.map(|hours| (hours.start, hours.end)));
            self.dirty = Dirty::from([(String::new(), all)]);
        }
        self
    }

    /// The view of it, with what is dirty besides and the last hour that was touched besides, for hours from `floor` on.
    pub(crate) fn view(&self, besides: Dirty, last_besides: u32, erasing: Vec<Whose>, floor: u32) -> View {
        let mut dirty = besides;
        for (publisher, hours) in &self.dirty {
            soil(&mut dirty, publisher, hours);
        }
        let nothing_below = self.nothing_below && self.window.0 >= floor;
        let first = dirty
            .values()
            .filter_map(|hours| hours.ranges().next())
            .map(|hours| hours.start);
        let first = first
            .chain([self.window.0])
            .min()
            .filter(|_| nothing_below)
            .unwrap_or(0);
        let last = self.last_hour.map(|last| last.max(last_besides));
        View {
            versions: (self.since, self.version),
            made: self.made,
            skipped: self.skipped.clone(),
            window: self.window.0.max(floor)..self.window.1.max(floor),
            nothing_below,
            dirty,
            erasing,
            held: first..last.map_or(u32::MAX, |last| last.saturating_add(1)),
        }
    }
}

/// Adds hours of a publisher.
pub(crate) fn soil(dirty: &mut Dirty, publisher: &str, hours: &Hours) {
    match dirty.get_mut(publisher) {
        Some(known) => *known = known.with(hours),
        None => drop(dirty.insert(publisher.to_owned(), hours.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::{Dirty, Hours, State, soil};

    #[test]
    fn versions_that_a_state_does_not_build_on_are_skipped() {
        let state = State::fresh(5, &[], 0).made_by(4);
        assert_eq!((state.since, state.version), (4, 4));
        let state = state.made_by(5).made_by(8).made_by(9);
        assert_eq!((state.since, state.version, state.skipped), (4, 9, vec![(6, 7)]));
    }

    #[test]
    fn a_state_knows_the_last_roll_that_made_rows() {
        let fresh = State::fresh(5, &[], 0).made_by(4);
        let idle = fresh.clone().made_by(5);
        let making = State {
            made: 0,
            ..idle.clone()
        }
        .made_by(7);
        assert_eq!((fresh.made, idle.made, making.made), (4, 4, 7));
        assert_eq!(making.view(Dirty::new(), 0, Vec::new(), 0).made, 7);
    }

    #[test]
    fn a_view_knows_between_which_hours_receipts_are() {
        let state = State {
            window: (10, 20),
            nothing_below: true,
            last_hour: Some(22),
            ..State::default()
        };
        let held = |state: &State, besides: &[u32], last, floor| {
            let hours = Hours::of_all(besides.iter().map(|hour| (*hour, hour + 1)));
            let besides = Dirty::from([("a.example".to_owned(), hours)]);
            state.view(besides, last, Vec::new(), floor).held
        };
        assert_eq!(held(&state, &[], 0, 1), 10..23);
        assert_eq!(held(&state, &[30], 30, 1), 10..31);
        assert_eq!(held(&state, &[15, 7], 15, 1), 7..23);
        assert_eq!(held(&state, &[], 0, 11), 0..23, "retention may have left some");
        let unknown = State {
            nothing_below: false,
            last_hour: None,
            ..state
        };
        assert_eq!(held(&unknown, &[15], 15, 1), 0..u32::MAX);
    }

    #[test]
    fn too_many_dirty_hours_are_those_of_all_publishers() {
        let mut dirty = Dirty::new();
        for number in 0..3_001 {
            soil(&mut dirty, &format!("{number}.example"), &Hours::of(number..number + 1));
        }
        let state = State {
            window: (10, 100_000),
            dirty,
            ..State::default()
        };
        let bounded = state.clone().bounded();
        assert_eq!(bounded.dirty.len(), 2_991, "within the window they are few enough");
        let state = State {
            window: (0, 100_000),
            ..state
        };
        assert_eq!(
            state.bounded().dirty,
            Dirty::from([(String::new(), Hours::of(0..3_001))])
        );
    }
}
