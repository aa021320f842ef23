//! Where a question's rows come from: rolled rows for the hours that tell the same as `receipts FINAL`, and that itself for exactly the
//! other ones.
//!
//! Every rolled row stands for one or more receipts, every row of the rest for one: sums, least and greatest values and distinct values
//! over both are those over receipts.

use super::{Filter, Scope, Usage, narrowing, scoped};
use crate::client::Call;
use crate::{Hours, RollupView};

const HOUR_MS: i64 = 3_600_000;
/// Single hours between rolled ones that a statement names; what lies below so many is read from receipts.
const GAPS_MAX: u64 = 2_000;

/// Distinct texts that are gathered for a list.
const TEXTS_MAX: u32 = 10_000;

/// The first 100 distinct texts of a column, in text order.
pub(super) fn least_texts(column: &str) -> String {
    format!("arraySlice(arraySort(groupUniqArray({TEXTS_MAX})({column})), 1, 100)")
}

/// Which rolled rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cube {
    /// By client, in half hours: for whatever has nothing to do with entries.
    Clients,
    /// By entry and client, in hours.
    Entries,
}

/// A column of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
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

impl Cube {
    fn table(self) -> &'static str {
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
}

impl Column {
    fn rolled(self, cube: Cube) -> String {
        let text = match self {
            Self::Bucket => return format!("roundDown({}, {{boundaries:Array(Int64)}}) AS bucket", cube.time()),
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
        let hour = |ms: i64| u32::try_from(ms.div_euclid(HOUR_MS).max(0)).unwrap_or(u32::MAX);
        let across = |ms: i64| ms.rem_euclid(unit_ms) != 0;
        let first_behind = hour(to_ms.saturating_add(HOUR_MS - 1));
        let ends = [from_ms, to_ms];
        let cut = cuts.iter().chain(&ends).filter(|ms| across(**ms));
        let cut = Hours::of_all(cut.map(|ms| (hour(*ms), hour(*ms).saturating_add(1))));
        let usable = clean.within(hour(from_ms)..first_behind).without(&cut);
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
}

impl<'a> Usage<'a> {
    /// The rows of a question, none of which lies across a boundary.
    pub(super) fn source<'b>(&'b self, scope: &'b Scope, filter: &Filter, boundaries: &[i64], cube: Cube) -> Source<'b>
    where
        'a: 'b,
    {
        // Of a single entry there are rolled rows by entry only.
        let cube = if filter.entry_id.is_some() { Cube::Entries } else { cube };
        let clean = self.view.clean_hours(scope);
        Source {
            view: self.view,
            scope,
            split: Split::of(&clean, filter.from_ms, filter.to_ms, boundaries, cube.unit_ms()),
            filter: filter.clone(),
            boundaries: boundaries.to_vec(),
            cube,
        }
    }
}

impl Source<'_> {
    /// The rows with these columns, as what stands behind `FROM`.
    pub(super) fn rows(&self, columns: &[Column]) -> String {
        let list = |text: &dyn Fn(&Column) -> String| columns.iter().map(text).collect::<Vec<_>>().join(", ");
        let rolled = list(&|column| column.rolled(self.cube));
        self.both(&rolled, "", &list(&|column| column.of_receipts().to_owned()))
    }

    /// The rows with `entry`, `n` and `last_at`, of which each rolled entry is one: a projection of the rolled rows has these sums
    /// almost ready.
    pub(super) fn rows_by_entry(&self) -> String {
        let [entry, count, last] = [Column::Entry, Column::Count, Column::Last].map(Column::of_receipts);
        self.both(
            "entry_id AS entry, sum(receipts) AS n, max(last_ms) AS last_at",
            " GROUP BY entry_id",
            &format!("{entry}, {count}, {last}"),
        )
    }

    fn both(&self, rolled: &str, group: &str, receipts: &str) -> String {
        let receipts = |condition: &str| {
            format!(
                "SELECT {receipts} FROM receipts FINAL WHERE {}{condition}",
                super::receipts_condition(self.scope, &self.filter)
            )
        };
        if !self.split.has_rolled() {
            return format!("({})", receipts(""));
        }
        let table = self.cube.table();
        let rolled = format!("SELECT {rolled} FROM {table} WHERE {}{group}", self.rolled_condition());
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
        if others.is_empty() {
            return format!("({rolled})");
        }
        format!(
            "({rolled} UNION ALL {})",
            receipts(&format!(" AND ({})", others.join(" OR ")))
        )
    }

    fn rolled_condition(&self) -> String {
        let scope = self.scope.condition();
        let hours = "hour >= {rolled_from:UInt32} AND hour < {rolled_to:UInt32}";
        let not_gaps = if self.split.gaps.is_empty() {
            ""
        } else {
            " AND hour NOT IN {gaps:Array(UInt32)}"
        };
        let versions = self.view.versions_condition();
        // Of one publisher a number tells hour and version; comparing texts takes much longer.
        let newest = if self.scope.below.is_empty() && self.scope.publishers.len() == 1 {
            format!(
                "bitShiftLeft(toUInt64(hour), 32) + version IN (SELECT bitShiftLeft(toUInt64(hour), 32) + max(version)
                    FROM rollup_buckets WHERE {scope} AND {hours}{not_gaps} AND {versions} GROUP BY hour)"
            )
        } else {
            format!(
                "(publisher, hour, version) IN (SELECT publisher, hour, max(version)
                    FROM rollup_buckets WHERE {scope} AND {hours}{not_gaps} AND {versions} GROUP BY publisher, hour)"
            )
        };
        let time = self.cube.time();
        format!(
            "{scope} AND {hours}{not_gaps} AND {time} >= {{from_ms:Int64}} AND {time} < {{to_ms:Int64}}{} AND {newest}",
            narrowing(&self.filter)
        )
    }

    /// A call with everything bound that [`rows`](Self::rows) names.
    pub(super) fn call(&self, sql: String) -> Call {
        let mut call = scoped(sql, self.scope, &self.filter);
        if !self.boundaries.is_empty() {
            call = call.with("boundaries", self.boundaries.clone());
        }
        let (start, end) = self.split.rolled;
        if !self.split.has_rolled() {
            return call;
        }
        call = call
            .with("rolled_from", start)
            .with("rolled_to", end)
            .with("rolled_from_ms", i64::from(start) * HOUR_MS)
            .with("rolled_to_ms", i64::from(end) * HOUR_MS);
        if self.split.gaps.is_empty() {
            return call;
        }
        let gaps_s = self.split.gaps.iter().map(|hour| i64::from(*hour) * HOUR_MS / 1_000);
        call.with("gaps_s", gaps_s.collect::<Vec<_>>())
            .with("gaps", self.split.gaps.clone())
    }
}

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
