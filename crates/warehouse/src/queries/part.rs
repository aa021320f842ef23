//! A data part of one of our tables, as ClickHouse names it.

use crate::schema::{EVIDENCE, LEDGER, RECEIPTS, REJECTED, USAGE};

/// Our tables, those that others are repaired by first, and at the end what is rebuilt from others.
pub(super) static TABLES: [&str; 5] = [LEDGER.name, REJECTED.name, EVIDENCE.name, RECEIPTS.name, USAGE.name];

/// An active part of one of our tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPart {
    /// The table.
    pub table: &'static str,
    /// ClickHouse's name of it.
    pub name: String,
    /// Rows in it.
    pub rows: u64,
}

/// The part that ClickHouse's words name: "(while reading from part <path>/<part>/ in table
/// <database>.<table> (".
pub(super) fn part_in(message: &str) -> Option<DataPart> {
    let (_, rest) = message.split_once("reading from part ")?;
    let (path, rest) = rest.split_once(" in table ")?;
    let name = path.trim_end_matches('/').rsplit('/').next()?;
    let qualified = rest.split_whitespace().next()?;
    let table = TABLES
        .into_iter()
        .find(|table| qualified.rsplit('.').next() == Some(table))?;
    Some(DataPart {
        table,
        name: name.to_owned(),
        rows: 0,
    })
}

/// Whether a message of damage names a part of ours, which can be found sound again.
pub(crate) fn names_a_part(message: &str) -> bool {
    part_in(message).is_some()
}
