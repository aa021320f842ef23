//! Limits of a check: who starts one, where a redirect may lead, and what a verification may
//! cover.

use serde_json::json;

use crate::checks::{FILE, GENERATE, RENEW, check, generate, start, text};
use crate::stack::{BOTH, READ};
use crate::world::Page;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_keys_that_may_write_look_and_head_never_does() {
    let (world, stack, key) = start().await;
    let reader = stack.key("mine.example", READ).await;
    let file = generate(&stack, &key, "file.test", "https").await;
    world.page("file.test", FILE, 200, text(&file["record"]["value"]));
    let path = check("file.test");
    let stored = stack.server.get(&path, &reader).await.expect(200);
    assert_eq!(
        (&stored["verified"], &stored["reason"]),
        (&json!(false), &json!("not_checked")),
        "{stored}"
    );
    assert!(text(&stored["detail"]).contains("scope write"), "{stored}");
    assert_eq!(stack.server.ask("HEAD", &path, &key, &[], "").await.status, 200);
    assert_eq!(stack.server.ask("HEAD", &path, &reader, &[], "").await.status, 200);
    assert!(world.heads().is_empty(), "nothing was sent");
    let status = stack
        .server
        .get("/api/v1/verification/status?domain=file.test", &reader)
        .await;
    assert_eq!(
        status.expect(200)["domains"][0]["reason"],
        "pending",
        "nothing is changed"
    );
    let never = stack.server.get(&check("never.test"), &reader).await.expect(200);
    assert_eq!(never["reason"], "no_token");
    let found = stack.server.get(&path, &key).await.expect(200);
    assert_eq!(found["verified"], true);
    assert_eq!(world.heads().len(), 1);
    let stored = stack.server.get(&path, &reader).await.expect(200);
    assert_eq!(stored, found, "what is stored is answered to anyone");
    // Readers don't use up the account's looks either.
    generate(&stack, &key, "shop.test", "dns").await;
    for _ in 0..70 {
        stack.server.get(&check("shop.test"), &reader).await.expect(200);
    }
    stack.server.get(&check("shop.test"), &key).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_counts_within_the_registrable_domain() {
    let (world, stack, key) = start().await;
    let file = generate(&stack, &key, "file.test", "https").await;
    let value = text(&file["record"]["value"]);
    let redirect = |to: &str| Page {
        status: 302,
        fields: format!("location: {to}\r\n"),
        ..Page::default()
    };
    let outside = "https://other.test/proof";
    world.page("other.test", "/proof", 200, value);
    world.answer("file.test", FILE, redirect(outside));
    let reported = stack.server.get(&check("file.test"), &key).await.expect(200);
    assert_eq!(reported["attempts"][0]["outcome"], "refused", "{reported}");
    let found = text(&reported["attempts"][0]["found"][0]);
    assert!(
        found.contains("other.test") && found.contains("registrable domain"),
        "{reported}"
    );
    assert!(
        world.heads().iter().all(|head| !head.contains("GET /proof ")),
        "the other location isn't queried"
    );
    // There and back again is outside too.
    world.answer("other.test", "/proof", redirect("https://file.test/back"));
    world.page("file.test", "/back", 200, value);
    let reported = stack.server.get(&check("file.test"), &key).await.expect(200);
    assert_eq!(reported["verified"], false, "{reported}");
    world.page("www.file.test", "/proof", 200, value);
    world.answer("file.test", FILE, redirect("https://www.file.test/proof"));
    let found = stack.server.get(&check("file.test"), &key).await.expect(200);
    assert_eq!(found["verified"], true, "{found}");
    // The home page is held to the same.
    let meta = generate(&stack, &key, "page.test", "meta").await;
    let page = format!("<!doctype html>{}<body>", text(&meta["record"]["value"]));
    world.page("other.test", "/home", 200, &page);
    world.answer("page.test", "/", redirect("https://other.test/home"));
    let reported = stack.server.get(&check("page.test"), &key).await.expect(200);
    assert_eq!(reported["attempts"][0]["outcome"], "refused", "{reported}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_suffix_includes_no_subdomains() {
    let (world, stack, key) = start().await;
    let request = |include: Option<bool>| json!({"domain": "github.io", "method": "dns", "includeSubdomains": include});
    let refused = stack
        .server
        .json("POST", GENERATE, &key, &request(Some(true)))
        .await
        .expect(400);
    assert_eq!(
        (&refused["errors"][0]["pointer"], &refused["errors"][0]["code"]),
        (&json!("/includeSubdomains"), &json!("public_suffix")),
        "{refused}"
    );
    let detail = text(&refused["detail"]);
    assert!(
        detail.contains("github.io is a public suffix") && detail.contains("set it to false"),
        "{detail}"
    );
    // By itself it can be verified, and a name below it with what is below that.
    let alone = stack
        .server
        .json("POST", GENERATE, &key, &request(None))
        .await
        .expect(200);
    world.texts(&[(
        "_service-verification.github.io",
        &format!("\"{}\"", text(&alone["token"])),
    )]);
    let found = stack.server.get(&check("github.io"), &key).await.expect(200);
    assert_eq!(
        (&found["verified"], &found["includeSubdomains"]),
        (&json!(true), &json!(false))
    );
    let renewal = json!({"domain": "github.io", "includeSubdomains": true});
    stack.server.json("POST", RENEW, &key, &renewal).await.expect(400);
    let below = json!({"domain": "me.github.io", "method": "dns", "includeSubdomains": true});
    stack.server.json("POST", GENERATE, &key, &below).await.expect(200);
    let one_of_two = json!({"domain": "shop.test,co.uk", "includeSubdomains": true});
    let other = stack.key("other.example", BOTH).await;
    stack
        .server
        .json("POST", GENERATE, &other, &one_of_two)
        .await
        .expect(400);
    let status = stack
        .server
        .get("/api/v1/verification/status", &other)
        .await
        .expect(200);
    assert_eq!(
        status["domains"].as_array().unwrap().len(),
        1,
        "nothing is stored: {status}"
    );
}
