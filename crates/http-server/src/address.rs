//! Networks in configurations.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An address, or a network in CIDR notation (RFC 4632, RFC 4291 2.3), as `192.0.2.7` or
/// `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network(IpNet);

impl Network {
    /// Whether `address` is in it. An IPv4 address is the same in IPv6's notation.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(IpNet::from(address.to_canonical())));
        }
        let network: IpNet = text
            .parse()
            .map_err(|_| format!("{text:?} is no address or network, as 192.0.2.7 or 10.0.0.0/8"))?;
        // Either a slip, which would trust more than was meant, or an address that means itself.
        if network.addr() != network.network() {
            let meant = network.trunc();
            return Err(format!(
                "{text:?} has bits after its prefix: {meant} or {}?",
                network.addr()
            ));
        }
        // No address would match it: those are compared as IPv4.
        if matches!(network, IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some()) {
            return Err(format!("{text:?} is a network of IPv4 addresses, write it as one"));
        }
        Ok(Self(network))
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
