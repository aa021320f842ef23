//! Limits of a server.

use std::time::Duration;

use crate::address::Network;

/// Reaction to a connection beyond `connections_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// Answer 503 and close it.
    Refuse,
    /// Leave it in the system's queue until another one ends.
    Wait,
    /// Close the connection whose last request is the longest ago.
    CloseIdlest,
}

/// Limits of a server. All connections are checked together, four times within the shortest wait
/// and at least once a second. So a wait may be longer by two checks, and `unread_wait_max` by
/// half.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Name in logs.
    pub name: &'static str,
    /// Connections at one time.
    pub connections_max: usize,
    /// Reaction to one more.
    pub when_full: WhenFull,
    /// Connections of one address, or of one /64 of IPv6. Further ones are answered 503.
    pub address_connections_max: usize,
    /// Networks without that limit: trusted proxies.
    pub unlimited: Vec<Network>,
    /// Bytes of a request's head. The server reads heads of up to twice as many, so that a handler
    /// can refuse them with a problem.
    pub head_bytes_max: usize,
    /// Requests of one HTTP/2 connection at one time.
    pub streams_max: u32,
    /// Whether a client may close its side of the connection and still get its answer (RFC 9112,
    /// section 9.6). Otherwise such a request is cancelled.
    pub half_close: bool,
    /// Time for a head, the wait for the first byte included.
    pub head_wait_max: Duration,
    /// Time between two requests.
    pub idle_wait_max: Duration,
    /// Time for which a peer may accept nothing of an answer, or less than 16 KiB of a longer one.
    pub unread_wait_max: Duration,
    /// Time after the shutdown in which the server still accepts connections and answers, and asks
    /// each peer to leave: load balancers learn late that the process ends.
    pub drain_delay: Duration,
    /// Time for the requests in progress at the end.
    pub drain_wait_max: Duration,
}

/// The connections of one address: `percent` of `connections_max`, at least one.
#[must_use]
pub fn address_share(connections_max: usize, percent: usize) -> usize {
    (connections_max.saturating_mul(percent) / 100).max(1)
}
