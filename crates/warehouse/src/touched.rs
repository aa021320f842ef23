//! Hours of publishers that receipts touch. Each ledger row has those of its accepted receipts.

use std::collections::{BTreeMap, BTreeSet};

use crate::QueryScope;

/// Publishers of one hour that a ledger row names; more are all publishers.
const PUBLISHERS_MAX: usize = 64;

/// Hours since the Unix epoch, each with its publishers. May name too much, never too little.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched(BTreeMap<u32, Publishers>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Publishers {
    Named(BTreeSet<String>),
    All,
}

/// The hour of an instant in milliseconds since the Unix epoch; 0 for all instants before.
fn hour(timestamp_ms: i64) -> u32 {
    u32::try_from(timestamp_ms.max(0) / 3_600_000).unwrap_or(u32::MAX)
}

impl Touched {
    /// Adds a receipt.
    pub fn add(&mut self, timestamp_ms: i64, publisher: &str) {
        let publishers = self.publishers(hour(timestamp_ms));
        let Publishers::Named(named) = publishers else { return };
        if named.contains(publisher) {
            return;
        }
        if named.len() == PUBLISHERS_MAX {
            *publishers = Publishers::All;
        } else {
            named.insert(publisher.to_owned());
        }
    }

    /// Adds the pairs of a ledger row, however many there are already.
    pub fn extend(&mut self, pairs: impl IntoIterator<Item = (u32, String)>) {
        for (hour, publisher) in pairs {
            let publishers = self.publishers(hour);
            if publisher.is_empty() {
                *publishers = Publishers::All;
            } else if let Publishers::Named(named) = publishers {
                named.insert(publisher);
            }
        }
    }

    fn publishers(&mut self, hour: u32) -> &mut Publishers {
        let of_hour = self.0.entry(hour);
        of_hour.or_insert_with(|| Publishers::Named(BTreeSet::new()))
    }

    /// Pairs of hour and publisher, as a ledger row has them: an empty publisher means all of them.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, &str)> {
        self.0.iter().flat_map(|(&hour, publishers)| {
            let (named, all) = match publishers {
                Publishers::Named(named) => (Some(named), None),
                Publishers::All => (None, Some("")),
            };
            let named = named.into_iter().flatten().map(String::as_str);
            named.chain(all).map(move |publisher| (hour, publisher))
        })
    }

    /// The hours that may have receipts of `scope`.
    #[must_use]
    pub fn hours(&self, scope: &QueryScope) -> BTreeSet<u32> {
        let of_scope = self.0.iter().filter(|(_, publishers)| publishers.may_have(scope));
        of_scope.map(|(&hour, _)| hour).collect()
    }
}

impl FromIterator<(u32, String)> for Touched {
    fn from_iter<T: IntoIterator<Item = (u32, String)>>(pairs: T) -> Self {
        let mut touched = Self::default();
        touched.extend(pairs);
        touched
    }
}

impl Publishers {
    /// Whether one of `scope` may be among these. Exceptions below a domain aren't considered.
    fn may_have(&self, scope: &QueryScope) -> bool {
        let named = match self {
            Self::All => return true,
            Self::Named(named) => named,
        };
        let is_below = |publisher: &str, parent: &str| {
            let labels = publisher.strip_suffix(parent);
            labels.is_some_and(|labels| labels.ends_with('.'))
        };
        scope.publishers.iter().any(|publisher| named.contains(publisher))
            || scope
                .below
                .iter()
                .any(|below| named.iter().any(|publisher| is_below(publisher, &below.parent)))
    }
}

#[cfg(test)]
mod tests {
    use super::{PUBLISHERS_MAX, Touched};
    use crate::{Below, QueryScope};

    #[test]
    fn many_publishers_of_an_hour_are_all_of_them() {
        let mut touched = Touched::default();
        for number in 0..=PUBLISHERS_MAX {
            touched.add(7_200_000, &format!("{number:03}.example"));
            touched.add(3_599_999, "a.example");
        }
        touched.add(-5, "b.example");
        touched.add(7_200_000, "a.example");
        let pairs: Vec<_> = touched.pairs().collect();
        assert_eq!(pairs, [(0, "a.example"), (0, "b.example"), (2, "")]);
    }

    #[test]
    fn hours_are_those_of_the_scope_and_of_all_publishers() {
        let pair = |(hour, publisher): (u32, &str)| (hour, publisher.to_owned());
        let pairs = [
            (1, "a.example"),
            (2, "x.a.example"),
            (3, "xa.example"),
            (4, ""),
            (4, "b.example"),
        ];
        let touched: Touched = pairs.into_iter().map(pair).collect();
        let hours = |scope: &QueryScope| touched.hours(scope).into_iter().collect::<Vec<_>>();
        assert_eq!(hours(&QueryScope::of(vec!["a.example".to_owned()])), [1, 4]);
        let below = QueryScope {
            publishers: Vec::new(),
            below: vec![Below {
                parent: "a.example".to_owned(),
                except: Vec::new(),
            }],
        };
        assert_eq!(hours(&below), [2, 4]);
    }
}
