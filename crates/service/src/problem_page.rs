//! Pages about problem codes: the addresses that `type` names, for people. HTML without scripts,
//! and the same table as Markdown.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response};
use http_body_util::Full;

use crate::problem::Kind;

/// Path of the list of all codes; each code's page is below it.
pub const PATH: &str = "/problems";

/// Codes of faults in `errors` that aren't kinds of problems: code, meaning, remedy.
const FAULT_CODES: &[(&str, &str, &str)] = &[
    (
        "invalid_member",
        "A member of the body is unknown, missing, of another type, or has an invalid value.",
        "Change the member that the pointer names as the detail says.",
    ),
    (
        "invalid_parameter",
        "A query parameter is unknown, occurs twice, is empty or has an invalid value.",
        "Change the parameter that the pointer names as the detail says.",
    ),
    (
        "invalid_header",
        "A header field has an invalid value.",
        "Send the header that the pointer names in the form that the detail states.",
    ),
    (
        "invalid_domain",
        "The text isn't a domain name.",
        "Write a host name in ASCII, without scheme, port and path.",
    ),
    (
        "public_suffix",
        "The domain is a public suffix, like `co.uk`, below which anybody can register names.",
        "Leave `includeSubdomains` out, or verify a domain of your own.",
    ),
    (
        "invalid_title",
        "The title is empty, too long or contains control characters.",
        "Write the title as the detail says.",
    ),
    (
        "invalid_author",
        "An author's name is empty, too long or contains control characters.",
        "Write the name as the detail says.",
    ),
    (
        "too_many_authors",
        "The entry has more authors than allowed.",
        "List at most as many as the detail says.",
    ),
    (
        "too_many",
        "The list has more items than allowed.",
        "Divide the request as the detail says.",
    ),
];

/// A code, and what a person needs to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemPage {
    /// Stable code.
    pub code: &'static str,
    /// Title, a few words.
    pub title: String,
    /// HTTP status; none of a fault's code, which occurs in `errors`.
    pub status: Option<u16>,
    /// Meaning.
    pub meaning: &'static str,
    /// Advice: what to change.
    pub remedy: &'static str,
    /// JSON of an answer with this code.
    pub example: String,
}

impl ProblemPage {
    /// The page of a kind of problem.
    #[must_use]
    pub fn of_kind(kind: Kind) -> Self {
        let example = example(kind, kind.code(), "");
        Self {
            code: kind.code(),
            title: kind.title().to_owned(),
            status: Some(kind.status().as_u16()),
            meaning: kind.meaning(),
            remedy: kind.remedy(),
            example,
        }
    }

    /// The page of a fault's code, in the answer of a kind of problem, at this JSON Pointer.
    #[must_use]
    pub fn of_fault(
        code: &'static str,
        meaning: &'static str,
        remedy: &'static str,
        kind: Kind,
        pointer: &str,
    ) -> Self {
        let fault = format!(
            ",\n  \"errors\": [\n    {{\"pointer\": \"{pointer}\", \"code\": \"{code}\", \"detail\": \"...\"}}\n  ]"
        );
        let code_of_problem = if kind.is_format_fault() { code } else { kind.code() };
        Self {
            code,
            title: title_of(code),
            status: None,
            meaning,
            remedy,
            example: example(kind, code_of_problem, &fault),
        }
    }

    fn html(&self) -> String {
        let status = self.status.map_or_else(
            || "<dt>Status</dt><dd>a fault in <code>errors</code></dd>".to_owned(),
            |status| format!("<dt>Status</dt><dd>{status}</dd>"),
        );
        let body = format!(
            "<p><a href=\"{PATH}\">All problems</a></p><h1>{title}</h1>\
             <dl><dt>Code</dt><dd><code>{code}</code></dd>{status}</dl>\
             <h2>Meaning</h2><p>{meaning}</p><h2>What to do</h2><p>{remedy}</p>\
             <h2>Example</h2><pre tabindex=\"0\">{example}</pre>",
            title = escaped(&self.title),
            code = self.code,
            meaning = prose(self.meaning),
            remedy = prose(self.remedy),
            example = escaped(&self.example),
        );
        document(&self.title, &body)
    }
}

/// The pages of all kinds and of the faults that any service answers.
#[must_use]
pub fn common() -> Vec<ProblemPage> {
    let kinds = Kind::ALL.iter().map(|kind| ProblemPage::of_kind(*kind));
    let faults = FAULT_CODES.iter().map(|(code, meaning, remedy)| {
        let (kind, pointer) = match *code {
            "invalid_parameter" => (Kind::InvalidQuery, "limit"),
            "invalid_header" => (Kind::BadRequest, "Last-Event-ID"),
            _ => (Kind::InvalidBody, "/name"),
        };
        ProblemPage::of_fault(code, meaning, remedy, kind, pointer)
    });
    kinds.chain(faults).collect()
}

/// All pages, rendered once.
#[derive(Debug)]
pub struct ProblemPages {
    by_code: BTreeMap<&'static str, Bytes>,
    index: Bytes,
}

impl ProblemPages {
    /// Renders pages. Of two with one code, the first is served.
    #[must_use]
    pub fn new(pages: Vec<ProblemPage>) -> Self {
        let mut by_code = BTreeMap::new();
        let mut rows = String::new();
        for page in pages {
            let code = page.code;
            if by_code.contains_key(code) {
                continue;
            }
            rows.push_str(&format!(
                "<tr><td><a href=\"{PATH}/{code}\"><code>{code}</code></a></td><td>{}</td><td>{}</td></tr>",
                page.status.map(|status| status.to_string()).unwrap_or_default(),
                escaped(&page.title),
            ));
            by_code.insert(code, Bytes::from(page.html()));
        }
        let body = format!(
            "<h1>Problems</h1><p>Errors are <code>application/problem+json</code> (RFC 9457). Their member \
             <code>code</code>, and that of each fault in <code>errors</code>, is one of these.</p>\
             <table><thead><tr><th scope=\"col\">Code</th><th scope=\"col\">Status</th><th scope=\"col\">Title</th></tr>\
             </thead><tbody>{rows}</tbody></table>"
        );
        Self {
            by_code,
            index: Bytes::from(document("Problems", &body)),
        }
    }

    /// The page at a path: the list, or that of a code.
    #[must_use]
    pub fn response(&self, path: &str) -> Option<Response<Full<Bytes>>> {
        let rest = path.strip_prefix(PATH)?;
        let page = match rest.strip_prefix('/') {
            None if rest.is_empty() => &self.index,
            None => return None,
            Some("") => &self.index,
            Some(code) => self.by_code.get(code)?,
        };
        let mut response = Response::new(Full::new(page.clone()));
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "public, max-age=3600"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (
                CONTENT_SECURITY_POLICY,
                "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Some(response)
    }
}

/// The table as Markdown. Of two pages with one code, the first is listed.
#[must_use]
pub fn markdown(pages: &[ProblemPage]) -> String {
    let mut listed = Vec::new();
    let mut out = String::from("| code | status | meaning | what to do |\n|---|---|---|---|\n");
    for page in pages {
        if listed.contains(&page.code) {
            continue;
        }
        listed.push(page.code);
        let status = page.status.map(|status| status.to_string()).unwrap_or_default();
        out.push_str(&format!(
            "| `{}` | {status} | {} | {} |\n",
            page.code, page.meaning, page.remedy
        ));
    }
    out
}

fn example(kind: Kind, code: &str, fault: &str) -> String {
    format!(
        "{{\n  \"type\": \"{}\",\n  \"title\": \"{}\",\n  \"status\": {},\n  \"code\": \"{code}\",\n  \
         \"detail\": \"...\",\n  \"requestId\": \"0192f0c1-d2e3-7a4b-8c5d-6e7f80910001\"{fault}\n}}",
        kind.type_uri(),
        kind.title(),
        kind.status().as_u16(),
    )
}

/// A code as words.
fn title_of(code: &str) -> String {
    let words = code.replace('_', " ");
    let mut letters = words.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Text with code between backticks.
fn prose(text: &str) -> String {
    let pieces = escaped(text);
    let pieces = pieces.split('`').enumerate();
    pieces
        .map(|(at, piece)| {
            if at % 2 == 1 {
                format!("<code>{piece}</code>")
            } else {
                piece.to_owned()
            }
        })
        .collect()
}

fn document(title: &str, body: &str) -> String {
    const STYLE: &str = ":root{color-scheme:light dark}\
        body{font:1rem/1.5 system-ui,sans-serif;margin:0;color:CanvasText;background:Canvas}\
        main{max-width:46rem;margin:0 auto;padding:1.5rem}\
        code,pre{font-family:ui-monospace,monospace;font-size:.9em}\
        pre{overflow-x:auto;padding:1rem;border:1px solid GrayText;border-radius:.4rem}\
        dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}dd{margin:0}\
        table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .75rem .25rem 0;vertical-align:top}";
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{} - Receipts</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>",
        escaped(title)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn every_type_has_a_page_with_meaning_and_remedy() {
        let pages = ProblemPages::new(common());
        for kind in Kind::ALL {
            let response = pages.response(kind.type_uri());
            let response = response.unwrap_or_else(|| panic!("{} has no page", kind.code()));
            assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
            let page = response.into_body().collect().await.unwrap().to_bytes();
            let page = String::from_utf8(page.to_vec()).unwrap();
            for text in [escaped(kind.title()), prose(kind.meaning()), prose(kind.remedy())] {
                assert!(!text.is_empty() && page.contains(&text), "{}: {text}", kind.code());
            }
            assert!(!page.contains("<script"), "{}", kind.code());
        }
        for path in ["/problems", "/problems/"] {
            assert!(pages.response(path).is_some(), "{path}");
        }
        for path in ["/", "/problem", "/problemsx", "/problems/x", "/problems/internal/"] {
            assert!(pages.response(path).is_none(), "{path}");
        }
    }

    #[test]
    fn examples_are_json_with_the_code() {
        for page in common() {
            let example: serde_json::Value = serde_json::from_str(&page.example).expect(page.code);
            let codes = [&example["code"], &example["errors"][0]["code"]];
            assert!(codes.contains(&&serde_json::json!(page.code)), "{}", page.code);
        }
    }
}
