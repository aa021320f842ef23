//! Plan of a query: which days and half hours of its range come from which grain of `usage`.

use std::ops::Range;

use crate::Grain;
use crate::calendar::{DAY_S, HALF_HOUR_S};

/// Times that the table can hold, in milliseconds: whole UTC days from 1970 to 2106.
const TIMES_MS: Range<i64> = 0..4_294_944_000_000;
/// Cut units that a statement may have to list.
const CUTS_MAX: usize = 2_000;

/// Whole units of time: those from `from` to `to`, but the cut ones. Times are in seconds since the
/// Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Units {
    /// Length of a unit: a day or a half hour.
    pub(super) unit_s: u32,
    /// Start of the first unit.
    pub(super) from: u32,
    /// End of the last unit.
    pub(super) to: u32,
    /// Starts of the units between that have a bucket boundary strictly inside.
    pub(super) cut: Vec<u32>,
}

impl Units {
    /// Units within a range that neither an end nor a boundary cuts; `None` if there are none, or
    /// if too many are cut.
    fn whole(range_ms: &Range<i64>, boundaries_ms: &[i64], unit_s: u32) -> Option<Self> {
        let unit_ms = i64::from(unit_s) * 1_000;
        let seconds = |ms: i64| u32::try_from(ms / 1_000).ok();
        let is_cut = |ms: &&i64| range_ms.contains(ms) && *ms % unit_ms != 0;
        let cut = boundaries_ms.iter().filter(is_cut).map(|ms| ms - ms % unit_ms);
        let mut cut: Vec<u32> = cut.filter_map(seconds).collect();
        cut.sort_unstable();
        cut.dedup();
        let mut from = seconds(range_ms.start.checked_add(unit_ms - 1)? / unit_ms * unit_ms)?;
        let mut to = seconds(range_ms.end / unit_ms * unit_ms)?;
        cut.retain(|start| (from..to).contains(start));
        let leading = cut.iter().zip((from..to).step_by(unit_s as usize));
        let leading = leading.take_while(|(cut, start)| **cut == *start).count();
        cut.drain(..leading);
        from += u32::try_from(leading).ok()? * unit_s;
        while from < to && cut.last() == Some(&(to - unit_s)) {
            to -= unit_s;
            cut.pop();
        }
        (from < to && cut.len() <= CUTS_MAX).then_some(Self { unit_s, from, to, cut })
    }

    /// Whether a range has nothing but these units.
    fn cover(&self, range_ms: &Range<i64>) -> bool {
        let (from_ms, to_ms) = (i64::from(self.from) * 1_000, i64::from(self.to) * 1_000);
        self.cut.is_empty() && from_ms <= range_ms.start && range_ms.end <= to_ms
    }
}

/// Whole units that come from a grain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) grain: Grain,
    pub(super) units: Units,
}

/// Levels of a query: each one's units come from its grain, but those of the level before. What no
/// level has comes from `receipts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryPlan {
    /// The range, limited to what the table can hold.
    pub(super) range_ms: Range<i64>,
    /// Levels, days first.
    pub(super) levels: Vec<Level>,
    /// Whether some of the range comes from `receipts`.
    pub(super) has_rest: bool,
}

impl QueryPlan {
    /// Plan of a query over a half-open range, in milliseconds. No row may be on both sides of a
    /// boundary. `has` reports which grains have all columns of the query.
    pub(super) fn new(range_ms: Range<i64>, boundaries_ms: &[i64], has: impl Fn(Grain) -> bool) -> Self {
        let limited = |ms: i64| ms.clamp(TIMES_MS.start, TIMES_MS.end);
        let range_ms = limited(range_ms.start)..limited(range_ms.end);
        let mut grains = Vec::with_capacity(2);
        if has(Grain::Purpose) {
            // The smallest grain; its half hours are fewer rows than the days of any other.
            grains.push((Grain::Purpose, HALF_HOUR_S));
        } else {
            let day = [Grain::Client, Grain::Entry].into_iter().find(|grain| has(*grain));
            grains.extend(day.map(|grain| (grain, DAY_S)));
            grains.extend(has(Grain::All).then_some((Grain::All, HALF_HOUR_S)));
        }
        let mut levels: Vec<Level> = Vec::with_capacity(grains.len());
        for (grain, unit_s) in grains {
            let Some(units) = Units::whole(&range_ms, boundaries_ms, unit_s) else {
                continue;
            };
            let has_more = |level: &Level| !level.units.cover(&(ms(units.from)..ms(units.to)));
            if levels.last().is_none_or(has_more) {
                levels.push(Level { grain, units });
            }
        }
        let is_covered = levels.last().is_some_and(|level| level.units.cover(&range_ms));
        Self {
            has_rest: !is_covered && !range_ms.is_empty(),
            range_ms,
            levels,
        }
    }
}

fn ms(seconds: u32) -> i64 {
    i64::from(seconds) * 1_000
}

#[cfg(test)]
mod tests;
