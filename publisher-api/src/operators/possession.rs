//! A request that registers a key is signed with it (RFC 9421), so that nobody registers the key of
//! somebody else.

use http::HeaderMap;
use http::request::Parts;
use http_signatures::{DirectoryKey, Message, MessageSignature, check_content_digest};

/// Components that the signature must cover: all of the request that matters.
pub(crate) const COMPONENTS: [&str; 3] = ["@method", "@target-uri", "content-digest"];
/// The longest time between `created` and `expires`.
const SECONDS_MAX: i64 = 300;
/// Signatures of one request that are verified.
const VERIFIED_MAX: usize = 4;

/// Checks that the key signed the request, whose target is at `public_url`.
///
/// # Errors
/// A sentence that says what to change.
pub(crate) fn check(head: &Parts, body: &[u8], public_url: &str, key: &DirectoryKey, now_s: i64) -> Result<(), String> {
    let input = field(&head.headers, "signature-input")?;
    let signature = field(&head.headers, "signature")?;
    let digest = field(&head.headers, "content-digest")?;
    check_content_digest(&digest, body).map_err(|error| error.to_string())?;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let target_uri = format!("{public_url}{path}");
    let message = Message {
        method: head.method.as_str(),
        target_uri: &target_uri,
        authority: public_url.split_once("://").map_or("", |(_, authority)| authority),
        content_digest: Some(&digest),
        is_response: false,
    };
    let signatures = MessageSignature::parse(&input, &signature).map_err(|error| error.to_string())?;
    let by_key = signatures
        .iter()
        .filter(|one| one.key_id().is_none_or(|id| id == key.thumbprint));
    let mut refused = format!(
        "no signature has the keyid {}, which is the key's thumbprint, or none at all",
        key.thumbprint
    );
    for signature in by_key.take(VERIFIED_MAX) {
        match signature.verify(&key.key, &message, &COMPONENTS, now_s, SECONDS_MAX) {
            Ok(()) => return Ok(()),
            Err(error) => refused = format!("{error}; the \"@target-uri\" of this request is {target_uri}"),
        }
    }
    Err(refused)
}

/// A field's value; several are one list (RFC 9110, section 5.3).
fn field(headers: &HeaderMap, name: &str) -> Result<String, String> {
    let mut values = Vec::new();
    for value in headers.get_all(name) {
        let value = value.to_str().map_err(|_| format!("the field {name} isn't ASCII"))?;
        values.push(value.trim());
    }
    if values.is_empty() {
        return Err(format!("the request has no field {name}"));
    }
    Ok(values.join(", "))
}
