//! A stream: the events of its topic, until its key ends or the service does. Nothing is made
//! ahead, so a client that doesn't read costs what its connection buffers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::response::sse::Event;
use futures_util::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use warehouse::StreamPosition;

use super::Live;
use super::event;
use super::keys::StreamKey;
use super::topic::{LiveTopic, RETRY_PAUSE, StreamStart};
use super::updates::{Receiver, UpdateSums};

/// Numbers streams, so that clients reconnect one after the other.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Beginning of a stream.
#[derive(Debug)]
pub(super) enum Begin {
    /// With the present totals.
    Now,
    /// With everything since a position.
    Position(StreamPosition),
    /// With the present totals, and behind changes that can't be determined.
    Unknown,
}

/// A stream.
pub(super) struct Subscriber {
    live: Arc<Live>,
    key: StreamKey,
    /// Permits of all streams, and of the account's.
    _permits: [OwnedSemaphorePermit; 2],
    feed: Feed,
    ready: VecDeque<Event>,
    is_over: bool,
}

/// Updates of a topic that a stream hasn't received yet.
pub(super) struct Feed {
    topic: Arc<LiveTopic>,
    /// `None` once the stream has begun.
    begin: Option<Begin>,
    updates: Receiver,
    received: UpdateSums,
}

impl Subscriber {
    pub(super) fn new(live: Arc<Live>, key: StreamKey, permits: [OwnedSemaphorePermit; 2], feed: Feed) -> Self {
        metrics::gauge!("receipts_live_streams").increment(1);
        Self {
            live,
            key,
            _permits: permits,
            feed,
            ready: [event::hello()].into(),
            is_over: false,
        }
    }

    /// The events.
    pub(super) fn stream<E: Send>(self) -> impl Stream<Item = Result<Event, E>> + Send {
        futures_util::stream::unfold(self, |mut subscriber| async move {
            let event = subscriber.next().await?;
            Some((Ok(event), subscriber))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        if self.is_over {
            return None;
        }
        let last = tokio::select! {
            biased;
            () = self.live.closing.cancelled() => event::reconnect(NUMBER.fetch_add(1, Ordering::Relaxed)),
            end = self.key.ended() => event::end(end),
            events = self.feed.next(&self.live) => {
                self.ready = events;
                return self.ready.pop_front();
            }
        };
        self.is_over = true;
        Some(last)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        metrics::gauge!("receipts_live_streams").decrement(1);
    }
}

impl Feed {
    /// A feed counts as the topic's subscriber from now on.
    pub(super) fn new(topic: Arc<LiveTopic>, begin: Begin) -> Self {
        let updates = topic.updates.subscribe();
        topic.woken.notify_one();
        Self {
            topic,
            begin: Some(begin),
            updates,
            received: UpdateSums::default(),
        }
    }

    /// The next events, at least one. May be dropped and called again.
    async fn next(&mut self, live: &Live) -> VecDeque<Event> {
        while let Some(begin) = &self.begin {
            let Some(newest) = self.topic.updates.newest() else {
                self.updates.next(self.received).await;
                continue;
            };
            let start = match begin {
                Begin::Now => StreamStart::now(&newest, []),
                Begin::Unknown => StreamStart::now(&newest, [event::reload(&newest.to.id)]),
                Begin::Position(from) => match self.topic.resume(live, from).await {
                    Ok(start) => start,
                    Err(error) => {
                        tracing::debug!(%error, "a live stream can't resume yet");
                        sleep(RETRY_PAUSE).await;
                        continue;
                    }
                },
            };
            self.begin = None;
            self.received = start.received;
            return start.events;
        }
        let update = self.updates.next(self.received).await;
        let events = update.events(self.received);
        self.received = update.after;
        events
    }
}
