//! The document of all addresses: OpenAPI 3.1, made from the code.

use std::sync::Arc;

use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Header, OpenApi as Document, RefOr, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use web::examples::add_examples;
use web::format::{ALL, Format};
use web::openapi::{ProblemBody, ProblemError, bearer, tell_headers, text_header};

use crate::config::AnalyticsConfig;
use crate::parameters::{FORMAT, Query};
use crate::routes::outcomes::{EndLine, OutcomeLine};
use crate::routes::{QUERIES, SENDER_QUERIES, STREAM_QUERIES};
use crate::state::AnalyticsState;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Receipts: what publishers see",
        description = "Who used your content, and for what. Every answer is of your verified domains, and says by `completeThrough` up to when everything acknowledged is counted in it.",
    ),
    components(schemas(ProblemBody, ProblemError, OutcomeLine, EndLine)),
    tags(
        (name = "analytics", description = "Numbers"),
        (name = "receipts", description = "Single receipts"),
        (name = "sender", description = "What became of a sender's receipts"),
        (name = "service", description = "The service itself"),
    ),
)]
struct AnalyticsDocument;

/// The router that the others are merged into.
pub(crate) fn router() -> OpenApiRouter<Arc<AnalyticsState>> {
    OpenApiRouter::with_openapi(AnalyticsDocument::openapi())
}

/// The document with what can't be said beside a handler, and the limits of this configuration.
pub(crate) fn finished(mut document: Document, config: &AnalyticsConfig) -> Document {
    let components = document.components.get_or_insert_default();
    let what = "An API key with the scope read";
    components.add_security_scheme("apiKey", bearer("rcpt_...", what));
    components.add_security_scheme("messageSignature", message_signature());
    for (path, parameters) in QUERIES {
        let Some(get) = get(&mut document, path) else {
            continue;
        };
        add_parameters(get, parameters, config);
        let has_rows = parameters
            .iter()
            .copied()
            .flatten()
            .any(|query| query.name == FORMAT.name);
        let if_none_match = ParameterBuilder::new()
            .name("If-None-Match")
            .parameter_in(ParameterIn::Header)
            .description(Some(
                "ETags of answers that you have; 304 if one of them is the present one's",
            ))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)));
        get.parameters
            .get_or_insert_default()
            .push(RefOr::T(if_none_match.build()));
        let responses = &mut get.responses.responses;
        let mut unchanged = ResponseBuilder::new()
            .description("You have these numbers already; the headers say up to when they are complete now")
            .build();
        tell_completeness(&mut unchanged);
        responses.insert("304".to_owned(), RefOr::T(unchanged));
        if let Some(RefOr::T(numbers)) = responses.get_mut("200") {
            tell_completeness(numbers);
            if has_rows {
                add_rows(numbers);
            }
        }
    }
    for (path, parameters) in SENDER_QUERIES.into_iter().chain(STREAM_QUERIES) {
        if let Some(get) = get(&mut document, path) {
            add_parameters(get, parameters, config);
        }
    }
    tell_headers(&mut document);
    add_examples(&mut document, include_str!("../examples.json"));
    document
}

/// The GET of a path.
fn get<'a>(document: &'a mut Document, path: &str) -> Option<&'a mut Operation> {
    document.paths.paths.get_mut(path)?.get.as_mut()
}

/// Adds parameters behind those that an operation has, with the limits of this configuration.
fn add_parameters(operation: &mut Operation, groups: &[&[Query]], config: &AnalyticsConfig) {
    let documented = groups.iter().copied().flatten();
    let documented = documented.map(|one| RefOr::T(one.documented(config, groups)));
    operation.parameters.get_or_insert_default().extend(documented);
}

/// Signatures of senders, which OpenAPI has no type of its own for.
fn message_signature() -> SecurityScheme {
    let description = "An RFC 9421 signature over `@method` and `@target-uri` by the key that sent the receipts, \
        with `created` and `expires` at most 300 s apart: `Signature-Input`, `Signature`, and the key's SPKI DER in base64 \
        as `X-Client-Public-Key`";
    SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("Signature", description)))
}

/// Adds the forms of rows, each of which is one text in OpenAPI.
fn add_rows(response: &mut Response) {
    for format in ALL.into_iter().filter(|format| *format != Format::Json) {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let content = ContentBuilder::new().schema(Some(text)).build();
        response.content.insert(format.media().to_owned(), RefOr::T(content));
    }
}

fn tell_completeness(response: &mut Response) {
    let mut tell = |name: &str, header: Header| {
        response.headers.insert(name.to_owned(), RefOr::T(header));
    };
    tell(
        "ETag",
        text_header(
            "Over the numbers, not over completeThrough: weak for JSON, which has that in its body, strong for the others; none on a stream",
        ),
    );
    tell(
        "Cache-Control",
        text_header("`private, no-cache`; `no-store` on a stream"),
    );
    tell(
        "X-Complete-Through",
        text_header("As completeThrough: everything acknowledged before this instant is counted"),
    );
    tell(
        "X-Incomplete",
        text_header("`true` while receipts are known to be missing; not there otherwise"),
    );
}
