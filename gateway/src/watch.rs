//! The watch: looks at all connections now and then, and ends those whose time is over.
//!
//! Hyper's own head timeout arms a timer for each request, closes resting keep-alive connections
//! after the same ten seconds, and doesn't cover the first bytes, from which the protocol is told.
//! A look at everyone a second costs a request nothing and covers all of it; a wait may be longer
//! than configured by two looks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::GatewayConfig;
use crate::pulse::{Order, Phase, Pulse};

/// The longest time between two looks.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Time that a connection has left to end in order when its time is over.
const FAREWELL: Duration = Duration::from_secs(1);

/// Longest times of a connection in its phases.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For a head, and for the first byte.
    head: Duration,
    /// For the rest between two requests.
    idle: Duration,
    /// For an answer to be read.
    answer: Duration,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Watch {
    patience: Patience,
    drain_wait: Duration,
    next: AtomicU64,
    /// When the last turn of answers began.
    turned: Mutex<Instant>,
    lines: Mutex<HashMap<u64, Line>>,
}

/// A watched connection.
#[derive(Debug)]
struct Line {
    pulse: Arc<Pulse>,
    changes: u32,
    /// When this phase was first seen.
    since: Instant,
    /// When it has to be gone, once it was signalled to finish.
    end: Option<Instant>,
}

/// A connection's place in the watch, given up when dropped.
pub(crate) struct Place {
    watch: Arc<Watch>,
    key: u64,
}

impl Watch {
    pub(crate) fn new(config: &GatewayConfig) -> Self {
        let patience = Patience {
            head: config.head_wait(),
            idle: config.idle_wait(),
            answer: config.answer_wait(),
        };
        Self {
            patience,
            drain_wait: config.drain_wait(),
            next: AtomicU64::new(0),
            turned: Mutex::new(Instant::now()),
            lines: Mutex::default(),
        }
    }

    /// Time between two looks: a quarter of the shortest wait, so that short ones are kept too.
    pub(crate) fn interval(&self) -> Duration {
        let Patience { head, idle, answer } = self.patience;
        let shortest = head.min(idle).min(answer) / 4;
        shortest.clamp(Duration::from_millis(5), LOOK_INTERVAL_MAX)
    }

    /// Watches a new connection.
    pub(crate) fn add(self: &Arc<Self>, pulse: Arc<Pulse>) -> Place {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let line = Line {
            pulse,
            changes: 0,
            since: Instant::now(),
            end: None,
        };
        self.lines.lock().insert(key, line);
        Place {
            watch: Arc::clone(self),
            key,
        }
    }

    /// Looks at everyone once.
    pub(crate) fn look(&self, now: Instant) {
        let turns = self.turns(now);
        for line in self.lines.lock().values_mut() {
            line.look(now, self.patience, turns);
        }
    }

    /// Whether a turn of answers is over: half of their time.
    fn turns(&self, now: Instant) -> bool {
        let mut turned = self.turned.lock();
        let over = now.saturating_duration_since(*turned) >= self.patience.answer / 2;
        if over {
            *turned = now;
        }
        over
    }

    /// Tells everyone to finish.
    pub(crate) fn drain(&self, now: Instant) {
        for line in self.lines.lock().values_mut() {
            line.finish(now + self.drain_wait);
        }
    }
}

impl Line {
    fn look(&mut self, now: Instant, patience: Patience, turns: bool) {
        if let Some(end) = self.end {
            self.pulse.give(if now >= end { Order::End } else { Order::Finish });
            return;
        }
        if turns && self.pulse.turn() {
            self.finish(now + FAREWELL);
            return;
        }
        let (phase, changes) = (self.pulse.phase(), self.pulse.changes());
        if phase == Phase::Busy || changes != self.changes {
            (self.changes, self.since) = (changes, now);
            return;
        }
        let allowed = if phase == Phase::Head {
            patience.head
        } else {
            patience.idle
        };
        if now.saturating_duration_since(self.since) >= allowed {
            self.finish(now + FAREWELL);
        }
    }

    fn finish(&mut self, end: Instant) {
        self.end = Some(self.end.map_or(end, |earlier| earlier.min(end)));
        self.pulse.give(Order::Finish);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watch.lines.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::task::Waker;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    struct Bench {
        watch: Arc<Watch>,
        pulse: Arc<Pulse>,
        begun: Instant,
        _place: Place,
    }

    impl Bench {
        fn new() -> Self {
            let watch = Arc::new(Watch::new(&GatewayConfig::default()));
            let pulse = Arc::new(Pulse::new());
            let place = watch.add(Arc::clone(&pulse));
            Self {
                watch,
                pulse,
                begun: Instant::now(),
                _place: place,
            }
        }

        /// The order after a look so many seconds from the beginning.
        fn order_at(&self, seconds: u64) -> Order {
            self.watch.look(self.begun + s(seconds));
            self.pulse.order(&std::task::Context::from_waker(Waker::noop()))
        }
    }

    #[test]
    fn a_silent_connection_is_over_after_the_head_wait_however_it_dribbles() {
        let bench = Bench::new();
        assert_eq!(bench.order_at(9), Order::Serve);
        bench.pulse.bytes_read();
        assert_eq!(bench.order_at(10), Order::Finish);
        assert_eq!(bench.order_at(11), Order::End);
    }

    #[test]
    fn a_request_under_way_is_left_alone_and_the_rest_after_it_has_the_idle_wait() {
        let bench = Bench::new();
        bench.pulse.request_begins(false);
        assert_eq!(bench.order_at(100), Order::Serve);
        bench.pulse.request_ends();
        assert_eq!(bench.order_at(101), Order::Serve);
        assert_eq!(bench.order_at(160), Order::Serve);
        assert_eq!(bench.order_at(161), Order::Finish);
    }

    #[test]
    fn a_second_head_has_the_head_wait() {
        let bench = Bench::new();
        bench.pulse.request_begins(false);
        bench.pulse.request_ends();
        assert_eq!(bench.order_at(1), Order::Serve);
        bench.pulse.bytes_read();
        assert_eq!(bench.order_at(30), Order::Serve);
        bench.pulse.bytes_read();
        assert_eq!(bench.order_at(40), Order::Finish);
    }

    #[test]
    fn an_answer_nobody_reads_ends_the_connection_though_others_are_read() {
        let bench = Bench::new();
        bench.pulse.answer_begins();
        for second in 1..45 {
            bench.pulse.request_begins(true);
            bench.pulse.request_ends();
            bench.pulse.answer_ends(bench.pulse.answer_begins());
            assert_eq!(bench.order_at(second), Order::Serve, "{second}");
        }
        assert_eq!(bench.order_at(46), Order::Finish);
        assert_eq!(bench.order_at(47), Order::End);
    }

    #[test]
    fn a_drain_asks_first_and_ends_at_its_deadline() {
        let bench = Bench::new();
        bench.pulse.request_begins(false);
        bench.watch.drain(bench.begun);
        assert_eq!(bench.order_at(9), Order::Finish);
        assert_eq!(bench.order_at(10), Order::End);
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let bench = Bench::new();
        let watch = Arc::clone(&bench.watch);
        drop(bench);
        assert!(watch.lines.lock().is_empty());
    }
}
