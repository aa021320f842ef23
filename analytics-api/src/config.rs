//! The section `[analytics]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use config::{ConfigFaults, Section};
use http_server::address::Network;
use http_server::forwarded::TRUSTED_PROXIES_MAX;
use serde::{Deserialize, Serialize};
use web::cors;
use web::serve::Connections;

/// Address of the service that runs alone, where no other is given.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// Listener of the analytics API, and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnalyticsConfig {
    /// Address and port. Not given: [`DEFAULT_LISTEN`], or in `receipts up` the gateway's.
    pub listen: Option<SocketAddr>,
    /// Points of one time series; with a grouping, of all its series together.
    pub points_max: usize,
    /// Entries of a list: top content, top clients, newest refusals.
    pub top_max: u32,
    /// Series of one grouped time series; only those with the most receipts are answered.
    pub series_max: u32,
    /// Receipts of one streamed list.
    pub stream_rows_max: u32,
    /// Streamed lists at one time, two of them for one account.
    pub streams_max: usize,
    /// Live streams at one time.
    pub live_streams_max: usize,
    /// Live streams of one API key at one time.
    pub live_key_streams_max: usize,
    /// Pause between two readings of the writers' progress for live streams, in milliseconds.
    pub live_interval_ms: u64,
    /// Longest time that a live stream may continue after its API key was revoked or its domains
    /// changed, in milliseconds.
    pub live_key_age_ms_max: u64,
    /// Time for one answer from watermark and warehouse, in milliseconds.
    pub query_wait_ms_max: u64,
    /// Answers made at one time.
    pub concurrent_queries_max: usize,
    /// Requests that may wait for their turn; more are answered 503.
    pub waiting_queries_max: usize,
    /// Largest age of a `completeThrough` when it is requested, in milliseconds.
    pub watermark_age_ms_max: u64,
    /// Scheme, host and port by which clients reach this API: `@target-uri` of senders' signatures
    /// begins with it. Without it that is `http://` and the request's `Host`, which must be a
    /// loopback name or the listening address.
    pub public_url: Option<String>,
    /// Requests a minute by one key that has sent receipts, and by all other keys of one address,
    /// counted by each replica.
    pub sender_requests_per_minute: u32,
    /// Requests a minute by all keys of one address, or one /64 of IPv6, that have sent receipts,
    /// counted by each replica.
    pub sender_address_requests_per_minute: u32,
    /// Proxies and load balancers in front of the API, by address or network. For what comes
    /// through them, the client's address is the last entry of `X-Forwarded-For` that is none of
    /// them.
    pub trusted_proxies: Vec<Network>,
    /// Origins, such as `https://stats.example`, whose pages may read answers to GET with an API key
    /// (CORS). Cookies are never accepted from there.
    pub cors_origins: Vec<String>,
    /// Requests at one time that wait for a receipt's outcome (`Prefer: wait`); more are answered
    /// at once.
    pub waiting_receipts_max: usize,
    /// Connections at one time; more wait to be accepted.
    pub connections_max: usize,
    /// The part of them that one address may have, in percent; more are closed. 100 behind a proxy.
    pub address_share_percent_max: u8,
    /// Request head, in bytes.
    pub head_bytes_max: usize,
    /// Time for a request head to arrive, and for a keep-alive connection to stay idle, in
    /// milliseconds.
    pub head_wait_ms_max: u64,
    /// Pause between two looks at the engines, for readiness, in milliseconds.
    pub health_interval_ms: u64,
    /// Least pause between two checks of the ledger against the tables, in milliseconds; it grows
    /// so that checking takes at most 2% of the time.
    pub audit_interval_ms: u64,
    /// Share of the time that comparing aggregates of usage with receipts may take, in percent; 0
    /// for never.
    pub usage_check_percent_max: u32,
    /// Pause between two looks for mails about numbers that are due, in milliseconds.
    pub reports_interval_ms: u64,
    /// Time after a shutdown signal in which connections and requests are still accepted, and
    /// answers ask clients to connect again: elsewhere, once load balancers know. In milliseconds.
    pub drain_delay_ms: u64,
    /// Time to finish requests after that, in milliseconds.
    pub drain_ms_max: u64,
}

impl Default for AnalyticsConfig {
    fn default() -> Self {
        Self {
            listen: None,
            points_max: 2_000,
            top_max: 1_000,
            series_max: 20,
            stream_rows_max: 1_000_000,
            streams_max: 8,
            live_streams_max: 4_000,
            live_key_streams_max: 500,
            live_interval_ms: 200,
            live_key_age_ms_max: 30_000,
            query_wait_ms_max: 5_000,
            concurrent_queries_max: 8,
            waiting_queries_max: 64,
            watermark_age_ms_max: 200,
            public_url: None,
            sender_requests_per_minute: 300,
            sender_address_requests_per_minute: 3_000,
            trusted_proxies: Vec::new(),
            cors_origins: Vec::new(),
            waiting_receipts_max: 256,
            connections_max: 10_000,
            address_share_percent_max: 50,
            head_bytes_max: 16 << 10,
            head_wait_ms_max: 10_000,
            health_interval_ms: 5_000,
            audit_interval_ms: 60_000,
            usage_check_percent_max: 1,
            reports_interval_ms: 300_000,
            drain_delay_ms: 0,
            drain_ms_max: 10_000,
        }
    }
}

impl AnalyticsConfig {
    /// The part that connections need. A quarter of the room: the rest is for the gateway, often in
    /// the same process.
    pub(crate) fn connections(&self) -> Connections {
        Connections {
            name: "analytics",
            files_percent: 25,
            connections_max: self.connections_max,
            address_share_percent_max: self.address_share_percent_max,
            head_bytes_max: self.head_bytes_max,
            head_wait_ms_max: self.head_wait_ms_max,
            drain_delay_ms: self.drain_delay_ms,
            drain_ms_max: self.drain_ms_max,
        }
    }
}

impl Section for AnalyticsConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        faults.range("points_max", self.points_max, 1..=100_000);
        // Else a query without a range would be refused for its own default: an hour of minutes.
        let series_max = usize::try_from(self.series_max.max(3)).unwrap_or(usize::MAX);
        let fits = self.points_max / series_max >= 60;
        faults.require(
            "points_max",
            fits,
            "must be at least 60 times series_max, and at least 180",
        );
        faults.range("top_max", self.top_max, 1..=10_000);
        faults.range("series_max", self.series_max, 1..=1_000);
        faults.range("stream_rows_max", self.stream_rows_max, 1_000..=100_000_000);
        faults.range("streams_max", self.streams_max, 1..=1_024);
        faults.range("live_streams_max", self.live_streams_max, 1..=1_000_000);
        faults.range("live_key_streams_max", self.live_key_streams_max, 1..=1_000_000);
        faults.range("live_interval_ms", self.live_interval_ms, 10..=60_000);
        faults.range("live_key_age_ms_max", self.live_key_age_ms_max, 10..=60_000);
        faults.range("query_wait_ms_max", self.query_wait_ms_max, 1..=600_000);
        faults.range("concurrent_queries_max", self.concurrent_queries_max, 1..=1_024);
        faults.range("waiting_queries_max", self.waiting_queries_max, 0..=100_000);
        faults.range("watermark_age_ms_max", self.watermark_age_ms_max, 0..=60_000);
        faults.range("connections_max", self.connections_max, 1..=1_000_000);
        faults.range("address_share_percent_max", self.address_share_percent_max, 1..=100);
        let is_base = |url: &String| {
            let uri: Result<http::Uri, _> = url.parse();
            uri.is_ok_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.path() == "/" && uri.query().is_none()
            })
        };
        faults.require(
            "public_url",
            self.public_url.as_ref().is_none_or(is_base),
            "must be scheme, host and port alone, as in https://receipts.example.com",
        );
        faults.range(
            "sender_requests_per_minute",
            self.sender_requests_per_minute,
            1..=1_000_000,
        );
        faults.range(
            "sender_address_requests_per_minute",
            self.sender_address_requests_per_minute,
            1..=100_000,
        );
        if self.trusted_proxies.len() > TRUSTED_PROXIES_MAX {
            let given = self.trusted_proxies.len();
            faults.push(
                "trusted_proxies",
                format!("{given} are given, at most {TRUSTED_PROXIES_MAX} may be"),
            );
        }
        faults.require(
            "cors_origins",
            self.cors_origins.len() <= cors::ORIGINS_MAX
                && self.cors_origins.iter().all(|origin| cors::is_origin(origin)),
            "must be at most 100 origins as browsers send them: scheme, host in lower case, and a port that isn't the \
             scheme's own, as in https://stats.example",
        );
        faults.range("waiting_receipts_max", self.waiting_receipts_max, 0..=100_000);
        // Below 8 KiB hyper's own buffer would refuse first, without a problem body.
        faults.range("head_bytes_max", self.head_bytes_max, 8 << 10..=1 << 20);
        faults.range("head_wait_ms_max", self.head_wait_ms_max, 1..=600_000);
        faults.range("health_interval_ms", self.health_interval_ms, 10..=600_000);
        faults.range("audit_interval_ms", self.audit_interval_ms, 10..=86_400_000);
        faults.range("usage_check_percent_max", self.usage_check_percent_max, 0..=50);
        faults.range("reports_interval_ms", self.reports_interval_ms, 10..=3_600_000);
        faults.range("drain_delay_ms", self.drain_delay_ms, 0..=600_000);
        faults.range("drain_ms_max", self.drain_ms_max, 0..=600_000);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use config::Source;

    use super::*;

    #[test]
    fn the_section_is_read_checked_and_complete() {
        let mut source =
            Source::from_parts("[analytics]\ntop_max = 7", [("RECEIPTS_ANALYTICS_LISTEN", "[::1]:0")]).unwrap();
        let config: AnalyticsConfig = source.section("analytics");
        source.finish().unwrap();
        assert_eq!((config.top_max, config.listen), (7, "[::1]:0".parse().ok()));
        let mut source = Source::from_parts("[analytics]\npoints_max = 1199\ntop_max = 0", [("", "")]).unwrap();
        let _: AnalyticsConfig = source.section("analytics");
        let text = source.finish().unwrap_err().to_string();
        assert!(
            text.contains("60 times series_max") && text.contains("analytics.top_max"),
            "{text}"
        );
    }
}
