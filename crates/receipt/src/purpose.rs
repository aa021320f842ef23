//! Purposes of use. Everything that sums, lists or offers purposes goes over [`Purpose::ALL`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Purpose of a use of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Training a model.
    Training,
    /// Answering a query.
    Inference,
    /// A study.
    Research,
}

impl Purpose {
    /// Every purpose there is.
    pub const ALL: [Self; 3] = [Self::Training, Self::Inference, Self::Research];

    /// As written in `usage.purpose`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Inference => "inference",
            Self::Research => "research",
        }
    }

    /// All purposes as a text, each between quotes: `a, b or c`.
    #[must_use]
    pub fn choices(quote: &str) -> String {
        let names = Self::ALL.map(|purpose| format!("{quote}{purpose}{quote}"));
        let [others @ .., last] = &names;
        format!("{} or {last}", others.join(", "))
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the purpose must be {}", Purpose::choices(""))]
pub struct UnknownPurpose;

impl FromStr for Purpose {
    type Err = UnknownPurpose;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|purpose| purpose.as_str() == text)
            .ok_or(UnknownPurpose)
    }
}
