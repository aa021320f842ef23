//! The document of all addresses: OpenAPI 3.1, made from the code.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as Document, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::app::{self, App};
use crate::routes;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Receipts: the publisher's side",
        description = "API keys, domain verification, entries, data-subject rights.",
    ),
    components(schemas(ProblemBody, ProblemError)),
    tags(
        (name = "keys", description = "API keys"),
        (name = "verification", description = "Which domains are yours"),
        (name = "entries", description = "The content you list"),
        (name = "data", description = "Access, portability, erasure"),
        (name = "user", description = "The person behind a JWT"),
        (name = "service", description = "The service itself"),
    ),
)]
struct Api;

/// An error (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProblemBody {
    /// `/problems/<code>`.
    r#type: String,
    title: String,
    status: u16,
    /// Its stable name.
    code: String,
    /// What a person can do about it.
    detail: String,
    request_id: String,
    /// The faults of a body or query, 100 at most.
    #[schema(required = false)]
    errors: Vec<ProblemError>,
}

/// One fault of a body or query.
#[derive(Debug, Serialize, ToSchema)]
struct ProblemError {
    /// A JSON Pointer (RFC 6901) into the body, or the name of a query parameter.
    pointer: String,
    code: String,
    detail: String,
}

/// What any address with a credential may refuse with, for `responses(...)`; an address adds those of its own.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [
            ("400", "The request is malformed, or a value in it can't be"),
            ("401", "No credential, or one that doesn't hold"),
            ("403", "The credential doesn't allow this"),
            (
                "429",
                "More requests than the quota allows; Retry-After says when to come again",
            ),
            ("503", "An engine can't answer now; Retry-After says when to come again"),
        ]
        .into_iter()
        .map(|(status, description)| (status.to_owned(), RefOr::T(problem(description))))
        .chain([("431".to_owned(), RefOr::T(head_too_large()))])
        .collect()
    }
}

/// What an address with a JSON body refuses with besides.
pub(crate) struct BodyRefusals;

impl IntoResponses for BodyRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [
            ("408", "The body took too long to arrive"),
            ("413", "The body is too large"),
            ("415", "The body isn't application/json, or is encoded"),
        ]
        .into_iter()
        .map(|(status, description)| (status.to_owned(), RefOr::T(problem(description))))
        .collect()
    }
}

/// Without a body in the document: a head that is over twice the limit is answered by hyper itself, which writes none.
fn head_too_large() -> Response {
    let description = "The request head is too large; a problem, or no body at all";
    ResponseBuilder::new().description(description).build()
}

/// A response that is a problem, for statuses of one address alone.
pub(crate) fn problem(description: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(ProblemBody::schema())).build();
    ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", content)
        .build()
}

/// The router that the others are merged into.
pub(crate) fn router() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Api::openapi())
}

/// The document with what can't be said beside a handler.
pub(crate) fn finished(mut document: Document) -> Document {
    let bearer = |format: &str, what: &str| {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format(format)
            .description(Some(what));
        SecurityScheme::Http(scheme.build())
    };
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(
        "apiKey",
        bearer("rcpt_...", "An API key: scope read for GET, write for anything else"),
    );
    components.add_security_scheme(
        "jwt",
        bearer(
            "JWT",
            "A token of the identity provider that the operator has configured",
        ),
    );
    document
}

/// The whole document, as `GET /openapi.json` answers it.
#[must_use]
pub fn document() -> Document {
    let all = router()
        .merge(app::with_api_key())
        .merge(app::with_jwt())
        .merge(routes::index::routes());
    finished(all.into_openapi())
}
