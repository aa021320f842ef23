//! The section `[outbound]` of the configuration.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use config::{ConfigFaults, Section};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Limits of requests to the outside. Sizes are in bytes, times in
/// milliseconds.
///
/// The keys that begin with `test_` are for tests on one machine; each that is given is reported
/// with a warning at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Longest time that a name may take to resolve, all tries together.
    pub dns_ms_max: u64,
    /// Longest time of connecting and the TLS handshake, for each address tried.
    pub connect_ms_max: u64,
    /// Longest time until the head of an answer, after the request was sent.
    pub head_ms_max: u64,
    /// Longest time of all of it: the wait for a permit, the name, redirects, the last byte of the
    /// body.
    pub total_ms_max: u64,
    /// The longest head of an answer.
    pub head_bytes_max: usize,
    /// The most redirects that a GET follows; a POST follows none.
    pub redirects_max: usize,
    /// The most requests in progress; further ones wait.
    pub requests_max: usize,
    /// The ports that a URL may name.
    pub ports: Vec<u16>,
    /// For tests: PEM certificates of the authorities to trust instead of the system's.
    pub test_root_ca: Option<PathBuf>,
    /// For tests: the DNS server to ask instead of the system's.
    pub test_resolver: Option<SocketAddr>,
    /// For tests: networks to take for public.
    pub test_allow_addresses: Vec<IpNet>,
    /// For tests: the port to connect to where a URL means 443.
    pub test_https_port: Option<u16>,
    /// Addresses of this machine are allowed, there also plain HTTP and every port. Only a person
    /// at a command line may request that: no configuration can set it.
    #[serde(skip)]
    pub loopback: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dns_ms_max: 5_000,
            connect_ms_max: 5_000,
            head_ms_max: 10_000,
            total_ms_max: 20_000,
            head_bytes_max: 32 * 1024,
            redirects_max: 3,
            requests_max: 64,
            ports: vec![443],
            test_root_ca: None,
            test_resolver: None,
            test_allow_addresses: Vec::new(),
            test_https_port: None,
            loopback: false,
        }
    }
}

const WAIT_MS: RangeInclusive<u64> = 10..=600_000;

impl Section for Config {
    fn check(&self, faults: &mut ConfigFaults) {
        for (key, value) in [
            ("dns_ms_max", self.dns_ms_max),
            ("connect_ms_max", self.connect_ms_max),
            ("head_ms_max", self.head_ms_max),
            ("total_ms_max", self.total_ms_max),
        ] {
            faults.range(key, value, WAIT_MS);
        }
        // Below 8 KiB hyper doesn't read.
        faults.range("head_bytes_max", self.head_bytes_max, 8 * 1024..=1024 * 1024);
        faults.range("redirects_max", self.redirects_max, 0..=20);
        faults.range("requests_max", self.requests_max, 1..=10_000);
        let ports = !self.ports.is_empty() && !self.ports.contains(&0);
        faults.require("ports", ports, "must name at least one port, and not 0");
        faults.require("test_https_port", self.test_https_port != Some(0), "can't be 0");
    }
}

impl Config {
    /// Says each setting that is only for tests.
    pub(crate) fn warn_of_test_settings(&self) {
        if let Some(path) = &self.test_root_ca {
            tracing::warn!(path = %path.display(), "outbound.test_root_ca: certificates of this authority are trusted: for tests only");
        }
        if let Some(resolver) = self.test_resolver {
            tracing::warn!(%resolver, "outbound.test_resolver: names are resolved by this server: for tests only");
        }
        if !self.test_allow_addresses.is_empty() {
            let networks = &self.test_allow_addresses;
            tracing::warn!(
                ?networks,
                "outbound.test_allow_addresses: these are reached as if public: for tests only"
            );
        }
        if let Some(port) = self.test_https_port {
            tracing::warn!(
                port,
                "outbound.test_https_port: HTTPS is asked for at this port: for tests only"
            );
        }
    }

    pub(crate) fn dns_wait(&self) -> Duration {
        Duration::from_millis(self.dns_ms_max)
    }

    pub(crate) fn connect_wait(&self) -> Duration {
        Duration::from_millis(self.connect_ms_max)
    }

    pub(crate) fn head_wait(&self) -> Duration {
        Duration::from_millis(self.head_ms_max)
    }

    pub(crate) fn total_wait(&self) -> Duration {
        Duration::from_millis(self.total_ms_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_and_each_fault_is_reported_with_its_key() {
        assert_eq!(Config::default().checked("outbound"), Ok(()));
        let wrong = Config {
            dns_ms_max: 0,
            head_bytes_max: 100,
            redirects_max: 21,
            requests_max: 0,
            ports: vec![443, 0],
            test_https_port: Some(0),
            ..Config::default()
        };
        let faults = wrong.faults("outbound");
        let keys: Vec<&str> = faults.iter().map(|fault| fault.location.as_str()).collect();
        let expected = [
            "outbound.dns_ms_max",
            "outbound.head_bytes_max",
            "outbound.redirects_max",
            "outbound.requests_max",
            "outbound.ports",
            "outbound.test_https_port",
        ];
        assert_eq!(keys, expected);
    }
}
