//! The endpoints, with their checks against real servers.

use accounts::Scope;
use publisher_api::PublisherConfig;
use serde_json::{Value, json};

use crate::stack::{BOTH, DAY_MS, READ, Stack};
use crate::world::World;

pub(crate) const GENERATE: &str = "/api/v1/verification/generate";
pub(crate) const RENEW: &str = "/api/v1/verification/renew";
pub(crate) const STATUS: &str = "/api/v1/verification/status";
pub(crate) const FILE: &str = "/.well-known/service-verification.txt";

pub(crate) fn check(domains: &str) -> String {
    format!("/api/v1/verification/check?domain={domains}")
}

pub(crate) async fn start() -> (World, Stack, String) {
    let world = World::start().await;
    let client = world.client();
    let stack = Stack::start_with(PublisherConfig::default(), |deps| deps.outbound = client).await;
    let key = stack.key("mine.example", BOTH).await;
    (world, stack, key)
}

pub(crate) async fn generate(stack: &Stack, key: &str, domain: &str, method: &str) -> Value {
    let request = json!({"domain": domain, "method": method});
    stack.server.json("POST", GENERATE, key, &request).await.expect(200)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_method_verifies_for_a_year() {
    let (world, stack, key) = start().await;
    let dns = generate(&stack, &key, "Shop.test", "dns").await;
    let token = text(&dns["token"]);
    assert_eq!(token.len(), "service-verification=".len() + 64);
    let record = json!({"name": "_service-verification.shop.test", "type": "TXT", "value": token, "ttl": 3600});
    assert_eq!(
        dns,
        json!({"token": token, "method": "dns", "record": record}),
        "the interface's members, and no others"
    );
    let (first, second) = token.split_at(30);
    let split = format!("\"{first}\" \"{second}\"");
    let name = "_service-verification.shop.test";
    world.texts(&[
        (name, "\"v=spf1 -all\""),
        (name, "\"service-verification=older\""),
        (name, &split),
    ]);
    let file = generate(&stack, &key, "file.test", "https").await;
    assert_eq!(
        (text(&file["record"]["type"]), text(&file["record"]["name"])),
        ("file", "https://file.test/.well-known/service-verification.txt")
    );
    world.page("file.test", FILE, 200, text(&file["record"]["value"]));
    let meta = generate(&stack, &key, "page.test", "meta").await;
    let page = format!(
        "<!doctype html><title>x</title>{}<body>",
        text(&meta["record"]["value"])
    );
    world.page("page.test", "/", 200, &page);
    for (domain, method) in [("shop.test", "dns"), ("file.test", "https"), ("page.test", "meta")] {
        let found = stack.server.get(&check(domain), &key).await.expect(200);
        assert_eq!(
            (&found["verified"], &found["domain"], &found["method"]),
            (&json!(true), &json!(domain), &json!(method))
        );
        assert_eq!(found["verifiedAt"], "2027-01-15T08:00:00.000Z");
        assert_eq!(found["expiresAt"], "2028-01-15T08:00:00.000Z");
        assert!(text(&found["verificationId"]).starts_with("ver_"));
        stack.pass_ms(DAY_MS);
        let again = stack.server.get(&check(domain), &key).await.expect(200);
        assert_eq!(again, found, "asking again changes nothing");
        stack.pass_ms(-DAY_MS);
        let principal = stack.deps.accounts.authenticate(&key).await.unwrap();
        assert!(principal.covers(domain));
    }
    let status = stack.server.get(STATUS, &key).await.expect(200);
    let listed: Vec<(&str, &str)> = status["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["domain"]), text(&one["status"])))
        .collect();
    let verified = |domain| (domain, "verified");
    assert_eq!(
        listed,
        ["file.test", "mine.example", "page.test", "shop.test"].map(verified)
    );
    assert_eq!(status["expiryMails"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_isnt_found_is_reported() {
    let (world, stack, key) = start().await;
    let other = text(&generate(&stack, &key, "other.test", "dns").await["token"]).to_owned();
    let token = text(&generate(&stack, &key, "shop.test", "dns").await["token"]).to_owned();
    let name = "_service-verification.shop.test";
    let quoted = format!("\"\\\"{token}\\\"\"");
    let wrong = format!("\"{other}\"");
    for (texts, outcome, advice) in [
        (
            vec![],
            "nothing",
            "add a TXT record named _service-verification.shop.test",
        ),
        (
            vec![(name, "\"v=spf1 -all\"")],
            "no_token",
            "begins with service-verification=",
        ),
        (vec![(name, quoted.as_str())], "malformed", "quotation marks"),
        (vec![(name, wrong.as_str())], "token_found", "no open token"),
    ] {
        world.texts(&texts);
        let reported = stack.server.get(&check("shop.test"), &key).await.expect(200);
        assert_eq!(
            (&reported["verified"], &reported["reason"]),
            (&json!(false), &json!("not_found")),
            "{reported}"
        );
        let attempt = &reported["attempts"][0];
        assert_eq!(
            (text(&attempt["outcome"]), text(&attempt["method"])),
            (outcome, "dns"),
            "{reported}"
        );
        assert!(text(&attempt["advice"]).contains(advice), "{reported}");
        assert_eq!(attempt["expected"]["name"], name);
        assert!(
            !reported.to_string().contains(&token[21..]) || outcome == "malformed",
            "what isn't public isn't reported: {reported}"
        );
    }
    world.dns.freeze().unwrap();
    let reported = stack.server.get(&check("shop.test"), &key).await.expect(200);
    assert_eq!(
        (text(&reported["reason"]), text(&reported["attempts"][0]["outcome"])),
        ("unreachable", "unreachable"),
        "{reported}"
    );
    world.dns.thaw().unwrap();
    world.texts(&[(name, &format!("\"{token}\""))]);
    assert_eq!(
        stack.server.get(&check("shop.test"), &key).await.expect(200)["verified"],
        true
    );
    // The file of another domain, a page that isn't there, a host without a certificate of its own,
    // and no token at all.
    for (domain, method) in [("file.test", "https"), ("page.test", "meta"), ("other.test", "https")] {
        generate(&stack, &key, domain, method).await;
    }
    world.page(
        "file.test",
        FILE,
        200,
        "service-verification=x\ndomain=page.test\ntimestamp=2026-01-01T00:00:00Z\n",
    );
    for (domain, outcome) in [
        ("file.test", "malformed"),
        ("page.test", "nothing"),
        ("other.test", "nothing"),
    ] {
        let reported = stack.server.get(&check(domain), &key).await.expect(200);
        let attempts = reported["attempts"].as_array().unwrap();
        assert!(
            attempts.iter().any(|attempt| attempt["outcome"] == outcome),
            "{reported}"
        );
    }
    let reported = stack.server.get(&check("never.test"), &key).await.expect(200);
    assert_eq!(
        (&reported["verified"], &reported["reason"]),
        (&json!(false), &json!("no_token"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_domains_go_in_one_request_each_with_its_token() {
    let (world, stack, key) = start().await;
    let made = generate(&stack, &key, "a.test, b.test,a.test", "dns").await;
    let domains = made["domains"].as_array().unwrap();
    assert_eq!(domains.len(), 2);
    assert_eq!(
        (&made["token"], &made["record"]),
        (&domains[0]["token"], &domains[0]["record"])
    );
    assert_ne!(domains[0]["token"], domains[1]["token"]);
    let quoted: Vec<String> = domains
        .iter()
        .map(|one| format!("\"{}\"", text(&one["token"])))
        .collect();
    world.texts(&[
        ("_service-verification.a.test", &quoted[0]),
        ("_service-verification.b.test", &quoted[0]),
    ]);
    let found = stack.server.get(&check("a.test,b.test"), &key).await.expect(200);
    assert_eq!(
        (&found["verified"], &found["domain"]),
        (&json!(false), &json!("a.test,b.test"))
    );
    assert_eq!(
        (&found["domains"][0]["verified"], &found["domains"][1]["verified"]),
        (&json!(true), &json!(false)),
        "a token is one domain's"
    );
    world.texts(&[("_service-verification.b.test", &quoted[1])]);
    let found = stack.server.get(&check("a.test,b.test"), &key).await.expect(200);
    assert_eq!(found["verified"], true);
    let many = (0..21)
        .map(|number| format!("d{number}.test"))
        .collect::<Vec<_>>()
        .join(",");
    let request = json!({"domain": many, "method": "dns"});
    let refused = stack.server.json("POST", GENERATE, &key, &request).await.expect(400);
    assert_eq!(refused["errors"][0]["pointer"], "/domain");
    stack
        .server
        .get(&check(&many), &key)
        .await
        .refused(400, "invalid_query");
    for wrong in [
        json!({"domain": "https://a.test", "method": "dns"}),
        json!({"domain": "a.test", "method": "fax"}),
        json!({"method": "dns"}),
    ] {
        assert_eq!(
            stack.server.json("POST", GENERATE, &key, &wrong).await.status,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_domain_is_one_accounts_and_nobody_learns_whose() {
    let (world, stack, mine) = start().await;
    let theirs = stack.key("theirs.example", BOTH).await;
    let tokens = [
        text(&generate(&stack, &mine, "shop.test", "dns").await["token"]).to_owned(),
        text(&generate(&stack, &theirs, "shop.test", "dns").await["token"]).to_owned(),
    ];
    let quoted = tokens.map(|token| format!("\"{token}\""));
    let name = "_service-verification.shop.test";
    world.texts(&[(name, &quoted[0]), (name, &quoted[1])]);
    assert_eq!(
        stack.server.get(&check("shop.test"), &mine).await.expect(200)["verified"],
        true
    );
    let held = stack.server.get(&check("shop.test"), &theirs).await;
    assert!(
        !held.text().contains("acc_") && !held.text().contains("ver_"),
        "{}",
        held.text()
    );
    held.refused(409, "domain_held");
    // To them it is as any domain that nobody has.
    let stranger = stack.key("stranger.example", BOTH).await;
    let get = async |path: &str| stack.server.get(path, &stranger).await.expect(404)["detail"].clone();
    assert_eq!(
        text(&get(&format!("{STATUS}?domain=shop.test")).await).replace("shop", "none"),
        text(&get(&format!("{STATUS}?domain=none.test")).await)
    );
    for domain in ["shop.test", "none.test"] {
        let path = format!("/api/v1/verification/{domain}");
        stack
            .server
            .ask("DELETE", &path, &stranger, &[], "")
            .await
            .refused(404, "not_found");
        stack
            .server
            .json("POST", RENEW, &stranger, &json!({"domain": domain}))
            .await
            .refused(404, "not_found");
    }
    // Given back it is anybody's who proves it.
    let given = stack
        .server
        .ask("DELETE", "/api/v1/verification/shop.test", &mine, &[], "")
        .await;
    assert_eq!(given.status, 204);
    let status = stack
        .server
        .get(&format!("{STATUS}?domain=shop.test"), &mine)
        .await
        .expect(200);
    assert_eq!(
        (
            text(&status["domains"][0]["status"]),
            text(&status["domains"][0]["reason"])
        ),
        ("unverified", "revoked")
    );
    let token = text(&generate(&stack, &theirs, "shop.test", "dns").await["token"]).to_owned();
    world.texts(&[(name, &format!("\"{token}\""))]);
    assert_eq!(
        stack.server.get(&check("shop.test"), &theirs).await.expect(200)["verified"],
        true
    );
    stack
        .server
        .get(&format!("{STATUS}?domain=shop.test"), &mine)
        .await
        .refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_rotates_the_token_and_goes_a_year_on() {
    let (world, stack, key) = start().await;
    let name = "_service-verification.shop.test";
    let request = json!({"domain": "shop.test", "method": "dns"});
    let first = stack.server.json("POST", GENERATE, &key, &request).await.expect(200);
    world.texts(&[(name, &format!("\"{}\"", text(&first["token"])))]);
    let verified = stack.server.get(&check("shop.test"), &key).await.expect(200);
    assert_eq!(verified["includeSubdomains"], true, "as if it were requested");
    assert!(
        stack
            .deps
            .accounts
            .authenticate(&key)
            .await
            .unwrap()
            .covers("a.shop.test")
    );
    let below = stack.server.get(&check("a.shop.test"), &key).await.expect(200);
    assert_eq!(
        (&below["verified"], &below["domain"], &below["inheritedFrom"]),
        (&json!(true), &json!("a.shop.test"), &json!("shop.test"))
    );
    assert_eq!(below["expiresAt"], verified["expiresAt"]);
    let both = format!("{STATUS}?domain=a.shop.test,shop.test");
    let both = stack.server.get(&both, &key).await.expect(200);
    let states = [0, 1].map(|index| {
        let listed = &both["domains"][index];
        (&listed["domain"], &listed["status"], &listed["inheritedFrom"])
    });
    let (holds, parent) = (json!("verified"), json!("shop.test"));
    assert_eq!(
        states,
        [
            (&json!("a.shop.test"), &holds, &parent),
            (&parent, &holds, &Value::Null)
        ]
    );
    let unknown = format!("{STATUS}?domain=a.other.test");
    stack.server.get(&unknown, &key).await.refused(404, "not_found");
    stack.pass_ms(300 * DAY_MS);
    let renewal = stack
        .server
        .json("POST", RENEW, &key, &json!({"domain": "shop.test"}))
        .await
        .expect(200);
    assert_ne!(renewal["token"], first["token"]);
    let waiting = stack.server.get(&check("shop.test"), &key).await.expect(200);
    assert_eq!(
        (&waiting["verified"], &waiting["expiresAt"]),
        (&json!(true), &verified["expiresAt"]),
        "the old token renews nothing"
    );
    assert_eq!(waiting["attempts"][0]["outcome"], "token_found");
    world.texts(&[(name, &format!("\"{}\"", text(&renewal["token"])))]);
    let renewed = stack.server.get(&check("shop.test"), &key).await.expect(200);
    assert_eq!(renewed["expiresAt"], "2028-11-10T08:00:00.000Z");
    assert_eq!(renewed["includeSubdomains"], true, "it stays as it was");
    assert_ne!(renewed["verificationId"], verified["verificationId"]);
    stack.pass_ms(365 * DAY_MS);
    let ended = stack.server.get(&check("shop.test"), &key).await.expect(200);
    assert_eq!(
        (&ended["verified"], &ended["reason"]),
        (&json!(false), &json!("no_token"))
    );
    let status = stack
        .server
        .get(&format!("{STATUS}?domain=shop.test"), &key)
        .await
        .expect(200);
    assert_eq!(status["domains"][0]["reason"], "expired");
    assert!(
        !stack
            .deps
            .accounts
            .authenticate(&key)
            .await
            .unwrap()
            .covers("shop.test")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_is_bounded_and_needs_the_scopes() {
    let (_world, stack, key) = start().await;
    let twenty = (0..20)
        .map(|number| format!("d{number}.test"))
        .collect::<Vec<_>>()
        .join(",");
    for method in ["dns", "https", "meta"] {
        generate(&stack, &key, &twenty, method).await;
    }
    stack.server.get(&check(&twenty), &key).await.expect(200);
    let refused = stack.server.get(&check("d0.test"), &key).await;
    refused.refused(429, "rate_limited");
    assert!(!refused.header("retry-after").is_empty());
    stack.server.get(&check("mine.example"), &key).await.expect(200);
    let reader = stack.key("mine.example", READ).await;
    stack.server.get(&check("mine.example"), &reader).await.expect(200);
    let request = json!({"domain": "a.test", "method": "dns"});
    stack
        .server
        .json("POST", GENERATE, &reader, &request)
        .await
        .refused(403, "insufficient_scope");
    let writer = stack.key("mine.example", &[Scope::Write]).await;
    stack
        .server
        .get(STATUS, &writer)
        .await
        .refused(403, "insufficient_scope");
    assert_eq!(stack.server.get(STATUS, "rcpt_nonsense").await.status, 401);
}
