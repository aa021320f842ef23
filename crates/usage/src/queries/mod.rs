//! Queries: totals, series and rankings of a scope's usage.
//!
//! - `plan`: which days and half hours of a range come from which grain
//! - `column`: columns of a query and the grains that have them; `source`: rows of a query
//! - `ranking`: entries and clients in an order; `page`: the order, and the page of it
//! - `uses`: uses of each entry by each client
//! - `trust`: numbers in two parts, of proven and of unproven receipts
//! - `newest`: texts of the newest receipts of entries and clients
//!
//! Each answer equals the one over `receipts FINAL`. After an erasure a key's rows add up to 0, and
//! such a key doesn't count: inner statements sum by what an outer one counts, and times and texts
//! are those of keys that have receipts ([`source::RowSource::by_key`]).

mod breakdown;
mod client;
mod column;
mod content;
mod dashboard;
mod newest;
mod page;
mod plan;
mod purposes;
mod ranking;
mod source;
mod timeseries;
mod top;
mod trust;
mod unattributed;
mod uses;

pub use breakdown::Share;
pub use client::{ClientKeyUsage, ClientStats};
pub use content::{ContentStats, TopClient};
pub use dashboard::{DashboardStats, OperatorUsage, TopContent};
pub use page::{Ranking, RankingPage, RankingPosition, RankingSort};
pub use purposes::UsageByPurpose;
pub use timeseries::{GroupBy, Metric, SeriesGroup, TimeseriesPoint};
pub use top::{ClientUsage, EntryUsage};
pub use trust::{ByTrust, PartTotals};
pub use unattributed::UnattributedHost;
pub use uses::EntryClientUsage;
