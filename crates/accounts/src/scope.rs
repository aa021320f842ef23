//! Permissions of an API key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Permission of an API key. None includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Ask for analytics, entries and data.
    Read,
    /// Change entries and verifications.
    Write,
    /// Request and cancel erasures, and erase entries.
    Erase,
}

/// Scopes that can't be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// A word that is no scope.
    #[error("`{0}` is no scope: read, write or erase")]
    Unknown(String),
    /// No word at all.
    #[error("a key needs a scope: read, write or erase, or several of them with commas")]
    Empty,
}

impl Scope {
    /// `read`, `write` or `erase`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Erase => "erase",
        }
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "read" => Ok(Scope::Read),
            "write" => Ok(Scope::Write),
            "erase" => Ok(Scope::Erase),
            _ => Err(ScopeError::Unknown(text.trim().to_owned())),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// `read,write` as scopes: in order, each once.
///
/// # Errors
/// A word is no scope, or there is none.
pub fn parse_scopes(text: &str) -> Result<Vec<Scope>, ScopeError> {
    if text.trim().is_empty() {
        return Err(ScopeError::Empty);
    }
    let scopes: Result<Vec<Scope>, _> = text.split(',').map(str::parse).collect();
    Ok(ordered(scopes?))
}

/// In order, each once.
pub(crate) fn ordered(mut scopes: Vec<Scope>) -> Vec<Scope> {
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}

/// As it is stored.
pub(crate) fn joined(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_ordered_and_each_scope_stands_once() {
        assert_eq!(parse_scopes("write, READ,read"), Ok(vec![Scope::Read, Scope::Write]));
        assert_eq!(joined(&[Scope::Read, Scope::Write]), "read,write");
        assert_eq!(
            parse_scopes("erase,read,write"),
            Ok(vec![Scope::Read, Scope::Write, Scope::Erase])
        );
        assert_eq!(joined(&[Scope::Read, Scope::Erase]), "read,erase");
        assert_eq!(parse_scopes("read,admin"), Err(ScopeError::Unknown("admin".to_owned())));
        assert_eq!(parse_scopes("read,"), Err(ScopeError::Unknown(String::new())));
        assert_eq!(parse_scopes(" "), Err(ScopeError::Empty));
    }
}
