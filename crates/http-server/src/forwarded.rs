//! Clients behind trusted proxies.
//!
//! A proxy adds the address it was called from at the end of `X-Forwarded-For`, and keeps what was
//! there: so the list is read from its end, as far as trusted proxies wrote it. `Forwarded` (RFC
//! 7239) isn't read: a proxy that writes one of the two passes on the other as anyone sent it.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};

use crate::address::Network;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The most networks in a list of trusted proxies: each is compared with every connection's peer.
pub const TRUSTED_PROXIES_MAX: usize = 256;

/// Whether `address` is one of `proxies`.
#[must_use]
pub fn is_trusted(proxies: &[Network], address: IpAddr) -> bool {
    proxies.iter().any(|proxy| proxy.contains(address))
}

/// Client that a trusted proxy names: the last in the list that isn't itself one of `proxies`, or
/// the first of all where every one is. `None` if there is no list, or something else than an
/// address is met first.
#[must_use]
pub fn forwarded_for(headers: &HeaderMap, proxies: &[Network]) -> Option<IpAddr> {
    let mut farthest = None;
    for line in headers.get_all(FORWARDED_FOR).iter().rev() {
        for entry in line.to_str().ok()?.rsplit(',') {
            let entry = entry.trim_matches([' ', '\t']);
            // Empty elements of a list say nothing (RFC 9110, 5.6.1.2).
            if entry.is_empty() {
                continue;
            }
            let address = address_of(entry)?;
            if !is_trusted(proxies, address) {
                return Some(address);
            }
            farthest = Some(address);
        }
    }
    farthest
}

/// An address as proxies write it: plain, in brackets, with or without a port.
fn address_of(entry: &str) -> Option<IpAddr> {
    if let Ok(address) = entry.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(with_port) = entry.parse::<SocketAddr>() {
        return Some(with_port.ip());
    }
    entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use http::HeaderValue;

    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn named(lines: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
        }
        let proxies = [network("10.0.0.0/8"), network("2001:db8:1::/48"), network("192.0.2.7")];
        forwarded_for(&headers, &proxies).map(|address| address.to_string())
    }

    #[test]
    fn the_last_that_is_no_proxy_is_the_sender() {
        for (lines, sender) in [
            (["203.0.113.5"].as_slice(), "203.0.113.5"),
            // What is before it, anyone may have written.
            (&["198.51.100.1, nonsense, 203.0.113.5"], "203.0.113.5"),
            (&["203.0.113.5, 10.1.2.3"], "203.0.113.5"),
            (&["198.51.100.1,203.0.113.5,10.1.2.3,192.0.2.7"], "203.0.113.5"),
            (&["198.51.100.1", "203.0.113.5", "10.1.2.3"], "203.0.113.5"),
            (&["198.51.100.1, 203.0.113.5", "2001:db8:1::7"], "203.0.113.5"),
            (&["203.0.113.5,, 10.1.2.3 ,"], "203.0.113.5"),
            // A request of the proxies' own network.
            (&["10.0.0.9, 10.1.2.3"], "10.0.0.9"),
        ] {
            assert_eq!(named(lines).as_deref(), Some(sender), "{lines:?}");
        }
    }

    #[test]
    fn addresses_in_their_spellings() {
        for (entry, sender) in [
            ("203.0.113.5:4711", "203.0.113.5"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("2001:DB8:0:0::1, [::ffff:10.1.2.3]:80, ::ffff:10.1.2.4", "2001:db8::1"),
        ] {
            assert_eq!(named(&[entry]).as_deref(), Some(sender), "{entry}");
        }
    }

    #[test]
    fn something_else_names_nobody() {
        for list in [
            "",
            ",",
            "unknown",
            "203.0.113.5, unknown",
            "203.0.113.5, unknown, 10.1.2.3",
            "203.0.113.5:",
            "203.0.113.5:99999",
            "203.0.113.5 10.1.2.3",
            "203.0.113.500",
            "203.0.113.5/32",
            "[203.0.113.5]",
            "[2001:db8::1",
            "2001:db8::1]:80",
            "fe80::1%eth0",
            "\"203.0.113.5\"",
            "0x7f.1",
            "example.com",
        ] {
            assert_eq!(named(&[list]), None, "{list}");
        }
        assert_eq!(named(&[]), None);
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, HeaderValue::from_bytes(b"203.0.113.5, \xff").unwrap());
        assert_eq!(forwarded_for(&headers, &[]), None);
    }

    #[test]
    fn networks_are_read_strictly_and_written_back() {
        for (text, written) in [
            ("192.0.2.7", "192.0.2.7/32"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(network(text).to_string(), written);
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "::ffff:10.0.0.0/104",
            "2001:db8::1/32",
            "10.0.0/8",
            "proxy.example",
            "10.0.0.0/",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        assert!(network("10.0.0.0/8").contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!network("::/0").contains("10.1.2.3".parse().unwrap()));
    }
}
