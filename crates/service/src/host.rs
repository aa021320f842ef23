//! The field `Host` of a request (RFC 9110 section 7.2, RFC 9112 section 3.2).

use http::uri::Authority;
use http::{HeaderMap, Version, header};

/// Advice to the sender of a request without a right host.
pub const WANTED: &str = "send exactly one Host, a name or address with or without a port";

/// Whether an HTTP/1 request has exactly one host that can be one. Before HTTP/1.1 there may be
/// none, and HTTP/2 has `:authority` instead.
#[must_use]
pub fn is_right(version: Version, headers: &HeaderMap) -> bool {
    if version > Version::HTTP_11 {
        return true;
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        // It may be empty, and names no user.
        (Some(host), None) => {
            let host = host.as_bytes();
            host.is_empty() || (!host.contains(&b'@') && Authority::try_from(host).is_ok())
        }
        (Some(_), Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_host_is_given_once() {
        for (hosts, version, right) in [
            (&["a"][..], Version::HTTP_11, true),
            (&["[2001:db8::1]:8080"], Version::HTTP_11, true),
            (&[""], Version::HTTP_11, true),
            (&[], Version::HTTP_11, false),
            (&[], Version::HTTP_10, true),
            (&[], Version::HTTP_2, true),
            (&["a", "a"], Version::HTTP_11, false),
            (&["a", "b"], Version::HTTP_10, false),
            (&["user@a"], Version::HTTP_11, false),
            (&["a/b"], Version::HTTP_11, false),
        ] {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            assert_eq!(is_right(version, &headers), right, "{hosts:?} {version:?}");
        }
    }
}
