//! The pulse of a connection: what it is doing, since when, and how long it may.
//!
//! Hyper's own head timeout arms a timer for each request, closes resting keep-alive connections after the same ten seconds,
//! and doesn't cover the first bytes, from which the protocol is told. One timer a connection, which looks here when it fires,
//! costs nothing a request and covers all of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared by a connection's socket, its requests and its timer. The order of these few numbers doesn't matter beyond
/// milliseconds, so every access is relaxed.
#[derive(Debug)]
pub(crate) struct Pulse {
    born: Instant,
    /// Requests whose head is read and whose answer isn't made.
    requests: AtomicU32,
    /// Milliseconds from `born` to the beginning of this phase; the lowest bit says that bytes of a head have come.
    phase: AtomicU64,
    /// Whether a request has come at all, and whether it was HTTP/2, where bytes between requests are no head.
    spoken: AtomicU32,
}

const SILENT: u32 = 0;
const HTTP1: u32 = 1;
const HTTP2: u32 = 2;

/// How long a connection may be in a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For a head, and for the first byte.
    pub(crate) head: Duration,
    /// For the rest between two requests.
    pub(crate) idle: Duration,
}

/// What the timer finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Look again then.
    At(Instant),
    /// The time is over.
    Now,
}

impl Pulse {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            born: now,
            requests: AtomicU32::new(0),
            phase: AtomicU64::new(0),
            spoken: AtomicU32::new(SILENT),
        }
    }

    /// Bytes came in.
    pub(crate) fn bytes_read(&self) {
        let resting = self.phase.load(Ordering::Relaxed) & 1 == 0
            && self.spoken.load(Ordering::Relaxed) == HTTP1
            && self.requests.load(Ordering::Relaxed) == 0;
        if resting {
            self.phase.store(self.at(Instant::now()) | 1, Ordering::Relaxed);
        }
    }

    /// A head is complete.
    pub(crate) fn request_begins(&self, http2: bool) {
        self.spoken.store(if http2 { HTTP2 } else { HTTP1 }, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer is made, or it was given up.
    pub(crate) fn request_ends(&self, now: Instant) {
        self.phase.store(self.at(now), Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether requests are under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether this phase has taken too long, or when to look again.
    pub(crate) fn due(&self, now: Instant, patience: Patience) -> Due {
        let spoken = self.spoken.load(Ordering::Relaxed);
        let phase = self.phase.load(Ordering::Relaxed);
        if self.is_busy() {
            // Body and log have limits of their own. The phase after this begins later than now.
            return Due::At(now + patience.head.min(patience.idle));
        }
        let since = self.born + Duration::from_millis(phase >> 1);
        let allowed = if spoken == SILENT || phase & 1 == 1 {
            patience.head
        } else {
            patience.idle
        };
        let end = since + allowed;
        if end <= now {
            return Due::Now;
        }
        // A head that begins while the connection rests ends before this rest would.
        Due::At(end.min(now + patience.head))
    }

    fn at(&self, now: Instant) -> u64 {
        let ms = now.saturating_duration_since(self.born).as_millis();
        u64::try_from(ms).unwrap_or(u64::MAX >> 1) << 1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const PATIENCE: Patience = Patience {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
    };

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_connection_is_over_after_the_head_wait() {
        let born = Instant::now();
        let pulse = Pulse::new(born);
        assert_eq!(pulse.due(born, PATIENCE), Due::At(born + s(10)));
        pulse.bytes_read();
        assert_eq!(
            pulse.due(born + s(10), PATIENCE),
            Due::Now,
            "a dribbled first head gains no time"
        );
    }

    #[test]
    fn a_request_under_way_is_left_alone() {
        let born = Instant::now();
        let pulse = Pulse::new(born);
        pulse.request_begins(false);
        assert_eq!(pulse.due(born + s(1_000), PATIENCE), Due::At(born + s(1_010)));
    }

    #[test]
    fn a_resting_connection_has_the_idle_wait_and_a_new_head_the_head_wait() {
        let born = Instant::now();
        let pulse = Pulse::new(born);
        pulse.request_begins(false);
        pulse.request_ends(born + s(5));
        assert_eq!(pulse.due(born + s(60), PATIENCE), Due::At(born + s(65)));
        assert_eq!(pulse.due(born + s(65), PATIENCE), Due::Now);
        pulse.bytes_read();
        assert_eq!(
            pulse.due(born + s(10), PATIENCE),
            Due::Now,
            "the head began at about {born:?}"
        );
    }

    #[test]
    fn bytes_between_http2_requests_are_no_head() {
        let born = Instant::now();
        let pulse = Pulse::new(born);
        pulse.request_begins(true);
        pulse.request_ends(born + s(5));
        pulse.bytes_read();
        assert_eq!(pulse.due(born + s(60), PATIENCE), Due::At(born + s(65)));
    }
}
