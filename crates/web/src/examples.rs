//! Examples of answers in the OpenAPI documents: real ones, which tests have written down, and a
//! problem of each status.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use service::problem::{Kind, MEDIA_TYPE};
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::{OpenApi as Document, Ref, RefOr};

/// A problem of each status that any address may answer. Conflicts are of an address alone: tests
/// write down real ones.
const PROBLEMS: [Kind; 10] = [
    Kind::InvalidQuery,
    Kind::InsufficientScope,
    Kind::NotFound,
    Kind::NotAcceptable,
    Kind::RequestTimeout,
    Kind::PreconditionFailed,
    Kind::BodyTooLarge,
    Kind::UnsupportedMediaType,
    Kind::RateLimited,
    Kind::Overloaded,
];
/// The problem of a request without the credential that an address takes, by its name in the
/// document.
const WITHOUT_CREDENTIAL: [(&str, Kind); 4] = [
    ("apiKey", Kind::MissingApiKey),
    ("messageSignature", Kind::MissingMessageSignature),
    ("jwt", Kind::MissingToken),
    ("session", Kind::NoSession),
];

/// Bodies by operation (`GET /path`), status and media type.
type Answers = BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>;

/// Adds examples to every answer of a document: those of `answers` (the file `examples.json`), and
/// problems.
pub fn add_examples(document: &mut Document, answers: &str) {
    let mut answers: Answers = serde_json::from_str(answers).unwrap_or_default();
    let components = document.components.get_or_insert_default();
    for kind in PROBLEMS.into_iter().chain(WITHOUT_CREDENTIAL.map(|(_, kind)| kind)) {
        components
            .examples
            .insert(kind.code().to_owned(), RefOr::T(problem(kind)));
    }
    for (path, item) in &mut document.paths.paths {
        let operations = [
            ("GET", &mut item.get),
            ("PUT", &mut item.put),
            ("POST", &mut item.post),
            ("PATCH", &mut item.patch),
            ("DELETE", &mut item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let mut answers = answers.remove(&format!("{method} {path}")).unwrap_or_default();
            let credentials = serde_json::to_string(&operation.security).unwrap_or_default();
            let taken = |(name, _): &&(&str, Kind)| credentials.contains(&format!("\"{name}\""));
            let without = WITHOUT_CREDENTIAL.iter().find(taken).map(|(_, kind)| kind);
            for (status, response) in &mut operation.responses.responses {
                let RefOr::T(response) = response else { continue };
                let mut bodies = answers.remove(status).unwrap_or_default();
                for (media, content) in &mut response.content {
                    let RefOr::T(content) = content else { continue };
                    content.example = bodies.remove(media);
                    let mut problems = PROBLEMS.iter().chain(without);
                    let problem = problems.find(|kind| kind.status().as_str() == status);
                    let Some(kind) = problem.filter(|_| media == MEDIA_TYPE) else {
                        continue;
                    };
                    let shared = Ref::new(format!("#/components/examples/{}", kind.code()));
                    content.examples.insert(kind.code().to_owned(), RefOr::Ref(shared));
                }
            }
        }
    }
}

/// The problem of a kind, with a fault if the kind is of faults.
fn problem(kind: Kind) -> Example {
    let mut value = json!({
        "type": kind.type_uri(),
        "title": kind.title(),
        "status": kind.status().as_u16(),
        "code": kind.code(),
        "detail": kind.remedy(),
        "requestId": "0190a3c4-7b1e-7f00-8000-5f9d3c2b1a00",
    });
    if kind == Kind::InvalidQuery {
        value["detail"] = "limit: \"many\" isn't a whole number".into();
        let detail = "\"many\" isn't a whole number";
        value["errors"] = json!([{"pointer": "limit", "code": "invalid_parameter", "detail": detail}]);
    }
    ExampleBuilder::new().summary(kind.title()).value(Some(value)).build()
}
