//! Snapshots that answers are made from.
//!
//! The writers' progress is read before the query. It determines the watermark, and everything
//! below it is in the tables by the time that the query runs, so answers are complete.

use usage::Usage;

use crate::watermark::Reading;

/// The writers' progress, and the table of usage, which contains at least that much.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// The writers' progress.
    pub(crate) reading: Reading,
    usage: Usage,
}

impl Snapshot {
    /// Creates the snapshot of a reading that was made before.
    pub(crate) fn new(reading: Reading, usage: Usage) -> Self {
        Self { reading, usage }
    }

    /// The queries of usage.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }
}
