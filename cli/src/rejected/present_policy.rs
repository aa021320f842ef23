//! The deployment's present policy, as the account store is now: which receipts it rejects.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use accounts::{Accounts, AccountsError, ClientKey, ClientPolicy, EntryPolicy, KeyStatus, Policy, RegistryFindings};
use receipt::RejectReason;
use uuid::Uuid;

use super::rejudging::{Passing, Payload};
use crate::failure::CommandFailure;
use crate::settings::Settings;

/// The configured policy, with the account store behind it.
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
    /// The configured policy.
    ///
    /// # Errors
    /// The account store can't be opened.
    pub async fn open(settings: &Settings) -> Result<Self, CommandFailure> {
        let accounts = Accounts::open(&settings.accounts, settings.data.root()).await;
        Ok(Self {
            policy: settings.policy.policy(),
            accounts: accounts.map_err(CommandFailure::unavailable)?,
        })
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
            let keys = distinct(payloads, |payload| payload.client_key);
            let statuses = self.accounts.client_key_statuses(&keys).await?;
            found.keys = keys.into_iter().zip(statuses).collect();
        }
        if self.policy.entries == EntryPolicy::Required {
            let entries = distinct(payloads, |payload| payload.entry_id);
            found.entries = self.accounts.existing_entries(&entries).await?.into_keys().collect();
        }
        Ok(found)
    }

    fn rejection(&self, found: &Found, payload: &Payload, received_at_ms: i64) -> Option<RejectReason> {
        let key = &payload.client_key;
        let findings = RegistryFindings {
            key: found.keys.get(key).copied().unwrap_or(KeyStatus::Unregistered),
            entry_exists: found.entries.contains(&payload.entry_id),
        };
        self.policy.rejection(&findings, received_at_ms)
    }
}

/// The distinct values of a part of these payloads.
fn distinct<T: Eq + Hash>(payloads: &[&Payload], part: impl Fn(&Payload) -> T) -> Vec<T> {
    let parts: HashSet<T> = payloads.iter().map(|payload| part(payload)).collect();
    parts.into_iter().collect()
}
