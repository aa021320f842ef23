//! The bounded queue between producers and the writing thread.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{
    record::{Appended, Record},
    traits::AppendError,
};

/// Result of an append.
pub(super) type AppendOutcome = Result<Appended, AppendError>;

/// A record in a group.
pub(super) struct Grouped {
    pub(super) record: Record,
    /// Whether the next one belongs to the same append.
    pub(super) continues: bool,
}

/// Records that are written and synced together, with who waits for them. Holds whole appends.
#[derive(Default)]
pub(super) struct AppendGroup {
    pub(super) records: Vec<Grouped>,
    /// A waiter for the last record of each append; the other records have none.
    waiters: Vec<Option<oneshot::Sender<AppendOutcome>>>,
    /// Encoded bytes.
    pub(super) bytes: usize,
}

impl AppendGroup {
    /// Answers every waiter; the group is empty afterwards.
    pub(super) fn answer(&mut self, outcome: impl Fn(u64) -> AppendOutcome) {
        self.records.clear();
        self.bytes = 0;
        for (index, waiter) in (0..).zip(self.waiters.drain(..)) {
            // A producer that no longer waits (its client went away) is no fault.
            if let Some(waiter) = waiter {
                let _ = waiter.send(outcome(index));
            }
        }
    }
}

struct Pending {
    record: Record,
    bytes: usize,
    /// Encoded bytes of this record and those of its append that follow it.
    rest_bytes: usize,
    continues: bool,
    waiter: Option<oneshot::Sender<AppendOutcome>>,
}

#[derive(Default)]
struct QueueState {
    pending: VecDeque<Pending>,
    /// Of what is pending and what the writer holds.
    bytes: usize,
    records: usize,
    closed: bool,
    /// Why writing failed, until it works again.
    failed: Option<Arc<str>>,
    /// Why nothing is taken although writing works.
    low_space: Option<Arc<str>>,
    /// Encoded bytes of what is pending.
    pending_bytes: usize,
    /// Wake the writer when so many records are pending; 0 while it is awake.
    wake_at: usize,
    /// Number of records that were pending or being written when the last group was done: as many
    /// may well come again at once, because most producers send their next record when the last one
    /// is acknowledged.
    expected: usize,
}

/// Finding of the writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// At least one record.
    Group,
    /// The next record doesn't fit into the segment.
    NoRoom,
    /// Closed and empty.
    Closed,
}

/// Bounded in bytes and records; a full queue refuses at once.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
    bytes_max: usize,
    records_max: usize,
    gather: Duration,
}

/// So many bytes are worth a write of their own: no waiting for more.
const WORTHWHILE_BYTES: usize = 256 << 10;

impl Queue {
    /// `gather` is how long the writer waits, at most, for the producers it has just answered.
    pub(super) fn new(bytes_max: usize, records_max: usize, gather: Duration) -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            bytes_max,
            records_max,
            gather,
        }
    }

    /// Hands a record of `bytes` encoded bytes to the writer.
    pub(super) fn push(&self, record: Record, bytes: usize) -> Result<oneshot::Receiver<AppendOutcome>, AppendError> {
        self.push_all(std::iter::once((record, bytes)), 1, bytes)
    }

    /// Hands `count` records of `bytes` encoded bytes in all to the writer, which writes them
    /// together; at least one. The answer is about the last one.
    pub(super) fn push_all(
        &self,
        records: impl IntoIterator<Item = (Record, usize)>,
        count: usize,
        bytes: usize,
    ) -> Result<oneshot::Receiver<AppendOutcome>, AppendError> {
        let (waiter, answer) = oneshot::channel();
        let mut waiter = Some(waiter);
        let wake = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(AppendError::Closed);
            }
            if let Some(reason) = state.failed.as_ref().or(state.low_space.as_ref()) {
                return Err(AppendError::Unavailable(reason.to_string()));
            }
            if state.records + count > self.records_max || state.bytes + bytes > self.bytes_max {
                return Err(AppendError::Busy);
            }
            state.bytes += bytes;
            state.records += count;
            state.pending_bytes += bytes;
            let mut rest_bytes = bytes;
            for (number, (record, bytes)) in (1..).zip(records) {
                let continues = number < count;
                let waiter = if continues { None } else { waiter.take() };
                state.pending.push_back(Pending {
                    record,
                    bytes,
                    rest_bytes,
                    continues,
                    waiter,
                });
                rest_bytes -= bytes;
            }
            let enough = state.pending.len() >= state.wake_at || state.pending_bytes >= WORTHWHILE_BYTES;
            let wake = state.wake_at > 0 && enough;
            if wake {
                state.wake_at = 0;
            }
            wake
        };
        if wake {
            self.filled.notify_one();
        }
        Ok(answer)
    }

    /// Waits for records and moves as many into `group` as one write takes: `bytes_max`, and what
    /// the segment has `room` for. One append is taken even if it is larger than `bytes_max`, and
    /// never in parts.
    pub(super) fn take(&self, group: &mut AppendGroup, bytes_max: usize, room: u64) -> Took {
        let mut state = self.state.lock();
        let expected = std::mem::take(&mut state.expected);
        if state.pending.len() < expected && state.pending_bytes < WORTHWHILE_BYTES && !state.closed {
            state.wake_at = expected;
            self.filled.wait_for(&mut state, self.gather);
        }
        while state.pending.is_empty() {
            if state.closed {
                return Took::Closed;
            }
            state.wake_at = 1;
            self.filled.wait(&mut state);
        }
        state.wake_at = 0;
        while let Some(next) = state.pending.front() {
            let bytes = group.bytes + next.rest_bytes;
            let within = group.records.last().is_some_and(|last| last.continues);
            let full = bytes as u64 > room || (bytes > bytes_max && !group.records.is_empty());
            if full && !within {
                break;
            }
            if let Some(next) = state.pending.pop_front() {
                group.bytes += next.bytes;
                state.pending_bytes -= next.bytes;
                group.records.push(Grouped {
                    record: next.record,
                    continues: next.continues,
                });
                group.waiters.push(next.waiter);
            }
        }
        if group.records.is_empty() {
            Took::NoRoom
        } else {
            Took::Group
        }
    }

    /// The writer is done with so much of what it took.
    pub(super) fn release(&self, records: usize, bytes: usize) {
        let mut state = self.state.lock();
        state.expected = state.records;
        state.records -= records;
        state.bytes -= bytes;
    }

    /// Bytes waiting or being written.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Refuses everything from now on, and everything that waits.
    pub(super) fn fail(&self, reason: &Arc<str>) {
        let pending = {
            let mut state = self.state.lock();
            state.failed = Some(Arc::clone(reason));
            let pending = std::mem::take(&mut state.pending);
            state.records -= pending.len();
            state.bytes -= std::mem::take(&mut state.pending_bytes);
            pending
        };
        for pending in pending {
            if let Some(waiter) = pending.waiter {
                let _ = waiter.send(Err(AppendError::Unavailable(reason.to_string())));
            }
        }
    }

    /// Writing works again.
    pub(super) fn recover(&self) {
        self.state.lock().failed = None;
    }

    /// Refuses new records for want of space, or no longer.
    pub(super) fn set_low_space(&self, reason: Option<Arc<str>>) {
        self.state.lock().low_space = reason;
    }

    /// Why nothing is taken now.
    pub(super) fn refusal(&self) -> Option<String> {
        let state = self.state.lock();
        if state.closed {
            return Some("the log is closed".to_owned());
        }
        state
            .failed
            .as_ref()
            .or(state.low_space.as_ref())
            .map(ToString::to_string)
    }

    /// Takes nothing new; what waits is still written.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Sleeps for `pause` or until the queue is closed; answers whether it is.
    pub(super) fn closes_within(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.closed {
            self.filled.wait_for(&mut state, pause);
        }
        state.closed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::record::{Position, RecordKind};

    fn record() -> Record {
        Record {
            kind: RecordKind::Receipt,
            body: bytes::Bytes::from_static(b"{}"),
            request_signature: None,
            request_id: String::new(),
            received_at_ms: 0,
            client_address: None,
            trace: None,
        }
    }

    #[test]
    fn is_full_in_bytes_and_in_records_until_released() {
        let queue = Queue::new(100, 3, Duration::ZERO);
        let mut answers = vec![queue.push(record(), 60).unwrap(), queue.push(record(), 40).unwrap()];
        assert!(matches!(queue.push(record(), 1), Err(AppendError::Busy)), "bytes");
        let mut group = AppendGroup::default();
        assert_eq!(queue.take(&mut group, 1000, 1000), Took::Group);
        assert_eq!((group.records.len(), group.bytes), (2, 100));
        assert!(
            matches!(queue.push(record(), 1), Err(AppendError::Busy)),
            "the writer holds the bytes still"
        );
        queue.release(2, 100);
        for _ in 0..3 {
            answers.push(queue.push(record(), 1).unwrap());
        }
        assert!(matches!(queue.push(record(), 1), Err(AppendError::Busy)), "records");
    }

    #[test]
    fn a_group_ends_at_its_limit_and_at_the_segments_end() {
        let queue = Queue::new(1000, 10, Duration::ZERO);
        let _answers: Vec<_> = [50, 30, 30, 90]
            .map(|bytes| queue.push(record(), bytes).unwrap())
            .into();
        let mut group = AppendGroup::default();
        assert_eq!(queue.take(&mut group, 80, 1000), Took::Group);
        assert_eq!(group.bytes, 80);
        group.answer(|_| Err(AppendError::Closed));
        assert_eq!(queue.take(&mut group, 80, 29), Took::NoRoom);
        assert_eq!(queue.take(&mut group, 80, 31), Took::Group);
        assert_eq!(group.bytes, 30);
        group.answer(|_| Err(AppendError::Closed));
        assert_eq!(
            queue.take(&mut group, 80, 90),
            Took::Group,
            "one record over the limit is a group of its own"
        );
        assert_eq!(group.bytes, 90);
    }

    #[test]
    fn an_append_of_several_records_is_never_taken_in_parts() {
        let queue = Queue::new(1000, 10, Duration::ZERO);
        let _first = queue.push(record(), 10).unwrap();
        let several = || [30, 40, 50].map(|bytes| (record(), bytes));
        let mut answer = queue.push_all(several(), 3, 120).unwrap();
        let mut group = AppendGroup::default();
        assert_eq!(queue.take(&mut group, 60, 1000), Took::Group);
        assert_eq!(
            (group.records.len(), group.bytes),
            (1, 10),
            "the next append is a group of its own"
        );
        group.answer(|_| Err(AppendError::Closed));
        assert_eq!(queue.take(&mut group, 60, 119), Took::NoRoom);
        assert_eq!(queue.take(&mut group, 60, 120), Took::Group);
        let continues: Vec<bool> = group.records.iter().map(|grouped| grouped.continues).collect();
        assert_eq!((continues, group.bytes), (vec![true, true, false], 120));
        group.answer(|index| {
            let (epoch, partition) = (1, 0);
            Ok(Appended {
                position: Position {
                    epoch,
                    partition,
                    offset: index,
                },
                appended_at_ms: 0,
            })
        });
        assert_eq!(
            answer.try_recv().unwrap().unwrap().position.offset,
            2,
            "the last one's position"
        );
        queue.release(4, 130);
        let _answers: Vec<_> = (0..8).map(|_| queue.push(record(), 1).unwrap()).collect();
        assert!(
            matches!(queue.push_all(several(), 3, 120), Err(AppendError::Busy)),
            "two places are left"
        );
    }

    #[test]
    fn waits_for_the_producers_it_has_just_answered() {
        let queue = Queue::new(1 << 20, 10, Duration::from_secs(3600));
        let mut group = AppendGroup::default();
        let push = |bytes| queue.push(record(), bytes).unwrap();
        let first = [push(10), push(10)];
        assert_eq!(queue.take(&mut group, 1000, 1000), Took::Group);
        let third = push(10); // came while the others were written: three are expected
        queue.release(2, 20);
        group.answer(|_| Err(AppendError::Closed));
        std::thread::scope(|scope| {
            let producers = scope.spawn(|| [push(10), push(10)]);
            assert_eq!(queue.take(&mut group, 1000, 1000), Took::Group);
            assert_eq!(group.records.len(), 3);
            drop((producers.join(), first, third));
        });
        queue.release(3, 30);
        group.answer(|_| Err(AppendError::Closed));
        // Much to write is written at once, and a lone record too when none was expected.
        let large = push(WORTHWHILE_BYTES);
        assert_eq!(queue.take(&mut group, 1000, 1 << 20), Took::Group);
        let _lone = push(10);
        group.answer(|_| Err(AppendError::Closed));
        assert_eq!(queue.take(&mut group, 1000, 1000), Took::Group);
        drop(large);
    }

    #[test]
    fn failing_answers_everyone_and_refuses_until_recovery() {
        let queue = Queue::new(1000, 10, Duration::ZERO);
        let mut answer = queue.push(record(), 10).unwrap();
        queue.fail(&Arc::from("no space"));
        assert!(matches!(answer.try_recv().unwrap(), Err(AppendError::Unavailable(reason)) if reason == "no space"));
        assert!(matches!(queue.push(record(), 10), Err(AppendError::Unavailable(_))));
        assert_eq!(queue.refusal().as_deref(), Some("no space"));
        queue.recover();
        assert_eq!(queue.refusal(), None);
        assert_eq!(queue.bytes(), 0);
        queue.push(record(), 10).unwrap();
        queue.close();
        assert!(matches!(queue.push(record(), 10), Err(AppendError::Closed)));
        assert_eq!(
            queue.take(&mut AppendGroup::default(), 100, 100),
            Took::Group,
            "what waits is still written"
        );
    }
}
