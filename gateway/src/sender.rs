//! The sender of a request: the peer of its connection, or whom a trusted proxy names.

use std::net::IpAddr;

use service::address::address_key;

/// Sender of a request, as limits and records know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) address: IpAddr,
    /// The key of its limits.
    pub(crate) key: u128,
}

impl From<IpAddr> for Sender {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self {
            address,
            key: address_key(address),
        }
    }
}
