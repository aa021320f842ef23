//! The reaper: checks all connections regularly, and ends those whose time is over.
//!
//! Hyper's own head timeout arms a timer for each request, closes idle keep-alive connections after
//! the same time, and doesn't cover the first bytes, from which the protocol is detected. One check
//! of all connections costs a request nothing and covers all of it. A wait may be longer than
//! configured by two checks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::ServerConfig;
use crate::state::{ConnectionState, Order, Phase};

/// The longest time between two checks.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Time that a connection has left to end in order when its time is over.
const FAREWELL: Duration = Duration::from_secs(1);

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct IdleReaper {
    config: ServerConfig,
    next: AtomicU64,
    /// When the last round of unsent parts began.
    round_begun: Mutex<Instant>,
    /// Whether connections, new ones as well, are to leave.
    is_leaving: AtomicBool,
    connections: Mutex<HashMap<u64, CheckedConnection>>,
}

/// A connection as of its last check.
#[derive(Debug)]
struct CheckedConnection {
    state: Arc<ConnectionState>,
    changes: u32,
    /// When this phase was first seen.
    since: Instant,
    /// When the connection has to be gone, once it was signalled to finish.
    end: Option<Instant>,
}

/// Registration of a connection, removed when dropped.
pub(crate) struct Registered {
    reaper: Arc<IdleReaper>,
    key: u64,
}

impl IdleReaper {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self {
            config,
            next: AtomicU64::new(0),
            round_begun: Mutex::new(Instant::now()),
            is_leaving: AtomicBool::new(false),
            connections: Mutex::default(),
        }
    }

    /// Time between two checks: a quarter of the shortest wait.
    pub(crate) fn interval(&self) -> Duration {
        let ServerConfig {
            head_wait_max,
            idle_wait_max,
            unread_wait_max,
            ..
        } = self.config;
        let shortest = head_wait_max.min(idle_wait_max).min(unread_wait_max) / 4;
        shortest.clamp(Duration::from_millis(5), CHECK_INTERVAL_MAX)
    }

    /// Registers a new connection.
    pub(crate) fn add(self: &Arc<Self>, state: Arc<ConnectionState>) -> Registered {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = CheckedConnection {
            state,
            changes: 0,
            since: Instant::now(),
            end: None,
        };
        let mut connections = self.connections.lock();
        if self.is_leaving.load(Ordering::Relaxed) {
            connection.state.give(Order::Leave);
        }
        connections.insert(key, connection);
        drop(connections);
        Registered {
            reaper: Arc::clone(self),
            key,
        }
    }

    /// Checks all connections once.
    pub(crate) fn check(&self, now: Instant) {
        let is_next_round = self.is_next_round(now);
        for connection in self.connections.lock().values_mut() {
            connection.check(now, &self.config, is_next_round);
        }
    }

    /// Whether a round of unsent parts is over: half of their time.
    fn is_next_round(&self, now: Instant) -> bool {
        let mut begun = self.round_begun.lock();
        let over = now.saturating_duration_since(*begun) >= self.config.unread_wait_max / 2;
        if over {
            *begun = now;
        }
        over
    }

    /// Has the peers of all connections leave, and of those that are still accepted.
    pub(crate) fn leave(&self) {
        let connections = self.connections.lock();
        self.is_leaving.store(true, Ordering::Relaxed);
        for connection in connections.values().filter(|connection| connection.end.is_none()) {
            connection.state.give(Order::Leave);
        }
    }

    /// Signals all connections to finish.
    pub(crate) fn drain(&self, now: Instant) {
        for connection in self.connections.lock().values_mut() {
            connection.finish(now + self.config.drain_wait_max);
        }
    }

    /// Ends the connection whose last request is the longest ago.
    pub(crate) fn close_idlest(&self, now: Instant) {
        self.check(now);
        let mut connections = self.connections.lock();
        let idlest = connections
            .iter_mut()
            .filter(|(_, connection)| connection.state.order() != Order::End)
            .min_by_key(|(key, connection)| (connection.since, **key));
        if let Some((_, connection)) = idlest {
            // The next check repeats the order.
            connection.end = Some(now);
            connection.state.give(Order::End);
        }
    }
}

impl CheckedConnection {
    fn check(&mut self, now: Instant, config: &ServerConfig, is_next_round: bool) {
        if let Some(end) = self.end {
            self.state.give(if now >= end { Order::End } else { Order::Finish });
            return;
        }
        if is_next_round && self.state.next_round() {
            self.finish(now + FAREWELL);
            return;
        }
        let (phase, changes) = (self.state.phase(), self.state.changes());
        if phase == Phase::Busy || changes != self.changes {
            (self.changes, self.since) = (changes, now);
            return;
        }
        let wait_max = if phase == Phase::Head {
            config.head_wait_max
        } else {
            config.idle_wait_max
        };
        if now.saturating_duration_since(self.since) >= wait_max {
            self.finish(now + FAREWELL);
        }
    }

    fn finish(&mut self, end: Instant) {
        self.end = Some(self.end.map_or(end, |earlier| earlier.min(end)));
        self.state.give(Order::Finish);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.reaper.connections.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::config::WhenFull;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    struct Bench {
        reaper: Arc<IdleReaper>,
        state: Arc<ConnectionState>,
        begun: Instant,
        _registered: Registered,
    }

    impl Bench {
        fn new() -> Self {
            let reaper = Arc::new(IdleReaper::new(ServerConfig {
                name: "test",
                connections_max: 10,
                when_full: WhenFull::Refuse,
                address_connections_max: 10,
                unlimited: Vec::new(),
                head_bytes_max: 16 << 10,
                streams_max: 10,
                half_close: true,
                head_wait_max: s(10),
                idle_wait_max: s(60),
                unread_wait_max: s(30),
                drain_delay: s(5),
                drain_wait_max: s(10),
            }));
            let state = Arc::new(ConnectionState::new());
            let registered = reaper.add(Arc::clone(&state));
            Self {
                reaper,
                state,
                begun: Instant::now(),
                _registered: registered,
            }
        }

        /// The order after a check so many seconds from the beginning.
        fn order_at(&self, seconds: u64) -> Order {
            self.reaper.check(self.begun + s(seconds));
            self.state.order()
        }
    }

    #[test]
    fn a_silent_connection_is_over_after_the_head_wait_however_it_dribbles() {
        let bench = Bench::new();
        assert_eq!(bench.order_at(9), Order::Serve);
        bench.state.bytes_read();
        assert_eq!(bench.order_at(10), Order::Finish);
        assert_eq!(bench.order_at(11), Order::End);
    }

    #[test]
    fn a_request_in_progress_has_no_limit_and_the_time_after_it_has_the_idle_wait() {
        let bench = Bench::new();
        bench.state.request_begins(false);
        assert_eq!(bench.order_at(100), Order::Serve);
        bench.state.request_ends();
        assert_eq!(bench.order_at(101), Order::Serve);
        assert_eq!(bench.order_at(160), Order::Serve);
        assert_eq!(bench.order_at(161), Order::Finish);
    }

    #[test]
    fn an_answer_that_is_read_slowly_is_not_idle_and_a_small_one_has_the_unread_wait() {
        let bench = Bench::new();
        bench.state.request_begins(false);
        let mut round = bench.state.part_begins();
        bench.state.request_ends();
        for second in 1..200 {
            round = bench.state.part_proceeds(round);
            assert_eq!(bench.order_at(second), Order::Serve, "{second}");
        }
        let finished = (200..300).find(|second| bench.order_at(*second) == Order::Finish);
        assert!(
            finished.is_some_and(|second| (229..=246).contains(&second)),
            "{finished:?}"
        );
    }

    #[test]
    fn the_idlest_connection_ends_though_the_first_order_is_lost() {
        let bench = Bench::new();
        bench.reaper.close_idlest(bench.begun);
        bench.state.give(Order::Serve);
        assert_eq!(bench.order_at(1), Order::End);
    }

    #[test]
    fn a_second_head_has_the_head_wait() {
        let bench = Bench::new();
        bench.state.request_begins(false);
        bench.state.request_ends();
        assert_eq!(bench.order_at(1), Order::Serve);
        bench.state.bytes_read();
        assert_eq!(bench.order_at(30), Order::Serve);
        bench.state.bytes_read();
        assert_eq!(bench.order_at(40), Order::Finish);
    }

    #[test]
    fn an_answer_nobody_reads_ends_the_connection_though_others_are_read() {
        let bench = Bench::new();
        bench.state.part_begins();
        for second in 1..45 {
            bench.state.request_begins(true);
            bench.state.request_ends();
            bench.state.part_ends(bench.state.part_begins());
            assert_eq!(bench.order_at(second), Order::Serve, "{second}");
        }
        assert_eq!(bench.order_at(46), Order::Finish);
        assert_eq!(bench.order_at(47), Order::End);
    }

    #[test]
    fn a_drain_finishes_first_and_ends_at_its_deadline() {
        let bench = Bench::new();
        bench.state.request_begins(false);
        bench.reaper.drain(bench.begun);
        assert_eq!(bench.order_at(9), Order::Finish);
        assert_eq!(bench.order_at(10), Order::End);
    }

    #[test]
    fn all_connections_leave_but_those_that_end_anyway() {
        let bench = Bench::new();
        assert_eq!(bench.order_at(10), Order::Finish);
        bench.reaper.leave();
        assert_eq!(bench.state.order(), Order::Finish);
        let later = Arc::new(ConnectionState::new());
        let _registered = bench.reaper.add(Arc::clone(&later));
        assert_eq!(later.order(), Order::Leave);
        bench.reaper.drain(bench.begun);
        assert_eq!(later.order(), Order::Finish);
    }

    #[test]
    fn a_closed_connection_is_removed() {
        let bench = Bench::new();
        let reaper = Arc::clone(&bench.reaper);
        drop(bench);
        assert!(reaper.connections.lock().is_empty());
    }
}
