//! `receipts operators`: what is registered is shown, and what is refused says why.

use std::path::Path;

use crate::command::{Deployment, Ran, key};
use serde_json::{Value, json};

const CLIENT: &str = "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10";
/// RFC 9421, appendix B.1.4: its private key is published.
const PUBLISHED: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=
-----END PUBLIC KEY-----
";

impl Deployment {
    fn operators(&self, args: &[&str]) -> Ran {
        self.run("operators", args)
    }

    /// Makes an account that has verified `domain` an operator, and returns the operator's ID.
    fn create(&self, domain: &str) -> String {
        if self.run("domains", &["show", domain]).code != 0 {
            self.run("keys", &["create", "--domain", domain]).expect(0);
        }
        let created = self.operators(&["create", domain, "--json"]).expect(0).json();
        created["operatorId"].as_str().unwrap().to_owned()
    }

    fn show_operator(&self, operator: &str) -> Value {
        self.operators(&["show", operator, "--json"]).expect(0).json()
    }

    fn public_key(&self, algorithm: &str) -> String {
        let (private, _) = key(self.dir.path(), algorithm);
        private.with_extension("key.pub").to_str().unwrap().to_owned()
    }
}

#[test]
fn an_operator_gets_keys_and_client_ids_and_loses_them() {
    let deployment = Deployment::new();
    let unproven = deployment.operators(&["create", "lab.example"]).expect(2);
    assert!(
        unproven.stderr.contains("no account has verified lab.example"),
        "{}",
        unproven.stderr
    );
    let id = deployment.create("lab.example");
    assert_eq!(
        deployment.create("lab.example"),
        id,
        "there is one operator of a domain"
    );
    let listed = deployment.operators(&["list", "--json"]).expect(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(
        (
            &listed[0]["domain"],
            &listed[0]["domainProven"],
            &listed[0]["directory"]["fetchedAt"]
        ),
        (&json!("lab.example"), &json!(true), &Value::Null)
    );

    let public = deployment.public_key("Ed25519");
    let add = ["add-key", "lab.example", "--key", &public];
    deployment.operators(&add).expect(0);
    deployment.operators(&add).expect(1);
    let shown = deployment.show_operator(&id);
    let first = &shown["keys"][0];
    assert_eq!(
        (&first["algorithm"], &first["source"], &first["until"]),
        (&json!("Ed25519"), &json!("deployment"), &Value::Null)
    );
    let thumbprint = first["thumbprint"].as_str().unwrap();
    deployment.operators(&["end-key", "lab.example", thumbprint]).expect(0);
    let fingerprint = first["fingerprint"].as_str().unwrap();
    deployment.operators(&["end-key", &id, fingerprint]).expect(1);
    assert!(deployment.show_operator(&id)["keys"][0]["until"].is_string());
    deployment.operators(&add).expect(0);
    assert_eq!(
        deployment.show_operator(&id)["keys"].as_array().unwrap().len(),
        2,
        "a second period"
    );

    deployment.operators(&["claim", "lab.example", CLIENT]).expect(0);
    deployment.operators(&["claim", &id, CLIENT]).expect(1);
    assert_eq!(deployment.show_operator("lab.example")["clientIds"], json!([CLIENT]));
    let text = deployment.operators(&["show", "lab.example"]).expect(0).stdout;
    assert!(
        text.contains(thumbprint) && text.contains(CLIENT) && text.contains("domainProven"),
        "{text}"
    );
    deployment.operators(&["release", "lab.example", CLIENT]).expect(0);
    deployment.operators(&["release", "lab.example", CLIENT]).expect(1);
    assert_eq!(deployment.show_operator(&id)["clientIds"], json!([]));
}

#[test]
fn what_is_refused_says_why() {
    let deployment = Deployment::new();
    let lab = deployment.create("lab.example");
    deployment.create("other.example");
    let public = deployment.public_key("ECDSA-P256");
    deployment
        .operators(&["add-key", "lab.example", "--key", &public])
        .expect(0);
    let published = deployment.dir.path().join("published.pem");
    std::fs::write(&published, PUBLISHED).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    for (args, why) in [
        (
            vec!["add-key", "other.example", "--key", &public],
            "another operator has this key",
        ),
        (vec!["add-key", "lab.example", "--key", &path(&published)], "test key"),
        (
            vec!["add-key", "lab.example", "--key", &path(deployment.dir.path())],
            "can't be read",
        ),
        (
            vec!["add-key", "nobody.example", "--key", &public],
            "there is no operator nobody.example",
        ),
        (vec!["end-key", "lab.example", "-thumbprint"], "has never had a key"),
        (vec!["show", "not a domain"], "neither an operator's ID nor a domain"),
        (
            vec!["claim", "lab.example", "00000000-0000-0000-0000-000000000000"],
            "can't be the ID of a client",
        ),
    ] {
        let refused = deployment.operators(&args).expect(2);
        assert!(refused.stderr.contains(why), "{args:?}: {}", refused.stderr);
    }
    let shown = deployment.show_operator(&lab);
    assert_eq!(
        (shown["keys"].as_array().unwrap().len(), &shown["clientIds"]),
        (1, &json!([]))
    );
}
