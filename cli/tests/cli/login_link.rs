//! `receipts login-link`: for whom it makes a link, and what it refuses.

use std::path::Path;

use serde_json::Value;

use crate::command::{Ran, receipts};
use crate::running::new_api_key;

fn login_link(data: &Path, more: &[&str]) -> Ran {
    let args = [&["login-link", "--data", data.to_str().unwrap()], more].concat();
    receipts(&args, b"")
}

fn accounts(data: &Path) -> Vec<String> {
    let listed = receipts(&["accounts", "list", "--json", "--data", data.to_str().unwrap()], b"").expect(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let ids = listed.as_array().unwrap().iter();
    ids.map(|one| one["accountId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_link_is_for_the_account_that_is_named_or_the_only_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let first = login_link(&data, &[]).expect(0);
    let path = first
        .stdout
        .trim()
        .strip_prefix("http://127.0.0.1:8080/api/v1/auth/link/")
        .unwrap();
    assert!(
        path.len() == 64 && path.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{path}"
    );
    assert_eq!(accounts(&data), [""; 0], "none before the link is used");
    let refused = login_link(&data, &["--role", "reader"]).expect(2);
    assert!(refused.stderr.contains("owns it"), "{}", refused.stderr);
    new_api_key(&data, "news.example", &[]);
    let again = login_link(&data, &["--role", "reader", "--json"]).expect(0);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["role"], "reader");
    assert_ne!(again["link"], first.stdout.trim());
    new_api_key(&data, "other.example", &[]);
    let refused = login_link(&data, &[]).expect(2);
    assert!(
        refused.stderr.contains("2 accounts") && refused.stderr.contains("--account"),
        "{}",
        refused.stderr
    );
    login_link(&data, &["--account", &accounts(&data)[0]]).expect(0);
    let unknown = login_link(&data, &["--account", "acc_0"]).expect(2);
    assert!(unknown.stderr.contains("acc_0"), "{}", unknown.stderr);
    assert!(
        login_link(&data, &["--role", "admin"])
            .expect(2)
            .stderr
            .contains("owner, editor or reader")
    );
}
