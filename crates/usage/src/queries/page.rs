//! Order of a ranking, and the page of it that a query returns.
//!
//! A row's position is a number that the rows are sorted by, and a distinct text. A page begins
//! behind a position, whether or not a row has it still.

use serde::Deserialize;
use warehouse::SqlStatement;

/// Order of the rows of a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankingSort {
    /// Receipts.
    Receipts,
    /// Distinct clients, of models and operators.
    Clients,
    /// Timestamp of the last receipt.
    LastSeen,
    /// Name of a client's newest receipt, whatever its case.
    Name,
    /// ID of an entry or client, name of a model or operator: it never changes.
    Id,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking<T> {
    /// At most as many as were requested.
    pub items: Vec<T>,
    /// Number of all items, on whatever page.
    pub total: u64,
    /// Position of the last item, if there are more behind it.
    pub next: Option<RankingPosition>,
}

impl<T> Ranking<T> {
    /// The page with each item replaced.
    pub(super) fn map<U>(self, item: impl FnMut(T) -> U) -> Ranking<U> {
        Ranking {
            items: self.items.into_iter().map(item).collect(),
            total: self.total,
            next: self.next,
        }
    }
}

impl<T> Default for Ranking<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            total: 0,
            next: None,
        }
    }
}

/// Position of a row in a ranking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankingPosition {
    /// The number that is sorted by; 0 where a text is.
    pub value: i64,
    /// The text that orders rows with one number, in hexadecimal.
    pub tie: String,
}

/// Order and page of a ranking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankingPage {
    /// Order of the rows.
    pub sort: RankingSort,
    /// Whether the greatest comes first. Rows with one number are in rising order of their texts.
    pub is_descending: bool,
    /// Only rows behind this position.
    pub after: Option<RankingPosition>,
    /// Only clients, models and operators whose names contain this text, whatever its case.
    pub search: Option<String>,
    /// The most rows.
    pub rows_max: u32,
}

/// Longest text that a position has in full, in bytes.
const TIE_BYTES_MAX: u32 = 128;

/// An expression that orders texts and distinguishes them: a long one is its beginning and a hash.
pub(super) fn tie(text: &str) -> String {
    format!(
        "if(length({text}) <= {TIE_BYTES_MAX}, {text},
            concat(substring({text}, 1, {TIE_BYTES_MAX}), lower(hex(sipHash128({text})))))"
    )
}

impl RankingPage {
    /// The rows with the most receipts, at most `rows_max`.
    #[must_use]
    pub fn top(rows_max: u32) -> Self {
        Self {
            sort: RankingSort::Receipts,
            is_descending: true,
            after: None,
            search: None,
            rows_max,
        }
    }

    /// Whether the order depends on the newest receipts.
    pub(super) fn is_by_newest(&self) -> bool {
        matches!(self.sort, RankingSort::LastSeen | RankingSort::Name)
    }

    /// The column [`PageColumn`] over rows with the columns that are sorted by. `tie` is a distinct
    /// text of a row.
    pub(super) fn column(&self, tie: &str) -> String {
        let value = match self.sort {
            RankingSort::Receipts => "receipts",
            RankingSort::Clients => "clients",
            RankingSort::LastSeen => "last_ms",
            RankingSort::Name | RankingSort::Id => "0",
        };
        let beyond = if self.is_descending { "<" } else { ">" };
        let is_behind = match &self.after {
            None => "1".to_owned(),
            Some(_) if self.is_by_text() => format!("sort_tie {beyond} {{after_tie:String}}"),
            Some(_) => format!(
                "sort_value {beyond} {{after_value:Int64}}
                    OR (sort_value = {{after_value:Int64}} AND sort_tie > {{after_tie:String}})"
            ),
        };
        format!(
            "(toInt64({value}) AS sort_value, lower(hex({tie})) AS sort_tie, toUInt8({is_behind}) AS is_behind,
                count() OVER () AS total) AS page"
        )
    }

    /// The end of the statement. Rows before the page come last: one of them has the total where
    /// none is behind the position. The row after the page shows that there are more.
    pub(super) fn end(&self) -> String {
        let direction = if self.is_descending { "DESC" } else { "ASC" };
        let order = if self.is_by_text() {
            format!("sort_tie {direction}")
        } else {
            format!("sort_value {direction}, sort_tie")
        };
        format!("ORDER BY is_behind DESC, {order} LIMIT {{rows:UInt64}}")
    }

    /// A condition that a text contains what is searched for.
    pub(super) fn found_in(text: &str) -> String {
        format!("positionCaseInsensitiveUTF8({text}, {{search:String}}) > 0")
    }

    /// The call with the page's parameters bound.
    pub(super) fn bind(&self, mut call: SqlStatement) -> SqlStatement {
        if let Some(RankingPosition { value, tie }) = &self.after {
            call = call.with("after_value", *value).with("after_tie", tie.clone());
        }
        if let Some(search) = &self.search {
            call = call.with("search", search.clone());
        }
        call.with("rows", u64::from(self.rows_max) + 1)
    }

    /// The page of a statement's rows.
    pub(super) fn ranking<T: AsRef<PageColumn>>(&self, mut rows: Vec<T>) -> Ranking<T> {
        let total = rows.first().map_or(0, |row| row.as_ref().total());
        rows.retain(|row| row.as_ref().is_behind());
        let rows_max = usize::try_from(self.rows_max).unwrap_or(usize::MAX);
        let has_more = rows.len() > rows_max;
        rows.truncate(rows_max);
        let last = rows.last().filter(|_| has_more);
        Ranking {
            next: last.map(|row| row.as_ref().position()),
            items: rows,
            total,
        }
    }

    fn is_by_text(&self) -> bool {
        matches!(self.sort, RankingSort::Name | RankingSort::Id)
    }
}

/// Position of a row, whether the row is behind the page's begin, and the number of all rows.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PageColumn((i64, String, u8, u64));

impl PageColumn {
    fn position(&self) -> RankingPosition {
        let Self((value, tie, ..)) = self;
        RankingPosition {
            value: *value,
            tie: tie.clone(),
        }
    }

    fn is_behind(&self) -> bool {
        self.0.2 != 0
    }

    fn total(&self) -> u64 {
        self.0.3
    }
}
