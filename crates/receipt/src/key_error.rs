//! Errors of keys.

/// Reason for which a key can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct KeyError {
    /// Finding, for a person.
    pub detail: String,
}

impl KeyError {
    pub(crate) fn new(detail: impl Into<String>) -> Self {
        Self { detail: detail.into() }
    }
}
