//! Swagger UI: the page that shows the OpenAPI document.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response};
use http_body_util::Full;
use utoipa_swagger_ui::Config;

use crate::answer::Answer;

/// Content that the page may load and run (CSP level 3). Swagger UI writes styles into its
/// elements, and its pictures are `data:`.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A file of the page, which shows the document at `openapi`. The document isn't sent to a
/// validator on the Internet, as Swagger UI does by default.
pub(crate) fn file(path: &str, openapi: &'static str) -> Option<Answer> {
    let config = Arc::new(Config::from(openapi).validator_url("none"));
    let file = utoipa_swagger_ui::serve(path, config).ok().flatten()?;
    let mut answer = Response::new(Full::new(Bytes::from(file.bytes.into_owned())));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(&file.content_type).ok()?);
    if file.gzpipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(answer)
}
