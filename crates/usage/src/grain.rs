//! Grains of the table `usage`.

/// Aggregate that a row of `usage` is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grain {
    /// A row per counted receipt.
    Counted,
    /// By day, entry, half hour, client, purpose and model.
    All,
    /// By half hour and purpose.
    Purpose,
    /// By day, client, purpose, model and the client's names.
    Client,
    /// By day, entry and URL.
    Entry,
}

impl Grain {
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
