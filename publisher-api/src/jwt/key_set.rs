//! The keys of a JWKS (RFC 7517), each for one algorithm.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys of a set; an issuer has a handful.
const KEYS_MAX: usize = 100;
/// The shortest and longest RSA modulus, in bytes: 2,048 bits (RFC 7518, 3.3) and 8,192.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

/// Signature algorithms of tokens. HS256 is with a secret, never with a key of a set.
const ACCEPTED: [Algorithm; 4] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA, Algorithm::HS256];

/// A public key.
#[derive(Clone)]
pub(crate) struct TokenKey {
    kid: Option<String>,
    algorithm: Algorithm,
    pub(crate) decoding: DecodingKey,
}

/// The keys of one issuer.
#[derive(Clone, Default)]
pub(crate) struct KeySet {
    keys: Vec<TokenKey>,
}

/// Keys of a set that match a token's header.
#[derive(Clone)]
pub(crate) enum Match {
    /// The key.
    Found(Box<TokenKey>),
    /// No key of that name; without a name, none of that algorithm.
    Unknown,
    /// A key of that name, and it is for another algorithm.
    OtherAlgorithm,
    /// The token names no key, and several may be meant.
    Ambiguous,
}

/// Returns the algorithm of a name in a header (RFC 7518, 3.1; RFC 8037, 3.1), if it is accepted.
pub(crate) fn accepted(name: &str) -> Option<Algorithm> {
    name.parse().ok().filter(|algorithm| ACCEPTED.contains(algorithm))
}

impl KeySet {
    /// The keys of a JWKS that can be used here. Others are left out (RFC 7517, 5): of another
    /// kind, for encryption, damaged. Secrets (`oct`) too: a set is public.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let set: Value = serde_json::from_slice(bytes).map_err(|error| format!("isn't JSON: {error}"))?;
        let Some(members) = set.get("keys").and_then(Value::as_array) else {
            return Err("is no JWKS: it has no array `keys`".to_owned());
        };
        if members.len() > KEYS_MAX {
            return Err(format!("has {} keys, more than {KEYS_MAX}", members.len()));
        }
        let keys = members
            .iter()
            .filter_map(|member| TokenKey::of_jwk(Jwk::deserialize(member).ok()?));
        Ok(Self { keys: keys.collect() })
    }

    /// Whether nothing in it can be used.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of usable keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key for a token of this header.
    pub(crate) fn find(&self, algorithm: Algorithm, kid: Option<&str>) -> Match {
        let fits = |key: &&TokenKey| key.algorithm == algorithm;
        let Some(kid) = kid else {
            let mut fitting = self.keys.iter().filter(fits);
            return match (fitting.next(), fitting.next()) {
                (Some(key), None) => Match::Found(Box::new(key.clone())),
                (None, _) => Match::Unknown,
                (Some(_), Some(_)) => Match::Ambiguous,
            };
        };
        let mut named = self
            .keys
            .iter()
            .filter(|key| key.kid.as_deref() == Some(kid))
            .peekable();
        if named.peek().is_none() {
            return Match::Unknown;
        }
        named
            .find(fits)
            .map_or(Match::OtherAlgorithm, |key| Match::Found(Box::new(key.clone())))
    }
}

impl TokenKey {
    fn of_jwk(jwk: Jwk) -> Option<Self> {
        let (algorithm, decoding) = match &jwk.algorithm {
            AlgorithmParameters::RSA(rsa) => {
                let (n, e) = (number(&rsa.n)?, number(&rsa.e)?);
                let fits = RSA_BYTES.contains(&n.len()) && (1..=4).contains(&e.len());
                (
                    Algorithm::RS256,
                    fits.then(|| DecodingKey::from_rsa_raw_components(&n, &e))?,
                )
            }
            AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
                let whole = is_whole(&point.x) && is_whole(&point.y);
                (Algorithm::ES256, whole.then(|| DecodingKey::from_jwk(&jwk).ok())??)
            }
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => (
                Algorithm::EdDSA,
                is_whole(&pair.x).then(|| DecodingKey::from_jwk(&jwk).ok())??,
            ),
            _ => return None,
        };
        let common = jwk.common;
        let signs = common
            .public_key_use
            .is_none_or(|purpose| purpose == PublicKeyUse::Signature);
        let verifies = common
            .key_operations
            .is_none_or(|ops| ops.contains(&KeyOperations::Verify));
        let agrees = common
            .key_algorithm
            .is_none_or(|named| named == KeyAlgorithm::from(algorithm));
        (signs && verifies && agrees).then_some(Self {
            kid: common.key_id,
            algorithm,
            decoding,
        })
    }
}

/// A Base64urlUInt (RFC 7518, 2) without leading zeros, which some issuers write all the same.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let from = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[from..].to_vec())
}

/// Whether a text is 32 bytes: a coordinate of P-256, or a key of Ed25519.
fn is_whole(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn b64(byte: u8, bytes: usize) -> String {
        URL_SAFE_NO_PAD.encode(vec![byte; bytes])
    }

    fn ed(kid: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(7, 32)})
    }

    fn ec(kid: &str) -> Value {
        json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": b64(1, 32), "y": b64(2, 32), "alg": "ES256"})
    }

    fn rsa(kid: &str) -> Value {
        json!({"kty": "RSA", "kid": kid, "n": b64(0xc1, 256), "e": "AQAB", "use": "sig", "key_ops": ["verify"]})
    }

    fn set(keys: &[Value]) -> KeySet {
        KeySet::parse(json!({"keys": keys, "more": 1}).to_string().as_bytes()).unwrap()
    }

    fn with(mut key: Value, name: &str, value: Value) -> Value {
        key[name] = value;
        key
    }

    #[test]
    fn what_cant_be_used_is_left_out() {
        assert_eq!(set(&[ed("a"), ec("b"), rsa("c")]).len(), 3);
        for key in [
            json!(7),
            json!({"kid": "no kind"}),
            json!({"kty": "oct", "k": b64(1, 32), "kid": "a secret in public", "alg": "HS256"}),
            with(ed("a"), "crv", json!("Ed448")),
            with(ed("a"), "x", json!(b64(7, 31))),
            with(ed("a"), "x", json!("not base64!")),
            with(ed("a"), "use", json!("enc")),
            with(ed("a"), "alg", json!("HS256")),
            with(ed("a"), "kid", json!(1)),
            with(ec("b"), "crv", json!("P-384")),
            with(ec("b"), "y", json!(b64(2, 33))),
            with(ec("b"), "alg", json!("RS256")),
            with(rsa("c"), "n", json!(b64(0xc1, 255))),
            with(rsa("c"), "n", json!(b64(0xc1, 1_025))),
            with(rsa("c"), "e", json!("")),
            with(rsa("c"), "alg", json!("PS256")),
            with(rsa("c"), "key_ops", json!(["encrypt"])),
        ] {
            assert!(set(std::slice::from_ref(&key)).is_empty(), "{key}");
        }
        let padded = [vec![0], vec![0xc1; 256]].concat();
        assert_eq!(
            set(&[with(rsa("c"), "n", json!(URL_SAFE_NO_PAD.encode(padded)))]).len(),
            1
        );
        let with_certificate = with(
            with(rsa("c"), "x5c", json!(["MIIC"])),
            "issuer",
            json!("https://id.example"),
        );
        assert_eq!(set(&[with_certificate]).len(), 1);
        let many = json!({"keys": vec![ed("a"); KEYS_MAX + 1]}).to_string();
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, many.as_str()] {
            assert!(KeySet::parse(text.as_bytes()).is_err(), "{text:.20}");
        }
    }

    #[test]
    fn a_key_is_found_by_name_and_for_its_own_algorithm_only() {
        let keys = set(&[ed("a"), ec("b"), rsa("c"), rsa("d"), ec("both"), ed("both")]);
        let find = |algorithm, kid| keys.find(algorithm, kid);
        assert!(matches!(find(Algorithm::EdDSA, Some("a")), Match::Found(_)));
        assert!(matches!(find(Algorithm::RS256, Some("d")), Match::Found(_)));
        for algorithm in [Algorithm::ES256, Algorithm::RS256, Algorithm::HS256] {
            assert!(
                matches!(find(algorithm, Some("a")), Match::OtherAlgorithm),
                "{algorithm:?}"
            );
        }
        for algorithm in [Algorithm::ES256, Algorithm::EdDSA] {
            assert!(matches!(find(algorithm, Some("both")), Match::Found(key) if key.algorithm == algorithm));
        }
        assert!(matches!(find(Algorithm::EdDSA, Some("A")), Match::Unknown));
        assert!(matches!(find(Algorithm::EdDSA, Some("")), Match::Unknown));
        assert!(matches!(find(Algorithm::RS256, None), Match::Ambiguous));
        assert!(matches!(find(Algorithm::HS256, None), Match::Unknown));
        assert!(matches!(
            set(&[ed("a"), rsa("c")]).find(Algorithm::RS256, None),
            Match::Found(_)
        ));
    }
}
