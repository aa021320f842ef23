//! Trust in answers: numbers in two parts, and signers.

use serde_json::{Value, json};

use crate::model::{Fact, client, distinct, newest, parts};
use crate::selecting::hex;
use crate::totals::by_purpose;

/// A number over the proven receipts, and over the others.
pub(crate) fn split(facts: &[&Fact], number: impl Fn(&[&Fact]) -> u64) -> Value {
    let [proven, unproven] = parts(facts);
    json!({"proven": number(&proven), "unproven": number(&unproven)})
}

pub(crate) fn receipts(facts: &[&Fact]) -> Value {
    split(facts, |part| part.len() as u64)
}

/// Totals of both parts.
pub(crate) fn totals(facts: &[&Fact]) -> Value {
    let [proven, unproven] = parts(facts).map(|part| {
        json!({
            "totalReceipts": part.len(),
            "uniqueClients": distinct(&part, client),
            "usageByPurpose": by_purpose(&part),
        })
    });
    json!({"proven": proven, "unproven": unproven})
}

/// `item` with the signer of these receipts of one key, as the newest of them has it.
pub(crate) fn signed(mut item: Value, facts: &[&Fact]) -> Value {
    let key = facts[0].key;
    let operator = newest(facts, |fact| fact.operator);
    item["keyFingerprint"] = json!((key != [0; 32]).then(|| hex(&key)));
    item["operator"] = json!(Some(operator).filter(|operator| !operator.is_empty()));
    item["trust"] = json!(if operator.is_empty() { "unproven" } else { "proven" });
    item
}
