//! Answers of lists: top content, top clients, purposes, models, receipts.

use serde_json::{Value, json};

use crate::asking::{Expected, View};
use crate::calendar::utc_text;
use crate::making::PURPOSES;
use crate::model::{Fact, Stored, client, distinct, grouped, largest, newest};
use crate::selecting::{Selection, hex};
use crate::trust;

fn ranged(selection: &Selection, mut answer: Value) -> Expected {
    let (from, to) = selection.range_texts();
    answer["from"] = json!(from);
    answer["to"] = json!(to);
    Expected::Ok(answer)
}

fn last_seen(facts: &[&Fact]) -> Option<String> {
    facts.iter().map(|fact| fact.timestamp_ms).max().map(utc_text)
}

pub(crate) fn content(view: &View<'_>, selection: &Selection, most: usize) -> Expected {
    let facts = selection.matching(view.model, view.reader);
    let groups = grouped(&facts, |fact| fact.entry_id);
    let total = groups.len();
    let shown = largest(groups, most).into_iter().map(|(id, facts)| {
        let label = view.reader.label(id);
        let unknown = label.is_none();
        let url = newest(&facts, |fact| &fact.url).to_owned();
        let (title, url) = label.unwrap_or((url.clone(), url));
        json!({
            "entryId": id.to_string(),
            "title": title,
            "url": url,
            "receiptCount": facts.len(),
            "byTrust": trust::receipts(&facts),
            "uniqueClients": distinct(&facts, client),
            "lastSeen": last_seen(&facts),
            "unknownEntry": unknown,
        })
    });
    let shown: Value = shown.collect();
    ranged(selection, json!({"totalContent": total, "content": shown}))
}

pub(crate) fn clients(view: &View<'_>, selection: &Selection, most: usize) -> Expected {
    let facts = selection.matching(view.model, view.reader);
    let groups = grouped(&facts, client);
    let total = groups.len();
    let shown = largest(groups, most).into_iter().map(|((id, _), facts)| {
        let row = json!({
            "clientId": id.to_string(),
            "name": newest(&facts, |fact| &fact.name),
            "organization": newest(&facts, |fact| &fact.organization),
            "receiptCount": facts.len(),
            "byTrust": trust::receipts(&facts),
            "lastSeen": last_seen(&facts),
        });
        trust::signed(row, &facts)
    });
    let shown: Value = shown.collect();
    ranged(selection, json!({"totalClients": total, "clients": shown}))
}

pub(crate) fn purposes(view: &View<'_>, selection: &Selection) -> Expected {
    let facts = selection.matching(view.model, view.reader);
    let shown = PURPOSES.iter().map(|purpose| {
        let mut facts = facts.clone();
        facts.retain(|fact| fact.purpose == *purpose);
        json!({
            "purpose": purpose, "receiptCount": facts.len(), "byTrust": trust::receipts(&facts),
            "uniqueClients": distinct(&facts, client)
        })
    });
    let shown: Value = shown.collect();
    ranged(selection, json!({"purposes": shown}))
}

pub(crate) fn models(view: &View<'_>, selection: &Selection, most: usize) -> Expected {
    let facts = selection.matching(view.model, view.reader);
    let groups = grouped(&facts, |fact| fact.model_id.clone());
    let total = groups.len();
    let shown = largest(groups, most).into_iter().map(|(model, facts)| {
        json!({
            "modelId": Some(model).filter(|model| !model.is_empty()),
            "receiptCount": facts.len(),
            "byTrust": trust::receipts(&facts),
            "uniqueClients": distinct(&facts, client),
        })
    });
    let shown: Value = shown.collect();
    ranged(selection, json!({"totalModels": total, "models": shown}))
}

/// All of them, as if they were one page.
pub(crate) fn receipts(view: &View<'_>, selection: &Selection) -> Expected {
    let mut stored: Vec<&Stored> = view.model.receipts().collect();
    stored.retain(|stored| {
        let time = stored.fact.timestamp_ms;
        selection.start_ms() <= time && time < selection.end_ms() && selection.has(view.reader, &stored.fact)
    });
    stored.sort_by_key(|stored| {
        let fact = &stored.fact;
        std::cmp::Reverse((fact.timestamp_ms, fact.receipt_id, fact.payload_hash))
    });
    let shown: Value = stored.into_iter().map(|stored| shown(view, stored)).collect();
    ranged(selection, json!({"receipts": shown}))
}

/// Row of a receipt: erased members are null, and those that were never stated too.
fn shown(view: &View<'_>, stored: &Stored) -> Value {
    let fact = &stored.fact;
    let title = view
        .reader
        .label(fact.entry_id)
        .map_or(fact.url.clone(), |(title, _)| title);
    let erased = fact.client_id.is_nil();
    let stated = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let receipt = json!({
        "receiptId": fact.receipt_id.to_string(),
        "timestamp": utc_text(fact.timestamp_ms),
        "receivedAt": utc_text(stored.received_ms),
        "publisher": fact.publisher,
        "entryId": fact.entry_id.to_string(),
        "title": title,
        "url": fact.url,
        "clientId": (!erased).then(|| fact.client_id.to_string()),
        "clientName": stated(&fact.name),
        "clientVersion": stated(&fact.version),
        "organization": stated(&fact.organization),
        "purpose": fact.purpose,
        "context": (!erased).then_some("tests"),
        "datasetId": null,
        "modelId": stated(&fact.model_id),
        "payloadHash": format!("sha256:{}", hex(&fact.payload_hash)),
        "occurrences": stored.positions.len(),
        "signatureAlgorithm": "Ed25519",
        "beforeVerification": !fact.publisher_verified,
    });
    trust::signed(receipt, &[fact])
}
