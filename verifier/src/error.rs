//! Why the verifier stops.

use receipt_log::ConsumeError;
use thiserror::Error;

/// Why the verifier stopped. Everything that a pause can cure is waited for instead.
#[derive(Debug, Error)]
pub enum VerifierError {
    /// A stored record is damaged: continuing would lose it silently.
    #[error(
        "{0}. The verifier skips nothing silently, so it stops here; everything before has a verdict. With the embedded \
         log: to continue without what comes after, stop, move log/ aside (keep it) and start again; receipts \
         acknowledged and not yet verified are then only in the log moved aside"
    )]
    Damaged(ConsumeError),
    /// `verdicts` has verdicts on records that `receipts` doesn't hold, or holds others
    /// instead.
    #[error(
        "partition {partition}: the log verdicts covers records up to offset {verdicts_end}, but {detail}. The log receipts \
         was set back, for example by restoring an older copy, and new records would get the positions of old ones. With \
         the embedded log: stop, move log/ aside (keep it) and start again: a new epoch begins, and nothing that was \
         counted is lost; what was acknowledged since the log was set back is only in the log moved aside"
    )]
    SetBack {
        /// The partition.
        partition: u32,
        /// Offset behind the last record with a verdict.
        verdicts_end: u64,
        /// Evidence, as text.
        detail: String,
    },
    /// A block can't be judged or encoded.
    #[error("judging a block failed: {0}. The same records would fail again, and nothing is skipped silently")]
    Judging(String),
    /// Verdicts can't be appended, however often it is tried.
    #[error("the log verdicts refuses a block: {0}. Check kafka.verdicts_bytes_max or verdicts.record_bytes_max")]
    Append(String),
}
