//! Aggregates of usage, in the table `usage`: counted once, and queried at the right grain.
//!
//! | grain | key | for |
//! |---|---|---|
//! | `counted` | second, key hash | whether a receipt was counted before |
//! | `all` | day, entry, half hour, client, purpose, model | what no other grain has |
//! | `purpose` | half hour, purpose | totals and series |
//! | `client` | day, client, purpose, model, names | clients, models |
//! | `entry` | day, entry, URL | entries |
//!
//! Every row also has its publisher, but counted rows, which are ordered by time only. A receipt's
//! counted row and its contributions to all grains are in one insert block, and so in one part: a
//! crash keeps all of them or none. Only the shard's writer changes the table.
//!
//! - `key_column`: the columns of the key, and which grains have them
//! - [`counting`]: which receipts of a batch are new; `rows`: their rows
//! - `queries`: totals, series and rankings
//! - [`rebuild`]: made equal to `receipts` again; [`check`]: whether they are equal

#![forbid(unsafe_code)]

mod calendar;
pub mod check;
pub mod counted_key;
mod counting;
mod grain;
mod key_column;
mod queries;
pub mod rebuild;
mod rows;

pub use check::{Mismatch, MismatchKind};
pub use counted_key::CountedKey;
pub use counting::NewReceipts;
pub use grain::Grain;
pub use queries::{
    ByTrust, ClientKeyUsage, ClientStats, ClientUsage, ContentStats, DashboardStats, EntryClientUsage, EntryUsage,
    GroupBy, Metric, OperatorUsage, PartTotals, Ranking, RankingPage, RankingPosition, RankingSort, SeriesGroup, Share,
    TimeseriesPoint, TopClient, TopContent, UnattributedHost, UsageByPurpose,
};
pub use rebuild::{RebuildRequest, RebuildStep};

use warehouse::Warehouse;

/// The table `usage` of a warehouse. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Usage {
    warehouse: Warehouse,
}

impl Usage {
    /// The table of this warehouse.
    #[must_use]
    pub fn new(warehouse: Warehouse) -> Self {
        Self { warehouse }
    }
}
