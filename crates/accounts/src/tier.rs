//! Tier of an account, which decides its quotas and the number of its API keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Tier of an account, which decides its quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// 60 requests a minute, 10,000 a day, 5 API keys.
    #[default]
    Free,
    /// 300 a minute, 100,000 a day, 25 API keys.
    Pro,
    /// As configured.
    Enterprise,
}

/// A tier that doesn't exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no tier: free, pro or enterprise")]
pub struct TierError(String);

impl Tier {
    /// `free`, `pro` or `enterprise`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Tier::Free => "free",
            Tier::Pro => "pro",
            Tier::Enterprise => "enterprise",
        }
    }
}

impl FromStr for Tier {
    type Err = TierError;

    fn from_str(text: &str) -> Result<Self, TierError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "free" => Ok(Tier::Free),
            "pro" => Ok(Tier::Pro),
            "enterprise" => Ok(Tier::Enterprise),
            _ => Err(TierError(text.to_owned())),
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for tier in [Tier::Free, Tier::Pro, Tier::Enterprise] {
            assert_eq!(tier.as_str().parse(), Ok(tier));
        }
        assert_eq!("PRO".parse(), Ok(Tier::Pro));
        assert_eq!(
            "gold".parse::<Tier>().map_err(|e| e.to_string()),
            Err("`gold` is no tier: free, pro or enterprise".to_owned())
        );
    }
}
