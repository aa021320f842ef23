//! Columns of rows: each has a name and the type of its cells.

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowColumn {
    /// Name of the member of a row, in every format.
    pub name: &'static str,
    /// Type of its cells. CSV has texts alone; Parquet has this type.
    pub cells: CellType,
}

/// Type of a column's cells, each of which may also be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    /// Any text; a list is one text.
    Text,
    /// A count.
    Integer,
    /// An instant: RFC 3339 in UTC, with milliseconds.
    Instant,
    /// `true` or `false`.
    Flag,
}

/// A column of texts.
#[must_use]
pub const fn text(name: &'static str) -> RowColumn {
    RowColumn {
        name,
        cells: CellType::Text,
    }
}

/// A column of counts.
#[must_use]
pub const fn integer(name: &'static str) -> RowColumn {
    RowColumn {
        name,
        cells: CellType::Integer,
    }
}

/// A column of instants.
#[must_use]
pub const fn instant(name: &'static str) -> RowColumn {
    RowColumn {
        name,
        cells: CellType::Instant,
    }
}

/// A column of flags.
#[must_use]
pub const fn flag(name: &'static str) -> RowColumn {
    RowColumn {
        name,
        cells: CellType::Flag,
    }
}
