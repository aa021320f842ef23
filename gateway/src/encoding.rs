//! Content type and encoding of a body by its headers: JSON, and in which encoding.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use service::problem::{Kind, Problem};

use crate::refusal::Refusal;

/// Encoding of a body (RFC 9110, 8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    /// As it is.
    Identity,
    /// RFC 1952, with one or more members.
    Gzip,
    /// RFC 8878, with one or more frames.
    Zstd,
}

/// Header that a 415 for an encoding carries (RFC 9110, 15.5.16).
const ACCEPT_ENCODING: (HeaderName, HeaderValue) =
    (http::header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd"));

/// The encoding of a JSON body, or why the body can't be taken.
pub(crate) fn of(headers: &HeaderMap) -> Result<ContentEncoding, Refusal> {
    check_type(headers)?;
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let Some(value) = values.next() else {
        return Ok(ContentEncoding::Identity);
    };
    if values.next().is_none() {
        let name = value.as_bytes().trim_ascii();
        if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
            return Ok(ContentEncoding::Identity);
        }
        // RFC 9110, 8.4.1.3: x-gzip is the same.
        if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") {
            return Ok(ContentEncoding::Gzip);
        }
        if name.eq_ignore_ascii_case(b"zstd") {
            return Ok(ContentEncoding::Zstd);
        }
    }
    let problem = Problem::new(
        Kind::UnsupportedEncoding,
        "send the body as it is, or with one of gzip and zstd",
    );
    Err(problem.header(ACCEPT_ENCODING.0, ACCEPT_ENCODING.1).into())
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let detail = match (values.next(), values.next()) {
        (Some(value), None) if value.as_bytes() == b"application/json" => return Ok(()),
        (Some(value), None) => match is_json(value.as_bytes()) {
            Ok(()) => return Ok(()),
            Err(detail) => detail,
        },
        (None, _) => "Content-Type is missing; send application/json",
        (Some(_), Some(_)) => "Content-Type is given twice; send one application/json",
    };
    let accept = HeaderValue::from_static("application/json");
    Err(Problem::new(Kind::UnsupportedMediaType, detail)
        .header(http::header::ACCEPT, accept)
        .into())
}

/// `application/json` with any parameters, but no charset other than UTF-8 (RFC 8259, 8.1).
fn is_json(value: &[u8]) -> Result<(), &'static str> {
    const OTHER: &str = "send Content-Type: application/json";
    let text = std::str::from_utf8(value).map_err(|_| OTHER)?;
    let mut parts = text.split(';').map(str::trim);
    if !parts
        .next()
        .is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json"))
    {
        return Err(OTHER);
    }
    for parameter in parts.filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').ok_or(OTHER)?;
        let value = value.trim().trim_matches('"');
        if name.trim().eq_ignore_ascii_case("charset") && !value.eq_ignore_ascii_case("utf-8") {
            return Err("JSON is UTF-8 (RFC 8259): leave the charset out or send charset=utf-8");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn with(fields: &[(&'static str, &'static str)]) -> Result<ContentEncoding, Kind> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        of(&headers).map_err(|refusal| refusal.kind())
    }

    fn typed(media_type: &'static str) -> Result<ContentEncoding, Kind> {
        with(&[("content-type", media_type)])
    }

    fn encoded(encoding: &'static str) -> Result<ContentEncoding, Kind> {
        with(&[("content-type", "application/json"), ("content-encoding", encoding)])
    }

    #[test]
    fn json_in_its_spellings() {
        let spellings = [
            "application/json",
            "Application/JSON",
            "application/json;charset=utf-8",
            "application/json ; charset=\"UTF-8\"; profile=x",
            "application/json;",
        ];
        for spelling in spellings {
            assert_eq!(typed(spelling), Ok(ContentEncoding::Identity), "{spelling}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let others = [
            "",
            "text/plain",
            "application/json-seq",
            "application/jsonx",
            "application/json; charset=iso-8859-1",
            "application/json; charset",
            "application/problem+json",
        ];
        for other in others {
            assert_eq!(typed(other), Err(Kind::UnsupportedMediaType), "{other}");
        }
        assert_eq!(with(&[]), Err(Kind::UnsupportedMediaType));
        let twice = with(&[
            ("content-type", "application/json"),
            ("content-type", "application/json"),
        ]);
        assert_eq!(twice, Err(Kind::UnsupportedMediaType));
    }

    #[test]
    fn one_encoding_of_those_known() {
        assert_eq!(encoded("identity"), Ok(ContentEncoding::Identity));
        assert_eq!(encoded("gzip"), Ok(ContentEncoding::Gzip));
        assert_eq!(encoded("X-GZIP"), Ok(ContentEncoding::Gzip));
        assert_eq!(encoded(" zstd "), Ok(ContentEncoding::Zstd));
        for other in ["br", "deflate", "gzip, zstd", "gzip,gzip", "gzip;q=1"] {
            assert_eq!(encoded(other), Err(Kind::UnsupportedEncoding), "{other}");
        }
        let twice = with(&[
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
            ("content-encoding", "gzip"),
        ]);
        assert_eq!(twice, Err(Kind::UnsupportedEncoding));
    }
}
