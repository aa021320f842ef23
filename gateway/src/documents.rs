//! Documents for people and tools: the OpenAPI document with a page that shows it, JSON Schemas,
//! and a page for each problem code. They are made when the first one is requested.

mod openapi;
pub(crate) mod problems;
mod schemas;
mod swagger;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use receipt::Limits;
use service::problem::{Kind, Problem};
use service::problem_page::ProblemPages;

use crate::answer::Answer;
use crate::refusal::Refusal;
use crate::route::{DOCS, OPENAPI};

/// All documents, as bytes.
#[derive(Debug)]
pub(crate) struct Documents {
    openapi: Bytes,
    receipt_schema: Bytes,
    batch_schema: Bytes,
    problems: ProblemPages,
}

impl Documents {
    /// Documents of a gateway with these limits.
    pub(crate) fn new(limits: &Limits) -> Self {
        let receipt = schemas::receipt(limits);
        let batch = schemas::batch(limits);
        Self {
            openapi: Bytes::from(openapi::document(&receipt, &batch).to_string()),
            receipt_schema: Bytes::from(receipt.to_string()),
            batch_schema: Bytes::from(batch.to_string()),
            problems: ProblemPages::new(problems::all()),
        }
    }

    /// The document at `path`.
    pub(crate) fn answer(&self, path: &str) -> Result<Answer, Refusal> {
        let schema = "application/schema+json";
        match path {
            "/openapi.json" | OPENAPI => return Ok(cached("application/json", self.openapi.clone())),
            "/schemas/receipt.json" => return Ok(cached(schema, self.receipt_schema.clone())),
            "/schemas/batch.json" => return Ok(cached(schema, self.batch_schema.clone())),
            "/docs" | "/docs/" | DOCS => return Ok(redirect("/docs/gateway/")),
            _ => {}
        }
        let file = path
            .strip_prefix("/docs/gateway/")
            .map(|file| swagger::file(file, OPENAPI));
        let found = file.unwrap_or_else(|| self.problems.response(path));
        found.ok_or_else(|| {
            let detail =
                "there is no such document; /docs lists addresses, /problems codes, /schemas/receipt.json is a schema";
            Problem::new(Kind::NotFound, detail).into()
        })
    }
}

fn cached(media_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

fn redirect(to: &'static str) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    answer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::path::{Path, PathBuf};

    use receipt::{BATCH_SCHEMA, RECEIPT_SCHEMA, RejectReason};
    use serde_json::Value;
    use service::problem_page::markdown;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn openapi() -> Value {
        let limits = Limits::default();
        openapi::document(&schemas::receipt(&limits), &schemas::batch(&limits))
    }

    /// Source text of every file below `folder`, tests left out.
    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
                found.push(text[..end].to_owned());
            }
        }
    }

    #[test]
    fn schemas_with_the_default_limits_are_the_texts() {
        let limits = Limits::default();
        let text: Value = serde_json::from_str(RECEIPT_SCHEMA).unwrap();
        assert_eq!(schemas::receipt(&limits), text);
        let mut text: Value = serde_json::from_str(BATCH_SCHEMA).unwrap();
        text["$defs"] = serde_json::json!({"receipt": schemas::receipt(&limits)});
        assert_eq!(schemas::batch(&limits), text);
    }

    #[test]
    fn schemas_have_the_limits_of_the_gateway() {
        let limits = Limits {
            batch_receipts_max: 7,
            string_bytes_max: 8,
            url_bytes_max: 9,
            ..Limits::default()
        };
        let batch = schemas::batch(&limits);
        assert_eq!(batch["properties"]["receipts"]["maxItems"], 7);
        assert_eq!(batch["properties"]["batchId"]["maxLength"], 8);
        assert_eq!(batch["$defs"]["receipt"], schemas::receipt(&limits));
        for text in ["text", "name"] {
            assert_eq!(batch["$defs"]["receipt"]["$defs"][text]["maxLength"], 8);
        }
        let url = batch.pointer("/$defs/receipt/properties/content/properties/url/maxLength");
        assert_eq!(url, Some(&9.into()));
    }

    /// Else a sender would meet a code that the document doesn't list.
    #[test]
    fn every_kind_that_the_gateway_answers_is_in_the_document() {
        let (document, mut files) = (openapi().to_string(), Vec::new());
        sources(&root().join("gateway/src"), &mut files);
        for kind in Kind::ALL {
            let name = format!("Kind::{kind:?}");
            let is_used = files.iter().any(|text| {
                let is_document = text.contains("The OpenAPI 3.1 document");
                let mut names = text.match_indices(&name);
                !is_document && names.any(|(at, _)| !text[at + name.len()..].starts_with(char::is_alphanumeric))
            });
            // Of an address or a method that doesn't exist.
            let is_of_none = matches!(kind, Kind::NotFound | Kind::MethodNotAllowed);
            let code = format!("`{}`", kind.code());
            assert!(
                !is_used || is_of_none || document.contains(&code),
                "{code} isn't in the document"
            );
        }
    }

    #[test]
    fn every_code_in_the_sources_has_a_page() {
        let (mut files, pages) = (Vec::new(), problems::all());
        for folder in [
            "gateway/src",
            "crates/web/src",
            "publisher-api/src",
            "analytics-api/src",
            "crates/http-server/src",
        ] {
            sources(&root().join(folder), &mut files);
        }
        sources(&root().join("crates/accounts/src"), &mut files);
        let mut checked = 0;
        for text in files {
            // The second argument of `fault(pointer, "code", detail)` and of `EntryFault::new`.
            for (at, _) in text
                .match_indices("ault(")
                .chain(text.match_indices("EntryFault::new("))
            {
                let call: String = text[at..].chars().take_while(|c| *c != '\n').collect();
                let Some(code) = call.split(", \"").nth(1).and_then(|rest| rest.split('"').next()) else {
                    continue;
                };
                if !code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
                    assert!(pages.iter().any(|page| page.code == code), "{code} has no page");
                    checked += 1;
                }
            }
        }
        assert!(checked >= 8, "{checked}");
        assert!(
            pages
                .iter()
                .all(|page| !page.remedy.is_empty() && !page.meaning.is_empty())
        );
    }

    /// Tools read the file without a running gateway.
    #[test]
    fn the_written_document_is_that_of_the_code() {
        let path = root().join("gateway/openapi.json");
        let expected = format!("{}\n", serde_json::to_string_pretty(&openapi()).unwrap());
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(
            written == expected,
            "gateway/openapi.json isn't what the code says: run with UPDATE_EXPECT=1"
        );
    }

    #[test]
    fn every_reason_of_the_webhook_has_a_page() {
        let pages = problems::all();
        for reason in RejectReason::ALL {
            // The webhook judges with the policy on entries alone, and without a warehouse. Its
            // answer has only what was judged.
            let is_foreign = match reason {
                RejectReason::EntryUnknown => false,
                RejectReason::RefusedByWarehouse | RejectReason::BatchAbandoned => true,
                _ => reason.is_of_policy(),
            };
            assert!(
                is_foreign || pages.iter().any(|page| page.code == reason.as_str()),
                "{reason}"
            );
        }
    }

    #[test]
    fn the_documented_table_is_that_of_the_code() {
        let path = root().join("docs/problems.md");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let begin = "<!-- from the code: UPDATE_EXPECT=1 cargo test -p gateway --lib documents -->\n";
        let head = text.split_once(begin).expect("the table's beginning").0.to_owned();
        let expected = format!("{head}{begin}\n{}", markdown(&problems::all()));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(
            written == expected,
            "docs/problems.md isn't what the code says: run with UPDATE_EXPECT=1"
        );
    }
}
