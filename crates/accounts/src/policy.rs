//! What a deployment demands of a receipt beyond its signature, and under which terms each record of the log is judged.
//!
//! `marks` keeps the terms of every record that was judged under a policy, so that judging it again says the same; `versions` orders
//! the changes of what a policy asks, and `presence` is which entries there were at each of them.

mod marks;
mod presence;
pub(crate) mod versions;

use serde::{Deserialize, Serialize};

use crate::AccountsError;

pub use marks::{Mark, Stretch};
pub(crate) use presence::{entries_created, entries_deleted};

/// The section `[policy]`: what is demanded of a receipt whose signatures are good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Whose keys count.
    pub clients: ClientPolicy,
    /// Whether its entry must exist.
    pub entries: EntryPolicy,
}

/// Which key a client may sign with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientPolicy {
    /// Any.
    #[default]
    Open,
    /// Those that are registered for its id.
    Registered,
}

/// What becomes of a receipt for an entry that doesn't exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryPolicy {
    /// It counts.
    #[default]
    Counted,
    /// It is rejected.
    Required,
}

/// A policy, and the state of what it asks: with the same terms the same receipt is always judged the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The policy.
    pub policy: Policy,
    /// The version of the registry of clients; 0 where no client is asked for.
    pub client_version: i64,
    /// The version of the entries; 0 where no entry is asked for.
    pub entry_version: i64,
}

impl Policy {
    /// It demands nothing.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::default()
    }
}

impl ClientPolicy {
    /// `open` or `registered`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Registered => "registered",
        }
    }

    fn stored(text: &str) -> Result<Self, AccountsError> {
        [Self::Open, Self::Registered]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| AccountsError::Store(format!("`{text}` is no policy for clients")))
    }
}

impl EntryPolicy {
    /// `counted` or `required`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Required => "required",
        }
    }

    fn stored(text: &str) -> Result<Self, AccountsError> {
        [Self::Counted, Self::Required]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| AccountsError::Store(format!("`{text}` is no policy for entries")))
    }
}
