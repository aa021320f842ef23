//! Answers of lists: top content, top clients, purposes, models, receipts.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::asking::{Expected, Listing, View};
use crate::calendar::utc_text;
use crate::making::PURPOSES;
use crate::model::{Fact, Stored, client, distinct, grouped, newest};
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

/// Whether a text contains what is searched for, in any case.
fn has(text: &str, search: &str) -> bool {
    text.to_lowercase().contains(&search.to_lowercase())
}

/// Rows in the listing's order, of all pages; `rows` are in the order of their keys.
fn sorted<K>(mut rows: Vec<(K, Value)>, listing: &Listing) -> Value {
    let (member, is_descending) = listing.order();
    if !matches!(member, "receiptCount" | "uniqueClients" | "lastSeen") && is_descending {
        rows.reverse();
    }
    if matches!(member, "receiptCount" | "uniqueClients" | "lastSeen" | "name") {
        rows.sort_by(|(_, one), (_, other)| {
            let value = |row: &Value| {
                let text = row[member].as_str().unwrap_or_default();
                (row[member].as_u64(), text.to_lowercase())
            };
            let order = value(one).cmp(&value(other));
            if is_descending { order.reverse() } else { order }
        });
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

pub(crate) fn content(view: &View<'_>, selection: &Selection, listing: &Listing) -> Expected {
    let facts = selection.matching(view.model, view.reader);
    // By any URL of its receipts, whatever else is selected.
    let all = view.model.receipts().map(|stored| &stored.fact);
    let all: Vec<&Fact> = all
        .filter(|fact| selection.has_domain(view.reader, fact.publisher))
        .collect();
    let is_found = |id: Uuid| {
        listing.search.is_none_or(|search| {
            let is_listed = view
                .reader
                .label(id)
                .is_some_and(|(title, url)| has(&title, search) || has(&url, search));
            is_listed || all.iter().any(|fact| fact.entry_id == id && has(&fact.url, search))
        })
    };
    let mut groups = grouped(&facts, |fact| fact.entry_id);
    groups.retain(|id, _| is_found(*id));
    let total = groups.len();
    let rows = groups.into_iter().map(|(id, facts)| {
        let label = view.reader.label(id);
        let unknown = label.is_none();
        let url = newest(&facts, |fact| &fact.url).to_owned();
        let (title, url) = label.unwrap_or((url.clone(), url));
        let row = json!({
            "entryId": id.to_string(),
            "title": title,
            "url": url,
            "receiptCount": facts.len(),
            "byTrust": trust::receipts(&facts),
            "uniqueClients": distinct(&facts, client),
            "lastSeen": last_seen(&facts),
            "unknownEntry": unknown,
        });
        (id, row)
    });
    let shown = sorted(rows.collect(), listing);
    ranged(selection, json!({"totalContent": total, "content": shown}))
}

pub(crate) fn clients(view: &View<'_>, selection: &Selection, listing: &Listing) -> Expected {
    let facts = selection.matching(view.model, view.reader);
    let mut groups = grouped(&facts, client);
    groups.retain(|_, facts| {
        listing.search.is_none_or(|search| {
            let names = |fact: &&Fact| [&fact.name, &fact.organization, fact.operator].map(|name| has(name, search));
            facts.iter().any(|fact| names(fact).contains(&true))
        })
    });
    let total = groups.len();
    let rows = groups.into_iter().map(|(key, facts)| {
        let row = json!({
            "clientId": key.0.to_string(),
            "name": newest(&facts, |fact| &fact.name),
            "organization": newest(&facts, |fact| &fact.organization),
            "receiptCount": facts.len(),
            "byTrust": trust::receipts(&facts),
            "lastSeen": last_seen(&facts),
        });
        (key, trust::signed(row, &facts))
    });
    let shown = sorted(rows.collect(), listing);
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

/// Usage by a text of receipts, which is null where it is empty.
fn shares<'a>(
    view: &View<'a>,
    selection: &Selection,
    listing: &Listing,
    member: &str,
    key: impl Fn(&'a Fact) -> &'a str,
) -> (usize, Value) {
    let facts = selection.matching(view.model, view.reader);
    let mut groups = grouped(&facts, key);
    groups.retain(|key, _| listing.search.is_none_or(|search| has(key, search)));
    let total = groups.len();
    let rows = groups.into_iter().map(|(key, facts)| {
        let row = json!({
            member: Some(key).filter(|key| !key.is_empty()),
            "receiptCount": facts.len(),
            "byTrust": trust::receipts(&facts),
            "uniqueClients": distinct(&facts, client),
        });
        (key, row)
    });
    (total, sorted(rows.collect(), listing))
}

pub(crate) fn models(view: &View<'_>, selection: &Selection, listing: &Listing) -> Expected {
    let (total, shown) = shares(view, selection, listing, "modelId", |fact| &fact.model_id);
    ranged(selection, json!({"totalModels": total, "models": shown}))
}

pub(crate) fn operators(view: &View<'_>, selection: &Selection, listing: &Listing) -> Expected {
    let (total, mut shown) = shares(view, selection, listing, "operator", |fact| fact.operator);
    for row in shown.as_array_mut().into_iter().flatten() {
        row["trust"] = json!(if row["operator"].is_null() {
            "unproven"
        } else {
            "proven"
        });
    }
    ranged(selection, json!({"totalOperators": total, "operators": shown}))
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
