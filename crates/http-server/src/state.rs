//! The state of a connection, as the reaper sees it, and the reaper's order.
//!
//! No clock is read here: changes of the phase are counted, and the reaper notices when.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Waker};

/// Order to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Continue.
    Serve,
    /// Continue, but have the peer leave: `Connection: close` in answers of HTTP/1.1, GOAWAY on
    /// HTTP/2. A connection at rest stays open, as its peer's next request may be on its way.
    Leave,
    /// Finish the requests in progress and take no more.
    Finish,
    /// End now.
    End,
}

/// Phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A request is in progress, or its answer isn't written yet: body, log and unsent parts have
    /// limits of their own.
    Busy,
    /// A head is awaited: the first one, or one that has begun.
    Head,
    /// The connection rests between two requests.
    Idle,
}

/// State that a connection's socket, its requests and the reaper share. No two of these numbers
/// need to agree at an instant, so every access but the order's is relaxed.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// Requests whose head is read and whose answer isn't complete.
    requests: AtomicU32,
    /// Grows with every change of phase.
    changes: AtomicU32,
    /// Protocol of the requests; bytes between HTTP/2 requests are no head.
    protocol: AtomicU8,
    /// Bytes have arrived since the last request.
    head_begun: AtomicBool,
    /// Parts of answers that aren't written to the socket yet, by the round in which they were
    /// handed over.
    unsent: [AtomicU32; ROUNDS as usize],
    /// Index of the present round.
    round: AtomicU8,
    order: AtomicU8,
    task: OnceLock<Waker>,
}

/// The present round of the reaper and the two before. When the oldest is reused, its parts have
/// waited for two whole rounds.
const ROUNDS: u8 = 3;

const NOTHING: u8 = 0;
const HTTP1: u8 = 1;
const HTTP2: u8 = 2;

impl ConnectionState {
    pub(crate) fn new() -> Self {
        Self {
            requests: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            protocol: AtomicU8::new(NOTHING),
            head_begun: AtomicBool::new(false),
            unsent: Default::default(),
            round: AtomicU8::new(0),
            order: AtomicU8::new(Order::Serve as u8),
            task: OnceLock::new(),
        }
    }

    /// Bytes arrived.
    pub(crate) fn bytes_read(&self) {
        let resting = self.protocol.load(Ordering::Relaxed) == HTTP1
            && self.requests.load(Ordering::Relaxed) == 0
            && !self.head_begun.load(Ordering::Relaxed);
        if resting {
            self.head_begun.store(true, Ordering::Relaxed);
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A head is complete.
    pub(crate) fn request_begins(&self, http2: bool) {
        self.protocol
            .store(if http2 { HTTP2 } else { HTTP1 }, Ordering::Relaxed);
        self.head_begun.store(false, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the answer is complete, or the request was cancelled.
    pub(crate) fn request_ends(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// A part of an answer is handed over to the socket. Returns its round.
    pub(crate) fn part_begins(&self) -> u8 {
        let round = self.round.load(Ordering::Relaxed);
        self.unsent[usize::from(round)].fetch_add(1, Ordering::Relaxed);
        round
    }

    /// Moves a part to the present round, because its peer accepts bytes. Returns the round.
    pub(crate) fn part_proceeds(&self, round: u8) -> u8 {
        if round == self.round.load(Ordering::Relaxed) {
            return round;
        }
        self.part_ends(round);
        self.part_begins()
    }

    /// Notes that the part is written, or was dropped.
    pub(crate) fn part_ends(&self, round: u8) {
        self.unsent[usize::from(round)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins the next round: true if a part has waited for two whole ones.
    pub(crate) fn next_round(&self) -> bool {
        let next = (self.round.load(Ordering::Relaxed) + 1) % ROUNDS;
        let waits = self.unsent[usize::from(next)].load(Ordering::Relaxed) > 0;
        self.round.store(next, Ordering::Relaxed);
        waits
    }

    pub(crate) fn phase(&self) -> Phase {
        let has_unsent_parts = || self.unsent.iter().any(|parts| parts.load(Ordering::Relaxed) > 0);
        if self.has_requests() || has_unsent_parts() {
            Phase::Busy
        } else if self.protocol.load(Ordering::Relaxed) == NOTHING || self.head_begun.load(Ordering::Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        }
    }

    /// Whether a request has no complete answer yet.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether a request of HTTP/2 has arrived.
    pub(crate) fn is_http2(&self) -> bool {
        self.protocol.load(Ordering::Relaxed) == HTTP2
    }

    /// Number of changes of the phase.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Gives an order and wakes the connection. An order before the first poll of the connection
    /// may not wake it: the reaper repeats it.
    pub(crate) fn give(&self, order: Order) {
        self.order.store(order as u8, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    /// Has the next order wake this task, the connection's.
    pub(crate) fn wakes(&self, context: &Context<'_>) {
        self.task.get_or_init(|| context.waker().clone());
    }

    /// The present order.
    pub(crate) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            order if order == Order::Serve as u8 => Order::Serve,
            order if order == Order::Leave as u8 => Order::Leave,
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
        let state = ConnectionState::new();
        assert_eq!(state.phase(), Phase::Head);
        state.bytes_read();
        assert_eq!(
            (state.phase(), state.changes()),
            (Phase::Head, 0),
            "a dribbled first head is no new phase"
        );
        state.request_begins(false);
        state.bytes_read();
        assert_eq!((state.phase(), state.changes()), (Phase::Busy, 0));
        state.request_ends();
        assert_eq!((state.phase(), state.changes()), (Phase::Idle, 1));
        state.bytes_read();
        assert_eq!((state.phase(), state.changes()), (Phase::Head, 2));
        state.bytes_read();
        assert_eq!(state.changes(), 2, "nor is a dribbled second one");
    }

    #[test]
    fn a_connection_with_unsent_parts_is_busy_though_it_has_no_request() {
        let state = ConnectionState::new();
        state.request_begins(false);
        let round = state.part_begins();
        state.request_ends();
        assert_eq!((state.phase(), state.has_requests()), (Phase::Busy, false));
        state.part_ends(round);
        assert_eq!(state.phase(), Phase::Idle);
    }

    #[test]
    fn bytes_between_http2_requests_are_no_head() {
        let state = ConnectionState::new();
        state.request_begins(true);
        state.request_ends();
        state.bytes_read();
        assert_eq!((state.phase(), state.changes()), (Phase::Idle, 1));
    }

    #[test]
    fn a_part_that_waits_for_two_whole_rounds_is_noticed_beside_others() {
        let state = ConnectionState::new();
        let stuck = state.part_begins();
        for round in 1..=5 {
            let sent = state.part_begins();
            state.part_ends(sent);
            assert_eq!(state.next_round(), round % 3 == 0, "{round}");
        }
        state.part_ends(stuck);
        assert!(!(0..6).any(|_| state.next_round()));
    }
}
