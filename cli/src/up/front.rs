//! `GET /` and `GET /docs` where several services share an address: pages of links for people.
//! Programs get the same links as JSON.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use web::envelope::Envelope;

use crate::data_dir::Addresses;

/// Paths of the pages.
pub(super) const PATHS: [&str; 3] = ["/", "/docs", "/docs/"];

const PAGE: &str = include_str!("front.html");
const STYLE: &str = include_str!("front.css");

/// Content that a page may load and run (CSP level 3): its own style sheet, nothing else.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// A link of a page.
struct PageLink {
    /// Name in JSON.
    name: &'static str,
    /// Text of the link.
    text: &'static str,
    /// Description of its target.
    about: &'static str,
    /// Address of its target.
    href: String,
}

/// Links of both pages.
struct PageLinks {
    uses: Vec<PageLink>,
    docs: Vec<PageLink>,
    operation: Vec<PageLink>,
}

impl PageLinks {
    fn new(addresses: &Addresses) -> Self {
        // A service on this address is linked by path, which also works behind a proxy.
        let to = |service: &str, path: &str| {
            let base = if service == addresses.gateway { "" } else { service };
            format!("{base}{path}")
        };
        let link = |name, text, about, href| PageLink {
            name,
            text,
            about,
            href,
        };
        let (gateway, analytics, publisher) = (&addresses.gateway, &addresses.analytics, &addresses.publisher);
        let metrics = &addresses.metrics;
        Self {
            uses: vec![
                link(
                    "dashboard",
                    "Dashboard",
                    "who used your content, with an API key",
                    to(analytics, "/dashboard"),
                ),
                link(
                    "docs",
                    "Documentation of the APIs",
                    "to read and try",
                    to(gateway, "/docs"),
                ),
            ],
            docs: vec![
                link(
                    "gateway",
                    "Gateway",
                    "AI operators send receipts",
                    to(gateway, "/docs/gateway"),
                ),
                link(
                    "analytics",
                    "Analytics",
                    "publishers query usage",
                    to(analytics, "/docs/analytics/"),
                ),
                link(
                    "publisher",
                    "Publishers",
                    "keys, domains, entries, rights",
                    to(publisher, "/docs/publisher/"),
                ),
                link(
                    "gatewayOpenapi",
                    "OpenAPI: gateway",
                    "",
                    to(gateway, "/openapi/gateway.json"),
                ),
                link(
                    "analyticsOpenapi",
                    "OpenAPI: analytics",
                    "",
                    to(analytics, "/openapi/analytics.json"),
                ),
                link(
                    "publisherOpenapi",
                    "OpenAPI: publishers",
                    "",
                    to(publisher, "/openapi/publisher.json"),
                ),
            ],
            operation: vec![
                link("health", "Health", "whether the process lives", to(gateway, "/healthz")),
                link(
                    "readiness",
                    "Readiness",
                    "the state of each engine",
                    to(gateway, "/readyz"),
                ),
                link(
                    "metrics",
                    "Metrics",
                    "for Prometheus, on a port of their own",
                    to(metrics, "/metrics"),
                ),
                link(
                    "acknowledgementKeys",
                    "Acknowledgement keys",
                    "they sign every 202",
                    to(gateway, "/.well-known/receipts-keys.json"),
                ),
            ],
        }
    }
}

/// Both pages.
pub(super) fn router(addresses: &Addresses, data: &str, head_bytes_max: usize) -> Router {
    let links = PageLinks::new(addresses);
    let around = Envelope {
        api: "front",
        head_bytes_max,
    };
    let (front, docs) = (front(&links, data), docs(&links));
    let list = |links: &[PageLink]| -> Value {
        links
            .iter()
            .map(|link| (link.name.to_owned(), json!(link.href)))
            .collect()
    };
    let front_json = json!({
        "service": "receipts",
        "links": list(&links.uses),
        "docs": list(&links.docs),
        "operation": list(&links.operation),
    });
    let docs_json = json!({ "docs": list(&links.docs) });
    let answer =
        |page: String, links: Value| get(move |headers: HeaderMap| async move { answer(&headers, &page, &links) });
    Router::new()
        .route("/", answer(front, front_json))
        .route("/docs", answer(docs.clone(), docs_json.clone()))
        .route("/docs/", answer(docs, docs_json))
        .method_not_allowed_fallback(web::envelope::method_not_allowed)
        .layer(from_fn_with_state(around, web::envelope))
}

fn answer(headers: &HeaderMap, page: &str, links: &Value) -> Response {
    if !web::envelope::is_browser(headers) {
        return Json(links).into_response();
    }
    let mut response = Response::new(Body::from(page.to_owned()));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn front(links: &PageLinks, data: &str) -> String {
    let body = format!(
        "<h1>Receipts</h1>\n<p>An index of published content that counts signed receipts of its use by AI.</p>\n\
         <nav aria-label=\"Services\">\n{}</nav>\n\
         <h2>Begin</h2>\n<p>A publisher's API key, for the dashboard:</p>\n\
         <pre><code>receipts keys create --data {} --domain example.com</code></pre>\n\
         <p>The README leads from there to the first receipt and the first number.</p>\n\
         <h2>Operation</h2>\n{}",
        list(&links.uses),
        escaped(data),
        list(&links.operation),
    );
    page("Receipts", &body)
}

fn docs(links: &PageLinks) -> String {
    let body = format!(
        "<h1>Documentation of the APIs</h1>\n<nav aria-label=\"APIs\">\n{}</nav>\n<p><a href=\"/\">Overview</a></p>\n",
        list(&links.docs)
    );
    page("Receipts: documentation of the APIs", &body)
}

fn page(title: &str, body: &str) -> String {
    PAGE.replace("{{title}}", title)
        .replace("{{style}}", STYLE)
        .replace("{{body}}", body)
}

fn list(links: &[PageLink]) -> String {
    let mut html = String::from("<ul>\n");
    for PageLink { text, about, href, .. } in links {
        let about = if about.is_empty() {
            String::new()
        } else {
            format!(": {about}")
        };
        html += &format!("<li><a href=\"{}\">{text}</a>{about}</li>\n", escaped(href));
    }
    html + "</ul>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
