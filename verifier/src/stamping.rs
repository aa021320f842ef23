//! The deployment's policies, evaluated once, when a receipt arrives: which good receipts are
//! rejected.
//!
//! Policies read a cache of the account registry. While the registry is unavailable for longer than
//! the cache may be stale, the verifier waits, and nothing is appended.

use std::collections::HashMap;

use accounts::{
    ClientKey, ClientPolicy, EntryPolicy, Fingerprint, KeyStatus, Policy, RegistryCache, RegistryUnavailable,
};
use receipt::RejectReason;
use uuid::Uuid;

use crate::judging::{AcceptedReceipt, JudgedBlock, JudgedPartition, Verdict};

/// Conditions of the deployment on a receipt beyond its signatures.
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
struct Lookup {
    keys: HashMap<ClientKey, KeyStatus>,
    entries: HashMap<Uuid, bool>,
}

/// Applies the policies. Without policies every verdict stays.
///
/// # Errors
/// [`RegistryUnavailable`]: the same call may succeed later. The block comes back unchanged.
pub async fn stamp(
    policies: Option<&Policies>,
    mut block: JudgedBlock,
) -> Result<StampedBlock, (JudgedBlock, RegistryUnavailable)> {
    let Some(policies) = policies.filter(|policies| !policies.policy.is_open()) else {
        return Ok(StampedBlock(block));
    };
    let lookup = match policies.look_up(&block).await {
        Ok(lookup) => lookup,
        Err(unavailable) => return Err((block, unavailable)),
    };
    for JudgedPartition { records, .. } in &mut block.partitions {
        for record in records {
            let received_at_ms = record.logged.record.received_at_ms;
            for verdict in &mut record.verdicts {
                let Verdict::Accepted(receipt) = verdict else { continue };
                if let Some((reason, detail)) = policies.rejection(&lookup, receipt, received_at_ms) {
                    let rejected = receipt.as_ref().clone().into_rejected(reason, detail);
                    *verdict = Verdict::Rejected(Box::new(rejected));
                }
            }
        }
    }
    Ok(StampedBlock(block))
}

fn client_key(receipt: &AcceptedReceipt) -> ClientKey {
    ClientKey {
        client_id: receipt.ids.client,
        fingerprint: Fingerprint(receipt.key_fingerprint),
    }
}

impl Policies {
    async fn look_up(&self, block: &JudgedBlock) -> Result<Lookup, RegistryUnavailable> {
        let mut lookup = Lookup::default();
        let verdicts = block.partitions.iter().flat_map(|part| &part.records);
        for verdict in verdicts.flat_map(|record| &record.verdicts) {
            let Verdict::Accepted(receipt) = verdict else { continue };
            if self.policy.clients == ClientPolicy::Registered {
                lookup.keys.insert(client_key(receipt), KeyStatus::Unregistered);
            }
            if self.policy.entries == EntryPolicy::Required {
                lookup.entries.insert(receipt.ids.entry, false);
            }
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
        Ok(lookup)
    }

    /// Why a good receipt is rejected, if it is.
    fn rejection(
        &self,
        lookup: &Lookup,
        receipt: &AcceptedReceipt,
        received_at_ms: i64,
    ) -> Option<(RejectReason, String)> {
        if self.policy.entries == EntryPolicy::Required && !lookup.entries.get(&receipt.ids.entry).is_some_and(|is| *is)
        {
            let detail = format!(
                "entry {} did not exist when the receipt was judged; create the entry, then replay the receipt",
                receipt.ids.entry
            );
            return Some((RejectReason::EntryUnknown, detail));
        }
        if self.policy.clients == ClientPolicy::Open {
            return None;
        }
        let key = client_key(receipt);
        let ClientKey { client_id, fingerprint } = &key;
        match lookup.keys.get(&key) {
            Some(KeyStatus::Registered) => None,
            Some(KeyStatus::RevokedFrom(from_ms)) if received_at_ms < *from_ms => None,
            Some(KeyStatus::RevokedFrom(from_ms)) => {
                let from = service::instant::rfc3339_ms(*from_ms);
                let detail = format!("key {fingerprint} of client {client_id} is revoked from {from} on");
                Some((RejectReason::ClientKeyRevoked, detail))
            }
            Some(KeyStatus::Unregistered) | None => {
                let detail = format!("key {fingerprint} isn't registered for client {client_id}");
                Some((RejectReason::ClientKeyUnknown, detail))
            }
        }
    }
}
