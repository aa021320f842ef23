//! Rows that are being collected, in columns.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Metadata, Schema, SchemaRef};
use bytes::Bytes;

use crate::columns::Builders;
use crate::{AcceptedRow, BlockError, Header, ReceiptCounts, RejectedRow, encode_stream, schema};

/// Rows of a record that is being made. Accepted and rejected rows may be pushed in any order.
#[derive(Default)]
pub struct Rows {
    accepted: Builders,
    rejected: Builders,
}

impl Rows {
    /// Adds a valid receipt.
    pub fn push_accepted(&mut self, row: &AcceptedRow<'_>) {
        self.accepted.push_accepted(row);
    }

    /// Adds a rejected receipt.
    pub fn push_rejected(&mut self, row: &RejectedRow<'_>) {
        self.rejected.push_rejected(row);
    }

    /// Adds the rows of `other` behind these.
    pub fn append(&mut self, other: Self) {
        self.accepted.append(other.accepted);
        self.rejected.append(other.rejected);
    }

    /// Number of accepted rows.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted.reason.len()
    }

    /// Number of rejected receipts. A row may count several.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.receipts.sum()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accepted() == 0 && self.rejected.reason.len() == 0
    }

    /// Bytes of the columns. The record is larger by its header, schema and padding: less than
    /// 10 KiB.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.accepted.bytes() + self.rejected.bytes()
    }

    /// Makes the record. `header.shard_counts` is set from the rows.
    ///
    /// # Errors
    /// The header contradicts itself or the rows, a rejected row has no reason or counts no
    /// receipt, or a column has more than 2 GiB.
    pub fn encode(self, mut header: Header) -> Result<Bytes, BlockError> {
        let (accepted, rejected) = (self.accepted() as u64, self.rejected());
        header.shard_counts = ReceiptCounts {
            received: accepted + rejected,
            accepted,
            rejected,
        };
        header.check().map_err(BlockError::Invalid)?;
        self.check_rejected()?;
        let mut columns = self.accepted;
        columns.append(self.rejected);
        let schema = Schema::new_with_metadata(schema().fields().clone(), Metadata::from_iter(header.metadata()));
        encode_stream(&[batch(Arc::new(schema), columns)?])
    }

    /// The accepted and the rejected rows with all columns, as [`Block`](crate::Block) has them.
    ///
    /// # Errors
    /// A rejected row has no reason or counts no receipt, or a column has more than 2 GiB.
    pub fn batches(self) -> Result<(RecordBatch, RecordBatch), BlockError> {
        self.check_rejected()?;
        Ok((batch(schema(), self.accepted)?, batch(schema(), self.rejected)?))
    }

    fn check_rejected(&self) -> Result<(), BlockError> {
        if self.rejected.reason.has_empty_value() {
            return Err(BlockError::Invalid("a rejected row has no reason".to_owned()));
        }
        if self.rejected.receipts.has_zero() {
            return Err(BlockError::Invalid("a rejected row counts no receipt".to_owned()));
        }
        Ok(())
    }
}

fn batch(schema: SchemaRef, columns: Builders) -> Result<RecordBatch, BlockError> {
    RecordBatch::try_new(schema, columns.finish()?).map_err(|error| BlockError::Invalid(error.to_string()))
}
