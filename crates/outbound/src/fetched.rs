//! Answers.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

use crate::Error;
use crate::connection::WholeAnswer;

/// An answer, whatever its status.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Status.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    /// Body, whole.
    pub body: Bytes,
    /// URL of the answer, after all redirects.
    pub final_url: String,
    host: String,
}

impl Fetched {
    pub(crate) fn new(answer: WholeAnswer, host: String, url: &str) -> Self {
        Self {
            status: answer.status,
            headers: answer.headers,
            body: answer.body,
            final_url: url.to_owned(),
            host,
        }
    }

    /// Itself, if the status is 2xx.
    pub fn success(self) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(Error::BadStatus {
            host: self.host,
            status: self.status,
        })
    }

    /// Location to which the answer redirects a GET: 301, 302, 303, 307, 308 (RFC 9110, 15.4).
    pub(crate) fn redirect(&self) -> Option<Result<&str, Error>> {
        if !matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let mut locations = self.headers.get_all(header::LOCATION).iter();
        let location = match (locations.next(), locations.next()) {
            (Some(one), None) => one.to_str().ok(),
            _ => None,
        };
        Some(location.ok_or_else(|| Error::BadAnswer {
            host: self.host.clone(),
            what: format!("it answered {} without one Location that can be read", self.status),
        }))
    }
}
