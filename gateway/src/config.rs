//! The `[gateway]` section of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use config::{ConfigFaults, Section};
use serde::{Deserialize, Serialize};

use http_server::address::Network;
use http_server::forwarded::TRUSTED_PROXIES_MAX;

/// Whether the webhook takes receipts for entries that it doesn't know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookEntries {
    /// Every entry exists; none is queried.
    Any,
    /// Unknown entries are answered with 404.
    Required,
}

/// Listener and limits of the gateway. Every value bounds something; sizes are in bytes,
/// times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Proxies whose `X-Forwarded-For` says who sent a request: limits by address, and the recorded
    /// one, are the sender's. Each must add the address it was called from, and drop or keep what
    /// came.
    pub trusted_proxies: Vec<Network>,
    /// The most connections at a time. Further ones are answered 503 and closed.
    pub connections_max: usize,
    /// The most requests at a time, over all connections (HTTP/2 carries many in one). Further ones
    /// are answered 503. An eighth is reserved for those that come in one piece.
    pub requests_max: usize,
    /// The most requests at a time in one HTTP/2 connection.
    pub streams_max: u32,
    /// The longest request head: request line and header fields. Longer ones are answered 431.
    pub head_bytes_max: usize,
    /// Longest time for a request head, and for a new connection to stay silent.
    pub head_wait_ms_max: u64,
    /// Longest time that a connection may rest between two requests.
    pub idle_wait_ms_max: u64,
    /// Longest time for a body. A body over 64 KiB must also keep the pace that ends within this
    /// time.
    pub body_wait_ms_max: u64,
    /// The least rate of a body that didn't come with its head, checked from a sixth of
    /// `body_wait_ms_max` on: slower ones are answered 408. 0 for none.
    pub body_rate_bytes_per_s_min: u32,
    /// Share of `connections_max`, and of the unfinished part of `requests_max` and
    /// `inflight_bytes_max`, that one address (IPv6: one /64) may hold, in percent. A trusted proxy
    /// may have all connections.
    pub address_share_percent_max: usize,
    /// The bytes of bodies, as received and as decoded, that may be in memory until the log has
    /// acknowledged them. An eighth is reserved for bodies up to 64 KiB. At least four of the
    /// longest batches.
    pub inflight_bytes_max: usize,
    /// Longest time that a request may wait for its share of `inflight_bytes_max` before it is
    /// answered 503.
    pub inflight_wait_ms_max: u64,
    /// Longest time that the log may take to acknowledge before the request is answered 503.
    pub append_wait_ms_max: u64,
    /// Longest time that an answer may wait to be read: a connection that leaves one unread for
    /// longer, by up to a half, is ended.
    pub answer_wait_ms_max: u64,
    /// Time after a shutdown signal in which connections and requests are still accepted, and
    /// answers ask clients to connect again: elsewhere, once load balancers know.
    pub drain_delay_ms: u64,
    /// Longest time that requests in progress may continue after that.
    pub drain_ms_max: u64,
    /// Whether `POST /api/service/receipt` looks up `content.entryId`: `any` or `required`.
    pub webhook_entries: WebhookEntries,
    /// The entries there are, an id a line; read again when it changes. Not given: those of the
    /// account store, where there is one.
    pub webhook_entries_file: Option<PathBuf>,
    /// Private keys that sign acknowledgements: PKCS#8 PEM files of Ed25519. The first one signs,
    /// all are published. Empty: a key in the data directory, which is created there.
    pub acknowledgement_keys: Vec<PathBuf>,
    /// Signature verifications a second that one address (IPv6: one /64) may cost the gateway and
    /// the verifier, in those of Ed25519 ([`receipt::Algorithm::verification_cost`]); 0 for no
    /// limit.
    pub rate_address_verifications_per_s: u32,
    /// Decoded bytes of bodies a second from one address (IPv6: one /64), 0 for no limit.
    pub rate_address_bytes_per_s: u32,
    /// Receipts a second that one key signs, by verified outer signatures; 0 for no limit.
    pub rate_key_receipts_per_s: u32,
    /// Seconds' worth that may come at once after a rest.
    pub rate_burst_s: u32,
    /// Addresses, and keys, that are counted apart; beyond, new ones share one count.
    pub rate_keys_max: usize,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            trusted_proxies: Vec::new(),
            connections_max: 10_000,
            requests_max: 20_000,
            // RFC 9113, 6.5.2 recommends at least 100: clients open as many before they know.
            streams_max: 128,
            head_bytes_max: 16 * 1024,
            head_wait_ms_max: 10_000,
            idle_wait_ms_max: 60_000,
            body_wait_ms_max: 30_000,
            body_rate_bytes_per_s_min: 1_024,
            address_share_percent_max: 50,
            inflight_bytes_max: 40 * 1024 * 1024,
            inflight_wait_ms_max: 500,
            append_wait_ms_max: 5_000,
            answer_wait_ms_max: 30_000,
            drain_delay_ms: 0,
            drain_ms_max: 10_000,
            webhook_entries: WebhookEntries::Any,
            webhook_entries_file: None,
            acknowledgement_keys: Vec::new(),
            // With what else a receipt costs, some third of two cores: cli/tests/cli/flood.rs.
            rate_address_verifications_per_s: 12_000,
            rate_address_bytes_per_s: 40_000_000,
            rate_key_receipts_per_s: 50_000,
            rate_burst_s: 2,
            rate_keys_max: 100_000,
        }
    }
}

/// An hour: no wait here is meant to be longer.
const WAIT_MS_MAX: u64 = 3_600_000;

/// Ten minutes: Kubernetes waits no longer for load balancers either.
const DRAIN_DELAY_MS_MAX: u64 = 600_000;

/// More keys than an overlap of two rotations needs.
const ACKNOWLEDGEMENT_KEYS_MAX: usize = 16;

impl Section for GatewayConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        if self.trusted_proxies.len() > TRUSTED_PROXIES_MAX {
            let given = self.trusted_proxies.len();
            faults.push(
                "trusted_proxies",
                format!("{given} are given, at most {TRUSTED_PROXIES_MAX} may be"),
            );
        }
        faults.require(
            "acknowledgement_keys",
            self.acknowledgement_keys.len() <= ACKNOWLEDGEMENT_KEYS_MAX,
            "at most 16 files may be given",
        );
        faults.range("connections_max", self.connections_max, 1..=1_000_000);
        faults.range("requests_max", self.requests_max, 1..=10_000_000);
        faults.range("streams_max", self.streams_max, 1..=10_000);
        faults.range("head_bytes_max", self.head_bytes_max, 1_024..=65_536);
        faults.range("head_wait_ms_max", self.head_wait_ms_max, 1..=WAIT_MS_MAX);
        faults.range("idle_wait_ms_max", self.idle_wait_ms_max, 1..=WAIT_MS_MAX);
        faults.range("body_wait_ms_max", self.body_wait_ms_max, 1..=WAIT_MS_MAX);
        faults.range("body_rate_bytes_per_s_min", self.body_rate_bytes_per_s_min, 0..=1 << 20);
        faults.range("address_share_percent_max", self.address_share_percent_max, 1..=100);
        // Counted in permits of a byte, requested in 32 bits.
        faults.range(
            "inflight_bytes_max",
            self.inflight_bytes_max,
            1 << 20..=u32::MAX as usize,
        );
        faults.range("inflight_wait_ms_max", self.inflight_wait_ms_max, 0..=WAIT_MS_MAX);
        faults.range("append_wait_ms_max", self.append_wait_ms_max, 1..=WAIT_MS_MAX);
        faults.range("answer_wait_ms_max", self.answer_wait_ms_max, 1..=WAIT_MS_MAX);
        faults.range("drain_delay_ms", self.drain_delay_ms, 0..=DRAIN_DELAY_MS_MAX);
        faults.range("drain_ms_max", self.drain_ms_max, 0..=WAIT_MS_MAX);
        for (key, rate) in [
            (
                "rate_address_verifications_per_s",
                self.rate_address_verifications_per_s,
            ),
            ("rate_address_bytes_per_s", self.rate_address_bytes_per_s),
            ("rate_key_receipts_per_s", self.rate_key_receipts_per_s),
        ] {
            faults.range(key, rate, 0..=1_000_000_000);
        }
        faults.range("rate_burst_s", self.rate_burst_s, 1..=3_600);
        faults.range("rate_keys_max", self.rate_keys_max, 1_000..=100_000_000);
    }
}

impl GatewayConfig {
    /// Checks that no section can make alone: the longest batch must fit in flight, compressed and
    /// decoded, beside another, and into the share of one address.
    pub fn check_limits(&self, limits: &receipt::Limits, faults: &mut ConfigFaults) {
        faults.at_least(
            "gateway.inflight_bytes_max",
            self.inflight_bytes_max,
            limits.batch_bytes_max.saturating_mul(4),
            "4 times limits.batch_bytes_max",
        );
        let share = self.inflight_bytes_max / 100 * self.address_share_percent_max;
        if share < limits.batch_bytes_max {
            let fault = format!(
                "is {}: {share} bytes of gateway.inflight_bytes_max, must be at least limits.batch_bytes_max: {}",
                self.address_share_percent_max, limits.batch_bytes_max
            );
            faults.push("gateway.address_share_percent_max", fault);
        }
    }

    /// Checks that keys are given. Gateways on Kafka sign with the same keys, so a key that one of
    /// them creates won't do.
    pub fn check_shared_keys(&self, faults: &mut ConfigFaults) {
        faults.require(
            "gateway.acknowledgement_keys",
            !self.acknowledgement_keys.is_empty(),
            "is empty, and with kafka.brokers all gateways need the same keys: run `receipts keygen --algorithm Ed25519 \
             --out acknowledgement.key` and list the file",
        );
    }

    pub(crate) fn head_wait(&self) -> Duration {
        Duration::from_millis(self.head_wait_ms_max)
    }

    pub(crate) fn idle_wait(&self) -> Duration {
        Duration::from_millis(self.idle_wait_ms_max)
    }

    pub(crate) fn body_wait(&self) -> Duration {
        Duration::from_millis(self.body_wait_ms_max)
    }

    pub(crate) fn inflight_wait(&self) -> Duration {
        Duration::from_millis(self.inflight_wait_ms_max)
    }

    pub(crate) fn append_wait(&self) -> Duration {
        Duration::from_millis(self.append_wait_ms_max)
    }

    pub(crate) fn answer_wait(&self) -> Duration {
        Duration::from_millis(self.answer_wait_ms_max)
    }

    pub(crate) fn drain_delay(&self) -> Duration {
        Duration::from_millis(self.drain_delay_ms)
    }

    pub(crate) fn drain_wait(&self) -> Duration {
        Duration::from_millis(self.drain_ms_max)
    }
}
