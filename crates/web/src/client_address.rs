//! The address of a request's client, as quotas are counted by it.

use std::net::{IpAddr, Ipv6Addr};

use http::{Extensions, HeaderMap};
use http_server::address::Network;
use http_server::forwarded::{forwarded_for, is_trusted};
use service::address::address_key;
use service::rate_limit::ADDRESS;

use crate::serve::PeerAddress;

/// Key of the quotas of the client that sent a request with this head: one for each address, or for
/// each /64 of IPv6. The client is the connection's peer, or whom one of `proxies` names. Clients
/// on Unix sockets share one key.
#[must_use]
pub fn quota_key(proxies: &[Network], headers: &HeaderMap, extensions: &Extensions) -> String {
    let client = client(proxies, headers, extensions);
    match client.map(|address| IpAddr::V6(Ipv6Addr::from_bits(address_key(address))).to_canonical()) {
        None => format!("{ADDRESS}local"),
        Some(IpAddr::V4(address)) => format!("{ADDRESS}{address}"),
        Some(IpAddr::V6(network)) => format!("{ADDRESS}{network}/64"),
    }
}

fn client(proxies: &[Network], headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
    let peer = extensions.get::<PeerAddress>().and_then(|peer| peer.0)?;
    if !is_trusted(proxies, peer) {
        return Some(peer);
    }
    Some(forwarded_for(headers, proxies).unwrap_or(peer))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Request;
    use http::request::Parts;

    use super::*;

    fn head(peer: Option<&str>, forwarded_for: &str) -> Parts {
        let request = Request::builder()
            .extension(PeerAddress(peer.map(|address| address.parse().unwrap())))
            .header("x-forwarded-for", forwarded_for);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn clients_are_counted_by_address_or_by_64_bits_of_it() {
        let proxies = ["10.0.0.0/8".parse().unwrap()];
        let key = |peer, forwarded_for| {
            let head = head(peer, forwarded_for);
            quota_key(&proxies, &head.headers, &head.extensions)
        };
        for (peer, forwarded_for, expected) in [
            (Some("192.0.2.7"), "", "address:192.0.2.7"),
            (Some("::ffff:192.0.2.7"), "", "address:192.0.2.7"),
            (Some("2001:db8:1:2:3::4"), "", "address:2001:db8:1:2::/64"),
            // Nobody but a trusted proxy names another address.
            (Some("192.0.2.7"), "198.51.100.1", "address:192.0.2.7"),
            (Some("10.0.0.1"), "198.51.100.1", "address:198.51.100.1"),
            (Some("10.0.0.1"), "nonsense", "address:10.0.0.1"),
            (None, "198.51.100.1", "address:local"),
        ] {
            assert_eq!(key(peer, forwarded_for), expected);
        }
    }
}
