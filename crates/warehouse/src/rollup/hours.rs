//! Sets of hours, as ranges.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Hours since the Unix epoch, as half-open ranges in rising order that neither meet nor overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hours(Vec<(u32, u32)>);

impl Hours {
    /// The hours of a range.
    #[must_use]
    pub fn of(range: Range<u32>) -> Self {
        if range.is_empty() {
            Self::default()
        } else {
            Self(vec![(range.start, range.end)])
        }
    }

    /// The hours in any of these ranges.
    #[must_use]
    pub fn of_all(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut all: Vec<(u32, u32)> = ranges.into_iter().filter(|(start, end)| start < end).collect();
        all.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many hours these are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| u64::from(end - start)).sum()
    }

    /// The ranges, in rising order.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<u32>> + '_ {
        self.0.iter().map(|&(start, end)| start..end)
    }

    /// Whether an hour is among them.
    #[must_use]
    pub fn contains(&self, hour: u32) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= hour);
        after > 0 && hour < self.0[after - 1].1
    }

    /// Whether all hours of a range are among them.
    #[must_use]
    pub fn holds(&self, range: Range<u32>) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= range.start);
        range.is_empty() || (after > 0 && range.end <= self.0[after - 1].1)
    }

    /// These and others.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        if others.is_empty() {
            return self.clone();
        }
        Self::of_all(self.0.iter().chain(&others.0).copied())
    }

    /// These without others.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        let mut left = Vec::with_capacity(self.0.len());
        let mut next = 0;
        for &(mut start, end) in &self.0 {
            while next < others.0.len() && others.0[next].1 <= start {
                next += 1;
            }
            let mut at = next;
            while at < others.0.len() && others.0[at].0 < end {
                let (from, to) = others.0[at];
                if start < from {
                    left.push((start, from));
                }
                start = start.max(to);
                at += 1;
            }
            if start < end {
                left.push((start, end));
            }
        }
        Self(left)
    }

    /// Those that lie in a range.
    #[must_use]
    pub fn within(&self, range: Range<u32>) -> Self {
        let cut = |&(start, end): &(u32, u32)| (start.max(range.start), end.min(range.end));
        Self(self.0.iter().map(cut).filter(|(start, end)| start < end).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Hours;

    fn set(hours: &Hours) -> BTreeSet<u32> {
        hours.ranges().flatten().collect()
    }

    #[test]
    fn they_are_the_sets_they_stand_for() {
        // Every pair of subsets of six hours.
        let of = |bits: u32| Hours::of_all((0..6).filter(|bit| bits >> bit & 1 == 1).map(|hour| (hour, hour + 1)));
        for one in 0..64 {
            for other in 0..64 {
                let (a, b) = (of(one), of(other));
                let (x, y) = (set(&a), set(&b));
                assert_eq!(set(&a.with(&b)), &x | &y);
                assert_eq!(set(&a.without(&b)), &x - &y);
                assert_eq!(a.count(), x.len() as u64);
                assert!((0..7).all(|hour| a.contains(hour) == x.contains(&hour)));
                assert_eq!(a.with(&b), b.with(&a), "one form for each set");
            }
            for range in [0..6, 1..3, 2..5, 3..3] {
                assert_eq!(
                    of(one).holds(range.clone()),
                    range.clone().all(|hour| set(&of(one)).contains(&hour))
                );
            }
            assert_eq!(set(&of(one).within(2..4)), &set(&of(one)) & &set(&Hours::of(2..4)));
        }
    }
}
