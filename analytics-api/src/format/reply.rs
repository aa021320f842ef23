//! The whole answer of an endpoint: in the form that the client accepts, with its tag, or 304 if
//! the client has it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use serde::Serialize;
use utoipa::ToSchema;
use web::Failure;
use web::format::table::{RowFormat, Table, Tabular};
use web::format::{Format, file_name};
use web::params::Params;

use super::etag;
use crate::completeness::Completeness;
use crate::parameters::BOM;

/// `completeThrough`, also of answers whose body can't have it.
pub(crate) const COMPLETE_THROUGH: HeaderName = HeaderName::from_static("x-complete-through");
/// `incomplete` likewise; only there when true.
pub(crate) const INCOMPLETE: HeaderName = HeaderName::from_static("x-incomplete");

/// An answer in JSON: its own members, then those of its completeness.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Complete<T> {
    #[serde(flatten)]
    pub(crate) answer: T,
    #[serde(flatten)]
    pub(crate) completeness: Completeness,
}

impl<T: Serialize> Complete<T> {
    /// Bytes and tag, which is over the answer's own members. Written once, as serde would
    /// flatten the two.
    fn written(&self) -> Result<(Vec<u8>, String), serde_json::Error> {
        let mut bytes = serde_json::to_vec(&self.answer)?;
        let tag = etag::tag(Format::Json, self.completeness.incomplete, &bytes);
        let completeness = serde_json::to_vec(&self.completeness)?;
        bytes.pop();
        if bytes.len() > 1 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(completeness.get(1..).unwrap_or_default());
        Ok((bytes, tag))
    }
}

/// Format and conditions that a request wants.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) format: Format,
    headers: HeaderMap,
    /// Whether CSV begins with a byte order mark.
    bom: bool,
    /// Name of the file in which a browser stores rows, without its ending.
    file_name: String,
}

impl Reply {
    /// Anything that every endpoint offers.
    ///
    /// # Errors
    /// 406 if none of it is accepted; 400 for a faulty `format` or `bom`.
    pub(crate) fn of(headers: HeaderMap, uri: &Uri, params: &Params) -> Result<Self, Failure> {
        let path = uri.path();
        let path = path.rsplit_once("/analytics/").map_or(path, |(_, path)| path);
        Ok(Self {
            format: Format::wanted(&headers, params)?,
            bom: params.flag(BOM.name)?,
            file_name: file_name(path, params),
            headers,
        })
    }

    /// JSON alone.
    ///
    /// # Errors
    /// 406 if it isn't accepted.
    pub(crate) fn json(headers: HeaderMap) -> Result<Self, Failure> {
        Ok(Self {
            format: Format::of(&headers, &[Format::Json])?,
            bom: false,
            file_name: String::new(),
            headers,
        })
    }

    /// Form of the rows, if rows are wanted.
    pub(crate) fn form(&self) -> Option<RowFormat> {
        self.format.rows(self.bom)
    }

    /// `answer` as an object, or as its rows.
    pub(crate) fn answer<T: Serialize + Tabular>(&self, answer: T, completeness: Completeness) -> Response {
        match self.form() {
            None => self.object(answer, completeness),
            Some(form) => {
                let bytes = match Table::whole(form, &answer) {
                    Ok(bytes) => bytes,
                    Err(error) => return unwritable(&error),
                };
                let tag = etag::tag(self.format, completeness.incomplete, &bytes);
                self.tagged(tag, &completeness, || bytes)
            }
        }
    }

    /// `answer` as an object.
    pub(crate) fn object<T: Serialize>(&self, answer: T, completeness: Completeness) -> Response {
        let complete = Complete { answer, completeness };
        match complete.written() {
            Ok((bytes, tag)) => self.tagged(tag, &complete.completeness, || bytes),
            Err(error) => unwritable(&error),
        }
    }

    fn tagged(&self, tag: String, completeness: &Completeness, body: impl FnOnce() -> Vec<u8>) -> Response {
        let mut response = if web::etag::is_current(&self.headers, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            self.with_content(body())
        };
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        // Retained by the client that asked and by nobody between, and asked about before each use.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        tell(headers, completeness);
        response
    }

    fn with_content(&self, body: impl IntoResponse) -> Response {
        (self.format.file(&self.file_name), body).into_response()
    }

    /// Rows as they come, without a tag: their content is known only at their end.
    pub(crate) fn stream(&self, body: Body, completeness: &Completeness) -> Response {
        let mut response = self.with_content(body);
        tell(response.headers_mut(), completeness);
        response
    }
}

/// The headers that say up to when an answer is complete.
pub(crate) fn tell(headers: &mut HeaderMap, completeness: &Completeness) {
    if let Ok(complete) = HeaderValue::from_str(&completeness.complete_through) {
        headers.insert(COMPLETE_THROUGH, complete);
    }
    if completeness.incomplete {
        headers.insert(INCOMPLETE, HeaderValue::from_static("true"));
    }
}

/// Answers are maps, lists, texts and numbers, none of which fails.
fn unwritable(error: &dyn std::error::Error) -> Response {
    tracing::error!(%error, "an answer can't be written");
    Failure::internal().into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_answer_is_written_as_serde_would_flatten_it() {
        #[derive(Serialize)]
        struct Answer {
            #[serde(skip_serializing_if = "Option::is_none")]
            value: Option<&'static str>,
        }
        for value in [None, Some("}\",{")] {
            for incomplete in [false, true] {
                let whole = Complete {
                    answer: Answer { value },
                    completeness: Completeness::new(7, incomplete),
                };
                let (bytes, tag) = whole.written().unwrap();
                assert_eq!(bytes, serde_json::to_vec(&whole).unwrap());
                let later = Complete {
                    answer: Answer { value },
                    completeness: Completeness::new(8, incomplete),
                };
                assert_eq!(later.written().unwrap().1, tag, "completeThrough has no part in it");
            }
        }
    }
}
