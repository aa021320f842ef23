//! The deployment's present policy, as the account store is now: which receipts it rejects.

use std::collections::{HashMap, HashSet};

use accounts::{Accounts, AccountsError, ClientKey, ClientPolicy, EntryPolicy, KeyStatus, Policy};
use receipt::RejectReason;
use uuid::Uuid;

use super::rejudging::{Passing, Payload};
use crate::failure::Failure;
use crate::settings::Settings;

/// A policy that demands something, with the account store behind it.
#[derive(Debug)]
pub struct PresentPolicy {
    policy: Policy,
    accounts: Accounts,
}

/// Answers of the account store about receipts.
#[derive(Debug, Default)]
struct Found {
    keys: HashMap<ClientKey, KeyStatus>,
    entries: HashSet<Uuid>,
}

impl PresentPolicy {
    /// The configured policy; none if it demands nothing.
    ///
    /// # Errors
    /// The account store can't be opened.
    pub async fn open(settings: &Settings) -> Result<Option<Self>, Failure> {
        let policy = settings.policy.policy();
        if policy.is_open() {
            return Ok(None);
        }
        let accounts = Accounts::open(&settings.accounts, settings.data.root()).await;
        Ok(Some(Self {
            policy,
            accounts: accounts.map_err(Failure::unavailable)?,
        }))
    }

    /// The reason for which the policy rejects each of these now; `None` where any receipt of the
    /// record passes.
    ///
    /// # Errors
    /// The account store fails.
    pub async fn rejections(&self, passing: &[&Passing]) -> Result<Vec<Option<RejectReason>>, AccountsError> {
        let payloads: Vec<&Payload> = passing.iter().flat_map(|one| &one.payloads).collect();
        let found = self.find(&payloads).await?;
        let rejection = |one: &&Passing| {
            let received_at_ms = one.record.received_at_ms;
            let mut reasons = one
                .payloads
                .iter()
                .map(|payload| self.rejection(&found, payload, received_at_ms));
            let first = reasons.next().flatten()?;
            reasons.all(|reason| reason.is_some()).then_some(first)
        };
        Ok(passing.iter().map(rejection).collect())
    }

    async fn find(&self, payloads: &[&Payload]) -> Result<Found, AccountsError> {
        let mut found = Found::default();
        if self.policy.clients == ClientPolicy::Registered {
            let keys: HashSet<ClientKey> = payloads.iter().map(|payload| payload.client_key).collect();
            let keys: Vec<ClientKey> = keys.into_iter().collect();
            let statuses = self.accounts.client_key_statuses(&keys).await?;
            found.keys = keys.into_iter().zip(statuses).collect();
        }
        if self.policy.entries == EntryPolicy::Required {
            let entries: HashSet<Uuid> = payloads.iter().map(|payload| payload.entry_id).collect();
            let entries: Vec<Uuid> = entries.into_iter().collect();
            found.entries = self.accounts.existing_entries(&entries).await?.into_keys().collect();
        }
        Ok(found)
    }

    /// As the verifier decides it.
    fn rejection(&self, found: &Found, payload: &Payload, received_at_ms: i64) -> Option<RejectReason> {
        if self.policy.entries == EntryPolicy::Required && !found.entries.contains(&payload.entry_id) {
            return Some(RejectReason::EntryUnknown);
        }
        if self.policy.clients == ClientPolicy::Open {
            return None;
        }
        match found.keys.get(&payload.client_key) {
            Some(KeyStatus::Registered) => None,
            Some(KeyStatus::RevokedFrom(from_ms)) if received_at_ms < *from_ms => None,
            Some(KeyStatus::RevokedFrom(_)) => Some(RejectReason::ClientKeyRevoked),
            Some(KeyStatus::Unregistered) | None => Some(RejectReason::ClientKeyUnknown),
        }
    }
}
