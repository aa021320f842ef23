//! JSON bodies of requests to the APIs: small, bounded, and refused with a place.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use service::problem::{Kind, Problem};
use tokio::time::timeout;

use crate::Failure;

/// The longest body of one JSON object, in bytes.
pub const BYTES_MAX: usize = 64 << 10;
/// Time for a body to arrive.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A request's body as `T`: `application/json`, [`BYTES_MAX`] at most.
///
/// Refused with 415 (another media type or any content encoding), 413, 408 or 400; a 400 names the place by JSON Pointer (RFC 6901).
#[derive(Debug, Clone, Copy)]
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Failure> {
        let (head, body) = request.into_parts();
        media(&head.headers, "application/json")?;
        let bytes = read(body, BYTES_MAX).await?;
        parse(&bytes).map(Self)
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
/// 413 if it is longer than `bytes_max`, 408 if it doesn't arrive within half a minute, 400 if the connection breaks.
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

/// `bytes` as a `T`.
///
/// # Errors
/// 400: not JSON (`invalid_json`), or not of this shape (`invalid_body`), with the place.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let wrong = |pointer: String, error: &serde_json::Error| -> Failure {
        let (kind, code) = match error.classify() {
            serde_json::error::Category::Data => (Kind::InvalidBody, "invalid_member"),
            _ => (Kind::InvalidJson, "invalid_json"),
        };
        let what = error.to_string();
        Problem::new(kind, format!("the body can't be read: {what}"))
            .fault(pointer, code, what)
            .into()
    };
    let value =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| wrong(pointer(error.path()), error.inner()))?;
    reader.end().map_err(|error| wrong(String::new(), &error))?;
    Ok(value)
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
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        name: String,
        #[serde(default)]
        scope: Vec<String>,
    }

    async fn ask(kind: &str, encoding: Option<&str>, body: impl Into<Bytes>) -> Result<Wish, Failure> {
        let mut request = http::Request::post("/").header("content-type", kind);
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        let request = request.body(Body::from(body.into())).unwrap();
        JsonBody::from_request(request, &()).await.map(|JsonBody(wish)| wish)
    }

    #[tokio::test]
    async fn a_body_of_the_right_shape_is_read() {
        let wish = ask("application/json; charset=utf-8", Some("identity"), r#" {"name":"a"} "#).await;
        assert_eq!(wish.unwrap().name, "a");
    }

    #[tokio::test]
    async fn refusals_name_the_place() {
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
