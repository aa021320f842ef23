//! An AI operator's signing key, and what it signs by RFC 9421.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http_signatures::{DirectoryKey, TAG, parse_directory};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) struct Signer {
    pair: Ed25519KeyPair,
    pub(crate) key: DirectoryKey,
}

impl Signer {
    /// The key of a number.
    pub(crate) fn new(number: u64) -> Self {
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let set = json!({"keys": [jwk(&pair)]}).to_string();
        let key = parse_directory(set.as_bytes(), 1, 0).unwrap().remove(0).unwrap();
        Self { pair, key }
    }

    pub(crate) fn jwk(&self) -> Value {
        jwk(&self.pair)
    }

    pub(crate) fn thumbprint(&self) -> &str {
        &self.key.thumbprint
    }

    /// A member of `Signature` over this base.
    pub(crate) fn sign(&self, label: &str, base: &str) -> String {
        let signature = self.pair.sign(base.as_bytes());
        format!("{label}=:{}:", STANDARD.encode(signature.as_ref()))
    }

    /// The members of `Signature-Input` and `Signature` with which a directory proves possession.
    pub(crate) fn prove(&self, label: &str, authority: &str, (created_s, expires_s): (i64, i64)) -> (String, String) {
        let input = format!(
            "(\"@authority\";req);created={created_s};expires={expires_s};keyid=\"{}\";tag=\"{TAG}\"",
            self.thumbprint()
        );
        let base = format!("\"@authority\";req: {authority}\n\"@signature-params\": {input}");
        (format!("{label}={input}"), self.sign(label, &base))
    }

    /// Fields of a POST with this body and these signature parameters.
    pub(crate) fn sign_request(&self, target_uri: &str, body: &str, parameters: &str) -> [(&'static str, String); 3] {
        let digest = digest(body);
        let input = format!("(\"@method\" \"@target-uri\" \"content-digest\"){parameters}");
        let base = format!(
            "\"@method\": POST\n\"@target-uri\": {target_uri}\n\"content-digest\": {digest}\n\
             \"@signature-params\": {input}"
        );
        [
            ("signature-input", format!("sig={input}")),
            ("signature", self.sign("sig", &base)),
            ("content-digest", digest),
        ]
    }
}

fn jwk(pair: &Ed25519KeyPair) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(pair.public_key().as_ref())})
}

/// `Content-Digest` of a body.
pub(crate) fn digest(body: &str) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)))
}
