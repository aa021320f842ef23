//! Sessions of people in browsers: the cookie, and the proofs that a request with it must bring.
//!
//! A browser attaches the cookie by itself, so the cookie alone proves nothing about who wanted the
//! request. `SameSite=Strict` leaves it out of requests that other sites cause. `Sec-Fetch-Site`
//! must say that a page of this origin, or the person, sent the request: other ports of a host are
//! the same site, and some addresses act on GET. What changes something also needs the session's
//! token in a header, which no other origin can read or send.

use accounts::SecretToken;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use service::problem::Kind;

use crate::Failure;

/// Name of the cookie. Browsers take one with this prefix only from its own host, by HTTPS or from
/// a loopback address: no other host can set it.
pub const COOKIE: &str = "__Host-receipts";
/// Header of the session's token against cross-site request forgery.
pub const CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");
/// Age of a sign-in up to which keys, people and erasures can be changed, in milliseconds.
pub const FRESH_MS: i64 = 10 * 60_000;

const CSRF_PURPOSE: &str = "CSRF token";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The session's cookie of a request, if there is one. The pages of `/docs` have none: what a
/// visitor tries there must not act with the session of the dashboard.
///
/// # Errors
/// 401 for a cookie that can't be a session's.
pub fn token(headers: &HeaderMap) -> Result<Option<SecretToken>, Failure> {
    let Some(text) = cookie(headers, COOKIE) else {
        return Ok(None);
    };
    let referer = headers.get(header::REFERER).and_then(|value| value.to_str().ok());
    let page = referer.and_then(|referer| referer.parse::<Uri>().ok());
    if page.is_some_and(|page| page.path().starts_with("/docs")) {
        return Ok(None);
    }
    SecretToken::parse(text).map(Some).ok_or_else(none)
}

/// The value of a cookie, if it occurs once.
#[must_use]
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    let mut values = pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value);
    values.next().filter(|_| values.next().is_none())
}

/// `Set-Cookie` for a cookie of this host alone that scripts can't read. `same_site` is `Strict`,
/// or `Lax` for what must arrive with a redirect from another site.
#[must_use]
pub fn set_cookie(name: &str, value: &str, same_site: &str, seconds_max: Option<u32>) -> HeaderValue {
    let age = seconds_max.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
    let text = format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite={same_site}{age}");
    // Hexadecimal digits and words of this program.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

/// `Set-Cookie` for a new session. It ends with the browser, or by the session's own limits.
#[must_use]
pub fn begun(token: &SecretToken) -> HeaderValue {
    set_cookie(COOKIE, &token.reveal(), "Strict", None)
}

/// `Set-Cookie` that removes the session's cookie.
#[must_use]
pub fn removed() -> HeaderValue {
    set_cookie(COOKIE, "", "Strict", Some(0))
}

/// The token that a request with the cookie of `session` sends in [`CSRF_TOKEN`]: it follows from
/// the session's secret, so nothing of it is stored.
#[must_use]
pub fn csrf_token(session: &SecretToken) -> String {
    hex::encode(session.derive(CSRF_PURPOSE))
}

/// Checks that a page of this origin, or the person, sent the request.
///
/// # Errors
/// 403 for another site's or another port's request, and for one that doesn't say.
pub fn check_site(headers: &HeaderMap) -> Result<(), Failure> {
    match single(headers, &FETCH_SITE) {
        Some(b"same-origin" | b"none") => Ok(()),
        _ => {
            let detail = "a request with a session's cookie must come from the pages of this address, in a browser \
                that sends Sec-Fetch-Site: open the dashboard here, or send an API key";
            Err(Failure::new(Kind::CrossSite, detail))
        }
    }
}

/// Checks that a page of this origin sent the request: a link that somebody opened elsewhere, such
/// as in a mail, isn't enough.
///
/// # Errors
/// 403.
pub fn check_own_page(headers: &HeaderMap) -> Result<(), Failure> {
    match single(headers, &FETCH_SITE) {
        Some(b"same-origin") => Ok(()),
        _ => Err(Failure::new(
            Kind::CrossSite,
            "open the link of the invitation itself, and continue from its page",
        )),
    }
}

/// Checks what a request with the cookie of `session` must prove before anything is read for it.
///
/// # Errors
/// 403: it comes from elsewhere, or changes something without the session's token.
pub fn check(session: &SecretToken, method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    check_site(headers)?;
    let is_reading = matches!(*method, Method::GET | Method::HEAD);
    let sent = single(headers, &CSRF_TOKEN).unwrap_or_default();
    if is_reading || session.confirms(CSRF_PURPOSE, sent) {
        return Ok(());
    }
    let detail = "send the csrfToken of GET /api/v1/auth/session in X-CSRF-Token";
    Err(Failure::new(Kind::BadCsrfToken, detail))
}

/// Checks that a person signed in a moment ago.
///
/// # Errors
/// 403 if that is longer ago than [`FRESH_MS`].
pub fn check_fresh(signed_in_at_ms: i64, now_ms: i64) -> Result<(), Failure> {
    if now_ms.saturating_sub(signed_in_at_ms) < FRESH_MS {
        return Ok(());
    }
    let detail = "keys, people and erasures can be changed for ten minutes after a sign-in: sign in again";
    Err(Failure::new(Kind::SignInAgain, detail))
}

/// No session belongs to the cookie, or none any more.
#[must_use]
pub fn none() -> Failure {
    Failure::new(
        Kind::NoSession,
        "there is no such session, or it has ended: sign in again",
    )
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    values
        .next()
        .filter(|_| values.next().is_none())
        .map(HeaderValue::as_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_cookie_is_found_among_others_and_only_once() {
        let token = SecretToken::generate().unwrap();
        let own = format!("{COOKIE}={}", token.reveal());
        for (lines, is_found) in [
            (vec![("cookie", own.clone())], true),
            (vec![("cookie", format!("a=b; {own};c=d"))], true),
            (vec![("cookie", "a=b".to_owned()), ("cookie", own.clone())], true),
            (vec![("cookie", format!("{own}; {own}"))], false),
            (vec![("cookie", format!("x{own}"))], false),
            (vec![("cookie", own.to_ascii_lowercase())], false),
            (vec![], false),
        ] {
            let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let found = super::token(&headers(&lines)).unwrap();
            assert_eq!(found.is_some(), is_found, "{lines:?}");
        }
        let wrong = headers(&[("cookie", "__Host-receipts=1")]);
        assert_eq!(super::token(&wrong).unwrap_err().0.kind, Kind::NoSession);
        for (referer, is_found) in [
            ("https://r.example/docs/publisher/", false),
            ("https://r.example/docs", false),
            ("https://r.example/dashboard", true),
            ("nonsense", true),
        ] {
            let found = super::token(&headers(&[("cookie", &own), ("referer", referer)])).unwrap();
            assert_eq!(found.is_some(), is_found, "{referer}");
        }
    }

    #[test]
    fn a_change_needs_the_sessions_token_and_every_request_this_origin() {
        let (session, other) = (SecretToken::generate().unwrap(), SecretToken::generate().unwrap());
        let (own, others) = (csrf_token(&session), csrf_token(&other));
        let ask = |method: &Method, lines: &[(&'static str, &str)]| {
            check(&session, method, &headers(lines)).map_err(|failure| failure.0.kind)
        };
        let here = ("sec-fetch-site", "same-origin");
        for site in ["cross-site", "same-site", "same-origin, none", ""] {
            for method in [Method::GET, Method::POST] {
                let lines = [("sec-fetch-site", site), ("x-csrf-token", own.as_str())];
                assert_eq!(ask(&method, &lines), Err(Kind::CrossSite), "{site}");
            }
        }
        assert_eq!(ask(&Method::GET, &[]), Err(Kind::CrossSite));
        assert_eq!(ask(&Method::GET, &[here, here]), Err(Kind::CrossSite));
        assert_eq!(ask(&Method::GET, &[here]), Ok(()));
        assert_eq!(ask(&Method::HEAD, &[("sec-fetch-site", "none")]), Ok(()));
        for method in [
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            assert_eq!(ask(&method, &[here, ("x-csrf-token", &own)]), Ok(()));
            assert_eq!(ask(&method, &[here]), Err(Kind::BadCsrfToken));
            assert_eq!(
                ask(&method, &[here, ("x-csrf-token", &others)]),
                Err(Kind::BadCsrfToken)
            );
            assert_eq!(
                ask(&method, &[here, ("x-csrf-token", &session.reveal())]),
                Err(Kind::BadCsrfToken)
            );
        }
    }

    #[test]
    fn a_sign_in_is_fresh_for_ten_minutes() {
        assert!(check_fresh(1_000, 1_000 + FRESH_MS - 1).is_ok());
        assert_eq!(
            check_fresh(1_000, 1_000 + FRESH_MS).unwrap_err().0.kind,
            Kind::SignInAgain
        );
    }

    #[test]
    fn cookies_are_this_hosts_alone() {
        let token = SecretToken::parse(&"0a".repeat(32)).unwrap();
        let begun = begun(&token);
        let expected = format!(
            "__Host-receipts={}; Path=/; Secure; HttpOnly; SameSite=Strict",
            "0a".repeat(32)
        );
        assert_eq!(begun, expected.as_str());
        assert!(removed().to_str().unwrap().ends_with("; Max-Age=0"));
    }
}
