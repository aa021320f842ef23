//! Roles of people in an account.

use std::fmt;
use std::str::FromStr;

use crate::Scope;

/// Role of a person in an account. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccountRole {
    /// Reads everything of the account.
    Reader,
    /// Also changes entries, verifications and operators.
    Editor,
    /// Also makes API keys, requests erasures and deletes the account.
    Owner,
}

/// Text that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no role: owner, editor or reader")]
pub struct RoleError(String);

impl AccountRole {
    /// Every role, the one with the fewest rights first.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Editor, Self::Owner];

    /// `reader`, `editor` or `owner`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Editor => "editor",
            Self::Owner => "owner",
        }
    }

    /// Permissions of a person with this role, where an API key has scopes.
    #[must_use]
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Reader => &[Scope::Read],
            Self::Editor => &[Scope::Read, Scope::Write],
            Self::Owner => &[Scope::Read, Scope::Write, Scope::Erase],
        }
    }
}

impl FromStr for AccountRole {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let named = Self::ALL.into_iter().find(|role| role.as_str() == text);
        named.ok_or_else(|| RoleError(text.to_owned()))
    }
}

impl fmt::Display for AccountRole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
