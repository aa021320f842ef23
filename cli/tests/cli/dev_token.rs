//! `receipts dev-token`: the key it makes, and tokens that another implementation checks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::command::{Ran, command, receipts};
use serde_json::Value;

/// Checks a token against a JWKS by the RFCs, and prints what it says.
const CHECK: &str = r#"
const { createPublicKey, verify } = require('node:crypto');
const [token, jwks] = process.argv.slice(1);
const [header, payload, signature] = token.split('.');
const read = (part) => JSON.parse(Buffer.from(part, 'base64url'));
const jwk = JSON.parse(jwks).keys.find(({ kid }) => kid === read(header).kid);
const good = verify(null, Buffer.from(`${header}.${payload}`), createPublicKey({ key: jwk, format: 'jwk' }), Buffer.from(signature, 'base64url'));
console.log(JSON.stringify({ good, private: 'd' in jwk, header: read(header), claims: read(payload) }));
"#;

fn dev_token(data: &Path, more: &[&str]) -> Ran {
    let args = [&["dev-token", "--data", data.to_str().unwrap()], more].concat();
    receipts(&args, b"")
}

fn checked(data: &Path, token: &str) -> Value {
    let jwks = fs::read_to_string(data.join("dev-jwks.json")).unwrap();
    let node = Command::new("node").args(["-e", CHECK, token.trim(), &jwks]).output();
    let node = node.expect("node is needed: scripts/install-deps installs it");
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    serde_json::from_slice(&node.stdout).unwrap()
}

#[test]
fn tokens_are_good_and_their_key_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let first = dev_token(&data, &[]).expect(0);
    assert_eq!((first.stdout.lines().count(), first.stderr.as_str()), (1, ""));
    let key = fs::read_to_string(data.join("dev-key.pem")).unwrap();
    assert_eq!(
        fs::metadata(data.join("dev-key.pem")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let reported = checked(&data, &first.stdout);
    assert_eq!(
        (&reported["good"], &reported["private"]),
        (&Value::Bool(true), &Value::Bool(false))
    );
    assert_eq!(
        (&reported["header"]["alg"], &reported["header"]["typ"]),
        (&"EdDSA".into(), &"JWT".into())
    );
    let claims = &reported["claims"];
    assert_eq!(
        (&claims["iss"], &claims["aud"], &claims["sub"]),
        (&"receipts-dev".into(), &"receipts".into(), &"dev".into())
    );
    let seconds = |name: &str| claims[name].as_i64().unwrap();
    assert_eq!(seconds("exp") - seconds("iat"), 3_600);
    assert_eq!(claims["email"], Value::Null);

    let more = ["--subject", "anna", "--email", "anna@news.example", "--expires", "8h"];
    let second = checked(&data, &dev_token(&data, &more).expect(0).stdout);
    assert_eq!(
        (&second["good"], &second["header"]),
        (&Value::Bool(true), &reported["header"])
    );
    assert_eq!(
        (&second["claims"]["sub"], &second["claims"]["email"]),
        (&"anna".into(), &"anna@news.example".into())
    );
    assert_eq!(fs::read_to_string(data.join("dev-key.pem")).unwrap(), key);

    // The public half is made again from the key.
    fs::remove_file(data.join("dev-jwks.json")).unwrap();
    let third = dev_token(&data, &[]).expect(0);
    assert_eq!(checked(&data, &third.stdout)["good"], Value::Bool(true));
    assert_eq!(fs::read_dir(&data).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn commands_at_one_time_make_one_key() {
    let dir = tempfile::tempdir().unwrap();
    let running: Vec<_> = (0..6)
        .map(|_| {
            let data = dir.path().to_owned();
            std::thread::spawn(move || dev_token(&data, &[]).expect(0).stdout)
        })
        .collect();
    for token in running {
        assert_eq!(checked(dir.path(), &token.join().unwrap())["good"], Value::Bool(true));
    }
}

#[test]
fn what_cant_be_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for (more, reported) in [
        (["--expires", "1s"], "30d"),
        (["--expires", "11y"], "10y"),
        (["--email", "nobody"], "e-mail"),
    ] {
        let ran = dev_token(dir.path(), &more).expect(2);
        assert!(ran.stderr.contains(reported) && ran.stdout.is_empty(), "{}", ran.stderr);
    }
    let configured = command()
        .args(["dev-token", "--data", dir.path().to_str().unwrap()])
        .envs([
            ("RECEIPTS_AUTH_ISSUER", "https://id.example"),
            ("RECEIPTS_AUTH_AUDIENCE", "receipts"),
            ("RECEIPTS_AUTH_JWKS_URL", "https://id.example/jwks"),
        ])
        .output()
        .unwrap();
    assert_eq!(configured.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&configured.stderr).contains("[auth] is configured"));
    fs::write(dir.path().join("dev-key.pem"), "no key").unwrap();
    let ran = dev_token(dir.path(), &[]).expect(2);
    assert!(ran.stderr.contains("dev-key.pem"), "{}", ran.stderr);
}
