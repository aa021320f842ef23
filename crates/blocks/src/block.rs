//! A decoded record.

use arrow_array::RecordBatch;
use bytes::Bytes;

use crate::{BlockError, Columns, Header, stream};

/// A record that was read, whose header and rows agree.
#[derive(Debug, Clone)]
pub struct Block {
    /// The header.
    pub header: Header,
    batch: RecordBatch,
    columns: Columns,
    accepted: usize,
}

impl Block {
    /// Reads a record and checks its rules. Values refer to `bytes`; where the record's start isn't
    /// aligned to 8 bytes in memory, offsets and times are copied.
    ///
    /// # Errors
    /// [`BlockError::Version`] for another format version, [`BlockError::Damaged`] for anything
    /// else that a verifier doesn't write.
    pub fn decode(bytes: &Bytes) -> Result<Self, BlockError> {
        let (header, batch) = stream::decode(bytes)?;
        if header.shard_counts.received != batch.num_rows() as u64 {
            return Err(BlockError::Damaged(format!(
                "its header counts {} rows, and it has {}",
                header.shard_counts.received,
                batch.num_rows()
            )));
        }
        // No more than the rows.
        let accepted = usize::try_from(header.shard_counts.accepted).unwrap_or(usize::MAX);
        let columns = Columns::new(&batch)?;
        for (row, offsets) in columns.reason.value_offsets().windows(2).enumerate() {
            if (offsets[0] == offsets[1]) != (row < accepted) {
                return Err(BlockError::Damaged(format!(
                    "its first {accepted} rows are accepted, so without a reason, and all others have \
                     one; row {row} doesn't fit"
                )));
            }
        }
        Ok(Self {
            header,
            batch,
            columns,
            accepted,
        })
    }

    /// The accepted rows, with all columns.
    #[must_use]
    pub fn accepted(&self) -> RecordBatch {
        self.batch.slice(0, self.accepted)
    }

    /// The rejected rows, with all columns.
    #[must_use]
    pub fn rejected(&self) -> RecordBatch {
        self.batch.slice(self.accepted, self.batch.num_rows() - self.accepted)
    }

    /// All rows by column, the accepted ones first.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }
}
