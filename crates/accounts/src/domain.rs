//! A domain name in its one form: lower-case ASCII without a trailing dot. International names are
//! given in either form and stored as A-labels (RFC 5890 section 2.3.2.1).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// A domain name: lower-case, 2 or more labels of letters, digits and hyphens (RFC 1123, 2.1), at
/// most 253 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(String);

/// Not a domain name, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is no domain name: {why}")]
pub struct DomainError {
    shown: String,
    why: &'static str,
}

/// The longest name (RFC 1035, 2.3.4, as text).
const BYTES_MAX: usize = 253;
/// The longest label.
const LABEL_BYTES_MAX: usize = 63;

impl Domain {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether names below it are registered by different people: `co.uk`, `github.io`
    /// (publicsuffix.org, both of its parts).
    #[must_use]
    pub fn is_public_suffix(&self) -> bool {
        is_public_suffix(&self.0)
    }

    /// Whether `host`, a lower-case name without a dot at its end, belongs to the same registrable
    /// domain. A public suffix has none: only the suffix itself does.
    #[must_use]
    pub fn is_same_site(&self, host: &str) -> bool {
        host == self.0 || psl::domain_str(&self.0).is_some_and(|own| psl::domain_str(host) == Some(own))
    }
}

/// [`Domain::is_public_suffix`] of a domain's text.
pub(crate) fn is_public_suffix(name: &str) -> bool {
    psl::suffix_str(name) == Some(name)
}

/// A domain's text has the same order and equality, so maps by domain are searched by text.
impl Borrow<str> for Domain {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Domain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        let name = text.trim();
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let name = to_ascii(name);
        let why = match name.as_deref().map_or_else(|why| Some(*why), fault) {
            None => return Ok(Self(name.unwrap_or_default())),
            Some(why) => why,
        };
        // Cut, so that a wrong file given as a domain doesn't end in the message whole.
        Err(DomainError {
            shown: text.chars().take(64).flat_map(char::escape_debug).collect(),
            why,
        })
    }
}

/// The A-labels of an international name, as browsers make them (UTS 46, in the WHATWG URL
/// standard's "host parsing").
fn to_ascii(name: String) -> Result<String, &'static str> {
    if name.is_ascii() {
        return Ok(name);
    }
    // Before UTS 46, whose work grows with the square of a label's length.
    if name.chars().nth(BYTES_MAX).is_some() {
        return Err("it is longer than 253 characters");
    }
    if name.contains(['/', ':']) {
        return Err("give the name alone, without scheme, port or path");
    }
    // The standard's parser would decode it.
    if name.contains('%') {
        return Err("it has letters, digits, hyphens and dots");
    }
    match url::Host::parse(&name) {
        Ok(url::Host::Domain(name)) => Ok(name),
        Ok(_) => Err("addresses aren't domain names"),
        Err(_) => Err("it has characters that no international name may have (UTS 46)"),
    }
}

fn fault(name: &str) -> Option<&'static str> {
    if name.contains("://") || name.contains('/') || name.contains(':') {
        return Some("give the name alone, without scheme, port or path");
    }
    if name.len() > BYTES_MAX {
        return Some("it is longer than 253 bytes");
    }
    let labels: Vec<&str> = name.split('.').collect();
    if labels
        .iter()
        .any(|label| label.is_empty() || label.len() > LABEL_BYTES_MAX)
    {
        return Some("the parts between dots have 1 to 63 characters");
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    {
        return Some("it has letters, digits, hyphens and dots");
    }
    if labels
        .iter()
        .any(|label| label.starts_with('-') || label.ends_with('-'))
    {
        return Some("its parts don't begin or end with a hyphen");
    }
    if labels.len() < 2 {
        return Some("it has at least one dot, as in example.com");
    }
    if labels
        .last()
        .is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()))
    {
        return Some("addresses aren't domain names");
    }
    None
}

impl fmt::Display for Domain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn names_take_their_one_form() {
        let label = "a".repeat(63);
        let longest = [label.as_str(), &label, &label, &"b".repeat(61)].join(".");
        assert_eq!(longest.len(), 253);
        for (text, name) in [
            ("example.com", "example.com"),
            (" News.Example.COM. ", "news.example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("B\u{dc}CHER.Example.", "xn--bcher-kva.example"),
            ("\u{4f8b}\u{3048}.\u{30c6}\u{30b9}\u{30c8}", "xn--r8jz45g.xn--zckzah"),
            ("stra\u{df}e.example", "xn--strae-oqa.example"),
            ("1.2.3.example", "1.2.3.example"),
            (longest.as_str(), longest.as_str()),
        ] {
            assert_eq!(text.parse::<Domain>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn public_suffixes_are_known() {
        let is_suffix = |name: &str| name.parse::<Domain>().unwrap().is_public_suffix();
        for suffix in ["co.uk", "com.au", "github.io", "anything.ck", "xn--55qx5d.cn"] {
            assert!(is_suffix(suffix), "{suffix}");
        }
        for name in [
            "example.co.uk",
            "example.com",
            "me.github.io",
            "www.ck",
            "shop.test",
            "a.shop.test",
        ] {
            assert!(!is_suffix(name), "{name}");
        }
    }

    #[test]
    fn a_site_is_a_registrable_domain() {
        for (domain, host, same) in [
            ("example.com", "example.com", true),
            ("example.com", "www.example.com", true),
            ("a.example.com", "example.com", true),
            ("a.example.co.uk", "b.c.example.co.uk", true),
            ("example.com", "example.org", false),
            ("example.com", "badexample.com", false),
            ("one.co.uk", "two.co.uk", false),
            ("one.github.io", "two.github.io", false),
            ("one.github.io", "github.io", false),
            ("github.io", "github.io", true),
            ("github.io", "one.github.io", false),
            ("example.com", "com", false),
            ("example.com", "127.0.0.1", false),
            ("a.shop.test", "shop.test", true),
            ("shop.test", "file.test", false),
        ] {
            assert_eq!(
                domain.parse::<Domain>().unwrap().is_same_site(host),
                same,
                "{domain} {host}"
            );
        }
    }

    #[test]
    fn what_is_no_name_says_why() {
        let long_label = format!("{}.com", "a".repeat(64));
        let too_long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(62));
        for (text, why) in [
            ("", "1 to 63"),
            ("localhost", "at least one dot"),
            ("https://example.com", "without scheme"),
            ("example.com:80", "without scheme"),
            ("example..com", "1 to 63"),
            (".com", "1 to 63"),
            ("-a.com", "hyphen"),
            ("a-.com", "hyphen"),
            ("a_b.com", "letters, digits"),
            ("a b.com", "letters, digits"),
            ("b\u{fc}cher", "at least one dot"),
            ("https://b\u{fc}cher.example", "name alone"),
            ("b\u{fc}cher.example:443", "name alone"),
            ("\u{ff11}\u{ff12}\u{ff17}.0.0.1", "addresses"),
            ("a\u{202e}b.example", "UTS 46"),
            ("\u{fc}\u{0}.example", "UTS 46"),
            ("127.0.0.1", "addresses"),
            ("127.0.0x1", "addresses"),
            ("b\u{fc}cher%2eexample", "letters, digits"),
            (&"\u{fc}".repeat(254), "253"),
            (long_label.as_str(), "1 to 63"),
            (too_long.as_str(), "253"),
        ] {
            let error = text.parse::<Domain>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
