//! What a roll is to do, found out by reading only.

use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;

use super::check::OffBucket;
use super::hours::Hours;
use super::look::Look;
use super::mark::hour_of;
use super::pieces::Piece;
use super::recent::Basis;
use super::state::{Dirty, Erasing, State, soil};
use super::tidy::Garbage;
use super::view::RollupView;
use crate::client::Call;
use crate::{CommittedOffset, Warehouse, WarehouseError};

/// Hours looked through at a time for how many rows they have.
const HOURS_MAX: u32 = 31 * 24;
const DAY: u32 = 24;
/// A whole day may have so many times the rows of one roll, so that it is made by one.
const WHOLE_MAX: u64 = 4;
/// A publisher's hours that one roll makes anew one by one.
const PAIRS_MAX: usize = 1_000;
/// Statements that those of one roll are made by, about: short ones, so that questions don't wait for them.
const PAIRS_PIECES: u64 = 5;
/// After what time a state is written again although nothing has changed, in seconds.
const STATE_S_MIN: u32 = 3_600;
/// After what time an erasure that has begun and not ended is taken for one whose process died, in seconds: no statement of it
/// lasts longer.
const ERASING_S_MAX: u32 = 3_600;
/// How often superseded rows are removed, in seconds.
const TIDY_S: u32 = 86_400;

/// How much one roll does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBounds {
    /// Only hours that ended before are rolled, milliseconds since the Unix epoch.
    pub settled_ms: i64,
    /// Receipts read for one roll, about: a single hour may have more, and a whole day a few times as many.
    pub rows_max: u64,
    /// From where on hours are made anew that were touched since they were rolled; `None` for not now, unless an erasure has ended, something
    /// is off or there are too many.
    pub clean_from: Option<CleanFrom>,
    /// A day, since the Unix epoch in UTC, to be made anew for publishers whose hours several rolls made, if there is nothing else to do:
    /// only days of one roll are read as such.
    pub even_day: Option<u32>,
}

/// A place in a pass over all hours that were touched since they were rolled: by publisher, each one's newest first. The default is
/// its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanFrom {
    publisher: String,
    /// Only hours below it.
    below: u32,
}

impl Default for CleanFrom {
    fn default() -> Self {
        Self {
            publisher: String::new(),
            below: u32::MAX,
        }
    }
}

/// What a roll will do.
#[derive(Debug)]
pub struct RollPlan {
    /// Above which its number must be.
    pub(super) above: u32,
    pub(super) pieces: Vec<Piece>,
    clean_from: Option<CleanFrom>,
    evened: bool,
    pub(super) garbage: Option<Garbage>,
    /// The state afterwards, but for its version.
    pub(super) next: State,
    needed: bool,
}

impl RollPlan {
    /// Whether there is anything to do.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.needed
    }

    /// Whether there will be more to do at once.
    #[must_use]
    pub fn makes_rows(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// From where on the pass goes on after it; `None` where no pass was begun or it is over.
    #[must_use]
    pub fn clean_from(&self) -> Option<&CleanFrom> {
        self.clean_from.as_ref()
    }

    /// Whether [`RollBounds::even_day`] was looked at and nothing of it is left to be made anew.
    #[must_use]
    pub fn has_evened(&self) -> bool {
        self.evened
    }

    /// Above which the roll's number must be.
    #[must_use]
    pub fn number_above(&self) -> u32 {
        self.above
    }
}

#[derive(Row, Deserialize)]
pub(super) struct HourRows {
    pub(super) hour: u32,
    pub(super) rows: u64,
}

#[derive(Row, Deserialize)]
struct PublisherRows {
    publisher: String,
    rows: u64,
}

#[derive(Row, Deserialize)]
struct BucketRows {
    publisher: String,
    hour: u32,
    rows: u64,
}

impl Warehouse {
    /// Finds out what a roll has to do after these commits, which must have been read before. What is `off` is made anew.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn plan_roll(
        &self,
        committed: &[CommittedOffset],
        bounds: &RollBounds,
        off: &[OffBucket],
    ) -> Result<RollPlan, WarehouseError> {
        let look = self.look_to_roll(committed).await?;
        let settled = hour_of(bounds.settled_ms);
        let floor = self.rollup_floor(look.now_s);
        let base = look.state.as_deref();
        let mut next = base
            .cloned()
            .unwrap_or_else(|| State::fresh(settled, committed, look.now_s));
        if base.is_some() {
            next.committed.clone_from(&look.covered);
            for (publisher, hours) in look.touched() {
                soil(&mut next.dirty, &publisher, &hours);
            }
        }
        for one in off {
            soil(
                &mut next.dirty,
                &one.publisher,
                &Hours::of(one.hour..one.hour.saturating_add(1)),
            );
        }
        let erased = self.account_for_erasures(&look, &mut next).await?;
        next.window = (next.window.0.max(floor), next.window.1.max(floor));
        let mut next = next.bounded();
        let mut budget = Budget::of(bounds.rows_max);
        let mut pieces = Vec::new();
        self.advance(settled, &mut next, &mut budget, &mut pieces).await?;
        let at_once = erased || !off.is_empty() || next.is_crowded();
        let mut clean_from = bounds.clean_from.clone().or(at_once.then(CleanFrom::default));
        if let Some(from) = clean_from {
            clean_from = self.clean(from, &mut next, &mut budget, &mut pieces).await?;
        }
        // Whatever there is to do above: a busy publisher's hours are dirty again and again.
        let mut budget = Budget::of(bounds.rows_max);
        let last_hour = self.reach_back(floor, &mut next, &mut budget, &mut pieces).await?;
        // A replica that is behind may not have the last receipts.
        let known = base.and_then(|base| base.last_hour).unwrap_or(0);
        next.last_hour = Some(last_hour.max(look.last_hour()).max(known));
        let mut evened = false;
        if let Some(day) = bounds.even_day.filter(|_| pieces.is_empty()) {
            evened = !self.even(day, &next, bounds.rows_max, &mut pieces).await?;
        }
        let mut next = next.bounded();
        if !pieces.is_empty() {
            next.made = 0;
        }
        let garbage = match base {
            Some(base) if look.now_s.saturating_sub(base.tidied.1) > TIDY_S => Some(Garbage::of(base)),
            _ => None,
        };
        if let Some(garbage) = &garbage {
            next.skipped.retain(|run| !garbage.holds(*run));
            next.tidied = (0, look.now_s);
        }
        let old = look.now_s.saturating_sub(look.written_s) > STATE_S_MIN;
        Ok(RollPlan {
            above: look.version,
            needed: old || garbage.is_some() || !pieces.is_empty() || base.is_none_or(|base| *base != next),
            pieces,
            clean_from,
            evened,
            garbage,
            next,
        })
    }

    /// Takes up what is new of erasures. Those that have ended leave all hours of their publishers to be made anew; whether any has.
    async fn account_for_erasures(&self, look: &Look, next: &mut State) -> Result<bool, WarehouseError> {
        let open: Vec<Erasing> = look.erasing(next).cloned().collect();
        let marked = |id| look.erasures.iter().any(|mark| mark.erasing.erasure == id);
        next.erased.retain(|&id| marked(id));
        next.erasing.clear();
        let mut whose = Vec::new();
        for erasing in open {
            if next.erased.contains(&erasing.erasure) || next.erasing.iter().any(|one| one.erasure == erasing.erasure) {
                continue;
            }
            let stale = look.now_s.saturating_sub(erasing.begun_s) > ERASING_S_MAX;
            if look.has_ended(erasing.erasure) || (stale && self.nothing_mutates().await) {
                if marked(erasing.erasure) {
                    next.erased.push(erasing.erasure);
                }
                whose.push(erasing.whose);
            } else {
                next.erasing.push(erasing);
            }
        }
        let window = Hours::of(next.window());
        if whose.is_empty() || window.is_empty() {
            return Ok(false);
        }
        if whose.iter().any(|whose| !whose.parents.is_empty()) {
            let call = Call::new("SELECT DISTINCT publisher FROM rollup_buckets").slow();
            let all: Vec<String> = self.rows("rollup_publishers", call).await?;
            for publisher in all.iter().filter(|one| whose.iter().any(|whose| whose.holds(one))) {
                soil(&mut next.dirty, publisher, &window);
            }
        }
        for publisher in whose.iter().flat_map(|whose| &whose.publishers) {
            soil(&mut next.dirty, publisher, &window);
        }
        Ok(true)
    }

    /// Whether no mutation of the receipts is under way. Who can't find out waits.
    async fn nothing_mutates(&self) -> bool {
        let call = Call::new(
            "SELECT count() FROM system.mutations
             WHERE database = currentDatabase() AND table IN ('receipts', 'receipts_local') AND NOT is_done",
        );
        matches!(self.one::<u64>("rollup_mutations", call).await, Ok(0))
    }

    /// Hours that have ended since.
    async fn advance(
        &self,
        settled: u32,
        next: &mut State,
        budget: &mut Budget,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), WarehouseError> {
        while next.window.1 < settled && budget.has_some() {
            let from = next.window.1;
            let to = settled.min(from.saturating_add(HOURS_MAX));
            let rows = self.rows_of_hours(from..to).await?;
            let mut end = from;
            while end < to && budget.take(rows_in(&rows, end)) {
                end += 1;
            }
            in_statements(&rows, from..end, budget.rows_max, pieces);
            next.window.1 = end;
            next.dirty = without(&next.dirty, &Hours::of(from..end));
        }
        Ok(())
    }

    /// Hours that were touched since, from a place on; where the next roll goes on, if there are more. Each is made anew once in a pass,
    /// however often it is touched meanwhile, so that none whose hours are large or dirty all the time keeps others waiting.
    async fn clean(
        &self,
        from: CleanFrom,
        next: &mut State,
        budget: &mut Budget,
        pieces: &mut Vec<Piece>,
    ) -> Result<Option<CleanFrom>, WarehouseError> {
        if from.publisher.is_empty()
            && let Some(all) = next.dirty.get("").cloned()
        {
            for range in all.within(0..from.below).ranges().rev() {
                let first = range.end.saturating_sub(HOURS_MAX).max(range.start);
                let rows = self.rows_of_hours(first..range.end).await?;
                let mut start = range.end;
                while start > first && budget.take(rows_in(&rows, start - 1)) {
                    start -= 1;
                }
                if start < range.end {
                    pieces.push(Piece::all(start..range.end));
                    next.dirty = without(&next.dirty, &Hours::of(start..range.end));
                }
                if start > range.start {
                    return Ok(Some(CleanFrom {
                        publisher: String::new(),
                        below: start,
                    }));
                }
            }
        }
        let named = next.dirty.iter().filter(|(publisher, _)| !publisher.is_empty());
        let pairs = named.filter(|(publisher, _)| **publisher >= from.publisher);
        let pairs = pairs.flat_map(|(publisher, hours)| {
            let below = if *publisher == from.publisher {
                from.below
            } else {
                u32::MAX
            };
            let hours: Vec<u32> = hours.within(0..below).ranges().rev().flat_map(Iterator::rev).collect();
            hours.into_iter().map(move |hour| (publisher.clone(), hour))
        });
        let mut pairs: Vec<(String, u32)> = pairs.take(PAIRS_MAX + 1).collect();
        if pairs.is_empty() {
            return Ok(None);
        }
        let rows = self.rows_of_buckets(&pairs).await?;
        let rows_of = |(publisher, hour): &(String, u32)| {
            let of_bucket = rows.iter().find(|row| row.hour == *hour && row.publisher == *publisher);
            of_bucket.map_or(1, |row| row.rows)
        };
        let fitting = pairs
            .iter()
            .take(PAIRS_MAX)
            .take_while(|pair| budget.take(rows_of(pair)));
        let left = pairs.split_off(fitting.count());
        for (publisher, hour) in &pairs {
            if let Some(hours) = next.dirty.get_mut(publisher) {
                *hours = hours.without(&Hours::of(*hour..*hour + 1));
            }
        }
        next.dirty.retain(|_, hours| !hours.is_empty());
        let piece_max = budget.rows_max / PAIRS_PIECES;
        let mut of_piece = 0;
        let mut some = Vec::new();
        for pair in pairs {
            let rows = rows_of(&pair);
            if of_piece > 0 && of_piece + rows > piece_max {
                pieces.push(Piece::of(std::mem::take(&mut some)));
                of_piece = 0;
            }
            of_piece += rows;
            some.push(pair);
        }
        if !some.is_empty() {
            pieces.push(Piece::of(some));
        }
        let first_left = left.into_iter().next();
        Ok(first_left.map(|(publisher, hour)| CleanFrom {
            publisher,
            below: hour + 1,
        }))
    }

    /// Hours before the window, down to the first receipt; the last one's hour.
    async fn reach_back(
        &self,
        floor: u32,
        next: &mut State,
        budget: &mut Budget,
        pieces: &mut Vec<Piece>,
    ) -> Result<u32, WarehouseError> {
        // Of no receipts both are the least instant.
        let call = Call::new(
            "SELECT count() = 0, toUnixTimestamp64Milli(min(timestamp)), toUnixTimestamp64Milli(max(timestamp)) FROM receipts",
        );
        let (none, first_ms, last_ms): (bool, i64, i64) = self.one("rollup_ends", call.slow()).await?;
        let first = if none {
            next.window.0
        } else {
            hour_of(first_ms).max(floor)
        };
        while first < next.window.0 && budget.has_some() {
            let end = next.window.0;
            let from = end.saturating_sub(HOURS_MAX).max(first);
            let rows = self.rows_of_hours(from..end).await?;
            let mut start = end;
            while start > from {
                // Whole days at once, so that they are of one roll; those that are too large for that by hours.
                let day = ((start - 1) / DAY * DAY).max(from);
                let of_day = (day..start).map(|hour| rows_in(&rows, hour)).sum();
                let (part, rows) = if of_day > WHOLE_MAX * budget.rows_max {
                    (start - 1, rows_in(&rows, start - 1))
                } else {
                    (day, of_day)
                };
                if !budget.take(rows) {
                    break;
                }
                start = part;
            }
            in_statements(&rows, start..end, budget.rows_max, pieces);
            next.window.0 = start;
            next.dirty = without(&next.dirty, &Hours::of(start..end));
        }
        next.nothing_below = none || hour_of(first_ms) >= next.window.0;
        Ok(hour_of(last_ms))
    }

    /// A day of those publishers that several rolls made it of, the first few of them; whether there are any. What is dirty of it will
    /// be made anew anyway, and a day too large for one roll stays as it is.
    async fn even(
        &self,
        day: u32,
        next: &State,
        rows_max: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<bool, WarehouseError> {
        let hours = day * DAY..(day + 1) * DAY;
        let window = next.window();
        if hours.start < window.start || hours.end > window.end {
            return Ok(false);
        }
        let view = next.view(
            Dirty::new(),
            0,
            next.erasing.iter().map(|one| one.whose.clone()).collect(),
            0,
        );
        let view = RollupView::of(view, Basis::default());
        let versions = view.versions_condition();
        let sql = format!(
            "SELECT publisher, sum(receipts) AS rows FROM usage_by_client
             WHERE hour >= {{from_hour:UInt32}} AND hour < {{to_hour:UInt32}} AND (publisher, hour, version) IN
             (
                SELECT publisher, bucket.1, bucket.2 FROM
                (
                    SELECT publisher, groupArray((hour, made_by)) AS buckets FROM
                    (
                        SELECT publisher, hour, max(version) AS made_by FROM rollup_buckets
                        WHERE hour >= {{from_hour:UInt32}} AND hour < {{to_hour:UInt32}} AND {versions}
                        GROUP BY publisher, hour
                    )
                    GROUP BY publisher HAVING min(made_by) != max(made_by)
                )
                ARRAY JOIN buckets AS bucket
             )
             GROUP BY publisher HAVING rows <= {} ORDER BY publisher",
            WHOLE_MAX * rows_max
        );
        let call = Piece::all(hours.clone()).bind(Call::new(sql)).set("max_threads", "1");
        let uneven: Vec<PublisherRows> = self.rows("rollup_uneven", call.slow()).await?;
        let clean = |row: &&PublisherRows| hours.clone().all(|hour| view.is_clean(&row.publisher, hour));
        let mut budget = Budget::of(rows_max);
        let mut pairs = Vec::new();
        for row in uneven.iter().filter(clean) {
            if pairs.len() + hours.len() > PAIRS_MAX || !budget.take(row.rows) {
                break;
            }
            pairs.extend(hours.clone().map(|hour| (row.publisher.clone(), hour)));
        }
        if pairs.is_empty() {
            return Ok(false);
        }
        pieces.push(Piece::of(pairs));
        Ok(true)
    }

    /// How many rows the receipts of each hour have, about: duplicates count as well.
    pub(super) async fn rows_of_hours(&self, hours: Range<u32>) -> Result<Vec<HourRows>, WarehouseError> {
        let piece = Piece::all(hours);
        let sql = format!(
            "SELECT toUInt32(intDiv(toUnixTimestamp64Milli(timestamp), 3600000)) AS hour, count() AS rows
             FROM receipts WHERE {} GROUP BY hour ORDER BY hour",
            piece.condition()
        );
        self.rows(
            "rollup_hours",
            piece.bind(Call::new(sql)).set("max_threads", "1").slow(),
        )
        .await
    }

    /// How many receipts each publisher's hour had when it was last made, about.
    async fn rows_of_buckets(&self, pairs: &[(String, u32)]) -> Result<Vec<BucketRows>, WarehouseError> {
        let piece = Piece::of(pairs.to_vec());
        let sql = format!(
            "SELECT publisher, hour, max(sum_of) AS rows FROM
             (
                SELECT publisher, hour, version, sum(receipts) AS sum_of FROM usage_by_client WHERE {}
                GROUP BY publisher, hour, version
             )
             GROUP BY publisher, hour",
            piece.rolled_condition()
        );
        self.rows("rollup_hours", piece.bind(Call::new(sql)).slow()).await
    }
}

/// Pieces of all publishers' hours with so many rows each, or a single hour: many more are grouped on disk, few more cost a look at every
/// publisher's rows again.
fn in_statements(rows: &[HourRows], hours: Range<u32>, rows_max: u64, pieces: &mut Vec<Piece>) {
    let (mut from, mut taken) = (hours.start, 0_u64);
    for row in rows.iter().filter(|row| hours.contains(&row.hour)) {
        if taken > 0 && taken + row.rows > rows_max {
            pieces.push(Piece::all(from..row.hour));
            (from, taken) = (row.hour, 0);
        }
        taken += row.rows;
    }
    if taken > 0 {
        pieces.push(Piece::all(from..hours.end));
    }
}

pub(super) fn rows_in(rows: &[HourRows], hour: u32) -> u64 {
    let found = rows.binary_search_by_key(&hour, |row| row.hour);
    found.map_or(0, |at| rows[at].rows)
}

fn without(dirty: &Dirty, hours: &Hours) -> Dirty {
    let left = dirty
        .iter()
        .map(|(publisher, of)| (publisher.clone(), of.without(hours)));
    left.filter(|(_, hours)| !hours.is_empty()).collect()
}

/// Rows that one roll or check may still read.
pub(super) struct Budget {
    rows_max: u64,
    rows_left: u64,
    begun: bool,
}

impl Budget {
    pub(super) fn of(rows_max: u64) -> Self {
        Self {
            rows_max,
            rows_left: rows_max,
            begun: false,
        }
    }

    fn has_some(&self) -> bool {
        self.rows_left > 0
    }

    /// Takes so many. The first that are asked for are had in any case, so that no hour is too large for ever.
    pub(super) fn take(&mut self, rows: u64) -> bool {
        if rows > self.rows_left && self.begun {
            self.rows_left = 0;
            return false;
        }
        self.begun |= rows > 0;
        self.rows_left = self.rows_left.saturating_sub(rows);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{HourRows, Piece, in_statements};

    #[test]
    fn every_hour_with_rows_is_in_one_statement() {
        let rows: Vec<HourRows> = [(3, 5), (4, 6), (5, 20), (8, 1), (9, 1), (12, 4)]
            .map(|(hour, rows)| HourRows { hour, rows })
            .into();
        let mut pieces = Vec::new();
        in_statements(&rows, 2..10, 11, &mut pieces);
        assert_eq!(pieces, [2..5, 5..8, 8..10].map(Piece::all));
        pieces.clear();
        in_statements(&rows, 6..8, 11, &mut pieces);
        assert_eq!(pieces, []);
    }
}
