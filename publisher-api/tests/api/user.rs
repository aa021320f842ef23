//! The person behind a JWT, and the deletion of their account.

use publisher_api::PublisherConfig;
use serde_json::{Value, json};

use crate::provider::{Provider, claims};
use crate::stack::DAY_MS;

const ME: &str = "/api/v1/user/information";
const ACCOUNT: &str = "/api/v1/user/account";
const CANCEL: &str = "/api/v1/user/account/cancel-deletion";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_see_and_correct_what_is_known_of_them() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let mut first = claims("anna");
    first["email"] = json!("anna@example.com");
    first["name"] = json!("Anna");
    let token = &provider.ed25519(&first);
    let me = stack.server.get(ME, token).await.expect(200);
    let expected = json!({
        "id": me["id"], "issuer": "https://id.example", "subject": "anna", "email": "anna@example.com", "name": "Anna",
        "createdAt": "2027-01-15T08:00:00.000Z", "accounts": [],
    });
    assert_eq!(me, expected);
    assert!(me["id"].as_str().unwrap().starts_with("usr_"));
    let patch = async |body: Value| stack.server.json("PATCH", ME, token, &body).await;
    let with = |email: Value, name: Value| {
        let mut me = expected.clone();
        (me["email"], me["name"]) = (email, name);
        me
    };
    assert_eq!(patch(json!({})).await.expect(200), expected);
    let corrected = with(json!("anna@example.com"), json!("Anna Example"));
    assert_eq!(patch(json!({"name": "Anna Example"})).await.expect(200), corrected);
    let kind = [("content-type", "application/merge-patch+json")];
    let merged = stack.server.ask("PATCH", ME, token, &kind, r#"{"email":null}"#).await;
    assert_eq!(merged.expect(200), with(Value::Null, json!("Anna Example")));
    // The provider's word of later doesn't go before the person's own.
    let later = provider.ed25519(&first);
    assert_eq!(
        stack.server.get(ME, &later).await.expect(200),
        with(Value::Null, json!("Anna Example"))
    );
    for (body, pointers) in [
        (json!({"email": "no address"}), vec!["/email"]),
        (
            json!({"email": "a@example.com\nBcc: b@example.com", "name": " "}),
            vec!["/email", "/name"],
        ),
        (json!({"name": ""}), vec!["/name"]),
        (json!({"name": 7}), vec!["/name"]),
        (json!({"id": "usr_other"}), vec!["/id"]),
        (json!({"accounts": []}), vec!["/accounts"]),
    ] {
        let refused = patch(body.clone()).await.refused(400, "invalid_body");
        let reported: Vec<&str> = refused["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["pointer"].as_str().unwrap())
            .collect();
        assert_eq!(reported, pointers, "{body}");
        assert!(
            !refused.to_string().contains("Bcc"),
            "what was sent isn't repeated: {refused}"
        );
    }
    stack
        .server
        .ask("PATCH", ME, token, &[("content-type", "text/plain")], "{}")
        .await
        .refused(415, "unsupported_media_type");
    let other = stack.server.get(ME, &provider.token("bert")).await.expect(200);
    assert_ne!(other["id"], me["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_waits_and_can_be_taken_back() {
    let provider = Provider::new();
    let token = &provider.lasting_token("anna");
    let stack = provider.stack().await;
    let ask = async |method: &str, path: &str| stack.server.ask(method, path, token, &[], "").await;
    // Who is in no account has none to delete, and gets none by asking.
    ask("DELETE", ACCOUNT).await.refused(404, "not_found");
    assert_eq!(ask("GET", ME).await.expect(200)["accounts"], json!([]));
    ask("POST", CANCEL).await.refused(409, "no_deletion_pending");
    let account = ask("GET", ME).await.expect(200)["accounts"][0].clone();
    assert_eq!(
        account,
        json!({"id": account["id"], "name": account["name"], "role": "owner", "tier": "free", "deletion": null})
    );
    let planned = json!({"requestedAt": "2027-01-15T08:00:00.000Z", "erasedAfter": "2027-02-14T08:00:00.000Z"});
    assert_eq!(ask("DELETE", ACCOUNT).await.expect(202), planned);
    stack.pass_ms(DAY_MS);
    assert_eq!(
        ask("DELETE", ACCOUNT).await.expect(202),
        planned,
        "asking again changes nothing"
    );
    assert_eq!(ask("GET", ME).await.expect(200)["accounts"][0]["deletion"], planned);
    // Everything continues meanwhile.
    let request = json!({"name": "a", "scope": ["read"], "expiresIn": "1y"});
    let key = stack
        .server
        .json("POST", "/api/v1/auth/keys", token, &request)
        .await
        .expect(201);
    assert!(
        stack
            .deps
            .accounts
            .authenticate(key["apiKey"].as_str().unwrap())
            .await
            .is_ok()
    );
    stack.pass_ms(29 * DAY_MS - 1);
    let restored = ask("POST", CANCEL).await.expect(200);
    assert_eq!(restored["accounts"][0]["deletion"], Value::Null);
    assert_eq!(ask("GET", ME).await.expect(200), restored);
    ask("POST", CANCEL).await.refused(409, "no_deletion_pending");
    ask("DELETE", ACCOUNT).await.expect(202);
    let now_ms = stack.deps.accounts.now_ms();
    let account = restored["accounts"][0]["id"].as_str().unwrap();
    let due = stack
        .deps
        .accounts
        .accounts_due_for_erasure(now_ms + 30 * DAY_MS, 10)
        .await
        .unwrap();
    assert_eq!(due, [account]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_grace_period_there_is_no_way_back() {
    let provider = Provider::new();
    let config = PublisherConfig {
        deletion_grace_days: 0,
        ..PublisherConfig::default()
    };
    let stack = provider.stack_with(config, &provider.config()).await;
    let token = provider.token("anna");
    // Nobody carries it out during the test: the lease is ours once the first look is over.
    let hold = async || {
        stack
            .deps
            .accounts
            .claim("erasures", "the test", 3_600_000)
            .await
            .unwrap()
    };
    while !hold().await {
        tokio::task::yield_now().await;
    }
    stack
        .server
        .ask("POST", CANCEL, &token, &[], "")
        .await
        .refused(409, "no_deletion_pending");
    let planned = stack.server.ask("DELETE", ACCOUNT, &token, &[], "").await.expect(202);
    assert_eq!(planned["requestedAt"], planned["erasedAfter"]);
    stack
        .server
        .ask("POST", CANCEL, &token, &[], "")
        .await
        .refused(409, "deletion_final");
}
