//! The pulse of a connection: what it is doing, as its watch sees it, and what the watch has ordered.
//!
//! Nothing here reads a clock: that a phase changed is counted, when it did is for the watch to notice.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Waker};

/// What a connection is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Go on.
    Serve,
    /// Finish the requests under way and take no more.
    Finish,
    /// End now.
    End,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A request is under way: body and log have limits of their own.
    Busy,
    /// A head is awaited: the first one, or one that has begun.
    Head,
    /// It rests between two requests.
    Idle,
}

/// Shared by a connection's socket, its requests and its watch. No two of these numbers need to agree at an instant, so every
/// access but the order's is relaxed.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Requests whose head is read and whose answer isn't made.
    requests: AtomicU32,
    /// Grows with every change of phase.
    turns: AtomicU32,
    /// Which protocol the requests came in; between HTTP/2 requests bytes are no head.
    spoken: AtomicU8,
    /// Bytes have come since the last request.
    head_begun: AtomicBool,
    order: AtomicU8,
    task: OnceLock<Waker>,
}

const NOTHING: u8 = 0;
const HTTP1: u8 = 1;
const HTTP2: u8 = 2;

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            requests: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            spoken: AtomicU8::new(NOTHING),
            head_begun: AtomicBool::new(false),
            order: AtomicU8::new(Order::Serve as u8),
            task: OnceLock::new(),
        }
    }

    /// Bytes came in.
    pub(crate) fn bytes_read(&self) {
        let resting = self.spoken.load(Ordering::Relaxed) == HTTP1
            && self.requests.load(Ordering::Relaxed) == 0
            && !self.head_begun.load(Ordering::Relaxed);
        if resting {
            self.head_begun.store(true, Ordering::Relaxed);
            self.turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A head is complete.
    pub(crate) fn request_begins(&self, http2: bool) {
        self.spoken.store(if http2 { HTTP2 } else { HTTP1 }, Ordering::Relaxed);
        self.head_begun.store(false, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer is made, or it was given up.
    pub(crate) fn request_ends(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
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

    pub(crate) fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Gives an order and wakes the connection. An order given before the connection was first polled may not wake it: the
    /// watch gives it again.
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
            (pulse.phase(), pulse.turns()),
            (Phase::Head, 0),
            "a dribbled first head is no new phase"
        );
        pulse.request_begins(false);
        pulse.bytes_read();
        assert_eq!((pulse.phase(), pulse.turns()), (Phase::Busy, 0));
        pulse.request_ends();
        assert_eq!((pulse.phase(), pulse.turns()), (Phase::Idle, 1));
        pulse.bytes_read();
        assert_eq!((pulse.phase(), pulse.turns()), (Phase::Head, 2));
        pulse.bytes_read();
        assert_eq!(pulse.turns(), 2, "nor is a dribbled second one");
    }

    #[test]
    fn bytes_between_http2_requests_are_no_head() {
        let pulse = Pulse::new();
        pulse.request_begins(true);
        pulse.request_ends();
        pulse.bytes_read();
        assert_eq!((pulse.phase(), pulse.turns()), (Phase::Idle, 1));
    }
}
