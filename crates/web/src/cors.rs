//! Pages of other origins that may read the answers with an API key (CORS, Fetch standard section
//! 3.3). Cookies aren't allowed: a page has the key that its own visitor gave it.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Uri, header};
use tower_http::cors::CorsLayer;

/// The most origins of a list.
pub const ORIGINS_MAX: usize = 100;

/// Time for which a browser may remember the answer to a preflight request.
const PREFLIGHT_AGE_MAX: Duration = Duration::from_secs(3_600);

/// Headers of answers that scripts may read.
const EXPOSED: [&str; 10] = [
    "content-disposition",
    "etag",
    "retry-after",
    "x-complete-through",
    "x-incomplete",
    "x-ratelimit-cost",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-request-id",
];

/// Whether `text` is an origin as browsers send it: scheme, host, and a port that isn't the
/// scheme's own (RFC 6454 section 6.2).
#[must_use]
pub fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let own_port = match uri.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => return false,
    };
    let Some(authority) = uri.authority() else { return false };
    let is_serialized = text.bytes().all(|byte| !byte.is_ascii_uppercase())
        && text.len() == authority.as_str().len() + text.find("://").map_or(0, |at| at + 3);
    is_serialized && !authority.as_str().contains('@') && authority.port_u16() != Some(own_port)
}

/// The layer that lets these origins read answers to GET and HEAD; `None` if there are none.
#[must_use]
pub fn layer(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::HEAD])
            .allow_headers([
                header::ACCEPT,
                header::AUTHORIZATION,
                header::IF_NONE_MATCH,
                HeaderName::from_static("last-event-id"),
                HeaderName::from_static("prefer"),
                HeaderName::from_static("traceparent"),
                HeaderName::from_static("x-request-id"),
            ])
            .expose_headers(EXPOSED.map(HeaderName::from_static))
            .max_age(PREFLIGHT_AGE_MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_browsers_send_them() {
        for origin in ["https://stats.example", "http://localhost:3000", "https://[::1]:8443"] {
            assert!(is_origin(origin), "{origin}");
        }
        for other in [
            "*",
            "null",
            "stats.example",
            "https://stats.example/",
            "https://Stats.example",
            "https://stats.example:443",
            "http://stats.example:80",
            "https://user@stats.example",
            "https://stats.example/page",
            "https://stats.example?x",
            "ftp://stats.example",
            "",
        ] {
            assert!(!is_origin(other), "{other}");
        }
    }
}
