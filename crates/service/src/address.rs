//! Addresses of senders, as limits count them.

use std::net::IpAddr;

/// The key of an address. An IPv6 sender has a whole /64 to choose its addresses from (interface
/// identifiers have 64 bits, RFC 4291 section 2.5.1), so that is what is counted; IPv4 is the same
/// in either notation.
#[must_use]
pub fn address_key(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits() & !u128::from(u64::MAX),
    }
}

/// The key of an address's network: its /24 of IPv4, its /48 of IPv6. One customer often has that
/// many addresses, so limits that a few customers mustn't exhaust count networks.
#[must_use]
pub fn network_key(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits() & !0xff,
        IpAddr::V6(v6) => v6.to_bits() & !(u128::MAX >> 48),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_sender_and_ipv4_is_the_same_in_both_notations() {
        let key = |text: &str| address_key(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("192.0.2.7"), key("::ffff:192.0.2.7"));
        assert_ne!(key("192.0.2.7"), key("192.0.2.8"));
        assert_ne!(key("::ffff:192.0.2.7"), key("::"));
    }

    #[test]
    fn a_network_is_a_24_of_ipv4_or_a_48_of_ipv6() {
        let key = |text: &str| network_key(text.parse().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:2:2::1"));
        assert_eq!(key("192.0.2.7"), key("::ffff:192.0.2.255"));
        assert_ne!(key("192.0.2.7"), key("192.0.3.7"));
        assert_ne!(key("192.0.2.7"), key("::"));
    }
}
