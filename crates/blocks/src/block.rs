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
        let columns = Columns::new(&batch)?;
        // A damaged count is more than the rows.
        let accepted = usize::try_from(header.shard_counts.accepted).unwrap_or(usize::MAX);
        for (row, offsets) in columns.reason.value_offsets().windows(2).enumerate() {
            if (offsets[0] == offsets[1]) != (row < accepted) {
                return Err(BlockError::Damaged(format!(
                    "its first {accepted} rows are accepted, so without a reason, and all others have \
                     one; row {row} doesn't fit"
                )));
            }
        }
        let counted = |receipts: &[u32]| receipts.iter().copied().map(u64::from).sum::<u64>();
        let (of_accepted, of_rejected) = columns.receipts.values().split_at_checked(accepted).ok_or_else(|| {
            BlockError::Damaged(format!("its header counts {accepted} accepted rows, and it has fewer"))
        })?;
        if of_accepted.iter().any(|receipts| *receipts != 1) || of_rejected.contains(&0) {
            return Err(BlockError::Damaged(
                "an accepted row counts one receipt and a rejected one at least one; a row doesn't".to_owned(),
            ));
        }
        if header.shard_counts.rejected != counted(of_rejected) {
            return Err(BlockError::Damaged(format!(
                "its header counts {} rejected receipts, and its rows count {}",
                header.shard_counts.rejected,
                counted(of_rejected)
            )));
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
