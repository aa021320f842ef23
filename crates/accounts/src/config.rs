//! The section `[accounts]` of the configuration.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where accounts are stored, and the bounds of asking.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountsConfig {
    /// `postgres://user:password@host:port/database`; not given or empty: SQLite in `accounts.sqlite` of the data directory.
    pub url: Option<String>,
    /// Connections to the database.
    pub connections_max: u32,
    /// Time for one question, waiting for a connection included, in milliseconds.
    pub wait_ms_max: u64,
    /// API keys kept in memory once they were checked.
    pub cache_entries_max: usize,
    /// How long a checked key is taken from memory, in milliseconds: as long a revocation elsewhere may stay unseen. 0: not at all.
    pub cache_ms_max: u64,
}

impl Default for AccountsConfig {
    fn default() -> Self {
        Self {
            url: None,
            connections_max: 8,
            wait_ms_max: 5_000,
            cache_entries_max: 10_000,
            cache_ms_max: 2_000,
        }
    }
}

impl AccountsConfig {
    /// What can't work: key and sentence. Made for `service::config::Source::section_with`, which this crate doesn't know.
    #[must_use]
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if let Some(url) = self.postgres_url()
            && !["postgres://", "postgresql://"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        {
            // Without the value: it may hold a password.
            faults.push((
                "url",
                "must start with postgres://, or be empty for SQLite in the data directory".to_owned(),
            ));
        }
        let mut range = |key, value: u64, min: u64, max: u64| {
            if !(min..=max).contains(&value) {
                faults.push((key, format!("is {value}, must be {min} to {max}")));
            }
        };
        range("connections_max", u64::from(self.connections_max), 1, 1_000);
        range("wait_ms_max", self.wait_ms_max, 100, 600_000);
        range("cache_entries_max", self.cache_entries_max as u64, 1, 10_000_000);
        range("cache_ms_max", self.cache_ms_max, 0, 60_000);
        faults
    }

    pub(crate) fn postgres_url(&self) -> Option<&str> {
        self.url.as_deref().map(str::trim).filter(|url| !url.is_empty())
    }
}

impl fmt::Debug for AccountsConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AccountsConfig")
            .field("url", &self.postgres_url().map(|_| "postgres://..."))
            .field("connections_max", &self.connections_max)
            .field("wait_ms_max", &self.wait_ms_max)
            .field("cache_entries_max", &self.cache_entries_max)
            .field("cache_ms_max", &self.cache_ms_max)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_hold_and_faults_are_named_without_the_password() {
        assert_eq!(AccountsConfig::default().faults(), []);
        let empty = AccountsConfig {
            url: Some(" ".to_owned()),
            ..AccountsConfig::default()
        };
        assert_eq!((empty.faults(), empty.postgres_url()), (vec![], None));
        let wrong = AccountsConfig {
            url: Some("mysql://u:secret@h".to_owned()),
            connections_max: 0,
            cache_ms_max: 60_001,
            ..AccountsConfig::default()
        };
        let shown = format!("{:?} {wrong:?}", wrong.faults());
        assert_eq!(
            wrong.faults().iter().map(|(key, _)| *key).collect::<Vec<_>>(),
            ["url", "connections_max", "cache_ms_max"]
        );
        assert!(!shown.contains("secret"), "{shown}");
    }
}
