//! The section `[accounts]` of the configuration.

use config::{ConfigFaults, SecretUrl, Section};
use serde::{Deserialize, Serialize};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::Tier;

/// Location of the account store, and limits on queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountsConfig {
    /// `postgres://user:password@host:port/database`; not given or empty: SQLite in
    /// `accounts.sqlite` of the data directory.
    pub url: Option<SecretUrl>,
    /// Whether a password may go to another machine without TLS.
    pub allow_plaintext: bool,
    /// Connections to the database.
    pub connections_max: u32,
    /// Time for one question, waiting for a connection included, in milliseconds.
    pub wait_ms_max: u64,
    /// API keys cached once they were checked.
    pub cache_entries_max: usize,
    /// Time in which a checked key is taken from memory, in milliseconds: as long a revocation or a
    /// new tier elsewhere may stay unseen. 0: not at all.
    pub cache_ms_max: u64,
    /// Active API keys of an account, tier free.
    pub free_keys_max: u32,
    /// Active API keys of an account, tier pro.
    pub pro_keys_max: u32,
    /// Active API keys of an account, tier enterprise.
    pub enterprise_keys_max: u32,
    /// Time after which a person's session ends that nobody uses, in minutes.
    pub session_idle_minutes_max: u32,
    /// Time after which a person's session ends in any case, in hours.
    pub session_hours_max: u32,
}

/// Times after which a session ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionsMax {
    pub(crate) idle_ms: i64,
    pub(crate) whole_ms: i64,
}

/// Limits of active API keys of an account, by tier. As many replaced keys may work beside them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeysMax {
    free: u32,
    pro: u32,
    enterprise: u32,
}

impl KeysMax {
    pub(crate) fn of(self, tier: Tier) -> u32 {
        match tier {
            Tier::Free => self.free,
            Tier::Pro => self.pro,
            Tier::Enterprise => self.enterprise,
        }
    }
}

impl Default for AccountsConfig {
    fn default() -> Self {
        Self {
            url: None,
            allow_plaintext: false,
            connections_max: 8,
            wait_ms_max: 5_000,
            cache_entries_max: 10_000,
            cache_ms_max: 2_000,
            free_keys_max: 5,
            pro_keys_max: 25,
            enterprise_keys_max: 100,
            session_idle_minutes_max: 720,
            session_hours_max: 168,
        }
    }
}

impl Section for AccountsConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        if let Some(url) = self.postgres_url()
            && !["postgres://", "postgresql://"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        {
            // Without the value: it may hold a password.
            faults.push(
                "url",
                "must start with postgres://, or be empty for SQLite in the data directory",
            );
        } else if !self.allow_plaintext && self.postgres_url().is_some_and(has_plaintext_password) {
            faults.push(
                "url",
                "must have ?sslmode=verify-full (or verify-ca, require) where a password goes to another machine; \
                 allow_plaintext = true allows it without TLS",
            );
        }
        faults.range("connections_max", self.connections_max, 1..=1_000);
        faults.range("wait_ms_max", self.wait_ms_max, 100..=600_000);
        faults.range("cache_entries_max", self.cache_entries_max, 1..=10_000_000);
        faults.range("cache_ms_max", self.cache_ms_max, 0..=60_000);
        for (key, value) in [
            ("free_keys_max", self.free_keys_max),
            ("pro_keys_max", self.pro_keys_max),
            ("enterprise_keys_max", self.enterprise_keys_max),
        ] {
            faults.range(key, value, 1..=10_000);
        }
        // Uses are recorded to the minute.
        faults.range("session_idle_minutes_max", self.session_idle_minutes_max, 5..=129_600);
        faults.range("session_hours_max", self.session_hours_max, 1..=2_160);
    }
}

impl AccountsConfig {
    pub(crate) fn keys_max(&self) -> KeysMax {
        KeysMax {
            free: self.free_keys_max,
            pro: self.pro_keys_max,
            enterprise: self.enterprise_keys_max,
        }
    }

    pub(crate) fn sessions_max(&self) -> SessionsMax {
        SessionsMax {
            idle_ms: i64::from(self.session_idle_minutes_max) * 60_000,
            whole_ms: i64::from(self.session_hours_max) * 3_600_000,
        }
    }

    /// URL of the PostgreSQL, if there is one.
    #[must_use]
    pub fn postgres_url(&self) -> Option<&str> {
        self.url.as_ref().and_then(SecretUrl::reveal)
    }
}

/// Whether the login's password may go to another machine without TLS. An address that can't be
/// read isn't connected to.
fn has_plaintext_password(url: &str) -> bool {
    let Ok(options) = url.parse::<PgConnectOptions>() else {
        return false;
    };
    let is_here = options.get_socket().is_some() || matches!(options.get_host(), "localhost" | "127.0.0.1" | "::1");
    let has_tls = matches!(
        options.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    );
    // sqlx panics if it writes an address without brackets into a URL. The host doesn't matter.
    !is_here && !has_tls && options.clone().host("host").to_url_lossy().password().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(config: &AccountsConfig) -> Vec<String> {
        let faults = config.faults("accounts").into_iter();
        faults
            .map(|fault| format!("{}: {}", fault.location, fault.what))
            .collect()
    }

    #[test]
    fn defaults_hold_and_faults_are_named_without_the_password() {
        assert_eq!(faults(&AccountsConfig::default()), [""; 0]);
        let empty = AccountsConfig {
            url: Some(" ".into()),
            ..AccountsConfig::default()
        };
        assert_eq!((faults(&empty), empty.postgres_url()), (vec![], None));
        for (url, is_good) in [
            ("postgres://u:secret@db/receipts", false),
            ("postgres://u:secret@db/receipts?sslmode=prefer", false),
            ("postgres://u:secret@db/receipts?sslmode=require", true),
            ("postgres://u@db/receipts", true),
            ("postgres://u:secret@db/receipts?hostaddr=2001:db8::1", false),
            ("postgres://u:secret@db/receipts?hostaddr=::1", true),
            ("postgres://u:secret@127.0.0.1/receipts", true),
            ("postgres://u:secret@localhost/receipts?host=/run/postgresql", true),
        ] {
            let of = |allow_plaintext| AccountsConfig {
                url: Some(url.into()),
                allow_plaintext,
                ..AccountsConfig::default()
            };
            assert_eq!(faults(&of(false)).is_empty(), is_good, "{url}");
            assert_eq!(faults(&of(true)), [""; 0], "{url}");
        }
        let wrong = AccountsConfig {
            url: Some("mysql://u:secret@h".into()),
            connections_max: 0,
            cache_ms_max: 60_001,
            ..AccountsConfig::default()
        };
        let found = faults(&wrong);
        let keys: Vec<_> = found.iter().filter_map(|fault| fault.split(':').next()).collect();
        assert_eq!(
            keys,
            ["accounts.url", "accounts.connections_max", "accounts.cache_ms_max"]
        );
        let shown = format!("{found:?} {wrong:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
