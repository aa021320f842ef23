//! A token's text taken apart (RFC 7515, compact serialization), before anything in it is believed.
//!
//! The header is a map and not `jsonwebtoken`'s type, which takes a refused member that is null for
//! an absent one, and whose errors don't name the member that is wrong.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

use super::TokenError;
use super::key_set::accepted;

/// Header members that bring a key or say where one is (RFC 7515, 4.1), or that make the token
/// another thing: encrypted or compressed (RFC 7516), with a payload that isn't encoded (RFC 7797),
/// or with extensions that must be understood. None belongs in a token that is checked against
/// keys we know.
const REFUSED: &[&str] = &["jwk", "jku", "x5u", "x5c", "enc", "zip", "b64", "crit"];

/// The deepest nesting of claims.
const DEPTH_MAX: usize = 32;

/// Parts of a token.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    /// Algorithm that its header claims.
    pub(crate) algorithm: Algorithm,
    /// The name of the key.
    pub(crate) kid: Option<String>,
    /// Signed bytes: header and payload as they came.
    pub(crate) signed: &'a str,
    /// The signature, in base64url.
    pub(crate) signature: &'a str,
    payload: &'a str,
}

impl<'a> Token<'a> {
    /// Takes `text` apart.
    pub(crate) fn parse(text: &'a str, bytes_max: usize) -> Result<Self, TokenError> {
        if text.len() > bytes_max {
            return Err(TokenError::TooLong(bytes_max));
        }
        if text.starts_with("rcpt_") {
            return Err(TokenError::Malformed("this is an API key; a JWT is needed here"));
        }
        let mut parts = text.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Malformed("a JWT has three parts with dots between them"));
        };
        let header = object(header)?;
        if let Some(name) = REFUSED.iter().find(|name| header.contains_key(**name)) {
            return Err(TokenError::Header(name));
        }
        if header.get("typ").is_some_and(|kind| !is_jwt(kind)) {
            return Err(TokenError::Malformed("the header's `typ` is neither JWT nor at+jwt"));
        }
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(TokenError::Malformed("the header's `kid` is no string")),
        };
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(accepted);
        Ok(Self {
            algorithm: algorithm.ok_or(TokenError::Algorithm)?,
            kid,
            signed: &text[..header_and_payload_bytes(text, signature)],
            signature,
            payload,
        })
    }

    /// Parses the claims: only once the signature was found good.
    pub(crate) fn claims(&self) -> Result<Map<String, Value>, TokenError> {
        object(self.payload)
    }
}

fn header_and_payload_bytes(text: &str, signature: &str) -> usize {
    text.len() - signature.len() - 1
}

/// RFC 7519, 5.1, and RFC 9068, 2.1: media types, whose `application/` may be left out.
fn is_jwt(kind: &Value) -> bool {
    let kind = kind.as_str().unwrap_or_default().to_ascii_lowercase();
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
}

/// Base64url without padding, of a JSON object.
fn object(part: &str) -> Result<Map<String, Value>, TokenError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenError::Malformed("a part isn't base64url without padding"))?;
    // Readers differ in which of two members of one name they take (RFC 7519, section 4).
    receipt::canonicalize(&bytes, DEPTH_MAX)
        .map_err(|_| TokenError::Malformed("a part isn't JSON in which each member occurs once"))?;
    serde_json::from_slice(&bytes).map_err(|_| TokenError::Malformed("a part isn't a JSON object"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(header: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!(
            "{}.{}.{}",
            part(header),
            part(&json!({"sub": "a"})),
            URL_SAFE_NO_PAD.encode("sig")
        )
    }

    #[test]
    fn a_token_is_taken_apart() {
        let text = text(&json!({"alg": "ES256", "kid": "k", "typ": "application/JWT", "x5t": "ignored", "more": 1}));
        let token = Token::parse(&text, 1_000).unwrap();
        assert_eq!((token.algorithm, token.kid.as_deref()), (Algorithm::ES256, Some("k")));
        assert_eq!(format!("{}.{}", token.signed, token.signature), text);
        assert_eq!(token.claims().unwrap()["sub"], "a");
        assert!(matches!(
            Token::parse(&text, text.len() - 1),
            Err(TokenError::TooLong(_))
        ));
        assert!(Token::parse(&text, text.len()).is_ok());
    }

    #[test]
    fn keys_and_other_dangers_in_the_header_are_refused() {
        for name in REFUSED {
            for value in [
                Value::Null,
                json!("https://evil.example"),
                json!({"kty": "OKP"}),
                json!(["exp"]),
            ] {
                let text = text(&json!({"alg": "EdDSA", *name: value}));
                assert!(
                    matches!(Token::parse(&text, 1_000), Err(TokenError::Header(reported)) if reported == *name),
                    "{name}"
                );
            }
        }
        for (header, what) in [
            (json!({"alg": "EdDSA", "typ": "secevent+jwt"}), "typ"),
            (json!({"alg": "EdDSA", "typ": 1}), "typ"),
            (json!({"alg": "EdDSA", "kid": 1}), "kid"),
        ] {
            let error = Token::parse(&text(&header), 1_000).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_member_that_is_repeated_is_refused() {
        let token = |header: &str, payload: &str| {
            let [header, payload] = [header, payload].map(|part| URL_SAFE_NO_PAD.encode(part));
            format!("{header}.{payload}.c2ln")
        };
        let good = r#"{"alg":"EdDSA"}"#;
        for header in [
            r#"{"alg":"EdDSA","alg":"EdDSA"}"#,
            r#"{"alg":"EdDSA","kid":"a","k\u0069d":"b"}"#,
        ] {
            let error = Token::parse(&token(header, "{}"), 1_000).unwrap_err().to_string();
            assert!(error.contains("each member occurs once"), "{error}");
        }
        for payload in [r#"{"sub":"a","sub":"b"}"#, r#"{"sub":"a","more":[{"b":1,"b":1}]}"#] {
            let text = token(good, payload);
            let error = Token::parse(&text, 1_000).unwrap().claims().unwrap_err().to_string();
            assert!(error.contains("each member occurs once"), "{error}");
        }
        let text = token(good, r#"{"sub":"a","more":{"sub":"b"}}"#);
        assert_eq!(Token::parse(&text, 1_000).unwrap().claims().unwrap()["sub"], "a");
    }

    proptest! {
        /// Whatever a header names besides the four, `none` in any spelling above all, is no
        /// algorithm.
        #[test]
        fn other_algorithms_are_refused(name in "[nN][oO][nN][eE]|[A-Z]{2}[0-9]{3}|(rs|es|hs)256|eddsa|PS(256|384|512)|ES256K|\\PC{0,8}") {
            let taken = ["RS256", "ES256", "EdDSA", "HS256"].contains(&name.as_str());
            let text = text(&json!({"alg": name}));
            prop_assert_eq!(Token::parse(&text, 1_000).is_ok(), taken);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}|[A-Za-z0-9_.-]{0,200}|rcpt_[0-9a-f]{0,80}") {
            prop_assert!(Token::parse(&text, 300).is_err());
        }
    }
}
