#![allow(clippy::unwrap_used)]

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};

use super::*;
use crate::DirectoryKey;

const NOW_S: i64 = 1_800_000_000;

fn message() -> Message<'static> {
    Message {
        method: "GET",
        target_uri: "https://receipts.example/api/v1/client/outcomes?after=a%20b",
        authority: "receipts.example",
        content_digest: None,
        is_response: false,
    }
}

struct Signer {
    pair: Ed25519KeyPair,
    key: DirectoryKey,
}

fn signer(seed: u8) -> Signer {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
    let key = format!(
        r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{}"}}]}}"#,
        base64::Engine::encode(
            &base64::engine::general_purpose::URL_SAFE_NO_PAD,
            pair.public_key().as_ref()
        )
    );
    let key = crate::parse_directory(key.as_bytes(), 1, 0).unwrap().remove(0).unwrap();
    Signer { pair, key }
}

impl Signer {
    /// Signs a base, and returns the fields.
    fn sign(&self, input: &str, base: &str) -> (String, String) {
        let signature = self.pair.sign(base.as_bytes());
        let bytes = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, signature.as_ref());
        (format!("sig={input}"), format!("sig=:{bytes}:"))
    }
}

fn request_base(input: &str) -> String {
    format!(
        "\"@method\": GET\n\"@target-uri\": https://receipts.example/api/v1/client/outcomes?after=a%20b\n\
         \"@signature-params\": {input}"
    )
}

fn verify(signer: &Signer, (input, signature): &(String, String), message: &Message<'_>) -> Result<(), String> {
    let found = MessageSignature::parse(input, signature).map_err(|why| why.to_string())?;
    let components = ["@method", "@target-uri"];
    let verified = found[0].verify(&signer.key.key, message, &components, NOW_S, 300);
    verified.map_err(|why| why.to_string())
}

#[test]
fn a_request_is_its_signers() {
    let signer = signer(1);
    let input = format!(
        "(\"@method\" \"@target-uri\");created={NOW_S};expires={};keyid=\"k\";alg=\"ed25519\"",
        NOW_S + 300
    );
    let fields = signer.sign(&input, &request_base(&input));
    assert_eq!(verify(&signer, &fields, &message()), Ok(()));
    let parsed = MessageSignature::parse(&fields.0, &fields.1).unwrap();
    assert_eq!((parsed[0].key_id(), parsed[0].tag()), (Some("k"), None));
    let post = Message {
        method: "POST",
        ..message()
    };
    let elsewhere = Message {
        target_uri: "https://receipts.example/api/v1/client/outcomes",
        ..message()
    };
    for other in [post, elsewhere] {
        assert!(
            verify(&signer, &fields, &other)
                .unwrap_err()
                .contains("isn't the key's")
        );
    }
    assert!(verify(&super::tests::signer(2), &fields, &message()).is_err());
}

#[test]
fn times_components_and_parameters_are_checked() {
    let signer = signer(1);
    for (input, found) in [
        (
            "(\"@method\" \"@target-uri\");created=1800000000".to_owned(),
            "created and expires",
        ),
        (
            "(\"@method\" \"@target-uri\");created=1800000061;expires=1800000100".to_owned(),
            "in the future",
        ),
        (
            "(\"@method\" \"@target-uri\");created=1799999900;expires=1800000000".to_owned(),
            "expired",
        ),
        (
            "(\"@method\" \"@target-uri\");created=1800000000;expires=1800000301".to_owned(),
            "at most 300",
        ),
        (
            "(\"@target-uri\");created=1800000000;expires=1800000300".to_owned(),
            "must cover \"@method\"",
        ),
        (
            "(\"@method\" \"@target-uri\");created=1800000000;expires=1800000300;alg=\"rsa-v1_5-sha256\"".to_owned(),
            "alg must be",
        ),
        (
            "(\"@method\" \"@target-uri\" \"@method\");created=1800000000;expires=1800000300".to_owned(),
            "covered twice",
        ),
        (
            "(\"@method\" \"@target-uri\" \"cookie\");created=1800000000;expires=1800000300".to_owned(),
            "isn't supported",
        ),
        (
            "(\"@method\";req \"@target-uri\");created=1800000000;expires=1800000300".to_owned(),
            "isn't supported",
        ),
        (
            "(\"@method\";bs \"@target-uri\");created=1800000000;expires=1800000300".to_owned(),
            "the parameter bs",
        ),
    ] {
        let fields = signer.sign(&input, &request_base(&input));
        let error = verify(&signer, &fields, &message()).unwrap_err();
        assert!(error.contains(found), "{input}: {error}");
    }
}

#[test]
fn a_directory_is_signed_for_its_authority() {
    let signer = signer(3);
    let input = format!(
        "(\"@authority\";req);created={NOW_S};expires={};tag=\"{}\"",
        NOW_S + 60,
        crate::TAG
    );
    let base = format!("\"@authority\";req: ai.example\n\"@signature-params\": {input}");
    let (input, signature) = signer.sign(&input, &base);
    let found = MessageSignature::parse(&input, &signature).unwrap();
    assert_eq!(found[0].tag(), Some(crate::TAG));
    let directory = |authority| Message {
        method: "GET",
        target_uri: "https://ai.example/.well-known/http-message-signatures-directory",
        authority,
        content_digest: None,
        is_response: true,
    };
    let verify = |authority| found[0].verify(&signer.key.key, &directory(authority), &["@authority"], NOW_S, 86_400);
    assert_eq!(verify("ai.example"), Ok(()));
    assert!(verify("other.example").is_err());
}

#[test]
fn fields_that_are_none_are_refused() {
    let long = "a".repeat(FIELD_BYTES_MAX + 1);
    let many: Vec<String> = (0..33).map(|number| format!("s{number}=()")).collect();
    for (input, signature) in [
        ("sig=(", "sig=:AA==:"),
        ("sig=7", "sig=:AA==:"),
        ("sig=()", "sig=7"),
        ("sig=()", "other=:AA==:"),
        (long.as_str(), ""),
        (many.join(", ").as_str(), ""),
    ] {
        assert!(MessageSignature::parse(input, signature).is_err(), "{input}");
    }
    assert!(MessageSignature::parse("", "").unwrap().is_empty());
}
