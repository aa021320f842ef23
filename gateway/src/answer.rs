//! Answers: responses of success, with their headers.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// Response of every handler.
pub(crate) type Answer = Response<Full<Bytes>>;

/// 200 with a JSON body.
pub(crate) fn json(body: Bytes) -> Answer {
    with_status(StatusCode::OK, body)
}

/// 202 with its acknowledgement.
pub(crate) fn accepted(body: Vec<u8>) -> Answer {
    with_status(StatusCode::ACCEPTED, Bytes::from(body))
}

/// 200 with the JWK Set of the acknowledgement keys. Caches may keep it while keys overlap.
pub(crate) fn published_keys(key_set: Bytes) -> Answer {
    let mut answer = json(key_set);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    answer
}

fn with_status(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    // Room for all that follows, so that the map is allocated once.
    answer.headers_mut().reserve(6);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
