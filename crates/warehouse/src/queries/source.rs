//! Where a question's rows come from: rolled rows for the hours that tell the same as `receipts FINAL`, and that itself for exactly the
//! other ones.
//!
//! Every rolled row stands for one or more receipts, every row of the rest for one: sums, least and greatest values and distinct values
//! over both are those over receipts.

use std::ops::Range;
use std::sync::Arc;

use super::{Filter, Scope, Usage, narrowing, scoped};
use crate::client::Call;
use crate::rollup::{Meant, OfScope, Unit, hour_of};
use crate::{Hours, RollupView, WarehouseError};

const HOUR_MS: i64 = 3_600_000;
/// Single hours between rolled ones that a statement names; what lies below so many is read from receipts.
const GAPS_MAX: u64 = 2_000;
/// Hours and days of rolled rows that a statement names; for more it asks the table of buckets.
const NAMED_MAX: usize = 4_000;

/// Distinct texts that are gathered for a list.
const TEXTS_MAX: u32 = 10_000;

/// The first 100 distinct texts of a column, in text order.
pub(super) fn least_texts(column: &str) -> String {
    format!("arraySlice(arraySort(groupUniqArray({TEXTS_MAX})({column})), 1, 100)")
}

/// Which rolled rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cube {
    /// By client, in half hours: for whatever has nothing to do with entries.
    Clients,
    /// By entry and client, in hours.
    Entries,
}

/// A column of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// `bucket`: the greatest of the question's boundaries that isn't above the row's time.
    Bucket,
    /// `n`: receipts.
    Count,
    /// `first_at`: the least timestamp, in milliseconds.
    First,
    /// `last_at`: the greatest timestamp.
    Last,
    /// `client`
    Client,
    /// `usage`: the purpose.
    Purpose,
    /// `model`
    Model,
    /// `entry`; not of [`Cube::Clients`].
    Entry,
    /// `link`: the URL; not of [`Cube::Clients`].
    Urls,
    /// `title`: the client's name; not of [`Cube::Entries`].
    Name,
    /// `body`: the client's organization; not of [`Cube::Entries`].
    Organization,
    /// `release`: the client's version; not of [`Cube::Entries`].
    ClientVersions,
}

/// What rolled rows are summed up by: projections of the tables have these sums almost ready (see [`crate::rollup::tables`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    /// Each row as it is.
    None,
    /// By the row's time, and what the columns are but for counts.
    Fine,
    /// The same by whole days.
    Days,
}

impl Cube {
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Clients => "usage_by_client",
            Self::Entries => "usage_by_entry",
        }
    }

    /// What a row's time is a multiple of.
    fn unit_ms(self) -> i64 {
        match self {
            Self::Clients => HOUR_MS / 2,
            Self::Entries => HOUR_MS,
        }
    }

    /// The beginning of a row's time, in milliseconds.
    fn time(self) -> &'static str {
        match self {
            Self::Clients => "toInt64(slot) * 1800000",
            Self::Entries => "toInt64(hour) * 3600000",
        }
    }

    /// What there is a projection by, for each kind of sums.
    fn summed_by(self, sums: Sums) -> &'static [&'static [Column]] {
        match (self, sums) {
            (_, Sums::None) => &[],
            (Self::Clients, Sums::Fine) => &[&[Column::Bucket, Column::Purpose, Column::Count]],
            (Self::Clients, Sums::Days) => &[
                &[
                    Column::Client,
                    Column::Purpose,
                    Column::Name,
                    Column::Organization,
                    Column::Count,
                    Column::Last,
                ],
                &[Column::Client, Column::Model, Column::Count],
            ],
            (Self::Entries, Sums::Fine) => &[&[
                Column::Bucket,
                Column::Entry,
                Column::Purpose,
                Column::Count,
                Column::Last,
            ]],
            (Self::Entries, Sums::Days) => &[&[Column::Entry, Column::Count, Column::Last]],
        }
    }

    /// Whether there is a projection for these columns and those of a filter.
    fn sums(self, sums: Sums, columns: &[Column], filter: &Filter) -> bool {
        let filtered = [
            (filter.purpose.is_some(), Column::Purpose),
            (filter.client_id.is_some(), Column::Client),
            (filter.entry_id.is_some(), Column::Entry),
            (filter.model_id.is_some(), Column::Model),
        ];
        let filtered = filtered.iter().filter(|(is, _)| *is).map(|(_, column)| column);
        let needed: Vec<&Column> = columns.iter().chain(filtered).collect();
        // Sums by nothing would be a row also where there are none.
        columns.iter().any(|column| !column.is_sum())
            && self
                .summed_by(sums)
                .iter()
                .any(|known| needed.iter().all(|column| known.contains(column)))
    }
}

impl Column {
    /// Whether it is a sum over rows, not of their key.
    fn is_sum(self) -> bool {
        matches!(self, Self::Count | Self::First | Self::Last)
    }

    /// What rows are grouped by for it.
    fn key(self, cube: Cube) -> Option<&'static str> {
        let key = match self {
            Self::Count | Self::First | Self::Last => return None,
            Self::Bucket if cube == Cube::Clients => "slot",
            Self::Bucket => "hour",
            Self::Client => "client_id",
            Self::Purpose => "purpose",
            Self::Model => "model_id",
            Self::Entry => "entry_id",
            Self::Urls => "url",
            Self::Name => "name",
            Self::Organization => "organization",
            Self::ClientVersions => "client_version",
        };
        Some(key)
    }

    fn rolled(self, cube: Cube, sums: Sums) -> String {
        let text = match self {
            Self::Bucket => return format!("roundDown({}, {{boundaries:Array(Int64)}}) AS bucket", cube.time()),
            Self::Count if sums != Sums::None => "sum(receipts) AS n",
            Self::Last if sums != Sums::None => "max(last_ms) AS last_at",
            Self::Count => "receipts AS n",
            Self::First => "first_ms AS first_at",
            Self::Last => "last_ms AS last_at",
            Self::Client => "client_id AS client",
            Self::Purpose => "purpose AS usage",
            Self::Model => "model_id AS model",
            Self::Entry => "entry_id AS entry",
            Self::Urls => "url AS link",
            Self::Name => "toString(name) AS title",
            Self::Organization => "toString(organization) AS body",
            Self::ClientVersions => "toString(client_version) AS release",
        };
        text.to_owned()
    }

    fn of_receipts(self) -> &'static str {
        match self {
            Self::Bucket => "roundDown(toUnixTimestamp64Milli(timestamp), {boundaries:Array(Int64)}) AS bucket",
            Self::Count => "toUInt64(1) AS n",
            Self::First => "toUnixTimestamp64Milli(timestamp) AS first_at",
            Self::Last => "toUnixTimestamp64Milli(timestamp) AS last_at",
            Self::Client => "CAST(client_id AS UUID) AS client",
            Self::Purpose => "CAST(purpose AS LowCardinality(String)) AS usage",
            Self::Model => "toString(model_id) AS model",
            Self::Entry => "entry_id AS entry",
            Self::Urls => "toString(url) AS link",
            Self::Name => "toString(client_name) AS title",
            Self::Organization => "toString(organization) AS body",
            Self::ClientVersions => "toString(client_version) AS release",
        }
    }
}

/// Which hours of a range come from rolled rows: those of `rolled` but for `gaps`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Split {
    rolled: (u32, u32),
    gaps: Vec<u32>,
    /// Whether the range goes below `rolled`.
    below: bool,
    /// Whether the range goes above it.
    above: bool,
}

impl Split {
    /// Of a half-open range in milliseconds; no rolled row may lie across one of `cuts` or across an end.
    fn of(clean: &Hours, from_ms: i64, to_ms: i64, cuts: &[i64], unit_ms: i64) -> Self {
        let across = |ms: i64| ms.rem_euclid(unit_ms) != 0;
        let first_behind = hour_of(to_ms.saturating_add(HOUR_MS - 1));
        let ends = [from_ms, to_ms];
        let cut = cuts.iter().chain(&ends).filter(|ms| across(**ms));
        let cut = Hours::of_all(cut.map(|ms| (hour_of(*ms), hour_of(*ms).saturating_add(1))));
        let usable = clean.within(hour_of(from_ms)..first_behind).without(&cut);
        let mut rolled: Option<(u32, u32)> = None;
        let mut gaps = 0;
        for range in usable.ranges().rev() {
            let Some((start, end)) = rolled else {
                rolled = Some((range.start, range.end));
                continue;
            };
            gaps += u64::from(start - range.end);
            if gaps > GAPS_MAX {
                break;
            }
            rolled = Some((range.start, end));
        }
        let Some((start, end)) = rolled else {
            return Self::default();
        };
        Self {
            rolled: (start, end),
            gaps: Hours::of(start..end).without(&usable).ranges().flatten().collect(),
            below: from_ms < i64::from(start) * HOUR_MS,
            above: to_ms > i64::from(end) * HOUR_MS,
        }
    }

    fn has_rolled(&self) -> bool {
        self.rolled.0 < self.rolled.1
    }

    /// The hours that come from rolled rows.
    fn hours(&self) -> Hours {
        let gaps = Hours::of_all(self.gaps.iter().map(|hour| (*hour, hour.saturating_add(1))));
        Hours::of(self.rolled.0..self.rolled.1).without(&gaps)
    }

    /// Those of them that the range has no end in.
    fn whole_hours(&self, from_ms: i64, to_ms: i64) -> Hours {
        self.hours()
            .within(hour_of(from_ms.saturating_add(HOUR_MS - 1))..hour_of(to_ms))
    }
}

/// What a question is asked of.
#[derive(Debug, Clone)]
pub(super) struct Source<'a> {
    view: &'a RollupView,
    scope: &'a Scope,
    filter: Filter,
    boundaries: Vec<i64>,
    cube: Cube,
    split: Split,
    /// The rolled rows, by publisher; `None` where a statement is to ask the table of buckets for them.
    meant: Option<Vec<(String, Meant)>>,
}

impl<'a> Usage<'a> {
    /// The rows of a question, none of which lies across a boundary.
    pub(super) async fn source<'b>(
        &'b self,
        scope: &'b Scope,
        filter: &Filter,
        boundaries: &[i64],
        cube: Cube,
    ) -> Result<Source<'b>, WarehouseError>
    where
        'a: 'b,
    {
        // Of a single entry there are rolled rows by entry only.
        let cube = if filter.entry_id.is_some() { Cube::Entries } else { cube };
        self.source_by(scope, filter, boundaries, cube, cube.unit_ms()).await
    }

    /// The same with rolled rows taken as what spans `unit_ms`.
    pub(super) async fn source_by<'b>(
        &'b self,
        scope: &'b Scope,
        filter: &Filter,
        boundaries: &[i64],
        cube: Cube,
        unit_ms: i64,
    ) -> Result<Source<'b>, WarehouseError>
    where
        'a: 'b,
    {
        let range = self.view.narrowed(filter.from_ms..filter.to_ms);
        let filter = Filter {
            from_ms: range.start,
            to_ms: range.end,
            ..filter.clone()
        };
        let clean = self.view.clean_hours(scope);
        let split = Split::of(&clean, filter.from_ms, filter.to_ms, boundaries, unit_ms);
        let buckets: Arc<OfScope> = if split.has_rolled() {
            // Rarely asked, and large.
            Box::pin(self.warehouse.buckets(self.view, scope)).await?
        } else {
            Arc::default()
        };
        let window = self.view.window().unwrap_or_default();
        let meant = buckets.as_ref().as_ref().map(|all| {
            let (hours, whole) = (split.hours(), split.whole_hours(filter.from_ms, filter.to_ms));
            let of_each = all
                .iter()
                .map(|(name, buckets)| (name.clone(), buckets.meant(&hours, &whole, &window)));
            of_each.collect::<Vec<_>>()
        });
        let named = |meant: &Vec<(String, Meant)>| {
            let numbers = meant.iter().map(|(_, meant)| meant.days.len() + meant.hours.len());
            numbers.sum::<usize>()
        };
        Ok(Source {
            view: self.view,
            scope,
            split,
            filter,
            boundaries: boundaries.to_vec(),
            cube,
            meant: meant.filter(|meant| named(meant) <= NAMED_MAX),
        })
    }
}

impl Source<'_> {
    /// The rolled side as units, by publisher; `None` where a statement is to find them.
    pub(super) fn units(&self) -> Option<Vec<(&str, Vec<Unit>)>> {
        if !self.split.has_rolled() {
            return Some(Vec::new());
        }
        let of = |meant: &Meant| {
            let days = meant.days.iter().map(|day| Unit::Day(*day));
            days.chain(meant.hours.iter().map(|hour| Unit::Hour(*hour))).collect()
        };
        let all = self.meant.as_ref()?.iter();
        Some(all.map(|(publisher, meant)| (publisher.as_str(), of(meant))).collect())
    }

    /// Hours of the range that don't come from rolled rows, or not all of them.
    pub(super) fn tail_hours(&self) -> Hours {
        let all = hour_of(self.filter.from_ms)..hour_of(self.filter.to_ms.saturating_add(HOUR_MS - 1));
        Hours::of(all).without(&self.split.hours())
    }

    /// Which roll made the rolled rows that stand for a publisher's instant.
    pub(super) fn made_by(&self, publisher: &str, at_ms: i64) -> Option<u32> {
        let (_, meant) = self.meant.as_ref()?.iter().find(|(name, _)| name == publisher)?;
        meant.made_by(hour_of(at_ms))
    }

    /// Whose receipts are asked for.
    pub(super) fn scope(&self) -> &Scope {
        self.scope
    }

    /// The range.
    pub(super) fn range(&self) -> Range<i64> {
        self.filter.from_ms..self.filter.to_ms
    }

    /// What tells the other side from that of any other question of the same view.
    pub(super) fn selection(&self) -> String {
        let Self {
            scope, filter, split, ..
        } = self;
        format!("{scope:?} {} {} {split:?}", filter.from_ms, filter.to_ms)
    }

    /// The other side with these columns; `None` if there is none.
    pub(super) fn tail(&self, columns: &[Column]) -> Option<String> {
        let condition = if self.split.has_rolled() {
            format!(" AND {}", self.not_rolled()?)
        } else {
            String::new()
        };
        Some(self.of_receipts(columns, &condition))
    }

    /// Rows of receipts.
    fn of_receipts(&self, columns: &[Column], condition: &str) -> String {
        let list: Vec<&str> = columns.iter().map(|column| column.of_receipts()).collect();
        format!(
            "SELECT {} FROM receipts FINAL WHERE {}{condition}",
            list.join(", "),
            super::receipts_condition(self.scope, &self.filter)
        )
    }

    /// Which of the range's receipts don't come from rolled rows; `None` if all do.
    fn not_rolled(&self) -> Option<String> {
        let others = [
            (
                self.split.below,
                "timestamp < fromUnixTimestamp64Milli({rolled_from_ms:Int64}, 'UTC')",
            ),
            (
                self.split.above,
                "timestamp >= fromUnixTimestamp64Milli({rolled_to_ms:Int64}, 'UTC')",
            ),
            (
                !self.split.gaps.is_empty(),
                "toStartOfHour(timestamp) IN {gaps_s:Array(DateTime('UTC'))}",
            ),
        ];
        let others: Vec<&str> = others.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect();
        (!others.is_empty()).then(|| format!("({})", others.join(" OR ")))
    }

    /// The rows with these columns, as what stands behind `FROM`; rolled ones summed up as far as a projection has the sums.
    pub(super) fn rows(&self, columns: &[Column]) -> String {
        if !self.split.has_rolled() {
            return format!("({})", self.of_receipts(columns, ""));
        }
        let list = |text: &dyn Fn(&Column) -> String| columns.iter().map(text).collect::<Vec<_>>().join(", ");
        let rolled = |sums: Sums, condition: String| {
            let table = self.cube.table();
            let list = list(&|column| column.rolled(self.cube, sums));
            let group = match sums {
                Sums::None => String::new(),
                _ => {
                    let keys: Vec<&str> = columns.iter().filter_map(|column| column.key(self.cube)).collect();
                    format!(" GROUP BY {}", keys.join(", "))
                }
            };
            format!("SELECT {list} FROM {table} WHERE {condition}{group}")
        };
        let has = |sums: Sums| self.cube.sums(sums, columns, &self.filter);
        let fine = if has(Sums::Fine) { Sums::Fine } else { Sums::None };
        let mut parts = Vec::new();
        match &self.meant {
            None => parts.push(rolled(fine, self.asked())),
            Some(all) => {
                for (number, (_, meant)) in all.iter().enumerate() {
                    let by_day = self.boundaries.is_empty() && has(Sums::Days) && !meant.days.is_empty();
                    if by_day {
                        parts.push(rolled(Sums::Days, self.days_of(number, meant)));
                    }
                    parts.extend(
                        self.hours_of(number, meant, !by_day)
                            .map(|condition| rolled(fine, condition)),
                    );
                }
            }
        }
        parts.extend(self.tail(columns));
        if parts.is_empty() {
            parts.push(self.of_receipts(columns, " AND 0"));
        }
        format!("({})", parts.join(" UNION ALL "))
    }

    /// Which rolled rows of one publisher's whole days are meant. It has nothing but what projections by day know.
    fn days_of(&self, number: usize, meant: &Meant) -> String {
        let days = || meant.days.iter().map(|day| day >> 32);
        let (first, last) = (days().min().unwrap_or(0), days().max().unwrap_or(0));
        format!(
            "publisher = {{publisher_{number}:String}} AND intDiv(hour, 24) >= {first} AND intDiv(hour, 24) <= {last}
                AND {DAY} IN {{days_{number}:Array(UInt64)}}{}",
            narrowing(&self.filter)
        )
    }

    /// Which rolled rows of one publisher's single hours are meant, and of its days; `None` if none are.
    fn hours_of(&self, number: usize, meant: &Meant, with_days: bool) -> Option<String> {
        let days = if with_days { meant.days.as_slice() } else { &[] };
        let hours = meant.hours.iter().map(|hour| hour >> 32);
        let in_days = days.iter().flat_map(|day| [(day >> 32) * 24, (day >> 32) * 24 + 23]);
        let all: Vec<u64> = hours.chain(in_days).collect();
        let (first, last) = (all.iter().min()?, all.iter().max()?);
        let mut which = Vec::new();
        if !meant.hours.is_empty() {
            which.push(format!("{HOUR} IN {{hours_{number}:Array(UInt64)}}"));
        }
        if !days.is_empty() {
            which.push(format!("{DAY} IN {{days_{number}:Array(UInt64)}}"));
        }
        let time = self.cube.time();
        Some(format!(
            "publisher = {{publisher_{number}:String}} AND hour >= {first} AND hour <= {last} AND ({})
                AND {time} >= {{from_ms:Int64}} AND {time} < {{to_ms:Int64}}{}",
            which.join(" OR "),
            narrowing(&self.filter)
        ))
    }

    /// Which rolled rows are meant, where the table of buckets is to say it.
    fn asked(&self) -> String {
        let scope = self.scope.condition();
        let hours = "hour >= {rolled_from:UInt32} AND hour < {rolled_to:UInt32}";
        let not_gaps = if self.split.gaps.is_empty() {
            ""
        } else {
            " AND hour NOT IN {gaps:Array(UInt32)}"
        };
        let versions = self.view.versions_condition();
        let time = self.cube.time();
        format!(
            "{scope} AND {hours}{not_gaps} AND {time} >= {{from_ms:Int64}} AND {time} < {{to_ms:Int64}}{}
                AND (publisher, hour, version) IN (SELECT publisher, hour, max(version)
                    FROM rollup_buckets WHERE {scope} AND {hours}{not_gaps} AND {versions} GROUP BY publisher, hour)",
            narrowing(&self.filter)
        )
    }

    /// A call with everything bound that [`tail`](Self::tail) names.
    pub(super) fn tail_call(&self, sql: String) -> Call {
        let mut call = scoped(sql, self.scope, &self.filter);
        if !self.boundaries.is_empty() {
            call = call.with("boundaries", self.boundaries.clone());
        }
        if !self.split.has_rolled() {
            return call;
        }
        let (start, end) = self.split.rolled;
        call = call
            .with("rolled_from_ms", i64::from(start) * HOUR_MS)
            .with("rolled_to_ms", i64::from(end) * HOUR_MS);
        if !self.split.gaps.is_empty() {
            let gaps_s = self.split.gaps.iter().map(|hour| i64::from(*hour) * HOUR_MS / 1_000);
            call = call.with("gaps_s", gaps_s.collect::<Vec<_>>());
        }
        call
    }

    /// A call with everything bound that [`rows`](Self::rows) names.
    pub(super) fn call(&self, sql: String) -> Call {
        let mut call = self.tail_call(sql);
        if !self.split.has_rolled() {
            return call;
        }
        let (start, end) = self.split.rolled;
        let Some(all) = &self.meant else {
            // Below the window there are at most rows of receipts that are gone.
            let first = self.view.window().map_or(start, |window| window.start.max(start));
            return call
                .with("rolled_from", first)
                .with("rolled_to", end)
                .with("gaps", self.split.gaps.clone());
        };
        for (number, (publisher, meant)) in all.iter().enumerate() {
            call = call
                .with(format!("publisher_{number}"), publisher.clone())
                .with(format!("days_{number}"), meant.days.clone())
                .with(format!("hours_{number}"), meant.hours.clone());
        }
        call
    }
}

/// A row's hour and version as one number, and its day and version: comparing texts and tuples takes much longer.
const HOUR: &str = "bitShiftLeft(toUInt64(hour), 32) + version";
const DAY: &str = "bitShiftLeft(toUInt64(intDiv(hour, 24)), 32) + version";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{HOUR_MS, Split};
    use crate::Hours;

    /// The hours of a split that are rolled, and the milliseconds of the range that are read from receipts, as hours.
    fn parts(split: &Split, from: i64, to: i64) -> (BTreeSet<i64>, BTreeSet<i64>) {
        let mut rolled = BTreeSet::new();
        let mut live = BTreeSet::new();
        for hour in from.div_euclid(HOUR_MS)..=(to - 1).div_euclid(HOUR_MS) {
            let within = (i64::from(split.rolled.0)..i64::from(split.rolled.1)).contains(&hour);
            let gap = split.gaps.iter().any(|gap| i64::from(*gap) == hour);
            let below = hour < i64::from(split.rolled.0) && (split.below || !split.has_rolled());
            let above = hour >= i64::from(split.rolled.1) && (split.above || !split.has_rolled());
            if within && !gap {
                rolled.insert(hour);
            }
            if gap || below || above {
                live.insert(hour);
            }
        }
        (rolled, live)
    }

    #[test]
    fn every_hour_comes_from_one_side_and_none_that_is_cut_is_rolled() {
        let clean = Hours::of_all([(100, 110), (112, 120)]);
        let half = HOUR_MS / 2;
        for unit_ms in [half, HOUR_MS] {
            for from in [98 * HOUR_MS, 100 * HOUR_MS, 103 * HOUR_MS + half, 103 * HOUR_MS + 1] {
                for to in [104 * HOUR_MS, 118 * HOUR_MS + half, 119 * HOUR_MS + 7, 130 * HOUR_MS] {
                    for cut in [105 * HOUR_MS, 105 * HOUR_MS + half, 105 * HOUR_MS + 2] {
                        let split = Split::of(&clean, from, to, &[cut], unit_ms);
                        let (rolled, live) = parts(&split, from, to);
                        let all: BTreeSet<i64> = (from / HOUR_MS..(to + HOUR_MS - 1) / HOUR_MS).collect();
                        assert_eq!(&rolled | &live, all);
                        assert!(rolled.is_disjoint(&live));
                        for hour in all {
                            let start = hour * HOUR_MS;
                            let is_cut = [from, to, cut]
                                .iter()
                                .any(|at| (start..start + HOUR_MS).contains(at) && at % unit_ms != 0);
                            let clean = clean.contains(u32::try_from(hour).unwrap_or(0));
                            assert_eq!(rolled.contains(&hour), clean && !is_cut, "{from} {to} {cut} {hour}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_lies_below_too_many_gaps_is_read_from_receipts() {
        let clean = Hours::of_all((0..5_000).map(|hour| (hour * 2, hour * 2 + 1)));
        let split = Split::of(&clean, 0, 10_000 * HOUR_MS, &[], HOUR_MS);
        assert_eq!((split.rolled, split.gaps.len()), ((5_998, 9_999), 2_000));
        assert!(split.below && split.above);
        assert_eq!(Split::of(&Hours::default(), 0, HOUR_MS, &[], HOUR_MS), Split::default());
    }
}
