//! A page to read and try an API, and the OpenAPI document that it shows.
//!
//! The page of the API `NAME` is `/docs/NAME/`, its document `/openapi/NAME.json`, so that several
//! APIs can share an address. On a port of its own, an API also has `/docs` and `/openapi.json`.

use axum::Router;
use axum::body::Bytes;
use axum::middleware::map_response;
use axum::response::{Redirect, Response};
use axum::routing::get;
use http::{HeaderValue, header};
use utoipa::openapi::OpenApi as Document;
use utoipa_swagger_ui::{Config, SwaggerUi};

/// Content that the page may load and run (CSP level 3). Swagger UI writes styles into its
/// elements, and its pictures are `data:`.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The addresses of the API `name`. The document isn't sent to anybody else: Swagger UI by itself
/// shows it to a validator on the Internet.
pub fn router<S: Clone + Send + Sync + 'static>(name: &'static str, document: Document) -> Router<S> {
    let text = Bytes::from(document.to_json().unwrap_or_default());
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let page = SwaggerUi::new(format!("/docs/{name}"))
        .url(format!("/openapi/{name}.json"), document)
        .config(Config::default().validator_url("none"));
    let to_page = move || async move { Redirect::to(&format!("/docs/{name}/")) };
    Router::from(page)
        .route("/docs", get(to_page))
        .route("/docs/", get(to_page))
        .route("/openapi.json", get(move || async move { (json, text) }))
        .layer(map_response(guarded))
}

async fn guarded(mut response: Response) -> Response {
    let policy = HeaderValue::from_static(POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    // Requests of the page must name it: they have no session (`crate::session`).
    let referrer = HeaderValue::from_static("same-origin");
    response.headers_mut().insert(header::REFERRER_POLICY, referrer);
    response
}
