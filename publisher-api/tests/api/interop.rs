//! Tokens that another implementation makes: Node's `crypto`, with keys and a JWKS of its own.

use std::process::Command;

use publisher_api::{AuthConfig, PublisherConfig};
use serde_json::Value;

use crate::provider::{AUDIENCE, ISSUER, Provider, SECRET};
use crate::stack::START_MS;

/// Makes a key of each kind, a JWKS and a token by each; shares nothing with us but the RFCs.
const SCRIPT: &str = r#"
const { createHmac, generateKeyPairSync, sign } = require('node:crypto');
const [issuer, audience, secret, now] = process.argv.slice(1);
const part = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
const claims = { iss: issuer, aud: [audience], sub: 'node', exp: Number(now) + 600, nbf: Number(now), email: 'node@example.com' };
const kinds = {
  RS256: ['rsa', { modulusLength: 3072 }, (text, key) => sign('sha256', text, key)],
  ES256: ['ec', { namedCurve: 'P-256' }, (text, key) => sign('sha256', text, { key, dsaEncoding: 'ieee-p1363' })],
  EdDSA: ['ed25519', {}, (text, key) => sign(null, text, key)],
};
const keys = [], tokens = {};
for (const [alg, [kind, options, make]] of Object.entries(kinds)) {
  const { publicKey, privateKey } = generateKeyPairSync(kind, options);
  keys.push({ ...publicKey.export({ format: 'jwk' }), kid: `node-${alg}`, use: 'sig', alg });
  const text = `${part({ alg, typ: 'JWT', kid: `node-${alg}` })}.${part(claims)}`;
  tokens[alg] = `${text}.${make(Buffer.from(text), privateKey).toString('base64url')}`;
}
const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
tokens.HS256 = `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
console.log(JSON.stringify({ jwks: { keys }, tokens }));
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_node_makes_are_taken() {
    let now_s = (START_MS / 1_000).to_string();
    let made = Command::new("node")
        .args(["-e", SCRIPT, ISSUER, AUDIENCE, SECRET, &now_s])
        .output()
        .expect("node is needed: scripts/install-deps installs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let provider = Provider::new();
    std::fs::write(provider.jwks_file(), made["jwks"].to_string()).unwrap();
    let auth = AuthConfig {
        hs256_secret: SECRET.into(),
        ..provider.config()
    };
    let stack = provider.stack_with(PublisherConfig::default(), &auth).await;
    let tokens = made["tokens"].as_object().unwrap();
    assert_eq!(tokens.keys().collect::<Vec<_>>(), ["ES256", "EdDSA", "HS256", "RS256"]);
    for (algorithm, token) in tokens {
        let me = stack
            .server
            .get("/api/v1/user/information", token.as_str().unwrap())
            .await;
        assert_eq!(me.status, 200, "{algorithm}: {}", me.text());
        let me = me.json();
        assert_eq!(
            (&me["subject"], &me["email"]),
            (&Value::from("node"), &Value::from("node@example.com"))
        );
    }
    // Ours are those of another key now.
    stack
        .server
        .get("/api/v1/user/information", &provider.token("a"))
        .await
        .refused(401, "invalid_token");
}
