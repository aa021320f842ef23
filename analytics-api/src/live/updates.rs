//! The newest updates of a topic, which its subscribers watch. Memory is bounded: a subscriber that
//! lags too far continues with a later update, which says how many receipts it has missed.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::sse::Event;
use tokio::sync::watch;
use warehouse::StreamPosition;

use super::event;
use super::follower::Published;

/// Updates that are retained.
const UPDATES_MAX: usize = 64;
/// Bytes of retained updates. The newest is retained whatever its size.
const BYTES_MAX: usize = 256 << 10;

/// Sums over all updates of a topic so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UpdateSums {
    pub(super) updates: u64,
    pub(super) receipts: u64,
    pub(super) reloads: u64,
}

/// Update of a topic, for all its subscribers.
#[derive(Debug)]
pub(super) struct Update {
    /// Progress up to which everything has been sent with this update.
    pub(super) to: Arc<Published>,
    /// JSON of the day's totals.
    pub(super) totals: String,
    /// JSON array of the newest receipts.
    pub(super) receipts: String,
    /// Receipts in the array.
    pub(super) count: u64,
    /// Sums before this update.
    pub(super) before: UpdateSums,
    /// Sums with this update.
    pub(super) after: UpdateSums,
}

/// Content of an update beside the totals, for a certain subscriber.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Nothing,
    /// The newest receipts, and the number of those that are left out.
    Receipts {
        left_out: u64,
    },
    Reload,
}

impl Update {
    /// Events for a subscriber that has received the updates of `received`.
    pub(super) fn events(&self, received: UpdateSums) -> VecDeque<Event> {
        let missed = self.before.receipts - received.receipts;
        if missed > 0 {
            metrics::counter!("receipts_live_left_out_total").increment(missed);
        }
        let id = &self.to.id;
        let news = match self.news(received) {
            News::Nothing => None,
            News::Receipts { left_out } => Some(event::receipts(id, &self.receipts, left_out)),
            News::Reload => Some(event::reload(id)),
        };
        news.into_iter().chain([self.totals()]).collect()
    }

    fn news(&self, received: UpdateSums) -> News {
        let new = self.after.receipts - received.receipts;
        match new {
            _ if self.after.reloads > received.reloads => News::Reload,
            0 => News::Nothing,
            _ => News::Receipts {
                left_out: new - self.count,
            },
        }
    }

    /// The event `totals`.
    pub(super) fn totals(&self) -> Event {
        event::totals(&self.to.id, &self.totals)
    }

    fn bytes(&self) -> usize {
        self.totals.len() + self.receipts.len()
    }
}

/// The retained updates of a topic, oldest first.
#[derive(Debug)]
pub(super) struct Updates(watch::Sender<VecDeque<Arc<Update>>>);

impl Updates {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(VecDeque::new()))
    }

    /// Subscribes to the updates.
    pub(super) fn subscribe(&self) -> Receiver {
        Receiver(self.0.subscribe())
    }

    /// The number of subscribers.
    pub(super) fn subscribers(&self) -> usize {
        self.0.receiver_count()
    }

    /// Waits until there are no subscribers.
    pub(super) async fn deserted(&self) {
        self.0.closed().await;
    }

    pub(super) fn publish(&self, update: Update) {
        self.0.send_modify(|retained| {
            retained.push_back(Arc::new(update));
            let mut bytes: usize = retained.iter().map(|update| update.bytes()).sum();
            while retained.len() > UPDATES_MAX || bytes > BYTES_MAX && retained.len() > 1 {
                bytes -= retained.pop_front().map_or(0, |update| update.bytes());
            }
        });
    }

    /// The newest update.
    pub(super) fn newest(&self) -> Option<Arc<Update>> {
        self.0.borrow().back().cloned()
    }

    /// The last retained update up to exactly this position.
    pub(super) fn up_to(&self, position: &StreamPosition) -> Option<Arc<Update>> {
        let retained = self.0.borrow();
        retained.iter().rfind(|update| update.to.position == *position).cloned()
    }
}

/// A subscription to the updates of a topic.
#[derive(Debug)]
pub(super) struct Receiver(watch::Receiver<VecDeque<Arc<Update>>>);

impl Receiver {
    /// The first retained update that isn't in `received`. May be dropped and called again.
    pub(super) async fn next(&mut self, received: UpdateSums) -> Arc<Update> {
        loop {
            let is_new = |update: &&Arc<Update>| update.after.updates > received.updates;
            let next = self.0.borrow_and_update().iter().find(is_new).cloned();
            if let Some(next) = next {
                return next;
            }
            // A topic lives as long as its subscribers.
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::FutureExt;
    use warehouse::VerdictsPosition;

    use super::*;

    fn position(offset: u64) -> StreamPosition {
        StreamPosition([(0, VerdictsPosition { epoch: 1, offset })].into())
    }

    /// Publishes an update of so many bytes with three of five new receipts, or with a reload.
    fn publish(updates: &Updates, is_reload: bool, bytes: usize) {
        let before = updates.newest().map(|newest| newest.after).unwrap_or_default();
        let number = before.updates + 1;
        updates.publish(Update {
            to: Arc::new(Published {
                position: position(number),
                id: number.to_string(),
                shards: Arc::new([]),
                complete_ms: 0,
            }),
            totals: "{}".to_owned(),
            receipts: "x".repeat(bytes),
            count: if is_reload { 0 } else { 3 },
            before,
            after: UpdateSums {
                updates: number,
                receipts: before.receipts + if is_reload { 0 } else { 5 },
                reloads: before.reloads + u64::from(is_reload),
            },
        });
    }

    #[test]
    fn subscribers_that_keep_up_receive_every_update_once() {
        let updates = Updates::new();
        let mut receiver = updates.subscribe();
        let mut received = UpdateSums::default();
        for number in 1..200 {
            publish(&updates, number == 50, 10);
            let update = receiver.next(received).now_or_never().unwrap();
            let news = if number == 50 {
                News::Reload
            } else {
                News::Receipts { left_out: 2 }
            };
            assert_eq!((update.after.updates, update.news(received)), (number, news));
            received = update.after;
        }
        assert!(receiver.next(received).now_or_never().is_none());
        assert_eq!(updates.newest().unwrap().news(received), News::Nothing);
    }

    #[test]
    fn updates_after_a_retained_position_are_found() {
        let updates = Updates::new();
        (1..=100).for_each(|_| publish(&updates, false, 10));
        let mut received = updates.up_to(&position(97)).unwrap().after;
        assert_eq!(received.updates, 97);
        let mut receiver = updates.subscribe();
        for number in 98..=100 {
            received = receiver.next(received).now_or_never().unwrap().after;
            assert_eq!(received.updates, number);
        }
        assert!(updates.up_to(&position(36)).is_none() && updates.up_to(&position(101)).is_none());
    }

    #[test]
    fn a_lagging_subscriber_learns_how_many_receipts_it_missed() {
        let updates = Updates::new();
        let mut receiver = updates.subscribe();
        (1..=200).for_each(|_| publish(&updates, false, 10));
        assert_eq!(updates.0.borrow().len(), UPDATES_MAX);
        let update = receiver.next(UpdateSums::default()).now_or_never().unwrap();
        assert_eq!(update.after.updates, 137);
        // 137 updates with five receipts each, of which the event has three.
        assert_eq!(update.news(UpdateSums::default()), News::Receipts { left_out: 682 });

        publish(&updates, true, BYTES_MAX);
        publish(&updates, false, BYTES_MAX);
        assert_eq!(updates.0.borrow().len(), 1, "the newest is retained, whatever its size");
        let newest = receiver.next(update.after).now_or_never().unwrap();
        assert_eq!(newest.after.updates, 202);
        assert_eq!(newest.news(update.after), News::Reload);
    }
}
