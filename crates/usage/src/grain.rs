//! Grains of the table `usage`.
//!
//! All rows of a grain lie in one UTC day, and so in one month: the check, rebuilds and erasures
//! work by day. A coarser grain would need another unit for them.

/// Aggregate that a row of `usage` is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grain {
    /// A row per counted receipt.
    Counted,
    /// By day, entry, half hour, client, purpose, model and key.
    All,
    /// By half hour and purpose.
    Purpose,
    /// By day, client, purpose, model, the client's names and key.
    Client,
    /// By day, entry and URL.
    Entry,
}

impl Grain {
    /// The grains that add up receipts; each has the operator and the verification too.
    pub const AGGREGATES: [Self; 4] = [Self::All, Self::Purpose, Self::Client, Self::Entry];
    /// Every grain there is.
    pub const ALL: [Self; 5] = [Self::Counted, Self::All, Self::Purpose, Self::Client, Self::Entry];

    /// The value of the column `grain`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::All => "all",
            Self::Purpose => "purpose",
            Self::Client => "client",
            Self::Entry => "entry",
        }
    }
}
