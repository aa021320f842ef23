//! Answers as ClickHouse gives them, and the one table from a fault to its status and code.

use std::io::Write;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::sql::RefusedStatement;
use crate::chdb::EngineFailure;
use crate::frame::{FrameError, compress};
use crate::statements::StatementError;

/// Why a request isn't answered with data.
#[derive(Debug)]
pub(crate) enum EndpointFault {
    /// No or wrong credentials.
    Unauthorized,
    /// No such path.
    NotFound,
    /// Another method than GET or POST.
    Method,
    /// The request's content can't be understood.
    BadRequest(String),
    /// A setting that isn't allowed.
    Setting(String),
    /// A statement that isn't run.
    Statement(RefusedStatement),
    /// The body is over the limit in bytes.
    LargeBody(usize),
    /// The body didn't come in time.
    SlowBody,
    /// The body didn't come to its end.
    BrokenBody,
    /// A compressed block can't be read.
    Frame(FrameError),
    /// Too much is in progress.
    Busy,
    /// The engine is closing.
    Closed,
    /// The engine's words.
    Engine(EngineFailure),
}

impl From<StatementError> for EndpointFault {
    fn from(error: StatementError) -> Self {
        match error {
            StatementError::Busy => Self::Busy,
            StatementError::Closed => Self::Closed,
            StatementError::Engine(failure) => Self::Engine(failure),
        }
    }
}

impl EndpointFault {
    /// Status, ClickHouse's error code, message.
    fn parts(&self) -> (StatusCode, u32, String) {
        match self {
            Self::Unauthorized => (StatusCode::FORBIDDEN, 516, "Authentication failed".to_owned()),
            Self::NotFound => (StatusCode::NOT_FOUND, 0, "There is no such path".to_owned()),
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                0,
                "Only GET and POST are answered".to_owned(),
            ),
            Self::BadRequest(detail) => (StatusCode::BAD_REQUEST, 36, detail.clone()),
            Self::Setting(detail) => (StatusCode::FORBIDDEN, 452, detail.clone()),
            Self::Statement(RefusedStatement::Empty) => (StatusCode::BAD_REQUEST, 62, "Empty query".to_owned()),
            Self::Statement(RefusedStatement::Several) => (
                StatusCode::BAD_REQUEST,
                62,
                "Multi-statements are not allowed".to_owned(),
            ),
            Self::Statement(RefusedStatement::LocalFile) => (
                StatusCode::FORBIDDEN,
                497,
                "Local files can't be read or written here".to_owned(),
            ),
            Self::LargeBody(max) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                307,
                format!("The body is over the limit of {max} bytes"),
            ),
            Self::SlowBody => (
                StatusCode::REQUEST_TIMEOUT,
                209,
                "The body did not come in time".to_owned(),
            ),
            Self::BrokenBody => (
                StatusCode::BAD_REQUEST,
                33,
                "The body did not come to its end".to_owned(),
            ),
            Self::Frame(error) => (StatusCode::BAD_REQUEST, 271, error.to_string()),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                202,
                "Too many requests at once".to_owned(),
            ),
            Self::Closed => (StatusCode::SERVICE_UNAVAILABLE, 734, "The engine is closing".to_owned()),
            Self::Engine(failure) => (engine_status(failure.code), failure.code, failure.message.clone()),
        }
    }

    /// The answer: the code in a header, the message as text.
    pub(crate) fn response(&self) -> Response<Full<Bytes>> {
        let (status, code, message) = self.parts();
        let text = if message.starts_with("Code: ") || code == 0 {
            message
        } else {
            format!("Code: {code}. DB::Exception: {message}")
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=UTF-8"));
        headers.insert("X-ClickHouse-Exception-Code", HeaderValue::from(code));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if matches!(self, Self::LargeBody(_) | Self::SlowBody | Self::BrokenBody) {
            // What is left of the body isn't read.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The statuses ClickHouse's own server gives its codes (`exceptionCodeToHTTPStatus`).
fn engine_status(code: u32) -> StatusCode {
    match code {
        // Not parsed, or of the wrong type.
        6 | 26 | 27 | 33 | 36 | 38 | 41 | 43 | 47 | 53 | 62 | 69 | 70 | 72 | 117 | 386 | 456 | 457 => {
            StatusCode::BAD_REQUEST
        }
        // Unknown table, database, function, setting.
        46 | 60 | 81 | 115 => StatusCode::NOT_FOUND,
        497 | 516 | 164 | 452 => StatusCode::FORBIDDEN,
        159 => StatusCode::REQUEST_TIMEOUT,
        202 | 241 | 243 | 252 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Compression of an answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As it is.
    Plain,
    /// ClickHouse's own frames (`compress=1`).
    Frames,
    /// A standard LZ4 frame (`Accept-Encoding: lz4`).
    Lz4,
}

/// A good answer.
pub(crate) fn data(output: Bytes, rows_written: u64, packing: Packing) -> Result<Response<Full<Bytes>>, EndpointFault> {
    let body = match packing {
        _ if output.is_empty() => output,
        Packing::Plain => output,
        Packing::Frames => compress(&output).into(),
        Packing::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::with_capacity(output.len() / 2));
            let packed = encoder.write_all(&output).map_err(|error| error.to_string());
            let packed = packed.and_then(|()| encoder.finish().map_err(|error| error.to_string()));
            packed
                .map_err(|message| EndpointFault::Engine(EngineFailure { code: 432, message }))?
                .into()
        }
    };
    let packed = !body.is_empty() && packing == Packing::Lz4;
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if packed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("lz4"));
    }
    if let Ok(summary) = HeaderValue::from_str(&format!("{{\"written_rows\":\"{rows_written}\"}}")) {
        headers.insert("X-ClickHouse-Summary", summary);
    }
    Ok(response)
}
