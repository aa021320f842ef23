//! `/api/v1/operators`: operators, keys that their owner has proven, and claimed client IDs.

use accounts::{COLLECTIONS, ExportValue};
use publisher_api::PublisherConfig;
use serde_json::{Value, json};

use crate::signer::{Signer, digest};
use crate::stack::{Answer, BOTH, START_MS, Stack};

const OPERATORS: &str = "/api/v1/operators";
const PUBLIC_URL: &str = "https://publishers.example";
const NOW_S: i64 = START_MS / 1_000;
const CLIENT: &str = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10";

async fn start() -> (Stack, String, String) {
    let config = PublisherConfig {
        public_url: Some(PUBLIC_URL.to_owned()),
        directory_interval_ms: 3_600_000,
        ..PublisherConfig::default()
    };
    let stack = Stack::start_with(config, |_| {}).await;
    let key = stack.key("lab.example", BOTH).await;
    let id = create(&stack, &key, "lab.example").await;
    (stack, key, id)
}

async fn create(stack: &Stack, key: &str, domain: &str) -> String {
    let created = stack
        .server
        .json("POST", OPERATORS, key, &json!({"domain": domain}))
        .await;
    created.expect(200)["operatorId"].as_str().unwrap().to_owned()
}

/// Parameters of a good signature by a key.
fn parameters(signer: &Signer) -> String {
    let thumbprint = signer.thumbprint();
    format!(
        ";created={NOW_S};expires={};keyid=\"{thumbprint}\";alg=\"ed25519\"",
        NOW_S + 300
    )
}

/// Registers a key with these fields beside those of every request.
async fn post(stack: &Stack, key: &str, id: &str, body: &str, fields: &[(&str, String)]) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(fields.iter().map(|(name, value)| (*name, value.as_str())));
    stack
        .server
        .ask("POST", &format!("{OPERATORS}/{id}/keys"), key, &headers, body)
        .await
}

async fn register(stack: &Stack, key: &str, id: &str, signer: &Signer, body: &Value) -> Answer {
    let target = format!("{PUBLIC_URL}{OPERATORS}/{id}/keys");
    let body = body.to_string();
    let fields = signer.sign_request(&target, &body, &parameters(signer));
    post(stack, key, id, &body, &fields).await
}

#[tokio::test]
async fn a_key_is_registered_by_a_request_that_it_signed_and_ended() {
    let (stack, key, id) = start().await;
    let [pem, jwk] = [1, 2].map(Signer::new);
    let registered = register(&stack, &key, &id, &pem, &json!({"publicKey": pem.key.pem}))
        .await
        .expect(200);
    assert_eq!(
        (&registered["thumbprint"], &registered["source"], &registered["until"]),
        (&json!(pem.thumbprint()), &json!("registered"), &Value::Null)
    );
    let again = register(&stack, &key, &id, &pem, &json!({"publicKey": pem.key.pem}))
        .await
        .expect(200);
    assert_eq!(again, registered);
    register(&stack, &key, &id, &jwk, &json!({"jwk": jwk.jwk()}))
        .await
        .expect(200);
    let path = format!("{OPERATORS}/{id}");
    let shown = stack.server.get(&path, &key).await.expect(200);
    assert_eq!(shown["keys"].as_array().unwrap().len(), 2);

    stack.pass_ms(1_000);
    let ending = format!("{path}/keys/{}", pem.thumbprint());
    for _ in 0..2 {
        assert_eq!(stack.server.ask("DELETE", &ending, &key, &[], "").await.status, 204);
    }
    let shown = stack.server.get(&path, &key).await.expect(200);
    let keys = shown["keys"].as_array().unwrap();
    assert_eq!(
        (&keys[0]["thumbprint"], &keys[1]["until"]),
        (&json!(jwk.thumbprint()), &json!("2027-01-15T08:00:01.000Z"))
    );
    let unknown = format!("{path}/keys/{}", Signer::new(3).thumbprint());
    stack
        .server
        .ask("DELETE", &unknown, &key, &[], "")
        .await
        .refused(404, "not_found");
}

#[tokio::test]
async fn possession_must_be_proven() {
    let (stack, key, id) = start().await;
    let (signer, other) = (Signer::new(1), Signer::new(2));
    let body = json!({"publicKey": signer.key.pem}).to_string();
    let target = format!("{PUBLIC_URL}{OPERATORS}/{id}/keys");
    let good = signer.sign_request(&target, &body, &parameters(&signer));
    let signed = |parameters: &str| signer.sign_request(&target, &body, parameters);
    let without = |name: &str| {
        good.iter()
            .filter(|(other, _)| *other != name)
            .cloned()
            .collect::<Vec<_>>()
    };
    let elsewhere = signer.sign_request("https://elsewhere.example/keys", &body, &parameters(&signer));
    let mut of_other_body = signer.sign_request(&target, "{}", &parameters(&signer));
    of_other_body[2].1 = good[2].1.clone();
    let mut wrong_digest = good.clone();
    wrong_digest[2].1 = digest("{}");
    let mut fewer = good.clone();
    fewer[0].1 = fewer[0].1.replace(" \"content-digest\"", "");
    let cases = [
        (without("signature"), "no field signature"),
        (without("signature-input"), "no field signature-input"),
        (without("content-digest"), "no field content-digest"),
        (
            other.sign_request(&target, &body, &parameters(&signer)).to_vec(),
            "isn't the key's",
        ),
        (
            other.sign_request(&target, &body, &parameters(&other)).to_vec(),
            "keyid",
        ),
        (elsewhere.to_vec(), target.as_str()),
        (of_other_body.to_vec(), "isn't the key's"),
        (wrong_digest.to_vec(), "isn't that of Content-Digest"),
        (fewer.to_vec(), "must cover \"content-digest\""),
        (signed(&format!(";created={NOW_S}")).to_vec(), "created and expires"),
        (
            signed(&format!(";created={NOW_S};expires={}", NOW_S + 301)).to_vec(),
            "at most 300",
        ),
        (
            signed(&format!(";created={};expires={NOW_S}", NOW_S - 300)).to_vec(),
            "expired",
        ),
        (
            signed(&format!(";created={};expires={}", NOW_S + 90, NOW_S + 120)).to_vec(),
            "in the future",
        ),
    ];
    for (fields, why) in cases {
        let refused = post(&stack, &key, &id, &body, &fields)
            .await
            .refused(403, "key_not_proven");
        assert!(refused["detail"].as_str().unwrap().contains(why), "{why}: {refused}");
    }
    let shown = stack.server.get(&format!("{OPERATORS}/{id}"), &key).await.expect(200);
    assert_eq!(shown["keys"], json!([]));
    post(&stack, &key, &id, &body, &good).await.expect(200);
}

#[tokio::test]
async fn keys_that_cant_be_used_are_refused() {
    let (stack, key, id) = start().await;
    let signer = Signer::new(1);
    let with = |name: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        json!({"jwk": jwk})
    };
    let published = json!({"kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"});
    for (body, why) in [
        (json!({}), "either publicKey or jwk"),
        (
            json!({"publicKey": signer.key.pem, "jwk": signer.jwk()}),
            "either publicKey or jwk",
        ),
        (json!({"publicKey": "x"}), ""),
        (
            json!({"jwk": {"kty": "oct", "k": "AA"}}),
            "no public key of the three kinds",
        ),
        (json!({"jwk": published}), "test key"),
        (json!({"jwk": 7}), "isn't a JWK"),
        (with("use", json!("enc")), "its `use` is \"enc\""),
        (with("exp", json!(1)), "expired at 1"),
        (with("d", json!("AA")), "private part `d`"),
        (json!({"other": 7}), "remove this member"),
    ] {
        let refused = register(&stack, &key, &id, &signer, &body)
            .await
            .refused(400, "invalid_body");
        assert!(refused["detail"].as_str().unwrap().contains(why), "{body}: {refused}");
    }
    let other = stack.key("other.example", BOTH).await;
    let other_id = create(&stack, &other, "other.example").await;
    let body = json!({"jwk": signer.jwk()});
    register(&stack, &key, &id, &signer, &body).await.expect(200);
    let refused = register(&stack, &other, &other_id, &signer, &body).await;
    refused.refused(409, "operator_key_held_elsewhere");
}

#[tokio::test]
async fn operators_are_their_accounts_and_claim_client_ids() {
    let (stack, key, id) = start().await;
    assert_eq!(
        create(&stack, &key, "LAB.example").await,
        id,
        "there is one operator of a domain"
    );
    let refused = stack
        .server
        .json("POST", OPERATORS, &key, &json!({"domain": "other.example"}))
        .await;
    refused.refused(403, "domain_not_verified");
    let refused = stack
        .server
        .json("POST", OPERATORS, &key, &json!({"domain": "no domain"}))
        .await;
    refused.refused(400, "invalid_body");
    let listed = stack.server.get(OPERATORS, &key).await.expect(200);
    assert_eq!(listed["operators"].as_array().unwrap().len(), 1);
    assert_eq!(listed["operators"][0]["domainProven"], true);

    let client = format!("{OPERATORS}/{id}/clients/{CLIENT}");
    let shown = async || {
        let operator = stack.server.get(&format!("{OPERATORS}/{id}"), &key).await.expect(200);
        operator["clientIds"].clone()
    };
    for _ in 0..2 {
        assert_eq!(stack.server.ask("PUT", &client, &key, &[], "").await.status, 204);
    }
    assert_eq!(shown().await, json!([CLIENT]));
    for _ in 0..2 {
        assert_eq!(stack.server.ask("DELETE", &client, &key, &[], "").await.status, 204);
    }
    assert_eq!(shown().await, json!([]));
    for wrong in [
        "7",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ] {
        let path = format!("{OPERATORS}/{id}/clients/{wrong}");
        stack
            .server
            .ask("PUT", &path, &key, &[], "")
            .await
            .refused(400, "bad_request");
    }
}

#[tokio::test]
async fn trusted_operators_are_replaced_and_exported() {
    let (stack, key, _) = start().await;
    let path = "/api/v1/operators/trusted";
    let put = async |operators: Value| {
        stack
            .server
            .json("PUT", path, &key, &json!({"operators": operators}))
            .await
    };
    assert_eq!(stack.server.get(path, &key).await.expect(200), json!({"operators": []}));
    let chosen = json!({"operators": ["lab.example", "zoo.example"]});
    let answer = put(json!(["zoo.example", "Lab.Example", "zoo.example"])).await;
    assert_eq!(answer.expect(200), chosen);
    assert_eq!(stack.server.get(path, &key).await.expect(200), chosen);
    // In force for the next request.
    let principal = stack.deps.accounts.authenticate(&key).await.unwrap();
    assert_eq!(principal.trusted_operators, ["lab.example", "zoo.example"]);
    // Another account's choice is its own.
    let other = stack.key("other.example", BOTH).await;
    assert_eq!(
        stack.server.get(path, &other).await.expect(200),
        json!({"operators": []})
    );
    let account = COLLECTIONS.iter().find(|one| one.name == "account").unwrap();
    let exported = stack
        .deps
        .accounts
        .collection_page(&principal.account_id, account, None, 1)
        .await;
    let at = account
        .columns
        .iter()
        .position(|column| column.name == "trustedOperators")
        .unwrap();
    let domains = ExportValue::List(principal.trusted_operators);
    assert_eq!(exported.unwrap()[0].cells[at], domains);
    let trail = stack
        .server
        .get("/api/v1/publisher/trail?limit=1", &key)
        .await
        .expect(200);
    let entry = &trail["entries"][0];
    assert_eq!(
        (&entry["action"], &entry["detail"]),
        (&json!("account.trust-operators"), &json!("lab.example,zoo.example"))
    );

    put(json!(["lab.example", "no domain"]))
        .await
        .refused(400, "invalid_body");
    let many: Vec<String> = (0..101).map(|number| format!("{number}.example")).collect();
    put(json!(many)).await.refused(400, "invalid_body");
    assert_eq!(
        stack.server.get(path, &key).await.expect(200),
        chosen,
        "nothing was changed"
    );
    assert_eq!(
        put(json!(many[..100])).await.expect(200)["operators"]
            .as_array()
            .unwrap()
            .len(),
        100
    );
    assert_eq!(put(json!([])).await.expect(200), json!({"operators": []}));
}
