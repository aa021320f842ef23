//! `receipts domains` and `receipts keys create --account`: what is stored is shown, changed and
//! refused with a reason.

use crate::command::{Deployment, Ran};
use serde_json::{Value, json};

impl Deployment {
    fn domains(&self, args: &[&str]) -> Ran {
        self.run("domains", args)
    }

    /// A key for `domain` in an account of its own; the account's ID.
    fn account(&self, domain: &str) -> String {
        let made = self
            .run("keys", &["create", "--domain", domain, "--json"])
            .expect(0)
            .json();
        made["accountId"].as_str().unwrap().to_owned()
    }

    fn show_domain(&self, domain: &str) -> Value {
        self.domains(&["show", domain, "--json"]).expect(0).json()
    }
}

#[test]
fn a_domain_is_listed_shown_transferred_and_revoked() {
    let deployment = Deployment::new();
    let (one, other) = (deployment.account("news.example"), deployment.account("blog.example"));
    let listed = deployment.domains(&["list", "--json"]).expect(0).json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["domain"]).collect();
    assert_eq!(names, ["blog.example", "news.example"]);
    let own = deployment
        .domains(&["list", "--json", "--account", &one])
        .expect(0)
        .json();
    assert_eq!(own.as_array().unwrap().len(), 1);
    let shown = deployment.show_domain("news.example");
    assert_eq!(
        (
            &shown["accountId"],
            &shown["state"],
            &shown["method"],
            &shown["contestedBy"]
        ),
        (&json!(one), &json!("verified"), &json!("local"), &Value::Null)
    );
    let text = deployment.domains(&["show", "News.Example"]).expect(0).stdout;
    for part in ["news.example", &one, "proofNextCheckAt", "verified"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(deployment.domains(&["list"]).expect(0).stdout.contains("blog.example"));

    let transfer = ["transfer", "news.example", "--to", &other];
    deployment.domains(&transfer).expect(0);
    assert_eq!(deployment.show_domain("news.example")["accountId"], json!(other));
    deployment.domains(&transfer).expect(1);
    let back = ["transfer", "news.example", "--to", &one, "--json"];
    assert_eq!(deployment.domains(&back).expect(0).json()["transferred"], true);

    deployment.domains(&["revoke", "news.example"]).expect(0);
    assert_eq!(deployment.show_domain("news.example")["state"], "revoked");
    let again = deployment
        .domains(&["revoke", "news.example", "--json"])
        .expect(1)
        .json();
    assert_eq!(again["revoked"], false);
}

#[test]
fn a_domain_is_added_without_a_key() {
    let deployment = Deployment::new();
    let (one, other) = (deployment.account("news.example"), deployment.account("blog.example"));
    let keys = || deployment.run("keys", &["list", "--json"]).expect(0).json();
    let before = keys().as_array().unwrap().len();
    let add = ["add", "new.example", "--account", &one, "--json"];
    // The second time is a renewal.
    for _ in 0..2 {
        let added = deployment.domains(&add).expect(0).json();
        assert_eq!(added, json!({"domain": "new.example", "accountId": one}));
    }
    let shown = deployment.show_domain("new.example");
    assert_eq!(
        (&shown["accountId"], &shown["state"], &shown["method"]),
        (&json!(one), &json!("verified"), &json!("local"))
    );
    assert_eq!(keys().as_array().unwrap().len(), before);
    let refused = deployment
        .domains(&["add", "new.example", "--account", &other])
        .expect(2);
    assert!(refused.stderr.contains(&one), "{}", refused.stderr);
    let unknown = deployment
        .domains(&["add", "none.example", "--account", "acc_nobody"])
        .expect(2);
    assert!(unknown.stderr.contains("acc_nobody"), "{}", unknown.stderr);
    deployment.domains(&["show", "none.example"]).expect(2);
}

#[test]
fn what_isnt_there_is_refused_with_what_to_do() {
    let deployment = Deployment::new();
    let account = deployment.account("news.example");
    for args in [
        ["show", "none.example"].as_slice(),
        &["revoke", "none.example"],
        &["transfer", "none.example", "--to", &account],
    ] {
        let refused = deployment.domains(args).expect(2).stderr;
        assert!(refused.contains("receipts domains list"), "{refused}");
    }
    let unknown = deployment
        .domains(&["transfer", "news.example", "--to", "acc_nobody"])
        .expect(2)
        .stderr;
    assert!(unknown.contains("no account acc_nobody"), "{unknown}");
    deployment.domains(&["show", "not a domain"]).expect(2);
}

#[test]
fn a_key_for_an_owned_domain_needs_its_account() {
    let deployment = Deployment::new();
    let account = deployment.account("news.example");
    let create = ["create", "--domain", "news.example", "--json"];
    let refused = deployment.run("keys", &create).expect(2).stderr;
    assert!(refused.contains(&format!("--account {account}")), "{refused}");
    let named = [create.as_slice(), &["--account", &account]].concat();
    assert_eq!(
        deployment.run("keys", &named).expect(0).json()["accountId"],
        json!(account)
    );
    let other = deployment.account("blog.example");
    let limited = [create.as_slice(), &["--account", &account, "--limited"]].concat();
    let made = deployment.run("keys", &limited).expect(0).json();
    let listed = deployment.run("keys", &["list", "--json"]).expect(0).json();
    let listed = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["keyId"] == made["keyId"])
        .unwrap();
    assert_eq!(
        (&made["limited"], &listed["domains"]),
        (&json!(true), &json!(["news.example"]))
    );
    let wrong = [create.as_slice(), &["--account", &other]].concat();
    deployment.run("keys", &wrong).expect(2);
    assert_eq!(deployment.show_domain("news.example")["accountId"], json!(account));
}
