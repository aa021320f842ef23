//! JSON bodies of requests to the APIs: small, bounded, and refused with a location.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use serde_path_to_error::Segment;
use service::problem::{Kind, Problem};
use tokio::time::timeout;

use crate::Failure;

/// The longest body of one JSON object, in bytes.
pub const BYTES_MAX: usize = 64 << 10;
/// The longest body of which more than the first fault is searched for: each takes further parses.
const SEVERAL_FAULTS_BYTES_MAX: usize = 4 << 10;
/// The most faults that are searched for in one body.
const FAULTS_MAX: usize = 20;
/// Time for a body to arrive.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A request's body as `T`: `application/json`, [`BYTES_MAX`] at most.
///
/// Refused with 415 (another media type or any content encoding), 413, 408 or 400; a 400 names the
/// location by JSON Pointer (RFC 6901).
#[derive(Debug, Clone, Copy)]
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Failure> {
        let (head, body) = request.into_parts();
        media(&head.headers, "application/json")?;
        let bytes = read(body, BYTES_MAX).await?;
        parse_body(&bytes).map(Self)
    }
}

/// Whether the body is of this media type, parameters aside, and not encoded.
///
/// # Errors
/// 415 that names what is expected.
pub fn media(headers: &HeaderMap, expected: &str) -> Result<(), Failure> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let kind = text(header::CONTENT_TYPE)
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case(expected) {
        let detail = format!("send Content-Type: {expected}");
        return Err(Failure::new(Kind::UnsupportedMediaType, detail));
    }
    match text(header::CONTENT_ENCODING) {
        None => Ok(()),
        Some(encoding) if encoding.trim().eq_ignore_ascii_case("identity") => Ok(()),
        Some(_) => Err(Failure::new(
            Kind::UnsupportedEncoding,
            "send the body without Content-Encoding here",
        )),
    }
}

/// The whole body.
///
/// # Errors
/// 413 if it is longer than `bytes_max`, 408 if it doesn't arrive within half a minute, 400 if the
/// connection breaks.
pub async fn read(body: Body, bytes_max: usize) -> Result<axum::body::Bytes, Failure> {
    let collected = timeout(WAIT_MAX, Limited::new(body, bytes_max).collect()).await;
    match collected {
        Err(_) => Err(Failure::new(
            Kind::RequestTimeout,
            format!("the body didn't arrive within {} s", WAIT_MAX.as_secs()),
        )),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::new(
            Kind::BodyTooLarge,
            format!("the body is over the limit of {bytes_max} bytes"),
        )),
        Ok(Err(_)) => Err(Failure::new(Kind::BadRequest, "the body broke off")),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}

/// Reads a JSON object as a `T`, which is a struct. serde would also take an array whose elements
/// are the struct's fields by position: that is refused.
///
/// # Errors
/// 400: not JSON (`invalid_json`), or not of this shape (`invalid_body`), with the first location.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let refused = |error: &serde_json::Error| refusal(String::new(), error);
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        IgnoredAny::deserialize(&mut reader).map_err(|error| refused(&error))?;
        reader.end().map_err(|error| refused(&error))?;
        return Err(invalid_member(String::new(), "must be a JSON object".to_owned()));
    }
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let pointer = pointer(error.path());
        // An enumeration that meets a number is an error of syntax to serde_json.
        if !error.inner().is_data() && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
            return invalid_member(pointer, "has a value of another type than this member's".to_owned());
        }
        refusal(pointer, error.inner())
    })?;
    reader.end().map_err(|error| refused(&error))?;
    Ok(value)
}

/// Reads a body as [`parse`] does, and names every fault of a short one.
///
/// # Errors
/// Errors of [`parse`].
pub fn parse_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    parse(bytes).map_err(|failure| with_further_faults::<T>(bytes, failure))
}

fn refusal(pointer: String, error: &serde_json::Error) -> Failure {
    if error.is_data() {
        let (pointer, what) = located(pointer, error);
        return invalid_member(pointer, what);
    }
    let what = format!(
        "the JSON isn't valid at line {}, column {}",
        error.line(),
        error.column()
    );
    Problem::new(Kind::InvalidJson, what.clone())
        .fault(pointer, "invalid_json", what)
        .into()
}

fn invalid_member(pointer: String, what: String) -> Failure {
    let location = if pointer.is_empty() {
        "the body"
    } else {
        pointer.as_str()
    };
    Problem::new(Kind::InvalidBody, format!("{location}: {what}"))
        .fault(pointer, "invalid_member", what)
        .into()
}

/// Adds the further faults of a short body, so that its sender can correct all at once.
fn with_further_faults<T: DeserializeOwned>(bytes: &[u8], failure: Failure) -> Failure {
    let Failure(mut problem) = failure;
    if problem.kind != Kind::InvalidBody || bytes.len() > SEVERAL_FAULTS_BYTES_MAX {
        return Failure(problem);
    }
    let mut value = match serde_json::from_slice::<Value>(bytes) {
        Ok(value) if value.is_object() => value,
        _ => return Failure(problem),
    };
    for _ in 0..FAULTS_MAX {
        let Some((pointer, what)) = first_fault::<T>(&value) else {
            break;
        };
        if !problem.faults.iter().any(|fault| fault.pointer == pointer) {
            problem = Box::new(problem.fault(pointer.clone(), "invalid_member", what));
        }
        if !pass_over::<T>(&mut value, &pointer) {
            break;
        }
    }
    if problem.faults.len() > 1 {
        let count = format!("; {} faults in all", problem.faults.len());
        problem.detail.push_str(&count);
    }
    Failure(problem)
}

/// Place and advice of the first fault, if there is one.
fn first_fault<T: DeserializeOwned>(value: &Value) -> Option<(String, String)> {
    let error = serde_path_to_error::deserialize::<_, T>(value).err()?;
    Some(located(pointer(error.path()), error.inner()))
}

/// Removes or replaces what `pointer` names, so that the first fault is elsewhere. Returns whether
/// that was possible.
fn pass_over<T: DeserializeOwned>(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return false;
    };
    let name = name.replace("~1", "/").replace("~0", "~");
    let replacements = [json!(""), json!(0), json!(false), json!([]), json!({}), Value::Null];
    for replacement in std::iter::once(None).chain(replacements.map(Some)) {
        let mut changed = value.clone();
        match (changed.pointer_mut(parent), replacement) {
            (Some(Value::Object(members)), None) => drop(members.remove(&name)),
            (Some(Value::Object(members)), Some(replacement)) => drop(members.insert(name.clone(), replacement)),
            (Some(Value::Array(items)), Some(replacement)) => {
                let item = name.parse().ok().and_then(|index: usize| items.get_mut(index));
                let Some(item) = item else { continue };
                *item = replacement;
            }
            _ => continue,
        }
        if first_fault::<T>(&changed).is_none_or(|(location, _)| location != pointer) {
            *value = changed;
            return true;
        }
    }
    false
}

/// Location of a fault, and what to change. A missing member's location is its own.
fn located(mut pointer: String, error: &serde_json::Error) -> (String, String) {
    let text = error.to_string();
    let missing = text
        .strip_prefix("missing field `")
        .and_then(|rest| rest.split_once('`'));
    if let Some((name, _)) = missing {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    (pointer, plain(error))
}

/// Says what to change. serde's own text names Rust's types.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let (found, expected) = text.split_once(", expected ").unwrap_or((text, ""));
    let valid = expected.strip_prefix("one of ").unwrap_or(expected);
    if found.starts_with("unknown field ") {
        return format!("remove this member; valid are {valid}");
    }
    if found.starts_with("unknown variant ") {
        return format!("must be one of {valid}");
    }
    if let Some(name) = found.strip_prefix("missing field ") {
        return format!("add the member {name}");
    }
    if let Some(name) = found.strip_prefix("duplicate field ") {
        return format!("give the member {name} once");
    }
    if !found.starts_with("invalid ") || expected.is_empty() {
        // A message of our own.
        return text.to_owned();
    }
    let kind = match expected {
        "a sequence" => "an array",
        "a boolean" => "true or false",
        "a string" | "a borrowed string" | "string or map" => "a string",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that isn't negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("must be {kind}")
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Unknown => {}
        }
    }
    pointer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::Bytes;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Example {
        name: String,
        #[serde(default)]
        scope: Vec<String>,
        #[serde(default)]
        count: u32,
        #[serde(default)]
        level: Option<Level>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Level {
        Low,
        High,
    }

    async fn ask(kind: &str, encoding: Option<&str>, body: impl Into<Bytes>) -> Result<Example, Failure> {
        let mut request = http::Request::post("/").header("content-type", kind);
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        let request = request.body(Body::from(body.into())).unwrap();
        JsonBody::from_request(request, &())
            .await
            .map(|JsonBody(request)| request)
    }

    #[tokio::test]
    async fn a_body_of_the_right_shape_is_read() {
        let request = ask("application/json; charset=utf-8", Some("identity"), r#" {"name":"a"} "#).await;
        assert_eq!(request.unwrap().name, "a");
    }

    #[tokio::test]
    async fn refusals_name_the_location() {
        for (body, code, pointer) in [
            (r#"{"name":"a","scope":["read",7]}"#, "invalid_body", "/scope/1"),
            (r#"{"name":"a","a/b~c":1}"#, "invalid_body", "/a~1b~0c"),
            (r#"{"name":"a"} x"#, "invalid_json", ""),
            (r#"{"name":"#, "invalid_json", "/name"),
            ("", "invalid_json", ""),
            ("\u{feff}{}", "invalid_json", ""),
        ] {
            let Failure(problem) = ask("application/json", None, body).await.unwrap_err();
            assert_eq!(
                (problem.kind.code(), problem.kind.status().as_u16()),
                (code, 400),
                "{body}"
            );
            assert_eq!(problem.faults[0].pointer, pointer, "{body}");
        }
    }

    #[tokio::test]
    async fn a_refusal_names_every_fault() {
        for (body, pointers) in [
            (r#"{"scope":[]}"#, vec!["/name"]),
            (
                r#"{"a":1,"count":-1,"level":"middle","scope":"x"}"#,
                vec!["/a", "/count", "/level", "/name", "/scope"],
            ),
            (
                r#"{"name":7,"scope":["read",7,"x",{}]}"#,
                vec!["/name", "/scope/1", "/scope/3"],
            ),
        ] {
            let Failure(problem) = ask("application/json", None, body).await.unwrap_err();
            let mut found: Vec<&str> = problem.faults.iter().map(|fault| fault.pointer.as_str()).collect();
            found.sort_unstable();
            assert_eq!(found, pointers, "{body}");
        }
        // A long body would take long to be searched.
        let long = format!(r#"{{"x":"{}","y":1}}"#, "a".repeat(SEVERAL_FAULTS_BYTES_MAX));
        let Failure(problem) = ask("application/json", None, long).await.unwrap_err();
        assert_eq!(problem.faults.len(), 1);
    }

    #[tokio::test]
    async fn refusals_are_plain_and_an_array_is_no_object() {
        for (body, what) in [
            (r#"["a", ["read"]]"#, "must be a JSON object"),
            ("[]", "must be a JSON object"),
            ("7", "must be a JSON object"),
            ("null", "must be a JSON object"),
            ("[", "the JSON isn't valid at line 1, column 1"),
            (r#"{"name":"a",}"#, "the JSON isn't valid at line 1, column 13"),
            (r#"{"name":7}"#, "must be a string"),
            (r#"{"name":"a","scope":"read"}"#, "must be an array"),
            (r#"{"name":"a","scope":{}}"#, "must be an array"),
            (
                r#"{"name":"a","count":-1}"#,
                "must be a whole number that isn't negative",
            ),
            (
                r#"{"name":"a","count":1.5}"#,
                "must be a whole number that isn't negative",
            ),
            (r#"{"name":"a","level":"middle"}"#, "must be one of `low` or `high`"),
            (
                r#"{"name":"a","level":7}"#,
                "has a value of another type than this member's",
            ),
            (r#"{"name":"a","name":"b"}"#, "give the member `name` once"),
            (r#"{"scope":[]}"#, "add the member `name`"),
            (
                r#"{"name":"a","x":1}"#,
                "remove this member; valid are `name`, `scope`, `count`, `level`",
            ),
        ] {
            let Failure(problem) = ask("application/json", None, body).await.unwrap_err();
            assert_eq!(problem.faults[0].detail, what, "{body}");
            for name in ["Example", "Level", "serde", "u32", "struct"] {
                assert!(!problem.detail.contains(name), "{body}: {}", problem.detail);
            }
        }
    }

    #[tokio::test]
    async fn other_media_and_long_bodies_are_refused() {
        let long = format!(r#"{{"name":"{}"}}"#, "a".repeat(BYTES_MAX));
        for (kind, encoding, body, status) in [
            ("text/plain", None, "{}", 415),
            ("", None, "{}", 415),
            ("application/json", Some("gzip"), "{}", 415),
            ("application/json", None, long.as_str(), 413),
        ] {
            let Failure(problem) = ask(kind, encoding, body.to_owned()).await.unwrap_err();
            assert_eq!(problem.kind.status().as_u16(), status, "{kind} {encoding:?}");
        }
    }
}
