//! Base64, PEM and DER of keys and signatures, and verification, on any bytes.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use receipt::{Algorithm, PublicKey, SigningKey, check_request_signature};

static KEYS: LazyLock<[PublicKey; 3]> = LazyLock::new(|| {
    Algorithm::ALL.map(|algorithm| {
        let key = SigningKey::generate(algorithm).expect("a key");
        PublicKey::from_pem(key.public_key_pem()).expect("its public key")
    })
});

/// Checks one input.
pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let plausible = check_request_signature(text).is_ok();
        let decoded = STANDARD
            .decode(text)
            .is_ok_and(|bytes| (1..=512).contains(&bytes.len()));
        assert_eq!(plausible, decoded);
        public_key(text);
        let _ = SigningKey::from_pkcs8_pem(text);
    }
    for label in ["PUBLIC KEY", "PRIVATE KEY"] {
        let pem = format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            STANDARD.encode(data)
        );
        public_key(&pem);
        let _ = SigningKey::from_pkcs8_pem(&pem);
    }
    // Nobody has signed anything with these.
    for key in &*KEYS {
        assert!(!key.verify(b"message", data));
    }
    ed25519(data);
}

/// A key that is accepted works without a panic.
fn public_key(pem: &str) {
    if let Ok(key) = PublicKey::from_pem(pem) {
        for length in [0, 64, 72, 256] {
            let _ = key.verify(b"message", &vec![1; length]);
        }
    }
}

/// Our verdict on an Ed25519 signature is ed25519-dalek's `verify_strict`, over keys in canonical
/// encoding.
fn ed25519(data: &[u8]) {
    let Some((key, rest)) = data.split_first_chunk::<32>() else {
        return;
    };
    let Some((signature, message)) = rest.split_first_chunk::<64>() else {
        return;
    };
    let head = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let der = STANDARD.encode([&head[..], key].concat());
    let ours = PublicKey::from_pem(&format!(
        "-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n"
    ));
    let reference = ed25519_dalek::VerifyingKey::from_bytes(key)
        .ok()
        .filter(|found| !found.is_weak() && found.to_edwards().compress().as_bytes() == key);
    assert_eq!(ours.is_ok(), reference.is_some());
    if let (Ok(ours), Some(reference)) = (ours, reference) {
        let strict = reference
            .verify_strict(message, &ed25519_dalek::Signature::from_bytes(signature))
            .is_ok();
        assert_eq!(ours.verify(message, signature), strict);
    }
}
