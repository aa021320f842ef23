//! Freshness of a directory's answer, by its headers (RFC 9111, section 4.2) within limits.

use http::{HeaderMap, header};
use jiff::fmt::rfc2822::DateTimeParser;

const MINUTE_MS: i64 = 60_000;
/// The least time, whatever the headers say.
const FRESH_MS_MIN: i64 = 5 * MINUTE_MS;
/// The longest time.
pub(super) const FRESH_MS_MAX: i64 = 24 * 60 * MINUTE_MS;
/// The time without headers.
const FRESH_MS_DEFAULT: i64 = 60 * MINUTE_MS;

/// Time after which an answer is fetched again, in milliseconds.
pub(super) fn fresh_ms(headers: &HeaderMap, now_ms: i64) -> i64 {
    let stated = cache_control_ms(headers).or_else(|| expires_ms(headers, now_ms));
    stated.unwrap_or(FRESH_MS_DEFAULT).clamp(FRESH_MS_MIN, FRESH_MS_MAX)
}

/// `no-store` and `no-cache` count as no time at all; `max-age` is in seconds.
fn cache_control_ms(headers: &HeaderMap) -> Option<i64> {
    let fields = headers.get_all(header::CACHE_CONTROL).iter();
    let directives = fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','));
    let mut stated = None;
    for directive in directives {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" => return Some(0),
            "max-age" if stated.is_none() => {
                let seconds: Option<i64> = value.trim().trim_matches('"').parse().ok();
                stated = Some(seconds.unwrap_or(0).saturating_mul(1_000));
            }
            _ => {}
        }
    }
    stated
}

/// The time from `Date`, or else from now, to `Expires`. A date that isn't one has passed.
fn expires_ms(headers: &HeaderMap, now_ms: i64) -> Option<i64> {
    let expires = headers.get(header::EXPIRES)?;
    let date = headers.get(header::DATE).and_then(instant_ms).unwrap_or(now_ms);
    Some(instant_ms(expires).map_or(0, |expires| expires.saturating_sub(date)))
}

fn instant_ms(field: &http::HeaderValue) -> Option<i64> {
    let text = field.to_str().ok()?;
    let instant = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(instant.as_millisecond())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW_MS: i64 = 784_111_777_000;
    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const IN_AN_HOUR: &str = "Sun, 06 Nov 1994 09:49:37 GMT";

    fn fresh_min(fields: &[(&'static str, &str)]) -> i64 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        fresh_ms(&headers, NOW_MS) / MINUTE_MS
    }

    #[test]
    fn headers_decide_within_limits() {
        let cases: &[(&[(&'static str, &str)], i64)] = &[
            (&[], 60),
            (&[("cache-control", "max-age=600")], 10),
            (&[("cache-control", "public, Max-Age=\"7200\"")], 120),
            (&[("cache-control", "public"), ("cache-control", "max-age=1800")], 30),
            (&[("cache-control", "max-age=299")], 5),
            (&[("cache-control", "max-age=99999999999999999999")], 5),
            (&[("cache-control", "max-age=9223372036854775807")], 24 * 60),
            (&[("cache-control", "max-age=-7")], 5),
            (&[("cache-control", "max-age=600, no-cache")], 5),
            (&[("cache-control", "no-store")], 5),
            (&[("expires", IN_AN_HOUR)], 60),
            (&[("expires", IN_AN_HOUR), ("date", NOW)], 60),
            (&[("expires", IN_AN_HOUR), ("date", IN_AN_HOUR)], 5),
            (&[("expires", "0")], 5),
            (&[("expires", IN_AN_HOUR), ("cache-control", "max-age=600")], 10),
            (&[("expires", "Sat, 06 Nov 2094 08:49:37 GMT")], 24 * 60),
        ];
        for (fields, minutes) in cases {
            assert_eq!(fresh_min(fields), *minutes, "{fields:?}");
        }
    }
}
