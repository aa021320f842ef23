//! The deployment's policy: conditions on receipts beyond their signatures.

use config::{ConfigFaults, Section};
use receipt::RejectReason;
use serde::{Deserialize, Serialize};

use crate::{KeyStatus, RegistryConfig};

/// Conditions on a receipt whose signatures are good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Keys that may sign.
    pub clients: ClientPolicy,
    /// Entries that may be named.
    pub entries: EntryPolicy,
}

/// Findings of the registry about one receipt.
#[derive(Debug, Clone, Copy)]
pub struct RegistryFindings {
    /// The key's status for `client.id`; any where clients are open.
    pub key: KeyStatus,
    /// Whether `content.entryId` exists; any where entries aren't required.
    pub entry_exists: bool,
}

impl Policy {
    /// Returns why a receipt is rejected whose signatures are good and which arrived at
    /// `received_at_ms`, in milliseconds since the Unix epoch; `None` if it counts.
    #[must_use]
    pub fn rejection(self, found: &RegistryFindings, received_at_ms: i64) -> Option<RejectReason> {
        if self.entries == EntryPolicy::Required && !found.entry_exists {
            return Some(RejectReason::EntryUnknown);
        }
        match self.clients {
            ClientPolicy::Open => None,
            ClientPolicy::Registered => found.key.rejection(received_at_ms),
        }
    }
}

/// Keys with which a client may sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientPolicy {
    /// Any key.
    #[default]
    Open,
    /// Keys that are registered for the client's ID.
    Registered,
}

/// Treatment of a receipt for an entry that doesn't exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryPolicy {
    /// The receipt counts.
    #[default]
    Counted,
    /// The receipt is rejected.
    Required,
}

/// The section `[policy]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// Keys that may sign.
    pub clients: ClientPolicy,
    /// Entries that may be named.
    pub entries: EntryPolicy,
    /// Interval between two checks whether client keys or entries have changed, in milliseconds.
    pub refresh_ms: u64,
    /// Age up to which cached client keys and entries are used while the account store is
    /// unavailable, in milliseconds.
    pub stale_ms_max: u64,
    /// Cached client keys, and as many cached entries.
    pub cache_entries_max: usize,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        let Policy { clients, entries } = Policy::default();
        let RegistryConfig {
            refresh_ms,
            stale_ms_max,
            cache_entries_max,
        } = RegistryConfig::default();
        Self {
            clients,
            entries,
            refresh_ms,
            stale_ms_max,
            cache_entries_max,
        }
    }
}

impl PolicyConfig {
    /// Returns the policy itself.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            clients: self.clients,
            entries: self.entries,
        }
    }

    /// Returns the limits of the cache of client keys and entries.
    #[must_use]
    pub fn registry(&self) -> RegistryConfig {
        RegistryConfig {
            refresh_ms: self.refresh_ms,
            stale_ms_max: self.stale_ms_max,
            cache_entries_max: self.cache_entries_max,
        }
    }
}

impl Section for PolicyConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.range("refresh_ms", self.refresh_ms, 10..=60_000);
        // Below two intervals, one late read of the versions would stop everything.
        let stale_ms_min = self.refresh_ms.clamp(10, 60_000) * 2;
        faults.range("stale_ms_max", self.stale_ms_max, stale_ms_min..=86_400_000);
        faults.range("cache_entries_max", self.cache_entries_max, 1..=10_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_good_and_faults_are_named() {
        let config = PolicyConfig::default();
        assert_eq!(config.checked("policy"), Ok(()));
        assert_eq!(config.policy(), Policy::default());
        assert_eq!(config.registry(), RegistryConfig::default());
        let least = PolicyConfig {
            refresh_ms: 10,
            stale_ms_max: 20,
            cache_entries_max: 1,
            ..config
        };
        assert_eq!(least.checked("policy"), Ok(()));
        let wrong = PolicyConfig {
            refresh_ms: 0,
            stale_ms_max: 19,
            cache_entries_max: 0,
            ..config
        };
        let faults = wrong.faults("policy");
        let keys: Vec<_> = faults.iter().map(|fault| fault.location.as_str()).collect();
        assert_eq!(
            keys,
            ["policy.refresh_ms", "policy.stale_ms_max", "policy.cache_entries_max"]
        );
    }

    #[test]
    fn each_condition_has_its_reason() {
        let strict = Policy {
            clients: ClientPolicy::Registered,
            entries: EntryPolicy::Required,
        };
        let good = RegistryFindings {
            key: KeyStatus::Registered,
            entry_exists: true,
        };
        let key = |key| RegistryFindings { key, ..good };
        let no_entry = RegistryFindings {
            entry_exists: false,
            ..good
        };
        let cases = [
            (good, None, None),
            (no_entry, None, Some(RejectReason::EntryUnknown)),
            (key(KeyStatus::Unregistered), None, Some(RejectReason::ClientKeyUnknown)),
            (
                key(KeyStatus::RevokedFrom(1_000)),
                None,
                Some(RejectReason::ClientKeyRevoked),
            ),
            (key(KeyStatus::RevokedFrom(1_001)), None, None),
        ];
        for (found, by_default, by_strict) in cases {
            assert_eq!(Policy::default().rejection(&found, 1_000), by_default, "{found:?}");
            assert_eq!(strict.rejection(&found, 1_000), by_strict, "{found:?}");
        }
    }
}
