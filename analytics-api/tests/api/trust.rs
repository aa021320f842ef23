//! Trust: forms of the filters, operators that an account trusts, and claims of client IDs. The
//! numbers by trust are `exact`'s part.

use std::collections::BTreeMap;

use accounts::{Domain, NewKey, Scope};
use blocks::{AcceptedRow, Rows};
use jiff::Timestamp;
use receipt::{Algorithm, Evidence, Limits, PublicKey, SigningKey, sign_receipt};
use serde_json::{Value, json};
use usage::Usage;
use uuid::Uuid;

use crate::rows::{
    CROWDED, FOREIGN_OPERATOR, OPERATOR, SampleRow, client, entry, key_text, ms, receipt, row, signed, sums,
};
use crate::stack::Stack;

/// The answer to the publisher whose receipts have signers of every kind.
async fn ok(stack: &Stack, path: &str) -> Value {
    let answer = stack.server.get(path, &stack.keys.signed, &[]).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn csv(stack: &Stack, path: &str) -> String {
    let headers = [("accept", "text/csv")];
    let answer = stack.server.get(path, &stack.keys.signed, &headers).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

fn items<'a>(answer: &'a Value, list: &str) -> &'a [Value] {
    answer[list].as_array().unwrap_or_else(|| panic!("no {list}: {answer}"))
}

pub(crate) async fn operators_and_keys_are_read_in_any_form(stack: &Stack) {
    let rows = signed();
    let of = |operator: &str| rows.iter().filter(|row| row.operator == operator).count();
    let of_key = rows.iter().filter(|row| row.key == 0x08).count();
    for (query, expected) in [
        ("operator=AI.Example".to_owned(), of(OPERATOR)),
        ("operator=ai.example.".to_owned(), of(OPERATOR)),
        ("operator=%20ai.example".to_owned(), of(OPERATOR)),
        ("operator=k%C3%BCnstlich.example".to_owned(), of(FOREIGN_OPERATOR)),
        ("operator=K%C3%9CNSTLICH.Example".to_owned(), of(FOREIGN_OPERATOR)),
        // The u with its dots as a character of its own.
        ("operator=ku%CC%88nstlich.example".to_owned(), of(FOREIGN_OPERATOR)),
        (
            format!("operator={}", FOREIGN_OPERATOR.to_uppercase()),
            of(FOREIGN_OPERATOR),
        ),
        (format!("keyFingerprint={}", key_text(8)), of_key),
    ] {
        assert_ne!(expected, 0);
        let answer = ok(stack, &format!("/api/v1/analytics/dashboard?{query}")).await;
        assert_eq!(answer["totalReceipts"], expected, "{query}");
    }
}

pub(crate) async fn bad_values(stack: &Stack) {
    let addresses = [
        "/api/v1/analytics/dashboard".to_owned(),
        "/api/v1/analytics/timeseries".to_owned(),
        "/api/v1/analytics/content".to_owned(),
        format!("/api/v1/analytics/content/{}", entry(1)),
        "/api/v1/analytics/clients".to_owned(),
        format!("/api/v1/analytics/clients/{}", client(1)),
        "/api/v1/analytics/purposes".to_owned(),
        "/api/v1/analytics/models".to_owned(),
        "/api/v1/analytics/operators".to_owned(),
        "/api/v1/analytics/receipts".to_owned(),
    ];
    let digits = "64 hexadecimal digits";
    let (short, long) = (key_text(8)[1..].to_owned(), format!("{}0", key_text(8)));
    let (odd, prefixed) = (
        format!("{}x", &key_text(8)[1..]),
        format!("sha256:{}", &key_text(8)[..57]),
    );
    let long_label = format!("{}.example", "a".repeat(64));
    let long_name = format!("{}example", "a.".repeat(130));
    for (name, value, detail) in [
        ("trust", "verified", "proven, unproven, all"),
        ("trust", "Proven", "proven, unproven, all"),
        ("trust", "proven,unproven", "proven, unproven, all"),
        ("trust", "", "empty"),
        ("operator", "", "empty"),
        ("operator", "example", "at least one dot"),
        ("operator", "https://ai.example", "the name alone"),
        ("operator", "ai.example:443", "the name alone"),
        ("operator", "ai..example", "1 to 63 characters"),
        ("operator", "-ai.example", "hyphen"),
        ("operator", "192.0.2.1", "addresses"),
        ("operator", "ai_1.example", "letters, digits, hyphens and dots"),
        ("operator", "*.example", "letters, digits, hyphens and dots"),
        (
            "operator",
            "ai.example%27%20OR%201=1",
            "letters, digits, hyphens and dots",
        ),
        ("operator", "%FF.example", "UTF-8"),
        ("operator", &long_label, "1 to 63 characters"),
        ("operator", &long_name, "253 bytes"),
        ("keyFingerprint", "", "empty"),
        ("keyFingerprint", "08", digits),
        ("keyFingerprint", &short, digits),
        ("keyFingerprint", &long, digits),
        ("keyFingerprint", &odd, digits),
        ("keyFingerprint", &prefixed, digits),
    ] {
        for path in &addresses {
            let path = format!("{path}?{name}={value}");
            let answer = stack.server.get(&path, &stack.keys.signed, &[]).await;
            let body = answer.json();
            assert_eq!(
                (answer.status, &body["code"], &body["errors"][0]["pointer"]),
                (400, &json!("invalid_query"), &json!(name)),
                "{path}: {body}"
            );
            let text = body["errors"][0]["detail"].as_str().unwrap();
            assert!(text.contains(detail), "{path}: {text}");
        }
    }
    // Neither refusals nor single receipts are selected by trust.
    for path in [
        "/api/v1/analytics/refusals?trust=all".to_owned(),
        format!("/api/v1/analytics/refusals?keyFingerprint={}", key_text(8)),
        format!("/api/v1/receipts/{}?trust=all", receipt(30)),
    ] {
        let answer = stack.server.get(&path, &stack.keys.signed, &[]).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
    }
}

/// An account that is the operator of this domain, which it has verified, with a claim of a client.
async fn claimant(stack: &Stack, domain: &str, client_id: Uuid) {
    let accounts = &stack.deps.accounts;
    let domain: Domain = domain.parse().unwrap();
    let key = NewKey {
        account_id: accounts.account_of(&domain).await.unwrap(),
        domains: vec![domain.clone()],
        tier: None,
        is_limited: false,
        name: "test".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: accounts.now_ms() + 86_400_000,
    };
    accounts.create_publisher_key(key).await.unwrap();
    let account = accounts.domain_account(&domain).await.unwrap().unwrap();
    let operator = accounts.create_operator(&account, "key:test", &domain).await.unwrap();
    accounts.claim_client(&operator, "key:test", client_id).await.unwrap();
}

/// Operators that the rows of an answer say claim their client IDs, by key.
fn claimants(rows: &[Value]) -> BTreeMap<&str, &Value> {
    let flagged = rows.iter().filter(|row| row.get("clientIdClaimedBy").is_some());
    flagged
        .map(|row| (row["keyFingerprint"].as_str().unwrap(), &row["clientIdClaimedBy"]))
        .collect()
}

pub(crate) async fn claims_of_client_ids_flag_other_keys(stack: &Stack) {
    // Claims mark rows that are unproven, and change no number.
    let totals = ok(stack, "/api/v1/analytics/dashboard").await;
    claimant(stack, "claims.example", client(1)).await;
    claimant(stack, OPERATOR, client(1)).await;
    assert_eq!(ok(stack, "/api/v1/analytics/dashboard").await, totals);
    // Of one instant, by domain.
    let claims = json!([OPERATOR, "claims.example"]);
    let (one, other) = (key_text(7), key_text(8));
    let expected = BTreeMap::from([(one.as_str(), &claims), (other.as_str(), &claims)]);
    let answer = ok(stack, "/api/v1/analytics/clients").await;
    assert_eq!(claimants(items(&answer, "clients")), expected);
    let answer = ok(stack, &format!("/api/v1/analytics/clients/{}", client(1))).await;
    assert_eq!(claimants(items(&answer, "keys")), expected);
    let answer = ok(stack, &format!("/api/v1/analytics/content/{}", entry(1))).await;
    assert_eq!(claimants(items(&answer, "topClients")), expected);
    let answer = ok(stack, "/api/v1/analytics/receipts").await;
    assert_eq!(claimants(items(&answer, "receipts")), expected);
    let answer = ok(stack, &format!("/api/v1/receipts/{}", receipt(32))).await;
    assert_eq!(answer["receipts"][0]["clientIdClaimedBy"], claims);
    let text = csv(stack, "/api/v1/analytics/clients?limit=1").await;
    let row = format!(",unproven,\"{OPERATOR}; claims.example\",Another stranger,");
    assert!(text.contains(&row), "{text}");
}

pub(crate) async fn only_trusted_operators_are_proven(stack: &Stack) {
    let accounts = &stack.deps.accounts;
    let account = accounts.authenticate(&stack.keys.signed).await.unwrap().account_id;
    let trust = async |operators: &[&str]| {
        let domains: Vec<Domain> = operators.iter().map(|domain| domain.parse().unwrap()).collect();
        accounts
            .set_trusted_operators(&account, &domains, "key:test")
            .await
            .unwrap();
    };
    let rows = signed();
    for trusted in [
        &[OPERATOR][..],
        &[FOREIGN_OPERATOR],
        &["nobody.example"],
        &[OPERATOR, FOREIGN_OPERATOR],
        &[],
    ] {
        trust(trusted).await;
        let is_proven = |row: &SampleRow| row.is_proven() && (trusted.is_empty() || trusted.contains(&row.operator));
        let [proven, clients] = sums(rows.iter().filter(|row| is_proven(row)));
        for range in ["", "&from=2026-03-20T10:00:00.000Z&to=2026-03-24T11:17:30.000Z"] {
            let answer = ok(stack, &format!("/api/v1/analytics/dashboard?trust=proven{range}")).await;
            assert_eq!(answer["totalReceipts"], proven, "{trusted:?} {range}");
            assert_eq!(answer["uniqueClients"], clients, "{trusted:?} {range}");
        }
        let answer = ok(stack, "/api/v1/analytics/dashboard").await;
        assert_eq!(answer["totalReceipts"], rows.len(), "{trusted:?}");
        assert_eq!(answer["byTrust"]["proven"]["totalReceipts"], proven, "{trusted:?}");
        assert_eq!(
            answer["byTrust"]["unproven"]["totalReceipts"],
            rows.len() as u64 - proven
        );
        let by_operator = items(&answer, "topOperators").iter();
        let by_operator = by_operator.map(|one| one["receiptCount"].as_u64().unwrap());
        assert_eq!(by_operator.sum::<u64>(), proven, "{trusted:?}");
        for (address, list) in [("clients", "clients"), ("content", "content"), ("purposes", "purposes")] {
            let answer = ok(stack, &format!("/api/v1/analytics/{address}")).await;
            let parts = items(&answer, list).iter();
            let sum: u64 = parts.map(|one| one["byTrust"]["proven"].as_u64().unwrap()).sum();
            assert_eq!(sum, proven, "{trusted:?} {address}");
        }
        let listed = ok(stack, "/api/v1/analytics/receipts?trust=proven").await;
        assert_eq!(items(&listed, "receipts").len() as u64, proven, "{trusted:?}");
        // An operator that isn't trusted is shown all the same.
        let listed = ok(stack, "/api/v1/analytics/receipts").await;
        for row in items(&listed, "receipts") {
            let sample = rows
                .iter()
                .find(|sample| row["receiptId"] == sample.receipt_id.to_string())
                .unwrap();
            let trust = if is_proven(sample) { "proven" } else { "unproven" };
            let operator = Some(sample.operator).filter(|operator| !operator.is_empty());
            assert_eq!(
                (&row["trust"], &row["operator"]),
                (&json!(trust), &json!(operator)),
                "{trusted:?}"
            );
        }
    }
}

pub(crate) async fn rows(stack: &Stack) {
    let path = "/api/v1/analytics/clients?limit=2";
    let text = csv(stack, path).await;
    let page = ok(stack, path).await;
    let cursor = page["nextCursor"].as_str().unwrap();
    let (other, first) = (key_text(8), key_text(1));
    let id = client(1);
    assert_eq!(
        text,
        format!(
            "clientId,keyFingerprint,operator,trust,clientIdClaimedBy,name,organization,receiptCount,\
             provenReceiptCount,lastSeen,cursor\r\n\
             {id},{other},,unproven,,Another stranger,Organization,3,0,2026-03-24T11:15:00.000Z,\r\n\
             {id},{first},{OPERATOR},proven,,Known AI,Organization,2,2,2026-03-21T10:00:00.000Z,{cursor}\r\n"
        )
    );
    let text = csv(stack, "/api/v1/analytics/purposes").await;
    assert_eq!(
        text,
        "purpose,receiptCount,provenReceiptCount,uniqueClients\r\n\
         training,4,2,3\r\ninference,2,1,2\r\nresearch,3,0,1\r\n"
    );
    let text = csv(stack, "/api/v1/analytics/models").await;
    assert!(
        text.starts_with("modelId,receiptCount,provenReceiptCount,uniqueClients,cursor\r\nmodel-one,6,2,3,\r\n"),
        "{text}"
    );
    let text = csv(stack, "/api/v1/analytics/operators?sort=-operator").await;
    assert!(
        text.starts_with("operator,trust,receiptCount,provenReceiptCount,uniqueClients,cursor\r\n")
            && text.ends_with("\r\n,unproven,6,0,4,\r\n"),
        "{text}"
    );
    let text = csv(stack, "/api/v1/analytics/content?limit=1").await;
    assert!(
        text.starts_with(
            "entryId,title,url,receiptCount,provenReceiptCount,uniqueClients,lastSeen,unknownEntry,cursor\r\n"
        ),
        "{text}"
    );
    assert!(text.contains(",3,1,3,2026-03-23T10:00:00.000Z,true,"), "{text}");
    let parts = "\r\ntotalReceipts,proven,,3\r\nuniqueClients,proven,,2\r\n\
                 totalReceipts,unproven,,6\r\nuniqueClients,unproven,,4\r\n\
                 topOperators,ai.example,,2\r\n";
    let text = csv(stack, "/api/v1/analytics/dashboard").await;
    assert!(text.contains(parts), "{text}");
    let text = csv(stack, "/api/v1/analytics/receipts?limit=1").await;
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert!(
        lines[0]
            .ends_with(",signatureAlgorithm,keyFingerprint,operator,trust,clientIdClaimedBy,beforeVerification,cursor"),
        "{text}"
    );
    let signer = format!(",Ed25519,{},,unproven,", key_text(9));
    assert!(lines[1].contains(&signer), "{text}");
    let text = csv(stack, "/api/v1/analytics/receipts?trust=proven").await;
    assert_eq!(text.matches(",proven,").count(), 3, "{text}");
}

/// A stranger who sends payloads under an ID before its true receipt arrives hides nothing.
pub(crate) async fn strangers_payloads_hide_no_proven_one(stack: &Stack) {
    const STRANGERS: u16 = 120;
    let keys = [(); 2].map(|()| SigningKey::generate(Algorithm::Ed25519).unwrap());
    let fingerprints: Vec<[u8; 32]> = keys
        .iter()
        .map(|key| *PublicKey::from_pem(key.public_key_pem()).unwrap().fingerprint())
        .collect();
    let receipt_id = receipt(70);
    let (mut rows, mut hashes) = (Rows::default(), Vec::new());
    for number in 0..=STRANGERS {
        let is_true = number == STRANGERS;
        let key = usize::from(is_true);
        let document = json!({
            "version": "1.0.0", "receiptId": receipt_id, "timestamp": format!("{:.3}", Timestamp::now()),
            "content": {
                "entryId": entry(1), "url": format!("https://{CROWDED}/{number}"),
                "contentHash": format!("sha256:{}", "ab".repeat(32)), "publisher": CROWDED
            },
            "client": {
                "id": client(1), "name": "Model", "version": "1.0", "organization": "Lab",
                "publicKey": keys[key].public_key_pem()
            },
            "usage": {"purpose": "training", "context": "test"}
        });
        let raw = sign_receipt(document.to_string().as_bytes(), &keys[key], &Limits::default()).unwrap();
        let hash = Evidence::read(&raw).unwrap().payload_hash();
        rows.push_accepted(&AcceptedRow {
            publisher: CROWDED,
            timestamp_ms: ms("2026-03-20T10:00:00Z") + i64::from(number),
            receipt_id,
            payload_hash: &hash,
            position: (7_u128 << 96) | u128::from(number) << 16,
            key_fingerprint: &fingerprints[key],
            operator: if is_true { OPERATOR } else { "" },
            raw: &raw,
            ..row(client(1), entry(1))
        });
        hashes.push(format!("sha256:{}", hex::encode(hash)));
    }
    let (accepted, _) = rows.batches().unwrap();
    let warehouse = &stack.deps.warehouse;
    Usage::new(warehouse.clone())
        .insert_counted(std::slice::from_ref(&accepted))
        .await
        .unwrap();
    warehouse.insert_evidence(&[accepted]).await.unwrap();
    let truth = hashes.pop().unwrap();
    let expected: Vec<&str> = std::iter::once(&truth).chain(&hashes).map(String::as_str).collect();

    let path = format!("/api/v1/receipts/{receipt_id}");
    let ok = async |path: &str| {
        let answer = stack.server.get(path, &stack.keys.crowded, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    };
    for (path, list, page_max) in [
        (path.clone(), "receipts", 100),
        (format!("{path}/evidence"), "evidence", 10),
    ] {
        let (mut found, mut next) = (Vec::new(), path.clone());
        loop {
            let page = ok(&next).await;
            let payloads = items(&page, list);
            assert!(payloads.len() <= page_max, "{list}");
            found.extend(
                payloads
                    .iter()
                    .map(|one| one["payloadHash"].as_str().unwrap().to_owned()),
            );
            if list == "receipts" {
                // Of all payloads, whatever the page.
                let counts = ["occurrences", "duplicates", "conflict", "status"].map(|name| &page[name]);
                assert_eq!(counts, [&json!(121), &json!(0), &json!(true), &json!("verified")]);
            }
            let Some(cursor) = page["nextCursor"].as_str() else {
                break;
            };
            next = format!("{path}?cursor={cursor}");
        }
        assert_eq!(found, expected, "{list}");
        // Only one key's.
        for (key, count) in [(&fingerprints[1], 1), (&fingerprints[0], page_max)] {
            let page = ok(&format!("{path}?keyFingerprint={}", hex::encode(key))).await;
            assert_eq!(items(&page, list).len(), count, "{list}");
            assert_eq!(page["nextCursor"].is_null(), count == 1);
        }
        for query in ["cursor=nonsense", "keyFingerprint=zz"] {
            let answer = stack
                .server
                .get(&format!("{path}?{query}"), &stack.keys.crowded, &[])
                .await;
            assert_eq!(answer.status, 400, "{query}");
        }
    }
    let first = ok(&path).await;
    assert_eq!(
        (&first["payloadHash"], &first["receipts"][0]["operator"]),
        (&json!(truth), &json!(OPERATOR))
    );
}
