//! The fields `Signature-Input`, `Signature` (RFC 9421) and `Content-Digest` (RFC 9530) on any
//! bytes: three lines. Signatures are compared with those of the crate `httpsig`.

use std::sync::LazyLock;

use http_signatures::{Message, MessageSignature, SIGNATURES_MAX, check_content_digest};
use httpsig::prelude::message_component::{HttpMessageComponent, HttpMessageComponentId};
use httpsig::prelude::{AlgorithmName, HttpSignatureBase, HttpSignatureParams, SecretKey};
use receipt::{Algorithm, PublicKey, SigningKey};

const NOW_S: i64 = 1_751_286_896;
const SECONDS_MAX: i64 = 300;

static KEYS: LazyLock<Vec<(SigningKey, PublicKey)>> = LazyLock::new(|| {
    let pair = |algorithm| {
        let key = SigningKey::generate(algorithm).expect("a key");
        let public = PublicKey::from_pem(key.public_key_pem()).expect("its public key");
        (key, public)
    };
    Algorithm::ALL.map(pair).into()
});

/// `KEYS` for `httpsig`, which has RSA only as an option.
static SIGNERS: LazyLock<Vec<Option<SecretKey>>> = LazyLock::new(|| {
    let signer = |(key, _): &(SigningKey, PublicKey)| {
        let named = match key.algorithm() {
            Algorithm::Ed25519 => AlgorithmName::Ed25519,
            Algorithm::EcdsaP256 => AlgorithmName::EcdsaP256Sha256,
            Algorithm::Rsa2048 => return None,
        };
        let pem = key.to_pkcs8_pem().expect("PEM");
        Some(SecretKey::from_pem(&named, &pem).expect("a key"))
    };
    KEYS.iter().map(signer).collect()
});

/// Checks one input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (input, signature, digest) = (line(), line(), line());
    // Nobody finds the digest of the content by chance.
    assert!(check_content_digest(digest, data).is_err());
    let message = Message {
        method: "GET",
        target_uri: "https://api.example/x",
        authority: "api.example",
        content_digest: Some(digest).filter(|digest| !digest.is_empty()),
        is_response: false,
    };
    if let Ok(found) = MessageSignature::parse(input, signature) {
        assert!(found.len() <= SIGNATURES_MAX);
        for one in &found {
            for (_, public) in KEYS.iter() {
                let verified = one.verify(public, &message, &[], NOW_S, SECONDS_MAX);
                assert!(verified.is_err(), "a signature without the private key");
            }
        }
    }
    agrees(input, &message);
}

/// Checks that a signature by `httpsig` with these parameters verifies here, unless a rule of ours
/// is broken, and that it doesn't verify for another message.
fn agrees(input: &str, message: &Message<'_>) {
    let Some(parameters) = input.strip_prefix("sig1=") else {
        return;
    };
    // `httpsig` writes texts without escapes.
    let Some(parameters) = HttpSignatureParams::try_from(parameters)
        .ok()
        .filter(|_| !parameters.contains('\\'))
    else {
        return;
    };
    let line = |id: &HttpMessageComponentId| {
        let name = id.to_string();
        let value = match name.as_str() {
            r#""@method""# => message.method,
            r#""@target-uri""# => message.target_uri,
            r#""@authority""# => message.authority,
            _ => return None,
        };
        HttpMessageComponent::try_from(format!("{name}: {value}").as_str()).ok()
    };
    let lines: Option<Vec<_>> = parameters.covered_components.iter().map(line).collect();
    let Some(base) = lines.and_then(|lines| HttpSignatureBase::try_new(&lines, &parameters).ok()) else {
        return;
    };
    for ((_, public), signer) in KEYS.iter().zip(SIGNERS.iter()) {
        let Some(signer) = signer else { continue };
        let headers = base.build_signature_headers(signer, Some("sig1")).expect("a signature");
        let (input, signature) = (headers.signature_input_header_value(), headers.signature_header_value());
        let found = MessageSignature::parse(&input, &signature);
        let Ok([one]) = found.as_deref() else { continue };
        match one.verify(public, message, &[], NOW_S, SECONDS_MAX) {
            Ok(()) => {
                let other = Message {
                    method: "POST",
                    target_uri: "https://api.example/y",
                    ..*message
                };
                let is_bound = one.verify(public, &other, &[], NOW_S, SECONDS_MAX).is_err();
                let covers = |id: &HttpMessageComponentId| id.to_string() != r#""@authority""#;
                assert!(is_bound || !parameters.covered_components.iter().any(covers));
            }
            Err(error) => assert!(!error.to_string().contains("isn't the key's"), "{error}: {input}"),
        }
    }
}
