//! Rows of `receipts` from RowBinary into ClickHouse's Native blocks, in which they travel.
//!
//! Rows are made and kept in RowBinary, one by one, so that a block can be cut between any two of them. ClickHouse takes
//! columns two to three times as fast as rows, and a column's values have the same bytes in both formats (but for
//! arrays), so that this is little more than a copy.

use bytes::Bytes;

use crate::WarehouseError;
use crate::row::put_length;

/// How a column's values look in RowBinary.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// So many bytes each.
    Fixed(usize),
    /// A length (LEB128) and so many bytes.
    Text,
    /// A length (LEB128) and so many numbers of 16 bytes.
    Numbers,
}

/// A column of `receipts`: its type as the block says it, which ClickHouse casts to the table's.
struct Column {
    name: &'static str,
    kind: &'static str,
    shape: Shape,
}

const fn column(name: &'static str, kind: &'static str, shape: Shape) -> Column {
    Column { name, kind, shape }
}

const TIME: &str = "DateTime64(3, 'UTC')";

/// In the order of [`crate::ReceiptRow::COLUMNS`].
const COLUMNS: [Column; 23] = [
    column("publisher", "String", Shape::Text),
    column("timestamp", TIME, Shape::Fixed(8)),
    column("entry_id", "UUID", Shape::Fixed(16)),
    column("receipt_id", "UUID", Shape::Fixed(16)),
    column("payload_hash", "FixedString(32)", Shape::Fixed(32)),
    column("positions", "Array(UInt128)", Shape::Numbers),
    column("received_at", TIME, Shape::Fixed(8)),
    column("url", "String", Shape::Text),
    column("content_hash", "FixedString(32)", Shape::Fixed(32)),
    column("client_id", "UUID", Shape::Fixed(16)),
    column("client_name", "String", Shape::Text),
    column("client_version", "String", Shape::Text),
    column("organization", "String", Shape::Text),
    column("key_fingerprint", "FixedString(32)", Shape::Fixed(32)),
    column("algorithm", "String", Shape::Text),
    column("purpose", "String", Shape::Text),
    column("context", "String", Shape::Text),
    column("dataset_id", "String", Shape::Text),
    column("model_id", "String", Shape::Text),
    column("query_id", "String", Shape::Text),
    column("session_id", "String", Shape::Text),
    column("study_id", "String", Shape::Text),
    column("researcher_id", "String", Shape::Text),
];

/// Rows in one block: two or three megabytes, which stay in the cache. ClickHouse puts the blocks of an insert together
/// again.
const BLOCK_ROWS_MAX: usize = 8_192;

const BROKEN: WarehouseError = WarehouseError::BadRows("they aren't the RowBinary of as many rows as were named");

/// Whole rows of `receipts` in pieces, `count` in all, as Native blocks, each handed over as soon as it is made. Goes on as
/// long as `take` returns true.
///
/// # Errors
/// The pieces aren't whole rows, or not `count`; then what was handed over is worth nothing.
pub(crate) fn receipts(
    pieces: &[Bytes],
    count: u64,
    mut take: impl FnMut(Bytes) -> bool,
) -> Result<(), WarehouseError> {
    let mut block = Block::default();
    let mut rows = 0;
    for piece in pieces {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            rest = block.take_row(rest).ok_or(BROKEN)?;
            rows += 1;
            if block.rows == BLOCK_ROWS_MAX && !take(block.close()) {
                return Ok(());
            }
        }
    }
    if rows != count {
        return Err(BROKEN);
    }
    if block.rows > 0 {
        take(block.close());
    }
    Ok(())
}

/// Columns of a block, while rows are put into them. Their memory serves one block after the other.
struct Block {
    rows: usize,
    columns: [Vec<u8>; COLUMNS.len()],
    /// How many positions all rows so far have: the Native form of an array's length.
    numbers: u64,
    offsets: Vec<u8>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            rows: 0,
            columns: std::array::from_fn(|_| Vec::new()),
            numbers: 0,
            offsets: Vec::new(),
        }
    }
}

impl Block {
    /// Takes one row off the front of `rest` and returns what follows it.
    fn take_row<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            let length = match column.shape {
                Shape::Fixed(length) => length,
                Shape::Text => {
                    let (length, head) = length(rest)?;
                    length.checked_add(head)?
                }
                Shape::Numbers => {
                    let (numbers, head) = length(rest)?;
                    rest = &rest[head..];
                    self.numbers += numbers as u64;
                    self.offsets.extend_from_slice(&self.numbers.to_le_bytes());
                    numbers.checked_mul(16)?
                }
            };
            let (value, after) = rest.split_at_checked(length)?;
            values.extend_from_slice(value);
            rest = after;
        }
        self.rows += 1;
        Some(rest)
    }

    /// The block's bytes: how many columns and rows, then each column's name, type and values. Empties it.
    fn close(&mut self) -> Bytes {
        let values: usize = self.columns.iter().map(Vec::len).sum();
        let mut out = Vec::with_capacity(values + self.offsets.len() + COLUMNS.len() * 64);
        put_length(&mut out, COLUMNS.len());
        put_length(&mut out, self.rows);
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            put_text(&mut out, column.name);
            put_text(&mut out, column.kind);
            if matches!(column.shape, Shape::Numbers) {
                out.append(&mut self.offsets);
            }
            out.append(values);
        }
        self.rows = 0;
        self.numbers = 0;
        out.into()
    }
}

/// An unsigned LEB128 and how many bytes it has.
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, receipts};
    use crate::row::ReceiptRow;

    #[test]
    fn columns_are_those_of_the_rows_in_their_order() {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(
            names.join(", "),
            ReceiptRow::COLUMNS.split_whitespace().collect::<Vec<_>>().join(" ")
        );
    }

    #[test]
    fn what_is_not_whole_rows_is_refused() {
        let none = |_| false;
        assert!(receipts(&[], 0, none).is_ok());
        assert!(receipts(&[], 1, none).is_err());
        for broken in [&[1_u8, b'a'][..], &[0xff; 64], &[5]] {
            assert!(receipts(&[bytes::Bytes::copy_from_slice(broken)], 1, none).is_err());
        }
    }
}
