//! `receipts accounts`: accounts are found and shown, and a tier is in force while the services
//! run.

use std::path::Path;

use crate::command::Ran;
use crate::running::{Up, get, get_answer, new_api_key, on, until};
use serde_json::{Value, json};

/// Makes a further key for the account of a domain.
fn create_further(data: &Path, domain: &str, more: &[&str]) -> Ran {
    let shown = on(data, &["accounts", "show", domain, "--json"]).expect(0).json();
    let account = shown["accountId"].as_str().unwrap();
    let create = ["keys", "create", "--domain", domain, "--account", account];
    on(data, &[&create, more].concat())
}

#[test]
fn accounts_are_listed_and_shown_by_id_and_by_domain() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for args in [
        &["--domain", "news.example", "--domain", "blog.example"][..],
        &["--domain", "other.example"],
    ] {
        on(&data, &[&["keys", "create"], args].concat()).expect(0);
    }
    create_further(&data, "news.example", &["--scope", "read,write"]).expect(0);
    let listed = on(&data, &["accounts", "list", "--json"]).expect(0).json();
    let shown: Vec<Value> = listed.as_array().unwrap().clone();
    let names: Vec<&Value> = shown.iter().map(|account| &account["name"]).collect();
    assert_eq!(names, ["other.example", "blog.example"]);
    assert_eq!(
        (&shown[1]["tier"], &shown[1]["activeKeys"], &shown[1]["verifiedDomains"]),
        (&json!("free"), &json!(2), &json!(2))
    );
    let id = shown[1]["accountId"].as_str().unwrap();
    let text = on(&data, &["accounts", "list"]).expect(0).stdout;
    assert!(text.contains(id) && text.contains("other.example"), "{text}");
    for account in [id, "news.example", "NEWS.example"] {
        let one = on(&data, &["accounts", "show", account, "--json"]).expect(0).json();
        assert_eq!(one["accountId"], id);
        let domains: Vec<&Value> = one["domains"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["domain"])
            .collect();
        assert_eq!(domains, ["blog.example", "news.example"]);
    }
    let text = on(&data, &["accounts", "show", id]).expect(0).stdout;
    for (member, value) in [("tier", "free"), ("activeKeys", "2")] {
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert!(lines.any(|line| line == [member, value]), "{member}: {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("news.example  ")), "{text}");
}

#[test]
fn a_tier_is_set_for_the_account_and_what_cant_be_found_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    on(&data, &["keys", "create", "--domain", "news.example"]).expect(0);
    let set = |account: &str, tier: &str| on(&data, &["accounts", "set-tier", account, tier, "--json"]);
    assert_eq!(set("news.example", "pro").expect(0).json()["tier"], "pro");
    // Setting it again is no mistake.
    assert_eq!(set("news.example", "pro").expect(0).json()["tier"], "pro");
    let again = on(&data, &["accounts", "set-tier", "news.example", "pro"]).expect(0);
    assert!(again.stdout.contains("had tier pro before"), "{}", again.stdout);
    let made = create_further(&data, "news.example", &["--json"]).expect(0);
    assert_eq!(made.json()["tier"], "pro", "a new key leaves the tier as it is");
    for (account, tier, why) in [
        ("nobody.example", "pro", "there is no account nobody.example"),
        ("acc_none", "pro", "there is no account acc_none"),
        ("\u{1b}[2J", "pro", "there is no account \\u{1b}[2J"),
        ("news.example", "gold", "`gold` is no tier: free, pro or enterprise"),
    ] {
        let refused = set(account, tier).expect(2);
        assert!(refused.stderr.contains(why), "{account} {tier}: {}", refused.stderr);
        assert!(!refused.stderr.contains('\u{1b}'), "{:?}", refused.stderr);
    }
    on(&data, &["accounts", "show", "nobody.example"]).expect(2);
    // `keys create --tier` is the same for the account.
    let made = create_further(&data, "news.example", &["--tier", "enterprise", "--json"]).expect(0);
    assert_eq!(made.json()["tier"], "enterprise");
    assert_eq!(
        on(&data, &["accounts", "show", "news.example", "--json"])
            .expect(0)
            .json()["tier"],
        "enterprise"
    );
}

#[test]
fn an_account_has_a_quota_of_its_own_until_its_tier_changes() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let api_key = new_api_key(&data, "news.example", &["--tier", "enterprise"]);
    let set = |args: &[&str]| on(&data, &[&["accounts", "set-quota", "news.example"], args].concat());
    let shown = || {
        on(&data, &["accounts", "show", "news.example", "--json"])
            .expect(0)
            .json()
    };
    let reported = set(&["--per-minute", "20000", "--per-day", "30000"]).expect(0).stdout;
    assert!(reported.contains("20000 requests a minute, 30000 a day"), "{reported}");
    let account = shown();
    assert_eq!(
        (&account["requestsPerMinute"], &account["requestsPerDay"]),
        (&json!(20_000), &json!(30_000))
    );
    for wrong in [
        &[][..],
        &["--per-day", "5"],
        &["--per-minute", "0"],
        &["--per-minute", "5", "--of-tier"],
    ] {
        set(wrong).expect(2);
    }
    let up = Up::start(&data);
    let limit = || {
        let answer = get_answer(&up.url("analytics"), "/api/v1/analytics/clients", &api_key).unwrap();
        answer.header("x-ratelimit-limit").to_owned()
    };
    assert_eq!(limit(), "20000");
    set(&["--per-minute", "7"]).expect(0);
    until("the services to follow", || limit() == "7");
    set(&["--of-tier"]).expect(0);
    until("the services to follow", || limit() == "6000");
    // Another tier ends it.
    set(&["--per-minute", "9"]).expect(0);
    on(&data, &["accounts", "set-tier", "news.example", "pro"]).expect(0);
    assert_eq!(shown()["requestsPerMinute"], Value::Null);
    until("the services to follow", || limit() == "300");
}

#[test]
fn a_tier_limits_the_number_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    on(&data, &["keys", "create", "--domain", "news.example"]).expect(0);
    let create = || create_further(&data, "news.example", &[]);
    for _ in 1..5 {
        create().expect(0);
    }
    let refused = create().expect(2);
    assert!(
        refused
            .stderr
            .contains("the tier free allows an account 5 active API keys"),
        "{}",
        refused.stderr
    );
    on(&data, &["accounts", "set-tier", "news.example", "pro"]).expect(0);
    create().expect(0);
}

/// A day's requests of an account, whatever key it uses, until its tier changes.
#[test]
fn running_services_count_by_account_and_take_over_a_new_tier() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let create = |domain: &str| new_api_key(&data, domain, &[]);
    let (first, rival) = (create("news.example"), create("rival.example"));
    let up = Up::start_set(&data, &[("RECEIPTS_QUOTAS_FREE_PER_DAY", "3")]);
    let entries = |key: &str| get(&up.url("publisher"), "/api/v1/publisher/entries", key).0;
    until("the publisher API", || {
        get(&up.url("publisher"), "/readyz", "").0 == 200
    });
    assert_eq!((entries(&first), entries(&first)), (200, 200));
    let further = || {
        let made = create_further(&data, "news.example", &["--json"]);
        made.expect(0).json()["apiKey"].as_str().unwrap().to_owned()
    };
    let second = further();
    // Both APIs count together.
    let totals = get(&up.url("analytics"), "/api/v1/analytics/dashboard", &second).0;
    assert_eq!((totals, entries(&second), entries(&first)), (200, 429, 429));
    // A new key brings no new quota.
    assert_eq!(entries(&further()), 429);
    assert_eq!(entries(&rival), 200);
    on(&data, &["accounts", "set-tier", "news.example", "pro"]).expect(0);
    for key in [&first, &second] {
        until("the new tier", || entries(key) == 200);
    }
}
