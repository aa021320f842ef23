//! [`RollupView`]: which hours of whom may be read from rolled rows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::hours::Hours;
use super::recent::Basis;
use super::tails::Tails;
use crate::Scope;

/// Which hours of which publishers the rolled rows tell as `receipts FINAL` does, for all that was committed when the view was
/// [made](crate::Warehouse::rollup_view). Cheap to clone.
///
/// How a question is answered with it, for one scope:
/// - hours in [`clean_hours`](Self::clean_hours): from `usage_by_client` or `usage_by_entry`. Of a publisher's hour, only rows
///   of one version are meant: the greatest in `rollup_buckets` (publisher, hour, version) for which
///   [`versions_condition`](Self::versions_condition) holds. A publisher's hour without such a version has no receipts.
/// - every other hour: from `receipts FINAL`; but none has receipts beyond those that state and marks tell of, so ranges end there.
///
/// An hour is `intDiv(timestamp in ms, 3600000)`. A range that cuts an hour (or, in `usage_by_client`, a slot) reads that
/// hour from `FINAL`.
#[derive(Debug, Clone, Default)]
pub struct RollupView(Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    view: View,
    basis: Basis,
    tails: Tails,
}

/// What of the log and the tables a view says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// The first and the last version that count.
    pub(crate) versions: (u32, u32),
    /// The last of them that made rows; 0 where that isn't known.
    pub(crate) made: u32,
    /// Versions between them that don't: first and last of each run.
    pub(crate) skipped: Vec<(u32, u32)>,
    /// Hours that are rolled, for every publisher.
    pub(crate) window: Range<u32>,
    /// Whether no receipt lies below it, but for what is dirty.
    pub(crate) nothing_below: bool,
    /// Hours that aren't told right, by publisher; under the empty name those of all publishers. May go beyond the window.
    pub(crate) dirty: BTreeMap<String, Hours>,
    /// Whose hours aren't told right at all.
    pub(crate) erasing: Vec<Whose>,
    /// All committed receipts are of these hours; hour 0 is also that of all before the Unix epoch.
    pub(crate) held: Range<u32>,
}

/// Publishers, and all subdomains of some.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Whose {
    /// Domains.
    pub(crate) publishers: Vec<String>,
    /// Domains whose subdomains are meant.
    pub(crate) parents: Vec<String>,
}

impl RollupView {
    /// Nothing is rolled: everything is read from `receipts FINAL`.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    pub(super) fn of(view: View, basis: Basis) -> Self {
        let tails = Tails::default();
        Self(Some(Arc::new(Held { view, basis, tails })))
    }

    fn view(&self) -> Option<&View> {
        self.0.as_deref().map(|held| &held.view)
    }

    /// What was read under it of what isn't rolled.
    pub(crate) fn tails(&self) -> Option<&Tails> {
        self.0.as_deref().map(|held| &held.tails)
    }

    /// What it rests on.
    pub(super) fn basis(&self) -> Option<&Basis> {
        self.0.as_deref().map(|held| &held.basis)
    }

    /// Whether an erasure is under way for any publisher of a scope. May say so where a scope's exceptions leave none.
    pub(super) fn is_erasing(&self, scope: &Scope) -> bool {
        self.view()
            .is_some_and(|view| view.erasing.iter().any(|whose| whose.meets(scope)))
    }

    /// Whether nothing is rolled.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The hours that may be read from rolled rows for all publishers of a scope.
    #[must_use]
    pub fn clean_hours(&self, scope: &Scope) -> Hours {
        let Some(view) = self.view() else {
            return Hours::default();
        };
        if self.is_erasing(scope) {
            return Hours::default();
        }
        let ours = |publisher: &str| publisher.is_empty() || may_be_of(scope, publisher);
        let dirty = view.dirty.iter().filter(|(publisher, _)| ours(publisher));
        let ranges = dirty.flat_map(|(_, hours)| hours.ranges().map(|hours| (hours.start, hours.end)));
        // The first hour is also that of all before it.
        let start = if view.nothing_below { 1 } else { view.window.start };
        Hours::of(start..view.window.end).without(&Hours::of_all(ranges))
    }

    /// What of a half-open range in milliseconds any committed receipt may be in: whole hours are left out at its ends.
    pub(crate) fn narrowed(&self, range: Range<i64>) -> Range<i64> {
        let ms = |hour: u32| i64::from(hour) * 3_600_000;
        let Some(held) = self.view().map(|view| view.held.clone()) else {
            return range;
        };
        let start = match held.start {
            0 => range.start,
            first => range.start.max(ms(first)),
        };
        start..range.end.min(ms(held.end)).max(start)
    }

    /// A condition over a column `version` in SQL: whether a version counts.
    #[must_use]
    pub fn versions_condition(&self) -> String {
        let Some(view) = self.view() else {
            return "0".to_owned();
        };
        let (first, last) = view.versions;
        let skipped = view.skipped.iter();
        let skipped = skipped.map(|(first, last)| format!(" AND NOT (version BETWEEN {first} AND {last})"));
        format!("version BETWEEN {first} AND {last}{}", skipped.collect::<String>())
    }

    /// The hours that are rolled, some of them clean.
    #[must_use]
    pub fn window(&self) -> Option<Range<u32>> {
        self.view().map(|view| view.window.clone())
    }

    /// The state that says which versions count.
    pub(crate) fn version(&self) -> Option<u32> {
        self.view().map(|view| view.versions.1)
    }

    /// What names all that rolls have made: the last one that made any rows.
    pub(crate) fn made(&self) -> Option<u32> {
        let of = |view: &View| if view.made == 0 { view.versions.1 } else { view.made };
        self.view().map(of)
    }

    /// Whether a publisher's hour may be read from rolled rows.
    pub(crate) fn is_clean(&self, publisher: &str, hour: u32) -> bool {
        self.view().is_some_and(|view| {
            let dirty = |name: &str| view.dirty.get(name).is_some_and(|hours| hours.contains(hour));
            view.window.contains(&hour)
                && !dirty("")
                && !dirty(publisher)
                && !view.erasing.iter().any(|whose| whose.holds(publisher))
        })
    }
}

impl Whose {
    /// Whether any publisher might be of both. May say so where a scope's exceptions leave none.
    fn meets(&self, scope: &Scope) -> bool {
        self.publishers.iter().any(|publisher| may_be_of(scope, publisher))
            || self.parents.iter().any(|parent| {
                scope.publishers.iter().any(|publisher| is_below(publisher, parent))
                    || scope.below.iter().any(|below| {
                        below.parent == *parent || is_below(&below.parent, parent) || is_below(parent, &below.parent)
                    })
            })
    }

    /// Whether a publisher is one of these.
    pub(crate) fn holds(&self, publisher: &str) -> bool {
        self.publishers.iter().any(|one| one == publisher) || self.parents.iter().any(|one| is_below(publisher, one))
    }
}

/// Whether a publisher is of a scope, but for the scope's exceptions.
fn may_be_of(scope: &Scope, publisher: &str) -> bool {
    scope.publishers.iter().any(|one| one == publisher)
        || scope.below.iter().any(|below| is_below(publisher, &below.parent))
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Basis, Hours, RollupView, View, Whose};
    use crate::{Below, Scope};

    fn view() -> View {
        let dirty = [
            ("", 12..13),
            ("a.example", 14..16),
            ("b.example", 18..25),
            ("x.a.example", 11..12),
        ];
        View {
            versions: (3, 9),
            made: 8,
            skipped: vec![(4, 5), (7, 7)],
            window: 10..20,
            nothing_below: false,
            dirty: dirty.map(|(name, hours)| (name.to_owned(), Hours::of(hours))).into(),
            erasing: Vec::new(),
            held: 11..15,
        }
    }

    fn clean(view: &View, scope: &Scope) -> Vec<(u32, u32)> {
        let hours = RollupView::of(view.clone(), Basis::default()).clean_hours(scope);
        hours.ranges().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn what_is_dirty_for_any_publisher_of_a_scope_is_not_clean() {
        let of = |names: &[&str]| Scope::of(names.iter().map(ToString::to_string).collect());
        assert_eq!(clean(&view(), &of(&["c.example"])), [(10, 12), (13, 20)]);
        assert_eq!(
            clean(&view(), &of(&["a.example", "b.example"])),
            [(10, 12), (13, 14), (16, 18)]
        );
        let below = Scope {
            publishers: Vec::new(),
            below: vec![Below {
                parent: "a.example".to_owned(),
                except: Vec::new(),
            }],
        };
        assert_eq!(clean(&view(), &below), [(10, 11), (13, 20)]);
        assert!(RollupView::none().clean_hours(&below).is_empty());
    }

    #[test]
    fn a_range_is_narrowed_to_what_is_held() {
        let hour = 3_600_000;
        let of = |held| RollupView::of(View { held, ..view() }, Basis::default());
        let some = of(11..15);
        assert_eq!(some.narrowed(0..100 * hour), 11 * hour..15 * hour);
        assert_eq!(
            some.narrowed(12 * hour + 1..13 * hour + 7),
            12 * hour + 1..13 * hour + 7
        );
        assert_eq!(some.narrowed(20 * hour..30 * hour), 20 * hour..20 * hour);
        assert_eq!(some.narrowed(-5..3 * hour), 11 * hour..11 * hour);
        assert_eq!(of(0..15).narrowed(-5..20 * hour), -5..15 * hour);
        for unknown in [of(0..u32::MAX), RollupView::none()] {
            assert_eq!(unknown.narrowed(-5..20 * hour), -5..20 * hour);
        }
    }

    #[test]
    fn nothing_of_an_erasure_under_way_is_clean() {
        let whose = |publishers: &[&str], parents: &[&str]| Whose {
            publishers: publishers.iter().map(ToString::to_string).collect(),
            parents: parents.iter().map(ToString::to_string).collect(),
        };
        let erasing = |whose| View {
            erasing: vec![whose],
            dirty: BTreeMap::new(),
            ..view()
        };
        let own = Scope::of(vec!["x.a.example".to_owned()]);
        let below = Scope {
            publishers: Vec::new(),
            below: vec![Below {
                parent: "a.example".to_owned(),
                except: Vec::new(),
            }],
        };
        for (one, own_is_clean, below_is_clean) in [
            (whose(&["x.a.example"], &[]), false, false),
            (whose(&["a.example"], &[]), true, true),
            (whose(&["za.example"], &[]), true, true),
            (whose(&[], &["a.example"]), false, false),
            (whose(&[], &["example"]), false, false),
            (whose(&[], &["x.a.example"]), true, false),
        ] {
            assert_eq!(!clean(&erasing(one.clone()), &own).is_empty(), own_is_clean, "{one:?}");
            assert_eq!(
                !clean(&erasing(one.clone()), &below).is_empty(),
                below_is_clean,
                "{one:?}"
            );
        }
    }

    #[test]
    fn skipped_versions_do_not_count() {
        assert_eq!(
            RollupView::of(view(), Basis::default()).versions_condition(),
            "version BETWEEN 3 AND 9 AND NOT (version BETWEEN 4 AND 5) AND NOT (version BETWEEN 7 AND 7)"
        );
        assert_eq!(RollupView::none().versions_condition(), "0");
    }
}
