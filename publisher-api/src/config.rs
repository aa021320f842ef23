//! The section `[publisher]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use config::{ConfigFaults, Section};
use http_server::address::Network;
use http_server::forwarded::TRUSTED_PROXIES_MAX;
use serde::{Deserialize, Serialize};
use web::serve::Connections;

/// Address of the service that runs alone, where no other is given.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8082);

/// Listener of the publisher API, and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PublisherConfig {
    /// Address and port. Not given: [`DEFAULT_LISTEN`], or in `receipts up` the gateway's.
    pub listen: Option<SocketAddr>,
    /// The address at which clients reach the API, which a signed request names: scheme, host and
    /// port. `http://` and the listening address if it isn't given.
    pub public_url: Option<String>,
    /// Connections at one time; more wait to be accepted.
    pub connections_max: usize,
    /// The part of them that one address may have, in percent; more are closed. 100 behind a proxy.
    pub address_share_percent_max: u8,
    /// Request head, in bytes.
    pub head_bytes_max: usize,
    /// Time for a request head to arrive, and for a keep-alive connection to stay idle, in
    /// milliseconds.
    pub head_wait_ms_max: u64,
    /// Entries of one account.
    pub entries_max: u64,
    /// Lines of one bulk of entries.
    pub bulk_lines_max: usize,
    /// Longest bulk of entries, in bytes.
    pub bulk_bytes_max: usize,
    /// URLs whose entries one address, or one /64 of IPv6, may look up in a minute.
    pub lookups_per_minute: u32,
    /// URLs of one bulk lookup.
    pub lookup_urls_max: usize,
    /// Longest bulk lookup, in bytes.
    pub lookup_bytes_max: usize,
    /// Bodies of bulk lookups in memory at one time, of which one address may have half.
    pub lookup_bodies_max: usize,
    /// Time for which caches may keep the answer to a lookup, in seconds.
    pub lookup_max_age_s: u32,
    /// Proxies and load balancers in front of the API, by address or network. For what comes
    /// through them, lookups and wrong API keys are counted by the last entry of `X-Forwarded-For`
    /// that is none of them.
    pub trusted_proxies: Vec<Network>,
    /// Exports in progress at one time; each has a page in memory.
    pub exports_max: usize,
    /// Pause between two looks for erasures that were requested of other replicas, in milliseconds.
    pub erasure_interval_ms: u64,
    /// Hours in which an erasure can be cancelled before it begins; 0: it begins at once.
    pub erasure_delay_hours: u32,
    /// Days in which what an erasure took out of the warehouse is searched for again: longer than
    /// the log holds receipts.
    pub erasure_look_after_days: u32,
    /// Days that technical data of requests, which is client addresses, is retained with rejected
    /// receipts.
    pub address_days_max: u32,
    /// Days in which the deletion of an account can be taken back.
    pub deletion_grace_days: u32,
    /// Locations checked for verification tokens at one time; more wait.
    pub looks_max: usize,
    /// Locations that one account may have checked in a minute, beyond the quota of its keys.
    pub looks_per_minute: u32,
    /// Pause between two looks for verifications that end, proofs to check and mails to send, in
    /// milliseconds.
    pub expiry_interval_ms: u64,
    /// Pause between two rounds of fetching operators' key directories, in milliseconds.
    pub directory_interval_ms: u64,
    /// Pause between two looks at the engines, for readiness, in milliseconds.
    pub health_interval_ms: u64,
    /// Time after a shutdown signal in which connections and requests are still accepted, and
    /// answers ask clients to connect again: elsewhere, once load balancers know. In milliseconds.
    pub drain_delay_ms: u64,
    /// Time to finish requests after that, in milliseconds.
    pub drain_ms_max: u64,
}

impl Default for PublisherConfig {
    fn default() -> Self {
        Self {
            listen: None,
            public_url: None,
            connections_max: 1_000,
            address_share_percent_max: 50,
            head_bytes_max: 16 << 10,
            head_wait_ms_max: 10_000,
            entries_max: 1_000_000,
            bulk_lines_max: 10_000,
            bulk_bytes_max: 16 << 20,
            lookups_per_minute: 6_000,
            lookup_urls_max: 1_000,
            lookup_bytes_max: 2 << 20,
            lookup_bodies_max: 64,
            lookup_max_age_s: 300,
            trusted_proxies: Vec::new(),
            exports_max: 4,
            erasure_interval_ms: 30_000,
            erasure_delay_hours: 24,
            erasure_look_after_days: 90,
            address_days_max: 90,
            deletion_grace_days: 30,
            looks_max: 16,
            looks_per_minute: 60,
            expiry_interval_ms: 60_000,
            directory_interval_ms: 10_000,
            health_interval_ms: 5_000,
            drain_delay_ms: 0,
            drain_ms_max: 10_000,
        }
    }
}

impl PublisherConfig {
    /// The part that connections need.
    pub(crate) fn connections(&self) -> Connections {
        Connections {
            name: "publisher",
            files_percent: 10,
            connections_max: self.connections_max,
            address_share_percent_max: self.address_share_percent_max,
            head_bytes_max: self.head_bytes_max,
            head_wait_ms_max: self.head_wait_ms_max,
            drain_delay_ms: self.drain_delay_ms,
            drain_ms_max: self.drain_ms_max,
        }
    }
}

impl Section for PublisherConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        if self.public_url.as_deref().is_some_and(|url| !is_origin(url)) {
            faults.push(
                "public_url",
                "must be http:// or https:// with a host in lower case, and nothing behind its port",
            );
        }
        faults.range("connections_max", self.connections_max, 1..=1_000_000);
        faults.range("address_share_percent_max", self.address_share_percent_max, 1..=100);
        // Below 8 KiB hyper's own buffer would refuse first, without a problem body.
        faults.range("head_bytes_max", self.head_bytes_max, 8 << 10..=1 << 20);
        faults.range("head_wait_ms_max", self.head_wait_ms_max, 1..=600_000);
        faults.range("entries_max", self.entries_max, 0..=1_000_000_000);
        faults.range("bulk_lines_max", self.bulk_lines_max, 1..=1_000_000);
        faults.range("bulk_bytes_max", self.bulk_bytes_max, 1..=1 << 30);
        faults.range("lookups_per_minute", self.lookups_per_minute, 1..=1_000_000_000);
        faults.range("lookup_urls_max", self.lookup_urls_max, 1..=10_000);
        faults.range("lookup_bytes_max", self.lookup_bytes_max, 1..=64 << 20);
        // One address may have half of them.
        faults.range("lookup_bodies_max", self.lookup_bodies_max, 2..=10_000);
        faults.range("lookup_max_age_s", self.lookup_max_age_s, 0..=86_400);
        if self.trusted_proxies.len() > TRUSTED_PROXIES_MAX {
            let given = self.trusted_proxies.len();
            faults.push(
                "trusted_proxies",
                format!("{given} are given, at most {TRUSTED_PROXIES_MAX} may be"),
            );
        }
        faults.range("exports_max", self.exports_max, 1..=1_000);
        faults.range("erasure_interval_ms", self.erasure_interval_ms, 10..=3_600_000);
        // The law gives a month.
        faults.range("erasure_delay_hours", self.erasure_delay_hours, 0..=28 * 24);
        // A receipt may be 30 days old when it arrives, and it may be a duplicate.
        faults.range("erasure_look_after_days", self.erasure_look_after_days, 31..=3_650);
        faults.range("address_days_max", self.address_days_max, 1..=36_500);
        faults.range("deletion_grace_days", self.deletion_grace_days, 0..=3_650);
        faults.range("looks_max", self.looks_max, 1..=1_000);
        // One request may name 20 domains, each with tokens in three locations.
        faults.range("looks_per_minute", self.looks_per_minute, 60..=1_000_000);
        faults.range("expiry_interval_ms", self.expiry_interval_ms, 10..=3_600_000);
        faults.range("directory_interval_ms", self.directory_interval_ms, 10..=3_600_000);
        faults.range("health_interval_ms", self.health_interval_ms, 10..=600_000);
        faults.range("drain_delay_ms", self.drain_delay_ms, 0..=600_000);
        faults.range("drain_ms_max", self.drain_ms_max, 0..=600_000);
    }
}

/// Whether a URL is a scheme and an authority, as a signed request's target begins.
fn is_origin(url: &str) -> bool {
    let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_lower = |authority: &str| !authority.chars().any(|c| c.is_ascii_uppercase());
    authority.is_some_and(|authority| {
        let parsed = authority.parse::<http::uri::Authority>();
        parsed.is_ok_and(|parsed| !parsed.host().is_empty() && !authority.contains('@')) && is_lower(authority)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use config::Source;

    use super::*;

    #[test]
    fn the_section_is_read_and_checked() {
        let mut source = Source::from_parts("[publisher]\nlisten = '[::1]:0'", [("", "")]).unwrap();
        let config: PublisherConfig = source.section("publisher");
        source.finish().unwrap();
        assert_eq!(config.listen, "[::1]:0".parse().ok());
        let mut source = Source::from_parts("[publisher]\nhead_bytes_max = 1", [("", "")]).unwrap();
        let _: PublisherConfig = source.section("publisher");
        let text = source.finish().unwrap_err().to_string();
        assert!(text.contains("publisher.head_bytes_max"), "{text}");
    }

    #[test]
    fn a_public_url_is_an_origin() {
        for good in ["https://api.example", "http://127.0.0.1:8082", "https://[::1]:8443"] {
            assert!(is_origin(good), "{good}");
        }
        for wrong in [
            "",
            "api.example",
            "https://",
            "https://API.example",
            "https://api.example/",
            "https://a@b.example",
        ] {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }
}
