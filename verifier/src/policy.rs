//! The deployment's policy: which receipts are refused although every check passed.
//!
//! A ruling is a function of the receipt and the [`Terms`] that its record was marked with; what the terms name doesn't change any more.
//! The entry is checked first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use accounts::{Accounts, AccountsError, ClientKey, ClientPolicy, EntryPolicy, KeyStanding, Policy, Terms};
use quick_cache::sync::Cache;
use receipt::RejectReason;
use uuid::Uuid;

use crate::refusing::Refusal;

/// What a policy asks of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Who signed it.
    pub client_key: ClientKey,
    /// Its entry.
    pub entry_id: Uuid,
    /// When it was received, in milliseconds since the Unix epoch.
    pub received_at_ms: i64,
}

/// The policy, and where clients, entries and marks are kept. Clones share what is kept in memory.
#[derive(Clone)]
pub struct PolicyBook {
    /// Where they are kept.
    pub accounts: Accounts,
    /// What is demanded now.
    pub policy: Policy,
    standings: Arc<Cache<(i64, ClientKey), KeyStanding>>,
    entries: Arc<Cache<(i64, Uuid), bool>>,
}

impl PolicyBook {
    /// A book that keeps so many answers about keys, and as many about entries, in memory.
    #[must_use]
    pub fn new(accounts: Accounts, policy: Policy, cache_entries_max: usize) -> Self {
        let cache_entries_max = cache_entries_max.max(1);
        Self {
            accounts,
            policy,
            standings: Arc::new(Cache::new(cache_entries_max)),
            entries: Arc::new(Cache::new(cache_entries_max)),
        }
    }

    /// Why each of `receipts`, in the order of the log, is refused under `terms`; `None` for those that pass.
    ///
    /// # Errors
    /// The account store fails.
    pub async fn rule(&self, terms: &Terms, receipts: &[Asked]) -> Result<Vec<Option<Refusal>>, AccountsError> {
        let mut rulings: Vec<Option<Refusal>> = vec![None; receipts.len()];
        if terms.policy.entries == EntryPolicy::Required {
            let existing = self.existing(terms.entry_version, receipts).await?;
            for (ruling, asked) in rulings.iter_mut().zip(receipts) {
                if !existing.contains(&asked.entry_id) {
                    *ruling = Some(entry_unknown(asked));
                }
            }
        }
        if terms.policy.clients != ClientPolicy::Open {
            let mut seen = HashSet::new();
            let keys = receipts.iter().zip(&rulings).filter(|(_, ruling)| ruling.is_none());
            let keys = keys
                .map(|(asked, _)| asked.client_key)
                .filter(|key| seen.insert(*key))
                .collect();
            let standings = self.standings(terms.client_version, keys).await?;
            for (ruling, asked) in rulings.iter_mut().zip(receipts) {
                if ruling.is_none() {
                    let standing = standings.get(&asked.client_key).copied();
                    let standing = standing.unwrap_or(KeyStanding::Untrusted);
                    *ruling = key_refused(standing, asked);
                }
            }
        }
        Ok(rulings)
    }

    async fn existing(&self, version: i64, receipts: &[Asked]) -> Result<HashSet<Uuid>, AccountsError> {
        let (mut existing, mut unknown) = (HashSet::new(), HashSet::new());
        for asked in receipts {
            match self.entries.get(&(version, asked.entry_id)) {
                Some(true) => {
                    existing.insert(asked.entry_id);
                }
                Some(false) => {}
                None => {
                    unknown.insert(asked.entry_id);
                }
            }
        }
        if !unknown.is_empty() {
            let unknown: Vec<Uuid> = unknown.into_iter().collect();
            let found = self.accounts.entries_existing(version, &unknown).await?;
            for id in unknown {
                self.entries.insert((version, id), found.contains(&id));
            }
            existing.extend(found);
        }
        Ok(existing)
    }

    async fn standings(
        &self,
        version: i64,
        keys: Vec<ClientKey>,
    ) -> Result<HashMap<ClientKey, KeyStanding>, AccountsError> {
        let (mut standings, mut unknown) = (HashMap::new(), Vec::new());
        for key in keys {
            match self.standings.get(&(version, key)) {
                Some(standing) => {
                    standings.insert(key, standing);
                }
                None => unknown.push(key),
            }
        }
        if !unknown.is_empty() {
            let asked = self.accounts.client_standings(version, &unknown);
            for (key, standing) in unknown.iter().zip(asked.await?) {
                self.standings.insert((version, *key), standing);
                standings.insert(*key, standing);
            }
        }
        Ok(standings)
    }
}

fn entry_unknown(asked: &Asked) -> Refusal {
    Refusal {
        reason: RejectReason::EntryUnknown,
        detail: format!(
            "there was no entry {} when the receipt was judged; once it is created, the receipt can be replayed",
            asked.entry_id
        ),
    }
}

fn key_refused(standing: KeyStanding, asked: &Asked) -> Option<Refusal> {
    let ClientKey { client_id, fingerprint } = asked.client_key;
    let (reason, detail) = match standing {
        KeyStanding::Trusted => return None,
        KeyStanding::RevokedFrom(from_ms) if asked.received_at_ms < from_ms => return None,
        KeyStanding::RevokedFrom(from_ms) => (
            RejectReason::ClientKeyRevoked,
            format!(
                "client {client_id}'s key {fingerprint} is revoked from {} on",
                service::instant::rfc3339_ms(from_ms)
            ),
        ),
        KeyStanding::Untrusted => (
            RejectReason::ClientKeyUnknown,
            format!("the key {fingerprint} isn't registered for client {client_id}"),
        ),
    };
    Some(Refusal { reason, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two crates that don't know each other name the same reasons.
    #[test]
    fn the_warehouse_knows_the_reasons_of_a_policy() {
        let reasons = [
            RejectReason::ClientKeyUnknown,
            RejectReason::ClientKeyRevoked,
            RejectReason::EntryUnknown,
        ];
        assert_eq!(reasons.map(RejectReason::as_str), warehouse::REFUSED_BY_POLICY);
        assert_eq!(
            RejectReason::RefusedByWarehouse.as_str(),
            warehouse::REFUSED_BY_WAREHOUSE
        );
    }
}
