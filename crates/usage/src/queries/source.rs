//! Rows of a query: pieces of `usage` and of `receipts FINAL`, joined by `UNION ALL`.
//!
//! A row of `usage` is a number of receipts, a row of `receipts` is one: sums, smallest and
//! greatest values and distinct values over both are those over receipts.

use uuid::Uuid;
use warehouse::{FINAL_SETTINGS, Filter, QueryScope, SqlStatement, StampColumns};

use super::column::{QueryColumn, key, start_s};
use super::plan::{Level, QueryPlan, Units};
use crate::Grain;
use crate::calendar::{DAY_S, HALF_HOUR_S, day_of};

/// The stamp of a row called `stored`.
pub(super) const STAMP_OF_USAGE: StampColumns = StampColumns {
    operator: "stored.operator",
    verified: "stored.verified",
};
pub(super) const STAMP_OF_RECEIPTS: StampColumns = StampColumns {
    operator: "tupleElement(stored.stamp, 2)",
    verified: "tupleElement(stored.stamp, 3)",
};

/// Distinct texts that are gathered for a list.
const TEXTS_MAX: u32 = 10_000;

/// The first 100 distinct texts of a column, in text order.
pub(super) fn least_texts(column: &str) -> String {
    format!("arraySlice(arraySort(groupUniqArray({TEXTS_MAX})({column})), 1, 100)")
}

/// A sum of receipts, which is never negative.
pub(super) fn count(receipts: i64) -> u64 {
    u64::try_from(receipts).unwrap_or(0)
}

/// Proven receipts, over rows called `piece`.
pub(super) const PROVEN: &str = "sumIf(piece.receipts, piece.is_proven) AS proven";

/// Rows of a query with some columns.
#[derive(Debug, Clone)]
pub(super) struct RowSource<'a> {
    scope: &'a QueryScope,
    filter: &'a Filter,
    boundaries_ms: &'a [i64],
    /// An ID's column, and the only IDs.
    only: Option<(&'static str, Vec<String>)>,
    columns: Vec<QueryColumn>,
    plan: QueryPlan,
    /// Whether rows of `usage` are summed by their key.
    is_by_key: bool,
    /// Beginning of the names of the plan's parameters.
    prefix: &'static str,
}

impl<'a> RowSource<'a> {
    /// Rows with these columns, none of which is on both sides of a boundary.
    pub(super) fn new(
        scope: &'a QueryScope,
        filter: &'a Filter,
        boundaries_ms: &'a [i64],
        columns: &[QueryColumn],
    ) -> Self {
        let mut distinct: Vec<QueryColumn> = Vec::with_capacity(columns.len());
        for column in columns {
            if !distinct.contains(column) {
                distinct.push(*column);
            }
        }
        let columns = distinct;
        let has = |grain: Grain| {
            let mut needed = columns.iter().copied().chain(QueryColumn::of_filter(filter));
            needed.all(|column| column.is_in(grain))
        };
        let plan = QueryPlan::new(filter.from_ms..filter.to_ms, boundaries_ms, has);
        Self {
            scope,
            filter,
            boundaries_ms,
            only: None,
            columns,
            plan,
            is_by_key: false,
            prefix: "",
        }
    }

    /// Only rows with these IDs, in one of the columns.
    pub(super) fn only(mut self, id: &'static str, ids: impl Iterator<Item = Uuid>) -> Self {
        self.only = Some((id, ids.map(|id| id.to_string()).collect()));
        self
    }

    /// Makes one row for each key of `usage` that has receipts. Without it, keys whose rows add up
    /// to 0 have rows too: harmless to sums, but not to times and texts.
    pub(super) fn by_key(mut self) -> Self {
        self.is_by_key = true;
        self
    }

    /// Renames the parameters, for a part of another source's statement.
    pub(super) fn nested(mut self) -> Self {
        self.prefix = "nested_";
        self
    }

    /// The rows as a table expression, called `piece`.
    pub(super) fn rows(&self) -> String {
        let mut outer: Option<&Units> = None;
        let mut pieces = Vec::new();
        for level in &self.plan.levels {
            pieces.push(self.of_usage(level, outer));
            outer = Some(&level.units);
        }
        if self.has_receipts() {
            pieces.push(self.of_receipts(outer));
        }
        format!("({}) AS piece", pieces.join(" UNION ALL "))
    }

    /// Whether some rows come from `receipts`.
    fn has_receipts(&self) -> bool {
        self.plan.has_rest || self.plan.levels.is_empty()
    }

    /// Rows of a level, but those of the level before.
    fn of_usage(&self, level: &Level, outer: Option<&Units>) -> String {
        let Level { grain, units } = level;
        let columns = self
            .columns
            .iter()
            .map(|column| column.of_usage(*grain, self.is_by_key))
            .chain(self.is_proven(STAMP_OF_USAGE));
        let receipts = if self.is_by_key {
            "sum(stored.receipts) AS receipts"
        } else {
            "CAST(stored.receipts AS Int64) AS receipts"
        };
        let columns: Vec<String> = columns.chain([receipts.to_owned()]).collect();
        let mut conditions = vec![format!("stored.grain = '{}'", grain.name()), self.scope.condition()];
        if *grain == Grain::All {
            // The key has the day: by it the rows are found.
            let (first_day, last_day) = (self.name("first_day"), self.name("last_day"));
            conditions.push(format!(
                "stored.time >= {{{first_day}:UInt32}} AND stored.time <= {{{last_day}:UInt32}}"
            ));
        }
        conditions.push(self.within(units, start_s(*grain)));
        if let Some(outer) = outer {
            conditions.push(self.outside(outer, "stored.time"));
        }
        conditions.extend(self.narrowing(STAMP_OF_USAGE));
        let group = if self.is_by_key {
            format!(" GROUP BY {} HAVING sum(stored.receipts) > 0", key(*grain))
        } else {
            String::new()
        };
        format!(
            "SELECT {} FROM usage AS stored WHERE {}{group}",
            columns.join(", "),
            conditions.join(" AND ")
        )
    }

    /// Rows of the range's receipts that are outside of the levels.
    fn of_receipts(&self, outer: Option<&Units>) -> String {
        let columns = self.columns.iter().map(|column| column.of_receipts().to_owned());
        let columns = columns.chain(self.is_proven(STAMP_OF_RECEIPTS));
        let columns: Vec<String> = columns.chain(["toInt64(1) AS receipts".to_owned()]).collect();
        let mut conditions = vec![
            self.scope.condition(),
            self.of_time(">=", "from_ms", "Int64", ""),
            self.of_time("<", "to_ms", "Int64", ""),
        ];
        if let Some(units) = outer {
            conditions.push(self.outside_of_receipts(units));
        }
        conditions.extend(self.narrowing(STAMP_OF_RECEIPTS));
        format!(
            "SELECT {} FROM receipts AS stored FINAL WHERE {}",
            columns.join(", "),
            conditions.join(" AND ")
        )
    }

    /// The column `is_proven`, which comes with the operator.
    fn is_proven(&self, stamp: StampColumns) -> Option<String> {
        let has_operator = self.columns.contains(&QueryColumn::Operator);
        has_operator.then(|| format!("{} AS is_proven", self.filter.proven(stamp.operator)))
    }

    /// A comparison of receipts' timestamps with a parameter.
    fn of_time(&self, operator: &str, name: &str, kind: &str, scale: &str) -> String {
        let name = self.name(name);
        format!("stored.timestamp {operator} fromUnixTimestamp64Milli(toInt64({{{name}:{kind}}}){scale}, 'UTC')")
    }

    fn outside_of_receipts(&self, units: &Units) -> String {
        let name = unit_name(units);
        let mut outside = vec![
            self.of_time("<", &format!("{name}_from"), "UInt32", " * 1000"),
            self.of_time(">=", &format!("{name}_to"), "UInt32", " * 1000"),
        ];
        if !units.cut.is_empty() {
            let (cut, unit_s) = (self.cut(units), units.unit_s);
            let unit = format!("intDiv(toUnixTimestamp64Milli(stored.timestamp), {unit_s}000) * {unit_s} IN {cut}");
            outside.push(if units.unit_s == HALF_HOUR_S {
                // The key has the hour: by it the rows are found.
                let hours = format!("arrayMap(second -> toDateTime(second - second % 3600, 'UTC'), {cut})");
                format!("toStartOfHour(stored.timestamp) IN {hours} AND {unit}")
            } else {
                unit
            });
        }
        format!("({})", outside.join(" OR "))
    }

    /// A condition that `start` is the start of one of these units.
    fn within(&self, units: &Units, start: &str) -> String {
        let name = unit_name(units);
        let (from, to) = (self.name(&format!("{name}_from")), self.name(&format!("{name}_to")));
        let mut condition = format!("{start} >= {{{from}:UInt32}} AND {start} < {{{to}:UInt32}}");
        if !units.cut.is_empty() {
            condition.push_str(&format!(" AND {start} NOT IN {}", self.cut(units)));
        }
        condition
    }

    /// A condition that `start` is the start of another unit.
    fn outside(&self, units: &Units, start: &str) -> String {
        format!("NOT ({})", self.within(units, start))
    }

    fn cut(&self, units: &Units) -> String {
        format!("{{{}:Array(UInt32)}}", self.name(&format!("cut_{}", unit_name(units))))
    }

    fn name(&self, parameter: &str) -> String {
        format!("{}{parameter}", self.prefix)
    }

    /// Conditions of the filter and of the only IDs.
    fn narrowing(&self, stamp: StampColumns) -> impl Iterator<Item = String> {
        let only = self.only.as_ref();
        let only = only.map(|(id, _)| format!("stored.{id} IN {{only:Array(UUID)}}"));
        self.filter.conditions("stored.", stamp).into_iter().chain(only)
    }

    /// A call of a statement over [`rows`](Self::rows), with everything bound that they name.
    pub(super) fn call(&self, sql: &str) -> SqlStatement {
        let settings = if self.has_receipts() {
            FINAL_SETTINGS
        } else {
            // The primary key finds the rows. Reading in two steps costs each part once more.
            "SETTINGS optimize_move_to_prewhere = 0"
        };
        let mut call = self
            .filter
            .bind(self.scope.bind(SqlStatement::new(format!("{sql} {settings}"))));
        if !self.boundaries_ms.is_empty() {
            call = call.with("boundaries", self.boundaries_ms.to_vec());
        }
        if let Some((_, ids)) = &self.only {
            call = call.with("only", ids.clone());
        }
        self.bind_plan(call)
    }

    /// The call with the plan's parameters bound.
    pub(super) fn bind_plan(&self, mut call: SqlStatement) -> SqlStatement {
        let QueryPlan { range_ms, levels, .. } = &self.plan;
        call = call
            .with(self.name("from_ms"), range_ms.start)
            .with(self.name("to_ms"), range_ms.end);
        for Level { grain, units } in levels {
            let name = unit_name(units);
            call = call
                .with(self.name(&format!("{name}_from")), units.from)
                .with(self.name(&format!("{name}_to")), units.to);
            if !units.cut.is_empty() {
                call = call.with(self.name(&format!("cut_{name}")), units.cut.clone());
            }
            if *grain == Grain::All {
                call = call
                    .with(self.name("first_day"), day_of(units.from))
                    .with(self.name("last_day"), day_of(units.to - 1));
            }
        }
        call
    }
}

fn unit_name(units: &Units) -> &'static str {
    match units.unit_s {
        DAY_S => "days",
        _ => "half_hours",
    }
}
