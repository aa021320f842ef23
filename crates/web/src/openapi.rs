//! Parts of the OpenAPI documents of all APIs: problems, refusals, credentials, and the
//! headers of every answer.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Header, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// An error (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemBody {
    /// `/problems/<code>`.
    r#type: String,
    title: String,
    status: u16,
    /// Stable code.
    code: String,
    /// Advice to a person.
    detail: String,
    request_id: String,
    /// The faults of a body or query, 1,000 at most.
    #[schema(required = false)]
    errors: Vec<ProblemError>,
    /// `true` if there are more faults than `errors` lists.
    #[schema(required = false)]
    more_errors: bool,
}

/// A fault of a body or query.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemError {
    /// A JSON Pointer (RFC 6901) into the body, or the name of a query parameter.
    pointer: String,
    code: String,
    detail: String,
}

impl ProblemError {
    /// A fault beside what could be answered.
    #[must_use]
    pub fn new(pointer: String, code: &str, detail: String) -> Self {
        Self {
            pointer,
            code: code.to_owned(),
            detail,
        }
    }
}

/// Refusals of any address with a credential, for `responses(...)`; an address adds those
/// of its own.
#[derive(Debug, Clone, Copy)]
pub struct Refusals;

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

/// Refusals of an address that needs no credential and counts by the client's address.
#[derive(Debug, Clone, Copy)]
pub struct PublicRefusals;

impl IntoResponses for PublicRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = Refusals::responses();
        responses.remove("401");
        responses.remove("403");
        responses
    }
}

/// Further refusals of an address with a JSON body.
#[derive(Debug, Clone, Copy)]
pub struct BodyRefusals;

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

/// Without a body in the document: a head that is over twice the limit is answered by hyper itself,
/// which writes none.
fn head_too_large() -> Response {
    let description = "The request head is too large; a problem, or no body at all";
    ResponseBuilder::new().description(description).build()
}

/// A response that is a problem, for statuses of one address alone. The document must have
/// [`ProblemBody`] and [`ProblemError`] among its components.
#[must_use]
pub fn problem(description: &str) -> Response {
    let body = Ref::from_schema_name(ProblemBody::name());
    let content = ContentBuilder::new().schema(Some(body)).build();
    ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", content)
        .build()
}

/// `Authorization: Bearer` with something of this format.
#[must_use]
pub fn bearer(format: &str, what: &str) -> SecurityScheme {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format(format)
        .description(Some(what));
    SecurityScheme::Http(scheme.build())
}

/// A header that is text.
#[must_use]
pub fn text_header(description: &str) -> Header {
    header(ObjectBuilder::new().schema_type(Type::String), description)
}

/// A header that is an integer of at least `minimum`.
#[must_use]
pub fn integer_header(minimum: u32, description: &str) -> Header {
    let schema = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(f64::from(minimum)));
    header(schema, description)
}

fn header(schema: ObjectBuilder, description: &str) -> Header {
    HeaderBuilder::new()
        .schema(Some(schema))
        .description(Some(description))
        .build()
}

/// The headers that are on every answer by [`crate::envelope`] and [`crate::access`], reported at
/// each response of the document.
pub fn tell_headers(document: &mut Document) {
    for operation in operations(document) {
        let counted = operation.security.is_some();
        for (status, response) in &mut operation.responses.responses {
            let RefOr::T(response) = response else { continue };
            let mut tell = |name: &str, header: Header| {
                response.headers.entry(name.to_owned()).or_insert(RefOr::T(header));
            };
            // What hyper refuses by itself has none of them.
            if status == "431" {
                continue;
            }
            tell(
                "X-Request-Id",
                text_header("The id that the request had or was given; logs have it"),
            );
            if status == "429" || status == "503" {
                tell(
                    "Retry-After",
                    integer_header(0, "When to come again, in seconds; not with every 503"),
                );
            }
            // Of whom isn't known, nothing is counted.
            if !counted || status == "401" {
                continue;
            }
            tell(
                "X-RateLimit-Limit",
                integer_header(0, "What the window allows; on answers to a credential that holds"),
            );
            tell("X-RateLimit-Remaining", integer_header(0, "What is left in the window"));
            tell(
                "X-RateLimit-Cost",
                integer_header(1, "How many requests it counted for"),
            );
            tell(
                "X-RateLimit-Reset",
                integer_header(0, "When the window ends, in Unix seconds"),
            );
        }
    }
}

/// Every operation of a document.
pub fn operations(document: &mut Document) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|path| {
        let methods = [
            &mut path.get,
            &mut path.put,
            &mut path.post,
            &mut path.delete,
            &mut path.patch,
        ];
        methods.into_iter().filter_map(Option::as_mut)
    })
}
