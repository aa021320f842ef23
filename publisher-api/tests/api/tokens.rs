//! Accepted JWTs, and above all refused ones.

use std::sync::Arc;

use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256};
use publisher_api::{AuthConfig, Authority, PublisherConfig};
use serde_json::{Value, json};

use crate::provider::{Provider, SECRET, b64, claims, hs256, signed};
use crate::stack::{START_MS, Stack};

const ME: &str = "/api/v1/user/information";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_token_of_each_algorithm_is_taken() {
    let provider = Provider::new();
    let auth = AuthConfig {
        hs256_secret: SECRET.into(),
        ..provider.config()
    };
    let stack = provider.stack_with(PublisherConfig::default(), &auth).await;
    let mut ids = Vec::new();
    for token in provider.one_of_each(&claims("anna")) {
        let me = stack.server.get(ME, &token).await.expect(200);
        assert_eq!(
            (&me["subject"], &me["issuer"]),
            (&json!("anna"), &json!("https://id.example"))
        );
        ids.push(me["id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one user, whatever the token is signed with");
    // A provider's audience is often a list, its times may have fractions, and its header says more
    // than we read.
    let mut wide = claims("anna");
    wide["aud"] = json!(["other", "receipts-test"]);
    wide["exp"] = json!(START_MS as f64 / 1_000.0 + 10.5);
    let header = json!({"alg": "EdDSA", "kid": "ed", "typ": "application/at+jwt", "x5t": "abc", "more": {"a": [1]}});
    let token = signed(&header, &wide, |text| provider.sign_ed(text));
    stack.server.get(ME, &token).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_or_none_that_can_be_read_is_401() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let missing = stack.server.send("GET", ME, &[], "").await;
    missing.refused(401, "missing_token");
    assert!(missing.header("www-authenticate").starts_with("Bearer"));
    let key = stack.key("example.com", crate::stack::BOTH).await;
    let api_key = stack.server.get(ME, &key).await.refused(401, "invalid_token");
    assert!(api_key["detail"].as_str().unwrap().contains("API key"), "{api_key}");
    let token = provider.token("anna");
    let (head, _) = token.rsplit_once('.').unwrap();
    for text in [
        "x",
        "..",
        "a.b.c",
        "e30.e30.e30",
        head,
        &format!("{token}."),
        &format!("{token}.x"),
        &token[1..],
    ] {
        let refused = stack.server.get(ME, text).await;
        refused.refused(401, "invalid_token");
        assert!(refused.header("www-authenticate").starts_with("Bearer"), "{text}");
    }
    let two = [
        ("authorization", format!("Bearer {token}")),
        ("authorization", format!("Bearer {token}")),
    ];
    let two: Vec<(&str, &str)> = two.iter().map(|(name, value)| (*name, value.as_str())).collect();
    stack
        .server
        .send("GET", ME, &two, "")
        .await
        .refused(401, "invalid_token");
    let basic = [("authorization", "Basic YTpi")];
    stack
        .server
        .send("GET", ME, &basic, "")
        .await
        .refused(401, "invalid_token");
    // And a JWT is no API key.
    let refused = stack.server.get("/api/v1/publisher/entries", &token).await;
    refused.refused(401, "invalid_api_key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_holds_from_its_begin_to_its_end() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let mut limited = claims("anna");
    limited["nbf"] = json!(START_MS / 1_000 + 60);
    limited["exp"] = json!(START_MS / 1_000 + 120);
    let token = provider.ed25519(&limited);
    let ask = async || stack.server.get(ME, &token).await;
    stack.pass_ms(29_999);
    ask().await.refused(401, "invalid_token");
    stack.pass_ms(1);
    ask().await.expect(200);
    stack.pass_ms(119_999);
    ask().await.expect(200);
    stack.pass_ms(1);
    ask().await.refused(401, "expired_token");
}

/// RFC 8725, section 2: the known attacks, each by a token that is right in everything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_tokens_are_refused() {
    let provider = Provider::new();
    let stack = provider.stack().await;
    let other = Provider::new();
    let good = claims("anna");
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let ed = |header: Value| signed(&header, &good, |text| provider.sign_ed(text));
    let none = |header: Value| signed(&header, &good, |_| Vec::new());
    let jwks = provider.jwks();
    let jwk = |at: usize| jwks["keys"][at].clone();
    let other_jwk = other.jwks()["keys"][2].clone();
    let pem = |der: &[u8]| format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", b64(der));
    let mut forged = vec![
        ("none", none(json!({"alg": "none"}))),
        ("none with a key's name", none(json!({"alg": "none", "kid": "ed"}))),
        ("None", none(json!({"alg": "None", "kid": "ed"}))),
        ("nOnE", none(json!({"alg": "nOnE", "kid": "ed"}))),
        ("no algorithm", none(json!({"kid": "ed"}))),
        (
            "an algorithm that is no text",
            none(json!({"alg": ["EdDSA"], "kid": "ed"})),
        ),
        ("no signature", none(json!({"alg": "EdDSA", "kid": "ed"}))),
        (
            "another provider's key",
            signed(&json!({"alg": "EdDSA", "kid": "ed"}), &good, |text| other.sign_ed(text)),
        ),
        (
            "HS256, never configured",
            signed(&json!({"alg": "HS256"}), &good, hs256(SECRET.as_bytes())),
        ),
        ("an empty secret", signed(&json!({"alg": "HS256"}), &good, hs256(b""))),
        ("an unknown key", ed(json!({"alg": "EdDSA", "kid": "ED"}))),
        ("an RSA key's name", ed(json!({"alg": "EdDSA", "kid": "rsa"}))),
        ("ES256 by an Ed25519 key", ed(json!({"alg": "ES256", "kid": "ed"}))),
        ("RS256 by an Ed25519 key", ed(json!({"alg": "RS256", "kid": "ed"}))),
        (
            "ES256 by an RSA key",
            signed(&json!({"alg": "ES256", "kid": "rsa"}), &good, |t| {
                provider.sign_rsa(&RSA_PKCS1_SHA256, t)
            }),
        ),
        (
            "PS256",
            signed(&json!({"alg": "PS256", "kid": "rsa"}), &good, |t| {
                provider.sign_rsa(&RSA_PSS_SHA256, t)
            }),
        ),
        (
            "RS512",
            signed(&json!({"alg": "RS512", "kid": "rsa"}), &good, |t| {
                provider.sign_rsa(&RSA_PKCS1_SHA512, t)
            }),
        ),
        (
            "RS256 in name, PS256 in deed",
            signed(&json!({"alg": "RS256", "kid": "rsa"}), &good, |t| {
                provider.sign_rsa(&RSA_PSS_SHA256, t)
            }),
        ),
        (
            "the key in the header",
            signed(&json!({"alg": "EdDSA", "jwk": other_jwk}), &good, |t| other.sign_ed(t)),
        ),
        (
            "our key in the header",
            ed(json!({"alg": "EdDSA", "kid": "ed", "jwk": jwk(2)})),
        ),
        (
            "a JWKS elsewhere",
            ed(json!({"alg": "EdDSA", "kid": "ed", "jku": "https://evil.example/jwks.json"})),
        ),
        (
            "a certificate elsewhere",
            ed(json!({"alg": "EdDSA", "kid": "ed", "x5u": "https://evil.example/cert"})),
        ),
        (
            "a certificate",
            ed(json!({"alg": "EdDSA", "kid": "ed", "x5c": ["MIIB"]})),
        ),
        (
            "an extension",
            ed(json!({"alg": "EdDSA", "kid": "ed", "crit": ["exp"], "exp": 1})),
        ),
        (
            "no extension at all",
            ed(json!({"alg": "EdDSA", "kid": "ed", "crit": []})),
        ),
        (
            "a payload that isn't encoded",
            ed(json!({"alg": "EdDSA", "kid": "ed", "b64": false})),
        ),
        ("compressed", ed(json!({"alg": "EdDSA", "kid": "ed", "zip": "DEF"}))),
        (
            "another kind of token",
            ed(json!({"alg": "EdDSA", "kid": "ed", "typ": "logout+jwt"})),
        ),
        (
            "another issuer",
            provider.ed25519(&with("iss", json!("https://id.example.evil"))),
        ),
        ("no issuer", provider.ed25519(&without("iss"))),
        (
            "several issuers",
            provider.ed25519(&with("iss", json!(["https://id.example"]))),
        ),
        (
            "another audience",
            provider.ed25519(&with("aud", json!("receipts-other"))),
        ),
        ("no audience", provider.ed25519(&without("aud"))),
        ("no end", provider.ed25519(&without("exp"))),
        ("an end in words", provider.ed25519(&with("exp", json!("2100-01-01")))),
        ("an end without end", provider.ed25519(&with("exp", json!(1e30)))),
        ("no subject", provider.ed25519(&without("sub"))),
        ("an empty subject", provider.ed25519(&with("sub", json!("")))),
        ("long", provider.ed25519(&with("more", json!("a".repeat(8_192))))),
    ];
    // The public key as the secret: as raw bytes, as its JWK, as PEM; under its own name or none.
    let public: Vec<Vec<u8>> = vec![
        provider.ed.public_key().as_ref().to_vec(),
        provider.ec.public_key().as_ref().to_vec(),
        provider.rsa.public_key().as_ref().to_vec(),
        jwk(0).to_string().into_bytes(),
        jwk(0)["n"].as_str().unwrap().as_bytes().to_vec(),
        pem(provider.rsa.public_key().as_ref()).into_bytes(),
    ];
    for secret in &public {
        for header in [
            json!({"alg": "HS256"}),
            json!({"alg": "HS256", "kid": "rsa"}),
            json!({"alg": "HS256", "kid": "ed"}),
        ] {
            forged.push(("a public key as the secret", signed(&header, &good, hs256(secret))));
        }
    }
    for (what, token) in &forged {
        let answer = stack.server.get(ME, token).await;
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        assert_eq!(answer.json()["code"], "invalid_token", "{what}");
    }
    stack.server.get(ME, &provider.token("anna")).await.expect(200);
}

/// With a secret configured, and no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hs256_is_taken_by_the_configured_secret_only() {
    let provider = Provider::new();
    let auth = AuthConfig {
        jwks_file: String::new(),
        hs256_secret: SECRET.into(),
        ..provider.config()
    };
    let stack = provider.stack_with(PublisherConfig::default(), &auth).await;
    let good = claims("anna");
    let header = json!({"alg": "HS256", "kid": "whatever"});
    stack
        .server
        .get(ME, &signed(&header, &good, hs256(SECRET.as_bytes())))
        .await
        .expect(200);
    let forged = [
        signed(&header, &good, hs256(&SECRET.as_bytes()[1..])),
        signed(&json!({"alg": "HS512"}), &good, hs256(SECRET.as_bytes())),
        provider.token("anna"),
        signed(&json!({"alg": "none"}), &good, |_| Vec::new()),
    ];
    for token in forged {
        stack.server.get(ME, &token).await.refused(401, "invalid_token");
    }
}

/// Every byte of a token is covered: by its signature, or by the form that it must have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_changed_byte_is_refused() {
    let provider = Provider::new();
    let auth = AuthConfig {
        hs256_secret: SECRET.into(),
        ..provider.config()
    };
    let stack = Arc::new(provider.stack_with(PublisherConfig::default(), &auth).await);
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut tasks = tokio::task::JoinSet::new();
    for (number, token) in provider.one_of_each(&claims("anna")).into_iter().enumerate() {
        let stack = Arc::clone(&stack);
        tasks.spawn(async move {
            for at in 0..token.len() {
                let mut bytes = token.clone().into_bytes();
                // The neighbour in the alphabet differs in the last bit: where there are spare
                // bits, in those alone.
                let location = alphabet.iter().position(|byte| *byte == bytes[at]);
                bytes[at] = match location {
                    Some(location) if (at + number) % 2 == 0 => alphabet[location ^ 1],
                    Some(location) => alphabet[(location + 1 + at) % 64],
                    None => b'A',
                };
                if bytes == token.as_bytes() {
                    bytes[at] = b'.';
                }
                let changed = String::from_utf8(bytes).unwrap();
                let answer = stack.server.get(ME, &changed).await;
                assert_eq!(
                    (answer.status, answer.json()["code"].as_str()),
                    (401, Some("invalid_token")),
                    "{at}: {changed}"
                );
            }
            stack.server.get(ME, &token).await.expect(200);
        });
    }
    tasks.join_all().await;
}

/// Without `[auth]` the tokens of `receipts dev-token` are taken, once its key is there; with it,
/// never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dev_issuer_is_trusted_where_nobody_else_is() {
    let provider = Provider::new();
    let mut dev = claims("dev");
    dev["iss"] = json!(publisher_api::jwt::dev::ISSUER);
    dev["aud"] = json!(publisher_api::jwt::dev::AUDIENCE);
    let token = provider.ed25519(&dev);
    let stack = Stack::start().await;
    stack.server.get(ME, &token).await.refused(401, "invalid_token");
    std::fs::copy(
        provider.jwks_file(),
        publisher_api::jwt::dev::jwks_file(stack.dir.path()),
    )
    .unwrap();
    stack.server.get(ME, &token).await.refused(401, "invalid_token");
    stack.pass_ms(10_000);
    assert_eq!(stack.server.get(ME, &token).await.expect(200)["issuer"], "receipts-dev");
    // The same directory, the same key, and an issuer that is configured.
    let config = PublisherConfig::default();
    let configured = Stack::start_with(config, |deps| {
        let authority = Authority::new(&provider.config(), stack.dir.path(), &deps.outbound).unwrap();
        deps.authority = Arc::new(authority);
    })
    .await;
    configured.server.get(ME, &token).await.refused(401, "invalid_token");
    configured.server.get(ME, &provider.token("anna")).await.expect(200);
}

/// Keys that could never be had are the service's trouble, not the caller's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_keys_nobody_can_tell() {
    let provider = Provider::new();
    std::fs::remove_file(provider.jwks_file()).unwrap();
    let stack = provider.stack().await;
    let answer = stack.server.get(ME, &provider.token("anna")).await;
    answer.refused(503, "tokens_unavailable");
    assert_eq!(answer.header("retry-after"), "10");
}
