//! Answers about rejections and single receipts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::asking::{Expected, View};
use crate::calendar::utc_text;
use crate::model::{Refused, Stored};
use crate::selecting::{Selection, hex};
use crate::trust;

/// All of them, as if they were one page.
pub(crate) fn refusals(view: &View<'_>, selection: &Selection, reason: Option<&str>) -> Expected {
    let mut refused = selection.refused(view.model, view.reader);
    refused.retain(|one| reason.is_none_or(|reason| reason == one.reason));
    let mut by_reason = Map::new();
    for one in &refused {
        let count = by_reason.entry(one.reason).or_insert(json!(0));
        *count = json!(count.as_u64().unwrap() + 1);
    }
    let mut by_client: BTreeMap<_, u64> = BTreeMap::new();
    for one in &refused {
        // Those of none come last among as many.
        *by_client.entry((one.client_id.is_none(), one.client_id)).or_default() += 1;
    }
    let mut by_client: Vec<_> = by_client.into_iter().collect();
    by_client.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let of_client = |((_, id), count): ((bool, Option<Uuid>), u64)| json!({"clientId": id.map(|id| id.to_string()), "refusals": count});
    let by_client: Vec<Value> = by_client.into_iter().take(100).map(of_client).collect();
    let total = refused.len();
    refused.sort_by_key(|one| std::cmp::Reverse((one.received_ms, one.position)));
    let shown = |one: &&Refused| {
        json!({
            "receiptId": one.receipt_id.map(|id| id.to_string()),
            "reason": one.reason,
            "detail": one.detail,
            "receivedAt": utc_text(one.received_ms),
            "publisher": one.publisher,
            "clientId": one.client_id.map(|id| id.to_string()),
            "requestId": one.request_id,
        })
    };
    let (from, to) = selection.range_texts();
    Expected::Ok(json!({
        "totalRefused": total,
        "byReason": by_reason,
        "byClient": by_client,
        "newest": refused.iter().map(shown).collect::<Vec<_>>(),
        "from": from,
        "to": to,
    }))
}

pub(crate) fn receipt(view: &View<'_>, id: Uuid, selection: &Selection) -> Expected {
    let seen = |publisher: &str| selection.has_domain(view.reader, publisher);
    let mut stored: Vec<&Stored> = view
        .model
        .receipts()
        .filter(|stored| stored.fact.receipt_id == id && seen(stored.fact.publisher))
        .collect();
    // Proven ones first.
    stored.sort_by_key(|stored| (stored.fact.operator.is_empty(), *stored.positions.first().unwrap()));
    let refused: Vec<&Refused> = view
        .model
        .refused()
        .filter(|one| one.receipt_id == Some(id) && seen(one.publisher))
        .collect();
    let hash = |stored: &Stored| format!("sha256:{}", hex(&stored.fact.payload_hash));
    let payload = |stored: &&Stored| {
        let fact = &stored.fact;
        let payload = json!({
            "payloadHash": hash(stored),
            "occurrences": stored.positions.len(),
            "timestamp": utc_text(fact.timestamp_ms),
            "receivedAt": utc_text(stored.received_ms),
            "publisher": fact.publisher,
            "entryId": fact.entry_id.to_string(),
            "clientId": fact.client_id.to_string(),
            "purpose": fact.purpose,
            "signatureAlgorithm": "Ed25519",
            "beforeVerification": !fact.publisher_verified,
        });
        trust::signed(payload, &[fact])
    };
    let rejection =
        |one: &&Refused| json!({"reason": one.reason, "detail": one.detail, "receivedAt": utc_text(one.received_ms)});
    let occurrences: usize = stored.iter().map(|stored| stored.positions.len()).sum();
    let (first, refusal) = (stored.first(), refused.first());
    let mut answer = json!({
        "receiptId": id.to_string(),
        "status": match (first, refusal) {
            (Some(_), _) => "verified",
            (None, Some(_)) => "rejected",
            (None, None) => "unknown",
        },
        "occurrences": occurrences,
        "duplicates": occurrences - stored.len(),
        "conflict": stored.len() > 1,
        "payloadHash": first.map(|stored| hash(stored)),
        "timestamp": first.map(|stored| utc_text(stored.fact.timestamp_ms)),
        "receivedAt": first.map(|stored| stored.received_ms).or(refusal.map(|one| one.received_ms)).map(utc_text),
        "receipts": stored.iter().map(payload).collect::<Vec<Value>>(),
        "nextCursor": null,
        "rejections": refused.iter().map(rejection).collect::<Vec<Value>>(),
    });
    if let (None, Some(refusal)) = (first, refusal) {
        answer["reason"] = json!(refusal.reason);
        answer["detail"] = json!(refusal.detail);
    }
    Expected::Ok(answer)
}
