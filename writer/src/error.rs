//! Why a writer stops.

use receipt_log::ConsumeError;
use thiserror::Error;

use crate::sequence::SequenceError;

/// Why the writer stopped. Everything that a pause can cure is waited for instead.
#[derive(Debug, Error)]
pub enum WriterError {
    /// A stored record is damaged.
    #[error(
        "the log verdicts: {0}. The writer skips nothing silently, so it stops here; everything before is stored. Stop the \
         verifiers, move the log verdicts aside, and run `receipts rewind`, which sets the verifiers back to what is stored"
    )]
    Damaged(ConsumeError),
    /// A record can't be decoded.
    #[error(
        "the record at offset {offset} of the log verdicts can't be decoded: {detail}. Everything before is stored. If a \
         newer verifier wrote it, run a writer of the same version"
    )]
    Undecodable {
        /// The record's offset.
        offset: u64,
        /// Finding in detail.
        detail: String,
    },
    /// Source records are missing, or occur twice.
    #[error("the record at offset {offset} of the log verdicts doesn't continue what is stored: {sequence}")]
    Sequence {
        /// The record's offset.
        offset: u64,
        /// Finding in detail.
        sequence: SequenceError,
    },
    /// The log doesn't reach back to what is stored, or isn't the log that the tables were written
    /// from.
    #[error(
        "shard {shard}: the ledger ends at offset {stored_end} of the log verdicts (epoch {stored_epoch}), but {detail}. The \
         log was truncated or recreated, or ClickHouse was restored from an older copy. Offsets are never reset \
         automatically: stop the verifiers and run `receipts rewind`, which sets them back to the end of the ledger, so \
         that they append the missing verdicts again"
    )]
    OutOfReach {
        /// The shard.
        shard: u32,
        /// The epoch of `verdicts` that the ledger names.
        stored_epoch: u32,
        /// Offset behind the last record that the ledger names.
        stored_end: u64,
        /// State of the log, as text.
        detail: String,
    },
    /// A stage ended unexpectedly.
    #[error("the task of shard {0} ended unexpectedly")]
    TaskEnded(u32),
}
