//! Answers of dashboard, content and clients.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::asking::{Expected, View};
use crate::calendar::{compared_period, utc_text};
use crate::making::{PURPOSES, zone};
use crate::model::{self, Fact, distinct, grouped, largest, newest, parts};
use crate::selecting::Selection;
use crate::trust;

/// Texts of one list: URLs and versions.
const TEXTS_MAX: usize = 100;

pub(crate) fn by_purpose(facts: &[&Fact]) -> Value {
    let of = |purpose: &str| facts.iter().filter(|fact| fact.purpose == purpose).count();
    let named = PURPOSES
        .into_iter()
        .map(|purpose| (purpose.to_owned(), json!(of(purpose))));
    named.collect()
}

/// The most used entries.
pub(crate) fn top_content(view: &View<'_>, facts: &[&Fact], most: usize) -> Value {
    let top = largest(grouped(facts, |fact| fact.entry_id), most);
    top.into_iter()
        .map(|(id, facts)| {
            let label = view.reader.label(id);
            let unknown = label.is_none();
            let url = newest(&facts, |fact| &fact.url).to_owned();
            let (title, url) = label.unwrap_or((url.clone(), url));
            json!({
                "entryId": id.to_string(), "title": title, "url": url, "receiptCount": facts.len(),
                "byTrust": trust::receipts(&facts), "unknownEntry": unknown
            })
        })
        .collect()
}

/// The operators of the proven receipts.
fn top_operators(facts: &[&Fact], most: usize) -> Value {
    let [proven, _] = parts(facts);
    let top = largest(grouped(&proven, |fact| fact.operator), most);
    top.into_iter()
        .map(|(operator, facts)| json!({"operator": operator, "receiptCount": facts.len()}))
        .collect()
}

/// The keys of clients that used most.
pub(crate) fn top_clients(facts: &[&Fact], most: usize) -> Value {
    let top = largest(grouped(facts, model::client), most);
    top.into_iter()
        .map(|((id, _), facts)| {
            let client = json!({
                "clientId": id.to_string(),
                "name": newest(&facts, |fact| &fact.name),
                "organization": newest(&facts, |fact| &fact.organization),
                "receiptCount": facts.len(),
                "byTrust": trust::receipts(&facts),
            });
            trust::signed(client, &facts)
        })
        .collect()
}

/// The keys that signed a client's receipts.
fn keys(facts: &[&Fact]) -> Value {
    let keys = largest(grouped(facts, |fact| fact.key), TEXTS_MAX);
    keys.into_iter()
        .map(|(_, facts)| {
            let key = json!({
                "name": newest(&facts, |fact| &fact.name),
                "organization": newest(&facts, |fact| &fact.organization),
                "versions": texts(&facts, |fact| &fact.version),
                "receiptCount": facts.len(),
                "byTrust": trust::receipts(&facts),
                "lastSeen": seen(&facts).1,
            });
            trust::signed(key, &facts)
        })
        .collect()
}

fn texts<'a>(facts: &[&'a Fact], text: impl Fn(&'a Fact) -> &'a str) -> Vec<&'a str> {
    let found: Vec<&str> = grouped(facts, text).into_keys().collect();
    assert!(found.len() <= TEXTS_MAX, "which of more are answered isn't said");
    found
}

fn seen(facts: &[&Fact]) -> (Option<String>, Option<String>) {
    let times = || facts.iter().map(|fact| fact.timestamp_ms);
    (times().min().map(utc_text), times().max().map(utc_text))
}

pub(crate) fn dashboard(view: &View<'_>, selection: &Selection, most: usize, compared: Option<&str>) -> Expected {
    let facts = selection.matching(view.model, view.reader);
    let (from, to) = selection.range_texts();
    let earlier = selection.with_before_verification("only");
    let mut answer = json!({
        "totalReceipts": facts.len(),
        "receiptsBeforeVerification": earlier.matching(view.model, view.reader).len(),
        "uniqueClients": distinct(&facts, model::client),
        "topContent": top_content(view, &facts, most),
        "usageByPurpose": by_purpose(&facts),
        "byTrust": trust::totals(&facts),
        "topOperators": top_operators(&facts, most),
        "from": from,
        "to": to,
    });
    if let Some(period) = compared {
        let (Some(from), Some(to)) = (&selection.from, &selection.to) else {
            return Expected::Problem(400);
        };
        let tz = zone(selection.tz.unwrap_or("UTC"));
        let (start_ms, end_ms) = compared_period(period, from.ms, to.ms, &tz);
        let facts = selection.facts(view.model, view.reader, start_ms, end_ms);
        answer["previous"] = json!({
            "from": utc_text(start_ms),
            "to": utc_text(end_ms),
            "totalReceipts": facts.len(),
            "uniqueClients": distinct(&facts, model::client),
            "usageByPurpose": by_purpose(&facts),
            "byTrust": trust::totals(&facts),
        });
    }
    Expected::Ok(answer)
}

pub(crate) fn content(view: &View<'_>, id: Uuid, selection: &Selection, most: usize) -> Expected {
    let of_entry = |fact: &&Fact| fact.entry_id == id;
    let mut facts = selection.matching(view.model, view.reader);
    facts.retain(of_entry);
    let label = view.reader.label(id);
    let everything = Selection::default().with_before_verification("include");
    if label.is_none() && !everything.matching(view.model, view.reader).iter().any(of_entry) {
        return Expected::Problem(404);
    }
    let urls = texts(&facts, |fact| &fact.url);
    let unknown = label.is_none();
    let first = urls.first().copied().unwrap_or_default().to_owned();
    let (title, url) = label.unwrap_or((first.clone(), first));
    let (first_seen, last_seen) = seen(&facts);
    let (from, to) = selection.range_texts();
    Expected::Ok(json!({
        "entryId": id.to_string(),
        "url": url,
        "title": title,
        "unknownEntry": unknown,
        "urls": urls,
        "totalReceipts": facts.len(),
        "uniqueClients": distinct(&facts, model::client),
        "usageByPurpose": by_purpose(&facts),
        "byTrust": trust::totals(&facts),
        "topClients": top_clients(&facts, most),
        "firstSeen": first_seen,
        "lastSeen": last_seen,
        "from": from,
        "to": to,
    }))
}

pub(crate) fn client(view: &View<'_>, id: Uuid, selection: &Selection, most: usize) -> Expected {
    let of_client = |fact: &&Fact| fact.client_id == id;
    let mut facts = selection.matching(view.model, view.reader);
    facts.retain(of_client);
    let everything = Selection::default().with_before_verification("include");
    if !everything.matching(view.model, view.reader).iter().any(of_client) {
        return Expected::Problem(404);
    }
    let (first_seen, last_seen) = seen(&facts);
    let (from, to) = selection.range_texts();
    Expected::Ok(json!({
        "clientId": id.to_string(),
        "keys": keys(&facts),
        "uniqueClients": distinct(&facts, model::client),
        "totalReceipts": facts.len(),
        "uniqueContent": distinct(&facts, |fact| fact.entry_id),
        "usageByPurpose": by_purpose(&facts),
        "byTrust": trust::totals(&facts),
        "topContent": top_content(view, &facts, most),
        "firstSeen": first_seen,
        "lastSeen": last_seen,
        "from": from,
        "to": to,
    }))
}
