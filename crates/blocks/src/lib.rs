//! The format of records of the log `verdicts`: a header and the rows of one block and shard.
//!
//! A record is one Arrow IPC stream of a schema, one record batch and the end of the stream,
//! so that any Arrow reader opens it. The header is the schema's metadata. docs/verdicts-topic.md
//! describes the format for its readers. Encoding and decoding are pure and synchronous:
//!
//! - [`Rows`] collects rows in columns and encodes them ([`Rows::encode`]).
//! - [`Block`] is a decoded record, whose rules were checked.
//! - `header.rs` has the header, `columns.rs` the list of columns, `column.rs` their builders,
//!   `stream.rs` the messages of a stream.

#![forbid(unsafe_code)]

mod block;
mod column;
mod columns;
mod header;
mod rows;
mod stream;

pub use block::Block;
pub use columns::{AcceptedRow, COLUMN_NAMES, Columns, NOT_STORED, RejectedRow, schema};
pub use header::{Header, ReceiptCounts, SourceIndex, SourceRange, VERIFIER_BYTES_MAX, VERSION};
pub use rows::Rows;
pub use stream::encode_stream;

/// Why a record can't be read or made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// A record of another format version.
    #[error(
        "a record of the log `verdicts` has format version {found}, and this program reads \
         version {VERSION}: run the release that wrote the record, or a newer one"
    )]
    Version {
        /// The record's version.
        found: u32,
    },
    /// A record that no verifier writes.
    #[error("a record of the log `verdicts` is damaged: {0}")]
    Damaged(String),
    /// Rows or a header that can't be encoded.
    #[error("rows can't become a record of the log `verdicts`: {0}")]
    Invalid(String),
}
