//! `/docs`: a page to read and try an API, and `/openapi.json`, the document that it shows.

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use http::{HeaderValue, header};
use utoipa::openapi::OpenApi as Document;
use utoipa_swagger_ui::{Config, SwaggerUi};

/// Content that the page may load and run (CSP level 3). Swagger UI writes styles into its
/// elements, and its pictures are `data:`.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The addresses. The document isn't sent to anybody else: Swagger UI by itself shows it to a
/// validator on the Internet.
pub fn router<S: Clone + Send + Sync + 'static>(document: Document) -> Router<S> {
    let page = SwaggerUi::new("/docs")
        .url("/openapi.json", document)
        .config(Config::default().validator_url("none"));
    Router::from(page).layer(map_response(guarded))
}

async fn guarded(mut response: Response) -> Response {
    let policy = HeaderValue::from_static(POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
