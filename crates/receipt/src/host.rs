//! Hosts of URLs and names of publishers in their one form.

use std::borrow::Cow;

use url::Host;

/// The longest host as text (RFC 1035, section 2.3.4).
const HOST_CHARS_MAX: usize = 253;
/// The longest label.
const LABEL_BYTES_MAX: usize = 63;

/// Returns the canonical form of a host: a domain name in lower case, with characters beyond ASCII
/// in A-labels (WHATWG URL, "host parsing"; UTS 46), and without a dot at its end.
///
/// `None` if the host is no domain name: an address, a single label, an empty or too long label, or
/// percent-encoded. An underscore is allowed, since URLs have such hosts.
pub(crate) fn canonical_host(host: &str) -> Option<Cow<'_, str>> {
    // Before UTS 46, whose work grows with the square of a label's length. The standard's parser
    // would decode percent-encoding, other readers wouldn't.
    if host.chars().nth(HOST_CHARS_MAX + 1).is_some() || host.contains('%') {
        return None;
    }
    let mut host = if !host.is_ascii() {
        match Host::parse(host) {
            Ok(Host::Domain(name)) => Cow::Owned(name),
            _ => return None,
        }
    } else if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    };
    if host.ends_with('.') {
        host = match host {
            Cow::Borrowed(host) => Cow::Borrowed(&host[..host.len() - 1]),
            Cow::Owned(host) => Cow::Owned(host[..host.len() - 1].to_owned()),
        };
    }
    is_domain_name(&host).then_some(host)
}

/// Returns the canonical form of a publisher's name: a host whose labels have letters, digits and
/// hyphens (RFC 1123, section 2.1).
pub(crate) fn publisher_name(name: &str) -> Option<Cow<'_, str>> {
    let is_label = |label: &str| !label.starts_with('-') && !label.ends_with('-') && !label.contains('_');
    canonical_host(name).filter(|name| name.split('.').all(is_label))
}

/// Whether a host is a domain or a subdomain of it. Both are canonical.
pub(crate) fn is_within(host: &str, domain: &str) -> bool {
    let above = host.strip_suffix(domain);
    above.is_some_and(|labels| labels.is_empty() || labels.ends_with('.'))
}

fn is_domain_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_allowed);
    // A last label with a digit at its beginning is that of an IPv4 address, as `0x7f.1` is one.
    let top = name.rsplit_once('.').map(|(_, top)| top);
    name.len() <= HOST_CHARS_MAX
        && top.is_some_and(|top| !top.starts_with(|c: char| c.is_ascii_digit()))
        && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn hosts_within_domains() {
        for good in ["news.example", "www.news.example", "a.b.news.example"] {
            assert!(is_within(good, "news.example"), "{good}");
        }
        for bad in ["", "example", "fakenews.example", "news.example.org", "ews.example"] {
            assert!(!is_within(bad, "news.example"), "{bad}");
        }
    }

    #[test]
    fn publishers_have_one_form() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        for (name, form) in [
            ("example.com", "example.com"),
            ("EXAMPLE.com.", "example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("B\u{dc}CHER.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher\u{3002}example\u{3002}", "xn--bcher-kva.example"),
            ("stra\u{df}e.example", "xn--strae-oqa.example"),
            ("1.example", "1.example"),
            ("a-b.c", "a-b.c"),
            (&longest, &longest),
        ] {
            assert_eq!(publisher_name(name).unwrap(), form);
        }
        for bad in [
            "",
            ".",
            "a",
            "a.",
            ".a",
            "a..b",
            "a.b..",
            "-a.b",
            "a-.b",
            "a_b.c",
            "a b.c",
            "a/b.c",
            "a%62.c",
            "\u{fc}%2e.c",
            "localhost",
            "127.0.0.1",
            "0x7f.1",
            "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
            "[::1]",
            "::1",
            "news\u{202e}.example",
            "news\u{2024}example.com",
            "b\u{fc}cher",
            &format!("a{label}.b"),
            &format!("{longest}b"),
        ] {
            assert_eq!(publisher_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn hosts_of_urls_may_have_more_hyphens_and_underscores() {
        for host in ["a_b.example", "-a.example", "a-.b-.example"] {
            assert_eq!(canonical_host(host).unwrap(), host);
            assert_eq!(publisher_name(host), None);
        }
    }

    #[test]
    fn a_host_that_is_too_long_is_refused_before_its_a_labels_are_made() {
        // Soft hyphens are dropped, so that the A-labels would be short enough.
        let long = |hyphens: usize| format!("\u{fc}{}.example", "\u{ad}".repeat(hyphens));
        assert_eq!(canonical_host(&long(245)).unwrap(), "xn--tda.example");
        assert_eq!(canonical_host(&long(246)), None);
    }
}
