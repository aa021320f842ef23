//! Keys of a directory: a JWK Set (RFC 7517) of public keys that receipts could be signed with.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::{
    AlgorithmParameters, CommonParameters, EllipticCurve, EllipticCurveKeyParameters, Jwk, JwkSet,
    OctetKeyPairParameters, PublicKeyUse, RSAKeyParameters, ThumbprintHash,
};
use receipt::{Algorithm, PublicKey};
use serde::Deserialize;
use serde_json::Value;

/// Path of a directory on its domain (draft-meunier-http-message-signatures-directory).
pub const PATH: &str = "/.well-known/http-message-signatures-directory";
/// Media type of a directory.
pub const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";
/// The tag of a directory's own signatures.
pub const TAG: &str = "http-message-signatures-directory";

/// Beginnings of the SPKI DER before the key itself (RFC 8410, RFC 5480, RFC 3279). The RSA one is
/// that of a modulus of 2048 bits and the exponent 65,537, which ends the encoding.
const ED25519_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const P256_HEAD: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
const RSA_HEAD: [u8; 33] = [
    0x30, 0x82, 0x01, 0x22, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    0x03, 0x82, 0x01, 0x0f, 0x00, 0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0x00,
];
const RSA_TAIL: [u8; 5] = [0x02, 0x03, 0x01, 0x00, 0x01];
const RSA_EXPONENT: &str = "AQAB";

/// SHA-256 of the SPKI DER of RFC 9421's test keys (appendix B.1), whose private keys everybody
/// has.
const PUBLISHED_TEST_KEYS: [[u8; 32]; 4] = [
    // test-key-rsa
    hex(b"c73eecd318bd3813f2402a660d8a90010ca35d609d19377d5ee7af200713229f"),
    // test-key-rsa-pss
    hex(b"72859cbaf21a0b398b1f25712bbed148b1d85a0c6b824176eb306405caa6f0b2"),
    // test-key-ecc-p256
    hex(b"55f96361b78cbb84f1fc604b0718e82bd91abb46d8fc25ae871b35fbbf8b7974"),
    // test-key-ed25519
    hex(b"34571606cb7a0d71be377e671ddcccae2a169ed7733598214129231cd30c4a3c"),
];

/// Decodes 64 hexadecimal digits.
const fn hex(text: &[u8; 64]) -> [u8; 32] {
    const fn digit(byte: u8) -> u8 {
        match byte {
            b'0'..=b'9' => byte - b'0',
            _ => byte - b'a' + 10,
        }
    }
    let mut bytes = [0; 32];
    let mut at = 0;
    while at < 32 {
        bytes[at] = digit(text[2 * at]) << 4 | digit(text[2 * at + 1]);
        at += 1;
    }
    bytes
}

/// A public key, ready to verify with.
#[derive(Debug, Clone)]
pub struct DirectoryKey {
    /// The key.
    pub key: PublicKey,
    /// SPKI in PEM.
    pub pem: String,
    /// RFC 7638 thumbprint with SHA-256, base64url without padding.
    pub thumbprint: String,
    /// When the key expires, if its JWK says so: `exp`, in seconds since the Unix epoch.
    pub expires_s: Option<i64>,
    jwk: Jwk,
}

/// Why a JWK can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwkError {
    /// A key that receipts can't be signed with.
    #[error(
        "the JWK is no public key of the three kinds: OKP with Ed25519, EC with P-256, or RSA with 2048 bits and the \
         exponent AQAB"
    )]
    OtherKind,
    /// A key of the three kinds with a fault, in a sentence for its owner.
    #[error("{0}")]
    Faulty(String),
}

/// Why a directory can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The body isn't a JWK Set.
    #[error("it isn't a JWK Set (RFC 7517): {0}")]
    NotAKeySet(String),
    /// More keys than are read.
    #[error("it has {count} keys; at most {max} are read")]
    TooManyKeys {
        /// Keys in the set.
        count: usize,
        /// Keys that are read.
        max: usize,
    },
}

#[derive(Deserialize)]
struct DirectoryKeySet {
    keys: Vec<Value>,
}

/// Returns the keys of a JWK Set that a receipt could be signed with: Ed25519, P-256, and RSA with
/// 2048 bits and the exponent 65,537. A faulty one is an `Err`, which has its number and the fault.
/// Keys of other kinds are skipped, as RFC 7517 section 5 has it. `now_s` is in seconds since the
/// Unix epoch.
pub fn parse_directory(
    body: &[u8],
    keys_max: usize,
    now_s: i64,
) -> Result<Vec<Result<DirectoryKey, String>>, DirectoryError> {
    let not_a_set = |error: serde_json::Error| DirectoryError::NotAKeySet(error.to_string());
    // An array would be read as an object's members.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(DirectoryError::NotAKeySet("it isn't an object".to_owned()));
    }
    let set: DirectoryKeySet = serde_json::from_slice(body).map_err(not_a_set)?;
    if set.keys.len() > keys_max {
        let count = set.keys.len();
        return Err(DirectoryError::TooManyKeys { count, max: keys_max });
    }
    let keys = (1..)
        .zip(&set.keys)
        .filter_map(|(number, jwk)| match DirectoryKey::from_jwk(jwk, now_s) {
            Ok(key) => Some(Ok(key)),
            Err(JwkError::OtherKind) => None,
            Err(JwkError::Faulty(fault)) => Some(Err(format!("key {number} of the set was skipped: {fault}"))),
        });
    Ok(keys.collect())
}

/// Returns the JWK Set (RFC 7517) of these keys, each with its thumbprint as `kid`.
///
/// # Errors
/// If memory runs out.
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a DirectoryKey>) -> Result<String, String> {
    let named = |key: &DirectoryKey| {
        let mut jwk = key.jwk.clone();
        jwk.common.key_id = Some(key.thumbprint.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        jwk
    };
    let keys = keys.into_iter().map(named).collect();
    serde_json::to_string(&JwkSet { keys }).map_err(|error| error.to_string())
}

impl DirectoryKey {
    /// A key from its SPKI in PEM.
    ///
    /// # Errors
    /// Why it is no key of the three kinds. An RSA exponent other than 65,537 is refused too,
    /// because a directory couldn't list it, and so are RFC 9421's published test keys.
    pub fn from_pem(pem: &str) -> Result<Self, String> {
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        let base64: String = lines.map(str::trim).collect();
        PublicKey::from_pem(pem).map_err(|error| error.to_string())?;
        let der = STANDARD.decode(base64).map_err(|_| "the PEM isn't base64".to_owned())?;
        Self::from_spki(&der)
    }

    /// A key from its JWK, which must be a public key that verifies signatures of receipts now.
    /// `now_s` is in seconds since the Unix epoch.
    ///
    /// # Errors
    /// [`JwkError`], as with [`DirectoryKey::from_pem`].
    pub fn from_jwk(jwk: &Value, now_s: i64) -> Result<Self, JwkError> {
        let (algorithm, der) = spki(jwk)?;
        let expires_s = check_use(jwk, algorithm, now_s).map_err(JwkError::Faulty)?;
        let key = Self::from_spki(&der).map_err(JwkError::Faulty)?;
        Ok(Self { expires_s, ..key })
    }

    fn from_spki(der: &[u8]) -> Result<Self, String> {
        let pem = pem(der);
        let key = PublicKey::from_pem(&pem).map_err(|error| error.to_string())?;
        if PUBLISHED_TEST_KEYS.contains(key.fingerprint()) {
            return Err(
                "it is a test key that RFC 9421 publishes with its private half: anybody can sign with it".into(),
            );
        }
        let jwk = Jwk {
            common: CommonParameters::default(),
            algorithm: parameters(&key, der).ok_or("the RSA exponent must be 65,537")?,
        };
        let thumbprint = jwk
            .thumbprint(ThumbprintHash::SHA256)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            key,
            pem,
            thumbprint,
            expires_s: None,
            jwk,
        })
    }
}

/// Members of a JWK that only a private key has (RFC 7518 section 6, RFC 8037 section 2).
const PRIVATE: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

/// Checks that a JWK is of a public key for signatures of receipts. Returns its `exp`.
fn check_use(jwk: &Value, algorithm: Algorithm, now_s: i64) -> Result<Option<i64>, String> {
    if let Some(name) = PRIVATE.iter().find(|name| jwk.get(**name).is_some()) {
        return Err(format!(
            "it has the private part `{name}`: whoever has read it can sign, so make a new key, and give its public \
             part alone"
        ));
    }
    if let Some(its_use) = jwk.get("use").filter(|its_use| *its_use != "sig") {
        return Err(format!("its `use` is {its_use}, and must be \"sig\" or left out"));
    }
    let verifies = |ops: &Value| ops.as_array().is_some_and(|ops| ops.iter().any(|op| op == "verify"));
    if let Some(ops) = jwk.get("key_ops").filter(|ops| !verifies(ops)) {
        return Err(format!("its `key_ops` are {ops}, without \"verify\""));
    }
    let names: &[&str] = match algorithm {
        Algorithm::Ed25519 => &["EdDSA", "Ed25519"],
        Algorithm::EcdsaP256 => &["ES256"],
        Algorithm::Rsa2048 => &["RS256"],
    };
    if let Some(alg) = jwk.get("alg").filter(|alg| !names.iter().any(|name| alg == name)) {
        let names = names.join(" or ");
        return Err(format!(
            "its `alg` is {alg}, and this kind of key signs receipts with {names}"
        ));
    }
    let Some(exp) = jwk.get("exp") else {
        return Ok(None);
    };
    // A fraction of a second makes no difference.
    #[allow(clippy::cast_possible_truncation)]
    let exp = exp.as_f64().ok_or("its `exp` isn't a number")? as i64;
    if exp <= now_s {
        return Err(format!("it expired at {exp}: it is {now_s} now"));
    }
    Ok(Some(exp))
}

/// The algorithm and the SPKI of a JWK.
fn spki(jwk: &Value) -> Result<(Algorithm, Vec<u8>), JwkError> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let number = |name: &str, bytes: usize| number(name, text(name), bytes).map_err(JwkError::Faulty);
    match (text("kty"), text("crv")) {
        (Some("OKP"), Some("Ed25519")) => {
            let der = [&ED25519_HEAD[..], &number("x", 32)?].concat();
            Ok((Algorithm::Ed25519, der))
        }
        (Some("EC"), Some("P-256")) => {
            let der = [&P256_HEAD[..], &number("x", 32)?, &number("y", 32)?].concat();
            Ok((Algorithm::EcdsaP256, der))
        }
        (Some("RSA"), _) if text("e") == Some(RSA_EXPONENT) => {
            let der = [&RSA_HEAD[..], &number("n", 256)?, &RSA_TAIL].concat();
            Ok((Algorithm::Rsa2048, der))
        }
        (Some(_), _) => Err(JwkError::OtherKind),
        (None, _) => Err(JwkError::Faulty(
            "it isn't a JWK (RFC 7517): `kty` is missing".to_owned(),
        )),
    }
}

/// A number in base64url without padding (RFC 7515 section 2), which has so many bytes.
fn number(name: &str, text: Option<&str>, bytes: usize) -> Result<Vec<u8>, String> {
    let text = text.ok_or_else(|| format!("its `{name}` is missing, or isn't a text"))?;
    if text.ends_with('=') {
        return Err(format!("its `{name}` has padding: leave out `=` (RFC 7515, section 2)"));
    }
    let decoded = URL_SAFE_NO_PAD.decode(text);
    let decoded = decoded.map_err(|_| format!("its `{name}` isn't base64url (RFC 7515, section 2)"))?;
    if decoded.len() == bytes {
        Ok(decoded)
    } else if decoded.len() == bytes + 1 && decoded.first() == Some(&0) {
        Err(format!(
            "its `{name}` begins with a zero byte: leave it out (RFC 7518, section 6.3.1.1)"
        ))
    } else {
        let bits = bytes * 8;
        Err(format!(
            "its `{name}` has {} bytes, and a key of {bits} bits has {bytes}",
            decoded.len()
        ))
    }
}

/// The JWK of an SPKI that [`PublicKey`] has accepted.
fn parameters(key: &PublicKey, der: &[u8]) -> Option<AlgorithmParameters> {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    Some(match key.algorithm() {
        Algorithm::Ed25519 => AlgorithmParameters::OctetKeyPair(OctetKeyPairParameters {
            curve: EllipticCurve::Ed25519,
            x: text(der.strip_prefix(&ED25519_HEAD)?),
            ..OctetKeyPairParameters::default()
        }),
        Algorithm::EcdsaP256 => {
            let (x, y) = der.strip_prefix(&P256_HEAD)?.split_at_checked(32)?;
            AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters {
                curve: EllipticCurve::P256,
                x: text(x),
                y: text(y),
                ..EllipticCurveKeyParameters::default()
            })
        }
        Algorithm::Rsa2048 => AlgorithmParameters::RSA(RSAKeyParameters {
            n: text(der.strip_prefix(&RSA_HEAD)?.strip_suffix(&RSA_TAIL)?),
            e: RSA_EXPONENT.to_owned(),
            ..RSAKeyParameters::default()
        }),
    })
}

fn pem(der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
    for line in base64.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + "-----END PUBLIC KEY-----\n"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ED25519: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

    const NOW_S: i64 = 1_800_000_000;

    fn set(keys: &[&str]) -> Vec<u8> {
        format!(r#"{{"keys":[{}],"purpose":"ai"}}"#, keys.join(",")).into_bytes()
    }

    /// The usable keys of a directory, and the faults of the others.
    fn parsed(body: &[u8]) -> (Vec<DirectoryKey>, Vec<String>) {
        let (keys, faults): (Vec<_>, Vec<_>) = parse_directory(body, 32, NOW_S)
            .unwrap()
            .into_iter()
            .partition(Result::is_ok);
        (
            keys.into_iter().map(Result::unwrap).collect(),
            faults.into_iter().map(Result::unwrap_err).collect(),
        )
    }

    /// The key of RFC 8037 with further members.
    fn with(members: &str) -> String {
        ED25519.replacen('}', &format!(",{members}}}"), 1)
    }

    #[test]
    fn the_thumbprint_is_rfc_8037s() {
        // RFC 8037 appendix A.3.
        let (keys, _) = parsed(&set(&[ED25519]));
        assert_eq!(keys[0].thumbprint, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let again = DirectoryKey::from_pem(&keys[0].pem).unwrap();
        assert_eq!(again.thumbprint, keys[0].thumbprint);
        assert_eq!(again.key.fingerprint(), keys[0].key.fingerprint());
    }

    #[test]
    fn a_published_set_is_read_again_with_its_key_ids() {
        let (keys, _) = parsed(&set(&[ED25519]));
        let published = key_set(&keys).unwrap();
        let (again, _) = parsed(published.as_bytes());
        assert_eq!(again[0].key.fingerprint(), keys[0].key.fingerprint());
        let published: Value = serde_json::from_str(&published).unwrap();
        assert_eq!(published["keys"][0]["kid"], keys[0].thumbprint.as_str());
        assert_eq!(published["keys"][0]["use"], "sig");
    }

    #[test]
    fn keys_of_other_kinds_are_skipped() {
        let others = [
            r#"{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
            r#"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}"#,
            r#"{"kty":"AKP","alg":"ML-DSA-44","pub":"AA"}"#,
            r#"{"kty":"RSA","e":"Aw","n":"AQAB"}"#,
            ED25519,
        ];
        let (keys, faults) = parsed(&set(&others));
        assert_eq!((keys.len(), faults), (1, Vec::new()));
    }

    #[test]
    fn faulty_keys_are_skipped_with_the_cause() {
        let rsa = |n: &[u8]| format!(r#"{{"kty":"RSA","e":"AQAB","n":"{}"}}"#, URL_SAFE_NO_PAD.encode(n));
        for (jwk, cause) in [
            (with(r#""use":"enc""#), "`use` is \"enc\""),
            (with(r#""use":["sig"]"#), "`use` is [\"sig\"]"),
            (with(r#""key_ops":["sign"]"#), "without \"verify\""),
            (with(r#""key_ops":"verify""#), "without \"verify\""),
            (with(r#""alg":"ES256""#), "signs receipts with EdDSA or Ed25519"),
            (with(r#""exp":1800000000"#), "expired at 1800000000"),
            (with(r#""exp":"2030-01-01""#), "`exp` isn't a number"),
            (with(r#""d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A""#), "private part `d`"),
            (ED25519.replace("HURo", "HURo="), "`x` has padding"),
            (ED25519.replace('_', "/"), "`x` isn't base64url"),
            (ED25519.replace("HURo", ""), "`x` has 29 bytes"),
            (r#"{"kty":"OKP","crv":"Ed25519"}"#.to_owned(), "`x` is missing"),
            (rsa(&[&[0][..], &[0xff; 256]].concat()), "begins with a zero byte"),
            (rsa(&[0xff; 384]), "`n` has 384 bytes, and a key of 2048 bits has 256"),
            ("7".to_owned(), "isn't a JWK"),
            // RFC 9421 appendix B.1.4 and B.1.3.
            (
                r#"{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}"#.to_owned(),
                "test key",
            ),
            (
                r#"{"kty":"EC","crv":"P-256","x":"qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA","y":"Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0"}"#
                    .to_owned(),
                "test key",
            ),
        ] {
            let (keys, faults) = parsed(&set(&[ED25519, &jwk]));
            assert_eq!((keys.len(), faults.len()), (1, 1), "{jwk}");
            assert!(faults[0].starts_with("key 2 of the set") && faults[0].contains(cause), "{}", faults[0]);
        }
    }

    #[test]
    fn usual_members_are_taken() {
        for members in [
            r#""use":"sig","key_ops":["verify"],"ext":true"#,
            r#""alg":"EdDSA","kid":"a","nbf":1900000000000"#,
            r#""alg":"Ed25519","x5t":"a","unknown":null"#,
        ] {
            let (keys, _) = parsed(&set(&[&with(members)]));
            assert_eq!((keys.len(), keys[0].expires_s), (1, None), "{members}");
        }
        let (keys, _) = parsed(&set(&[&with(r#""exp":1800000001.5"#)]));
        assert_eq!(keys[0].expires_s, Some(NOW_S + 1));
    }

    #[test]
    fn what_is_no_key_set_is_refused() {
        for body in [
            &b""[..],
            b"[]",
            b"[[]]",
            b"{}",
            b"{\"keys\":7}",
            b"\xff",
            b"{\"keys\":[]",
        ] {
            assert!(matches!(
                parse_directory(body, 32, NOW_S),
                Err(DirectoryError::NotAKeySet(_))
            ));
        }
        assert!(parse_directory(b"{\"keys\":[]}", 32, NOW_S).unwrap().is_empty());
        let many = parse_directory(&set(&[ED25519; 33]), 32, NOW_S).unwrap_err();
        assert_eq!(many, DirectoryError::TooManyKeys { count: 33, max: 32 });
    }
}
