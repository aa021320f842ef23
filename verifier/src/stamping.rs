//! Stamps, given once, when a receipt arrives: the operator whose key signed it, whether somebody
//! had verified the publisher's domain, and what the deployment's policies reject.
//!
//! All read a cache of the account registry. While the registry is unavailable for longer than the
//! cache may be stale, the verifier waits, and nothing is appended.

use std::collections::HashMap;
use std::sync::Arc;

use accounts::{
    ClientClaim, ClientKey, ClientPolicy, EntryPolicy, Fingerprint, KeyStatus, OperatorPeriod, Policy, RegistryCache,
    RegistryFindings, RegistryUnavailable,
};
use blocks::AcceptedRow;
use receipt::RejectReason;
use uuid::Uuid;

use crate::judging::{JudgedBlock, JudgedRows, ReceiptStamp};

/// The registry of operators, client keys and entries, and the deployment's policy on them.
#[derive(Clone)]
pub struct Policies {
    /// Clients and entries that count.
    pub policy: Policy,
    /// The registered keys and entries.
    pub registry: RegistryCache,
}

/// A block whose verdicts don't change any more.
#[derive(Debug)]
#[must_use = "verdicts must be appended"]
pub struct StampedBlock(pub JudgedBlock);

/// Answers of the registry about a block's receipts.
#[derive(Debug, Default)]
struct StampLookup {
    operators: HashMap<Fingerprint, Arc<[OperatorPeriod]>>,
    claims: HashMap<Uuid, Arc<[ClientClaim]>>,
    keys: HashMap<ClientKey, KeyStatus>,
    entries: HashMap<Uuid, bool>,
    /// When each publisher's domain was verified first.
    publishers: HashMap<Arc<str>, Option<i64>>,
}

/// Stamps the accepted receipts, and applies the policies. Without a registry every receipt is
/// unproven, every publisher verified, and every verdict stays.
///
/// # Errors
/// [`RegistryUnavailable`]: the same call may succeed later. The block comes back unchanged.
pub async fn stamp(
    policies: Option<&Policies>,
    mut block: JudgedBlock,
) -> Result<StampedBlock, (JudgedBlock, RegistryUnavailable)> {
    let Some(policies) = policies else {
        return Ok(StampedBlock(block));
    };
    let lookup = match policies.look_up(&block).await {
        Ok(lookup) => lookup,
        Err(unavailable) => return Err((block, unavailable)),
    };
    for part in &mut block.partitions {
        for JudgedRows { accepted, stamps, .. } in &mut part.rows {
            for (row, stamp) in stamps.iter_mut().enumerate() {
                *stamp = policies.stamp(&lookup, &accepted.accepted_row(row));
            }
        }
    }
    Ok(StampedBlock(block))
}

fn client_key(row: &AcceptedRow<'_>) -> ClientKey {
    ClientKey {
        client_id: row.client_id,
        fingerprint: Fingerprint(*row.key_fingerprint),
    }
}

impl StampLookup {
    /// Whether the registry lacks a publisher, key or entry, whose receipts don't count then.
    fn lacks_something(&self) -> bool {
        self.publishers.values().any(Option::is_none)
            || self.keys.values().any(|status| *status == KeyStatus::Unregistered)
            || self.entries.values().any(|exists| !exists)
    }

    /// The operator whose key signed a receipt, when it arrived. None if others claimed its client
    /// ID before, and this one didn't.
    fn operator(&self, row: &AcceptedRow<'_>) -> Option<Arc<str>> {
        let periods = self.operators.get(&Fingerprint(*row.key_fingerprint))?;
        let period = periods.iter().find(|period| period.contains(row.received_at_ms))?;
        let claims = self
            .claims
            .get(&row.client_id)
            .into_iter()
            .flat_map(|claims| claims.iter());
        let mut claims = claims.filter(|claim| claim.from_ms <= row.received_at_ms).peekable();
        let may_sign = claims.peek().is_none() || claims.any(|claim| claim.domain == period.domain);
        may_sign.then(|| Arc::clone(&period.domain))
    }

    /// Whether somebody had verified the publisher's domain when a receipt arrived.
    fn publisher_verified(&self, row: &AcceptedRow<'_>) -> bool {
        let first_ms = self.publishers.get(row.publisher).copied().flatten();
        first_ms.is_some_and(|first_ms| first_ms <= row.received_at_ms)
    }
}

impl Policies {
    /// Looks the block's receipts up. What the registry lacks may have been stored after the cache
    /// was refreshed and before a receipt arrived. So it is read once more.
    async fn look_up(&self, block: &JudgedBlock) -> Result<StampLookup, RegistryUnavailable> {
        let (mut lookup, newest_ms) = self.collect(block);
        self.resolve(&mut lookup).await?;
        if lookup.lacks_something() {
            self.registry.catch_up(newest_ms).await;
            self.resolve(&mut lookup).await?;
        }
        Ok(lookup)
    }

    /// The keys, clients, publishers and entries to look up, and when the newest receipt arrived.
    fn collect(&self, block: &JudgedBlock) -> (StampLookup, i64) {
        let mut lookup = StampLookup::default();
        let mut newest_ms = 0;
        let parts = block.partitions.iter().flat_map(|part| &part.rows);
        for row in parts.flat_map(|rows| (0..rows.stamps.len()).map(|row| rows.accepted.accepted_row(row))) {
            newest_ms = newest_ms.max(row.received_at_ms);
            let key = client_key(&row);
            lookup.operators.entry(key.fingerprint).or_insert_with(|| Arc::new([]));
            lookup.claims.entry(key.client_id).or_insert_with(|| Arc::new([]));
            if !lookup.publishers.contains_key(row.publisher) {
                lookup.publishers.insert(row.publisher.into(), None);
            }
            if self.policy.clients == ClientPolicy::Registered {
                lookup.keys.insert(key, KeyStatus::Unregistered);
            }
            if self.policy.entries == EntryPolicy::Required {
                lookup.entries.insert(row.entry_id, false);
            }
        }
        (lookup, newest_ms)
    }

    async fn resolve(&self, lookup: &mut StampLookup) -> Result<(), RegistryUnavailable> {
        let signers: Vec<Fingerprint> = lookup.operators.keys().copied().collect();
        if !signers.is_empty() {
            let periods = self.registry.operator_periods(&signers).await?;
            lookup.operators.extend(signers.into_iter().zip(periods));
        }
        let clients: Vec<Uuid> = lookup.claims.keys().copied().collect();
        if !clients.is_empty() {
            let claims = self.registry.client_claims(&clients).await?;
            lookup.claims.extend(clients.into_iter().zip(claims));
        }
        let publishers: Vec<Arc<str>> = lookup.publishers.keys().map(Arc::clone).collect();
        if !publishers.is_empty() {
            let first = self.registry.first_verifications(&publishers).await?;
            lookup.publishers.extend(publishers.into_iter().zip(first));
        }
        let keys: Vec<ClientKey> = lookup.keys.keys().copied().collect();
        if !keys.is_empty() {
            let statuses = self.registry.client_keys(&keys).await?;
            lookup.keys.extend(keys.into_iter().zip(statuses));
        }
        let entries: Vec<Uuid> = lookup.entries.keys().copied().collect();
        if !entries.is_empty() {
            let existing = self.registry.entries(&entries).await?;
            lookup.entries.extend(entries.into_iter().zip(existing));
        }
        Ok(())
    }

    fn stamp(&self, lookup: &StampLookup, row: &AcceptedRow<'_>) -> ReceiptStamp {
        ReceiptStamp {
            operator: lookup.operator(row),
            publisher_verified: lookup.publisher_verified(row),
            rejection: self.rejection(lookup, row),
        }
    }

    /// Why a good receipt is rejected, if it is, with the detail for its sender.
    fn rejection(&self, lookup: &StampLookup, row: &AcceptedRow<'_>) -> Option<(RejectReason, String)> {
        let key = client_key(row);
        let entry_id = row.entry_id;
        let found = RegistryFindings {
            key: lookup.keys.get(&key).copied().unwrap_or(KeyStatus::Unregistered),
            entry_exists: lookup.entries.get(&entry_id).copied().unwrap_or_default(),
        };
        let reason = self.policy.rejection(&found, row.received_at_ms)?;
        let ClientKey { client_id, fingerprint } = key;
        let detail = match (reason, found.key) {
            (RejectReason::EntryUnknown, _) => format!(
                "entry {entry_id} did not exist when the receipt was judged; create the entry, then replay the receipt"
            ),
            (_, KeyStatus::RevokedFrom(from_ms)) => {
                let from = service::instant::rfc3339_ms(from_ms);
                format!("key {fingerprint} of client {client_id} is revoked from {from} on")
            }
            _ => format!("key {fingerprint} isn't registered for client {client_id}"),
        };
        Some((reason, detail))
    }
}
