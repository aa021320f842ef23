//! Pages of a sign-in: text and at most one button, without scripts.

use axum::response::{Html, IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};

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
    /// Text of the button, which sends a POST to the page's own address.
    pub(super) button: Option<&'static str>,
}

impl IntoResponse for SignInPage {
    fn into_response(self) -> Response {
        let title = self.title;
        let paragraphs = self.paragraphs.iter().map(|text| format!("<p>{}</p>", escaped(text)));
        let form = self.button.map_or_else(
            || "<p><a href=\"/dashboard\">To the dashboard</a></p>".to_owned(),
            |text| format!("<form method=\"post\"><button>{text}</button></form>"),
        );
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title}</title></head><body><main><h1>{title}</h1>{}{form}</main></body></html>",
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
