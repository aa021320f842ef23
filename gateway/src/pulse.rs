//! The pulse of a connection: what it is doing, as its watch sees it, and what the watch has
//! ordered.
//!
//! No clock is read here: that a phase changed is counted, when it did is for the watch to
//! notice.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Waker};

/// Order to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Go on.
    Serve,
    /// Finish the requests in progress and take no more.
    Finish,
    /// End now.
    End,
}

/// Phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A request is in progress: body and log have limits of their own.
    Busy,
    /// A head is awaited: the first one, or one that has begun.
    Head,
    /// The connection rests between two requests.
    Idle,
}

/// Shared by a connection's socket, its requests and its watch. No two of these numbers need to
/// agree at an instant, so every access but the order's is relaxed.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Requests whose head is read and whose answer isn't made.
    requests: AtomicU32,
    /// Grows with every change of phase.
    changes: AtomicU32,
    /// Protocol of the requests; between HTTP/2 requests bytes are no head.
    spoken: AtomicU8,
    /// Bytes have come since the last request.
    head_begun: AtomicBool,
    /// Answers made and not yet written to the socket, by the turn of the watch in which they were
    /// made.
    unsent: [AtomicU32; TURNS as usize],
    /// Index of this turn's one.
    turn: AtomicU8,
    order: AtomicU8,
    task: OnceLock<Waker>,
}

/// This turn of the watch, the one before, and the one before that: when its place is needed again,
/// its answers have waited for two whole turns.
const TURNS: u8 = 3;

const NOTHING: u8 = 0;
const HTTP1: u8 = 1;
const HTTP2: u8 = 2;

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            requests: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            spoken: AtomicU8::new(NOTHING),
            head_begun: AtomicBool::new(false),
            unsent: Default::default(),
            turn: AtomicU8::new(0),
            order: AtomicU8::new(Order::Serve as u8),
            task: OnceLock::new(),
        }
    }

    /// Bytes arrived.
    pub(crate) fn bytes_read(&self) {
        let resting = self.spoken.load(Ordering::Relaxed) == HTTP1
            && self.requests.load(Ordering::Relaxed) == 0
            && !self.head_begun.load(Ordering::Relaxed);
        if resting {
            self.head_begun.store(true, Ordering::Relaxed);
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A head is complete.
    pub(crate) fn request_begins(&self, http2: bool) {
        self.spoken.store(if http2 { HTTP2 } else { HTTP1 }, Ordering::Relaxed);
        self.head_begun.store(false, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the answer is made, or the request was given up.
    pub(crate) fn request_ends(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// An answer is on its way to the socket. Returns its turn.
    pub(crate) fn answer_begins(&self) -> u8 {
        let turn = self.turn.load(Ordering::Relaxed);
        self.unsent[usize::from(turn)].fetch_add(1, Ordering::Relaxed);
        turn
    }

    /// Notes that the answer is written, or was given up.
    pub(crate) fn answer_ends(&self, turn: u8) {
        self.unsent[usize::from(turn)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins the next turn: true if an answer has waited for two whole ones.
    pub(crate) fn turn(&self) -> bool {
        let next = (self.turn.load(Ordering::Relaxed) + 1) % TURNS;
        let waits = self.unsent[usize::from(next)].load(Ordering::Relaxed) > 0;
        self.turn.store(next, Ordering::Relaxed);
        waits
    }

    pub(crate) fn phase(&self) -> Phase {
        if self.requests.load(Ordering::Relaxed) > 0 {
            Phase::Busy
        } else if self.spoken.load(Ordering::Relaxed) == NOTHING || self.head_begun.load(Ordering::Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        }
    }

    /// Number of changes of the phase.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Gives an order and wakes the connection. An order given before the connection was first
    /// polled may not wake it: the watch gives it again.
    pub(crate) fn give(&self, order: Order) {
        self.order.store(order as u8, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// The order of now, asked by the connection's task, which is woken by the next one.
    pub(crate) fn order(&self, context: &Context<'_>) -> Order {
        self.task.get_or_init(|| context.waker().clone());
        match self.order.load(Ordering::Acquire) {
            order if order == Order::Serve as u8 => Order::Serve,
            order if order == Order::Finish as u8 => Order::Finish,
            _ => Order::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_what_happens() {
        let pulse = Pulse::new();
        assert_eq!(pulse.phase(), Phase::Head);
        pulse.bytes_read();
        assert_eq!(
            (pulse.phase(), pulse.changes()),
            (Phase::Head, 0),
            "a dribbled first head is no new phase"
        );
        pulse.request_begins(false);
        pulse.bytes_read();
        assert_eq!((pulse.phase(), pulse.changes()), (Phase::Busy, 0));
        pulse.request_ends();
        assert_eq!((pulse.phase(), pulse.changes()), (Phase::Idle, 1));
        pulse.bytes_read();
        assert_eq!((pulse.phase(), pulse.changes()), (Phase::Head, 2));
        pulse.bytes_read();
        assert_eq!(pulse.changes(), 2, "nor is a dribbled second one");
    }

    #[test]
    fn bytes_between_http2_requests_are_no_head() {
        let pulse = Pulse::new();
        pulse.request_begins(true);
        pulse.request_ends();
        pulse.bytes_read();
        assert_eq!((pulse.phase(), pulse.changes()), (Phase::Idle, 1));
    }

    #[test]
    fn an_answer_that_waits_for_two_whole_turns_is_noticed_whatever_else_goes_on() {
        let pulse = Pulse::new();
        let stuck = pulse.answer_begins();
        for turn in 1..=5 {
            let sent = pulse.answer_begins();
            pulse.answer_ends(sent);
            assert_eq!(pulse.turn(), turn % 3 == 0, "{turn}");
        }
        pulse.answer_ends(stuck);
        assert!(!(0..6).any(|_| pulse.turn()));
    }
}
