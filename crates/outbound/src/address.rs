//! Public addresses.
//!
//! The tables are IANA's registries of special-purpose addresses (RFC 6890 and its successors; IPv4
//! and IPv6) and multicast. What they don't allow to be reached globally is refused, and also the
//! few that they do allow but that no web server has. Of IPv6 only 2000::/3 is global unicast (RFC
//! 4291, 2.4), so everything else is refused whether it is named here or not; the names serve the
//! message. An IPv4 address that comes wrapped in IPv6 (mapped, NAT64, 6to4, Teredo) is refused
//! whatever it wraps: where such an address ends isn't ours to know.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// First octets, prefix length, and what it is.
const REFUSED_V4: &[([u8; 4], u8, &str)] = &[
    ([0, 0, 0, 0], 8, "this network (RFC 791)"),
    ([10, 0, 0, 0], 8, "private (RFC 1918)"),
    ([100, 64, 0, 0], 10, "shared by a provider's customers (RFC 6598)"),
    ([127, 0, 0, 0], 8, "loopback (RFC 1122)"),
    ([169, 254, 0, 0], 16, "link-local (RFC 3927), cloud metadata among it"),
    // Azure's metadata and agent service, on an address that looks public.
    ([168, 63, 129, 16], 32, "a cloud's metadata service"),
    ([172, 16, 0, 0], 12, "private (RFC 1918)"),
    ([192, 0, 0, 0], 24, "reserved for protocols (RFC 6890)"),
    ([192, 0, 2, 0], 24, "for documentation (RFC 5737)"),
    ([192, 88, 99, 0], 24, "a 6to4 relay (RFC 7526)"),
    ([192, 168, 0, 0], 16, "private (RFC 1918)"),
    ([198, 18, 0, 0], 15, "for benchmarks (RFC 2544)"),
    ([198, 51, 100, 0], 24, "for documentation (RFC 5737)"),
    ([203, 0, 113, 0], 24, "for documentation (RFC 5737)"),
    ([224, 0, 0, 0], 4, "multicast (RFC 5771)"),
    ([255, 255, 255, 255], 32, "broadcast (RFC 919)"),
    ([240, 0, 0, 0], 4, "reserved (RFC 1112)"),
];

const REFUSED_V6: &[([u16; 8], u8, &str)] = &[
    ([0; 8], 128, "unspecified (RFC 4291)"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback (RFC 4291)"),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "IPv4 in IPv6 (mapped, RFC 4291)"),
    ([0; 8], 96, "IPv4 in IPv6 (compatible, RFC 4291)"),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "IPv4 in IPv6 (translated, RFC 2765)"),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "IPv4 in IPv6 (NAT64, RFC 6052)"),
    (
        [0x64, 0xff9b, 1, 0, 0, 0, 0, 0],
        48,
        "IPv4 in IPv6 (local NAT64, RFC 8215)",
    ),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discarded (RFC 6666)"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "IPv4 in IPv6 (Teredo, RFC 4380)"),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, "for benchmarks (RFC 5180)"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "reserved for protocols (RFC 2928)"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "for documentation (RFC 3849)"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "IPv4 in IPv6 (6to4, RFC 3056)"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "for documentation (RFC 9637)"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "private (RFC 4193)"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local (RFC 4291)"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local (RFC 3879)"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast (RFC 4291)"),
];

/// Reason why `address` isn't connected to; `None` for a public one.
pub(crate) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |&&(octets, length, _): &&([u8; 4], u8, &str)| {
        Ipv4Net::new(octets.into(), length).is_ok_and(|net| net.contains(&address))
    };
    REFUSED_V4.iter().find(within).map(|(_, _, what)| *what)
}

fn v6(address: Ipv6Addr) -> Option<&'static str> {
    let within = |&&(segments, length, _): &&([u16; 8], u8, &str)| {
        Ipv6Net::new(segments.into(), length).is_ok_and(|net| net.contains(&address))
    };
    let named = REFUSED_V6.iter().find(within).map(|(_, _, what)| *what);
    let global = address.segments()[0] >> 13 == 1;
    named.or((!global).then_some("not global unicast (RFC 4291)"))
}

/// Whether one of `networks` holds `address`, in the form it has: a mapped address is in no IPv4
/// network.
pub(crate) fn within(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_pass_up_to_the_edges_of_every_net() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "192.88.100.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "198.51.101.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2001:db7:ffff::1",
            "2001:db9::",
            "2003::1",
            "2606:4700::1111",
            "3ffe:ffff::",
            "3fff:1000::",
        ] {
            assert_eq!(not_public(public.parse().unwrap()), None, "{public}");
        }
    }

    #[test]
    fn everything_else_is_refused_up_to_the_edges_of_every_net() {
        for refused in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.170.2",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.254",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:0:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "64:ff9b:2::1",
            "100::1",
            "1fff:ffff::",
            "2001::1",
            "2001:1ff::1",
            "2001:2::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "3fff::1",
            "3fff:fff::1",
            "4000::",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
        ] {
            assert!(not_public(refused.parse().unwrap()).is_some(), "{refused}");
        }
        let broadcast = not_public("255.255.255.255".parse().unwrap());
        assert!(
            broadcast.unwrap().starts_with("broadcast"),
            "the narrower name is the one reported"
        );
    }

    #[test]
    fn a_mapped_address_is_in_no_allowed_ipv4_network() {
        let networks = ["127.0.0.0/8".parse().unwrap()];
        assert!(within(&networks, "127.0.0.2".parse().unwrap()));
        assert!(!within(&networks, "::ffff:127.0.0.2".parse().unwrap()));
    }
}
