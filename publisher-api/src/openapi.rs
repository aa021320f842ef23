//! The document of all addresses: OpenAPI 3.1, made from the code.

use std::sync::Arc;

use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use web::examples::add_examples;
use web::openapi::{ProblemBody, ProblemError, bearer, operations, tell_headers};

use crate::state::PublisherState;

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
        (name = "operators", description = "AI operators: your signing keys and client IDs"),
        (name = "entries", description = "The content you list, and lookups by URL for everybody"),
        (name = "data", description = "Access, portability, erasure"),
        (name = "members", description = "The people of an account"),
        (name = "user", description = "The person behind a JWT"),
        (name = "sessions", description = "People who signed in with a browser"),
        (name = "service", description = "The service itself"),
    ),
)]
struct PublisherDocument;

/// The router that the others are merged into.
pub(crate) fn router() -> OpenApiRouter<Arc<PublisherState>> {
    OpenApiRouter::with_openapi(PublisherDocument::openapi())
}

/// The document with what can't be said beside a handler.
pub(crate) fn finished(mut document: Document) -> Document {
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(
        "apiKey",
        bearer(
            "rcpt_...",
            "An API key: scope read for GET, erase where something is erased, write for anything else",
        ),
    );
    components.add_security_scheme(
        "jwt",
        bearer(
            "JWT",
            "A token of the identity provider that the operator has configured. Whoever is in several accounts names one \
             of them in X-Account-Id",
        ),
    );
    let cookie = ApiKeyValue::with_description(
        web::session::COOKIE,
        "The session of a person, for the dashboard of the same address. It also does what an API key or a JWT does, with \
         the permissions of the person's role; requests that change something need X-CSRF-Token beside it",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    tell_headers(&mut document);
    add_examples(&mut document, include_str!("../examples.json"));
    // Handlers of several tags have one name, and IDs must be unique.
    for operation in operations(&mut document) {
        let tag = operation.tags.iter().flatten().next();
        operation.operation_id = tag
            .zip(operation.operation_id.as_ref())
            .map(|(tag, id)| format!("{tag}_{id}"));
    }
    document
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use utoipa::openapi::RefOr;

    use super::*;

    /// `scripts/conformance` has the document validated as a whole.
    #[test]
    fn each_operation_has_an_id_of_its_own_and_each_response_a_description() {
        let mut document = crate::document();
        let mut ids = HashSet::new();
        for operation in operations(&mut document) {
            let id = operation.operation_id.clone();
            assert!(id.is_some() && ids.insert(id.clone()), "{id:?} is no ID, or another's");
            for (status, response) in &operation.responses.responses {
                if let RefOr::T(response) = response {
                    assert!(!response.description.is_empty(), "{id:?} {status}");
                }
            }
        }
    }
}
