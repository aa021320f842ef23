//! An identity provider: its keys, its JWKS in a file, and the tokens it makes, true and forged
//! ones.

use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use aws_lc_rs::{hmac, signature};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use publisher_api::{AuthConfig, Authority, Deps, PublisherConfig};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stack::{START_MS, Stack};

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "receipts-test";
/// Shared with the provider, for HS256.
pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A provider with one key of each kind, by the names `rsa`, `ec` and `ed`.
pub(crate) struct Provider {
    pub(crate) rsa: RsaKeyPair,
    pub(crate) ec: EcdsaKeyPair,
    pub(crate) ed: Ed25519KeyPair,
    dir: TempDir,
}

pub(crate) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Claims of a token whose user is `subject`, for an hour.
pub(crate) fn claims(subject: &str) -> Value {
    let now_s = START_MS / 1_000;
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now_s, "nbf": now_s, "exp": now_s + 3_600})
}

/// Header and claims with the signature that `sign` makes of them.
pub(crate) fn signed(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let text = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
    let signature = sign(text.as_bytes());
    format!("{text}.{}", b64(signature))
}

pub(crate) fn hs256(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    move |text| hmac::sign(&key, text).as_ref().to_vec()
}

impl Provider {
    /// With its JWKS written.
    pub(crate) fn new() -> Self {
        let provider = Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            ed: Ed25519KeyPair::generate().unwrap(),
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::write(provider.jwks_file(), provider.jwks().to_string()).unwrap();
        provider
    }

    pub(crate) fn jwks_file(&self) -> PathBuf {
        self.dir.path().join("jwks.json")
    }

    pub(crate) fn jwks(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        let rsa = self.rsa.public_key();
        let n = b64(rsa.modulus().big_endian_without_leading_zero());
        let e = b64(rsa.exponent().big_endian_without_leading_zero());
        json!({"keys": [
            {"kty": "RSA", "kid": "rsa", "n": n, "e": e, "alg": "RS256", "use": "sig"},
            {"kty": "EC", "crv": "P-256", "kid": "ec", "x": b64(&point[1..33]), "y": b64(&point[33..])},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": b64(self.ed.public_key())},
        ]})
    }

    /// A good token of `subject`, by the Ed25519 key.
    pub(crate) fn token(&self, subject: &str) -> String {
        self.ed25519(&claims(subject))
    }

    /// A token that outlives the test's months.
    pub(crate) fn lasting_token(&self, subject: &str) -> String {
        let mut claims = claims(subject);
        claims["exp"] = json!(START_MS / 1_000 + 100 * 86_400);
        self.ed25519(&claims)
    }

    pub(crate) fn ed25519(&self, claims: &Value) -> String {
        signed(&json!({"alg": "EdDSA", "kid": "ed", "typ": "JWT"}), claims, |text| {
            self.sign_ed(text)
        })
    }

    pub(crate) fn sign_ed(&self, text: &[u8]) -> Vec<u8> {
        self.ed.sign(text).as_ref().to_vec()
    }

    pub(crate) fn sign_ec(&self, text: &[u8]) -> Vec<u8> {
        self.ec.sign(&SystemRandom::new(), text).unwrap().as_ref().to_vec()
    }

    pub(crate) fn sign_rsa(&self, encoding: &'static dyn signature::RsaEncoding, text: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.rsa.public_modulus_len()];
        self.rsa
            .sign(encoding, &SystemRandom::new(), text, &mut signature)
            .unwrap();
        signature
    }

    /// A good token by each of the algorithms, HS256 last.
    pub(crate) fn one_of_each(&self, claims: &Value) -> Vec<String> {
        vec![
            signed(&json!({"alg": "RS256", "kid": "rsa"}), claims, |text| {
                self.sign_rsa(&RSA_PKCS1_SHA256, text)
            }),
            signed(&json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"}), claims, |text| {
                self.sign_ec(text)
            }),
            self.ed25519(claims),
            signed(&json!({"alg": "HS256"}), claims, hs256(SECRET.as_bytes())),
        ]
    }

    /// Configuration that trusts this provider by its JWKS.
    pub(crate) fn config(&self) -> AuthConfig {
        AuthConfig {
            issuer: ISSUER.to_owned(),
            audience: AUDIENCE.to_owned(),
            jwks_file: self.jwks_file().display().to_string(),
            ..AuthConfig::default()
        }
    }

    /// An API that trusts it.
    pub(crate) async fn stack(&self) -> Stack {
        self.stack_with(PublisherConfig::default(), &self.config()).await
    }

    /// An API that trusts it, with parts that `change` replaces.
    pub(crate) async fn stack_changed(&self, change: impl FnOnce(&mut Deps)) -> Stack {
        Stack::start_with(PublisherConfig::default(), |deps| {
            let authority = Authority::new(&self.config(), self.dir.path(), &deps.outbound).unwrap();
            deps.authority = Arc::new(authority);
            change(deps);
        })
        .await
    }

    pub(crate) async fn stack_with(&self, config: PublisherConfig, auth: &AuthConfig) -> Stack {
        Stack::start_with(config, |deps| {
            let authority = Authority::new(auth, self.dir.path(), &deps.outbound).unwrap();
            deps.authority = Arc::new(authority);
        })
        .await
    }
}
