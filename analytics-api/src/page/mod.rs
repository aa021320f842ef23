//! `GET /dashboard`: the page for publishers. Its sources are in `dashboard/`, what is served is
//! `dashboard/dist`, as built and committed.
//!
//! The page gets nothing that isn't its own: no script or style but the files of its build, no
//! other host, no frame around it. The console is a script of its own, which the page loads on
//! demand. Numbers come from the same addresses as for everybody else, with the visitor's key or
//! session.

mod asset;

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use self::asset::ASSETS;
use crate::state::AnalyticsState;
use web::Failure;

/// Path of the page.
pub(crate) const PATH: &str = "/dashboard";

/// Content that the page may load and run (CSP level 3). `data:` images are the style sheet's own
/// small icons.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// On everything of the page.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The page's addresses: no key needed, there is nothing in them that isn't in this repository.
pub(crate) fn router() -> Router<Arc<AnalyticsState>> {
    Router::new()
        .route(PATH, get(index))
        .route("/dashboard/", get(|| async { Redirect::permanent(PATH) }))
        .route("/dashboard/assets/{name}", get(file))
}

async fn index(headers: HeaderMap) -> Response {
    served("index.html", &headers)
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    served(&format!("assets/{name}"), &headers)
}

fn served(name: &str, request: &HeaderMap) -> Response {
    let Some(asset) = ASSETS.get(name) else {
        return Failure::not_found("the page has no such file; /dashboard names those it has").into_response();
    };
    let mut response = if asset.is_cached_by(request) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        asset.body(request)
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ETAG, asset.etag.clone());
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(asset.caching));
    response
}

#[cfg(test)]
mod tests;
