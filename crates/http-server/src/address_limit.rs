//! Connections of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use service::address::address_key;

/// Number of open connections by address.
#[derive(Debug, Clone)]
pub(crate) struct AddressLimit {
    connections_max: usize,
    counts: Arc<Mutex<HashMap<u128, usize>>>,
}

/// A counted connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    limit: AddressLimit,
    key: u128,
}

impl AddressLimit {
    pub(crate) fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            counts: Arc::default(),
        }
    }

    /// Counts a connection; `None` if its address has as many as allowed.
    pub(crate) fn count(&self, address: IpAddr) -> Option<CountedConnection> {
        let key = address_key(address);
        let mut counts = self.counts.lock();
        let count = counts.entry(key).or_default();
        if *count >= self.connections_max {
            return None;
        }
        *count += 1;
        let limit = self.clone();
        Some(CountedConnection { limit, key })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = self.limit.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_has_its_connections_and_gets_them_back() {
        let limit = AddressLimit::new(2);
        let count = |text: &str| limit.count(text.parse().unwrap());
        let open = [count("192.0.2.1"), count("192.0.2.1")];
        assert!(open.iter().all(Option::is_some));
        assert!(count("192.0.2.1").is_none());
        assert!(count("192.0.2.2").is_some(), "another address isn't affected");
        let network = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(count);
        assert!(network[1].is_some() && network[2].is_none(), "a /64 is one sender");
        drop((open, network));
        assert!(limit.counts.lock().is_empty());
    }
}
