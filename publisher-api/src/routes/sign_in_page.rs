//! Pages of a sign-in: text and one button or link, without scripts.

use axum::response::{Html, IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};

/// Address at which a sign-in at the identity provider begins.
pub(super) const LOGIN: &str = "/api/v1/auth/login";

/// On every page. A form can be sent to this origin alone, and no other page shows it in a frame.
const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"),
    ),
    // The address holds a secret.
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// A page.
pub(super) struct SignInPage {
    pub(super) status: StatusCode,
    pub(super) title: &'static str,
    pub(super) paragraphs: Vec<String>,
    pub(super) action: PageAction,
}

/// The way on from a page.
pub(super) enum PageAction {
    /// A button that sends a POST to the page's own address.
    Button(&'static str),
    /// A link, with its path and query. A form couldn't lead to another site (`form-action`).
    Link(&'static str, String),
    /// To the dashboard.
    Dashboard,
}

impl IntoResponse for SignInPage {
    fn into_response(self) -> Response {
        let title = self.title;
        let paragraphs = self.paragraphs.iter().map(|text| format!("<p>{}</p>", escaped(text)));
        let action = match self.action {
            PageAction::Button(text) => format!("<form method=\"post\"><button>{text}</button></form>"),
            PageAction::Link(text, path) => format!("<p><a href=\"{}\">{text}</a></p>", escaped(&path)),
            PageAction::Dashboard => "<p><a href=\"/dashboard\">To the dashboard</a></p>".to_owned(),
        };
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title}</title></head><body><main><h1>{title}</h1>{}{action}</main></body></html>",
            paragraphs.collect::<String>()
        );
        (self.status, HEADERS, Html(html)).into_response()
    }
}

fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}
