//! Canonical URL of content, and the entry ID that is derived from it.

use std::fmt::Write as _;

use uuid::Uuid;

use crate::host::canonical_host;
use crate::rules;

/// The canonical form of a content URL. Two URLs with one canonical form name the same content.
///
/// The form is a subset of what the WHATWG URL standard does, chosen so that a client needs no
/// parser of that standard:
///
/// - the scheme, `http` or `https`, and the host in lower case;
/// - a host with characters beyond ASCII in A-labels (WHATWG URL, "host parsing"; UTS 46), without
///   a dot at its end, and no host that is no domain name;
/// - no port if it is empty or the scheme's default, else the port without leading zeros;
/// - `/` for an empty path;
/// - no fragment;
/// - in path and query each character beyond ASCII, and each of `"'<>\^{|}` and the grave accent,
///   percent-encoded as UTF-8 with upper-case digits (RFC 3986, section 2.1);
/// - everything else byte for byte. Dot segments and existing percent-encoding aren't changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CanonicalUrl {
    text: String,
    host_start: usize,
    host_end: usize,
}

/// Reason why a text has no canonical URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalUrlError {
    /// Not a URL that a receipt may contain.
    #[error("must be an http or https URL with a host, without user name, whitespace or control characters")]
    NotContent,
    /// A host that isn't a domain name.
    #[error("its host must be a domain name, as news.example.com")]
    NotDomain,
}

/// Returns the canonical form of a URL.
pub fn canonical_url(url: &str) -> Result<CanonicalUrl, CanonicalUrlError> {
    let given_host = rules::url_host(url).ok_or(CanonicalUrlError::NotContent)?;
    let (scheme, rest) = url.split_once("://").ok_or(CanonicalUrlError::NotContent)?;
    let scheme = scheme.to_ascii_lowercase();
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // What follows a host that isn't an IPv6 address is empty or a colon and digits.
    let port = authority
        .strip_prefix(given_host)
        .ok_or(CanonicalUrlError::NotDomain)?
        .trim_start_matches(':')
        .parse::<u16>()
        .ok();
    let host = canonical_host(given_host).ok_or(CanonicalUrlError::NotDomain)?;
    let default_port = if scheme == "https" { 443 } else { 80 };
    let host_start = scheme.len() + "://".len();
    let mut text = format!("{scheme}://{host}");
    let host_end = text.len();
    // Writing into a String can't fail.
    if let Some(port) = port.filter(|port| *port != default_port) {
        let _ = write!(text, ":{port}");
    }
    if !tail.starts_with('/') {
        text.push('/');
    }
    let tail = tail.split('#').next().unwrap_or_default();
    for byte in tail.bytes() {
        if byte.is_ascii()
            && !matches!(
                byte,
                b'"' | b'\'' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            )
        {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    Ok(CanonicalUrl {
        text,
        host_start,
        host_end,
    })
}

/// Returns the entry ID of a URL whose publisher doesn't list it: the UUIDv5 (RFC 9562, section
/// 5.5) of its canonical form in the URL namespace (RFC 9562, section 6.6).
pub fn entry_id_of(url: &str) -> Result<Uuid, CanonicalUrlError> {
    canonical_url(url).map(|url| url.entry_id())
}

impl CanonicalUrl {
    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host of the URL: lower case, ASCII, without a dot at its end.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.text[self.host_start..self.host_end]
    }

    /// The entry ID for content that its publisher doesn't list, see [`entry_id_of`].
    #[must_use]
    pub fn entry_id(&self) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_URL, self.text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_with_one_meaning_have_one_form() {
        for (url, form) in [
            ("https://news.example", "https://news.example/"),
            ("HTTPS://News.Example:443/A?B#c", "https://news.example/A?B"),
            ("http://news.example:080/", "http://news.example/"),
            ("http://news.example:/", "http://news.example/"),
            ("http://news.example:443/", "http://news.example:443/"),
            ("https://news.example:08443", "https://news.example:8443/"),
            ("https://news.example.?q", "https://news.example/?q"),
            ("https://news.example#a/b?c", "https://news.example/"),
            ("https://news.example/?", "https://news.example/?"),
            (
                "https://B\u{dc}CHER.example/\u{e4}?\u{20ac}#\u{e4}",
                "https://xn--bcher-kva.example/%C3%A4?%E2%82%AC",
            ),
            (
                "https://a_b.news.example/a@b:c//d/../e;f?g=h%2fi&j=[k]",
                "https://a_b.news.example/a@b:c//d/../e;f?g=h%2fi&j=[k]",
            ),
            (
                "https://news.example/\"'<>\\^`{|}?\"'<>\\^`{|}",
                "https://news.example/%22%27%3C%3E%5C%5E%60%7B%7C%7D?%22%27%3C%3E%5C%5E%60%7B%7C%7D",
            ),
        ] {
            let canonical = canonical_url(url).unwrap();
            assert_eq!(canonical.as_str(), form, "{url}");
            let host = form.split(['/', ':']).nth(3).unwrap();
            assert_eq!(canonical.host(), host, "{url}");
        }
    }

    #[test]
    fn texts_without_a_canonical_form_say_why() {
        let long_host = format!("https://{}.example/", "a.".repeat(130));
        for (url, error) in [
            ("", CanonicalUrlError::NotContent),
            ("news.example/a", CanonicalUrlError::NotContent),
            ("ftp://news.example/", CanonicalUrlError::NotContent),
            ("javascript:alert(1)", CanonicalUrlError::NotContent),
            ("https://user@news.example/", CanonicalUrlError::NotContent),
            ("https://user:pw@news.example/", CanonicalUrlError::NotContent),
            ("https://@news.example/", CanonicalUrlError::NotContent),
            ("https://news.example/a b", CanonicalUrlError::NotContent),
            ("https://news.example/\u{0}", CanonicalUrlError::NotContent),
            ("https://news.example/\u{2028}", CanonicalUrlError::NotContent),
            ("https://news.example:65536/", CanonicalUrlError::NotContent),
            ("https://news.example\\@other.example/", CanonicalUrlError::NotContent),
            ("https://[2001:db8::1]/", CanonicalUrlError::NotDomain),
            ("https://news..example/", CanonicalUrlError::NotDomain),
            ("https://./", CanonicalUrlError::NotDomain),
            ("https://news%2Eexample/", CanonicalUrlError::NotDomain),
            ("https://b\u{fc}cher%2Eexample/", CanonicalUrlError::NotDomain),
            ("http://192.0.2.7:8080/a", CanonicalUrlError::NotDomain),
            ("http://localhost/", CanonicalUrlError::NotDomain),
            ("https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/", CanonicalUrlError::NotDomain),
            ("https://news\u{202e}.example/", CanonicalUrlError::NotDomain),
            (&long_host, CanonicalUrlError::NotDomain),
        ] {
            assert_eq!(canonical_url(url), Err(error), "{url}");
        }
    }

    #[test]
    fn an_entry_id_is_the_one_of_other_implementations() {
        // `uuid.uuid5(uuid.NAMESPACE_URL, "https://news.example/2026/11/lead")` in Python.
        let id = "69f09ffd-d89e-5092-b485-1da5d197cce5";
        for url in [
            "https://news.example/2026/11/lead",
            "HTTPS://NEWS.example:443/2026/11/lead#top",
        ] {
            assert_eq!(entry_id_of(url).unwrap().to_string(), id);
        }
        assert!(entry_id_of("https://user@news.example/").is_err());
    }

    proptest! {
        /// The form of a form is itself, in ASCII, and a valid URL of the same host to the
        /// WHATWG parser.
        #[test]
        fn a_canonical_form_is_its_own(
            url in "(?i:https?)://[a-zA-Z\u{e4}-\u{fc}_]{1,12}(\\.[a-z]{2,5}){1,2}\\.?(:[0-9]{0,4})?([/?#]\\PC{0,30})?"
        ) {
            if let Ok(canonical) = canonical_url(&url) {
                prop_assert_eq!(&canonical_url(canonical.as_str()).unwrap(), &canonical);
                prop_assert!(canonical.as_str().is_ascii());
                let parsed = url::Url::parse(canonical.as_str()).unwrap();
                prop_assert_eq!(parsed.host_str(), Some(canonical.host()));
                prop_assert_eq!(parsed.fragment(), None);
                // Without dot segments the WHATWG form is this form.
                if !canonical.as_str().contains("/.") && !canonical.as_str().to_lowercase().contains("%2e") {
                    prop_assert_eq!(parsed.as_str(), canonical.as_str());
                }
            }
        }
    }
}
