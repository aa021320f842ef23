//! Key directories (JWK Sets) on any bytes; thumbprints against those of Cloudflare's
//! `web-bot-auth`.

use http_signatures::{DirectoryKey, key_set, parse_directory};
use web_bot_auth::keyring::JSONWebKeySet;

const KEYS_MAX: usize = 32;

/// Checks one input.
pub fn run(body: &[u8]) {
    let Ok(keys) = parse_directory(body, KEYS_MAX, 0) else {
        return;
    };
    let keys: Vec<DirectoryKey> = keys.into_iter().flatten().collect();
    assert!(keys.len() <= KEYS_MAX);
    // What we publish of the keys has the same keys, and a key's PEM is the key.
    let set = key_set(&keys).expect("a key set");
    let again = parse_directory(set.as_bytes(), KEYS_MAX, 0).expect("our own key set");
    let again: Vec<DirectoryKey> = again.into_iter().map(|key| key.expect("our own key")).collect();
    assert_eq!(thumbprints(&again), thumbprints(&keys));
    let reference: JSONWebKeySet = serde_json::from_str(&set).expect("a key set");
    let reference: Vec<String> = reference.keys.iter().map(|key| key.b64_thumbprint()).collect();
    assert_eq!(reference, thumbprints(&keys));
    for key in &keys {
        assert_eq!(key.thumbprint.len(), 43);
        let of_pem = DirectoryKey::from_pem(&key.pem).expect("its PEM");
        assert_eq!(of_pem.thumbprint, key.thumbprint);
        assert_eq!(of_pem.key.fingerprint(), key.key.fingerprint());
    }
}

fn thumbprints(keys: &[DirectoryKey]) -> Vec<&str> {
    keys.iter().map(|key| key.thumbprint.as_str()).collect()
}
