//! Delivery of a record: the acknowledgement, from librdkafka's thread to whoever awaits it. One
//! allocation for a record.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use parking_lot::Mutex;

use crate::{record::Appended, traits::AppendError};

type DeliveryOutcome = Result<Appended, AppendError>;

/// A record in flight.
pub(super) struct Delivery {
    state: Mutex<DeliveryState>,
    /// A bound of the record's bytes in the log.
    pub(super) bytes: usize,
    /// When it was handed over.
    pub(super) since: Instant,
}

enum DeliveryState {
    Waiting(Option<Waker>),
    Ended(DeliveryOutcome),
    Reported,
}

impl Delivery {
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(DeliveryState::Waiting(None)),
            bytes,
            since: Instant::now(),
        })
    }

    /// Tells the outcome.
    pub(super) fn end(&self, outcome: DeliveryOutcome) {
        let before = std::mem::replace(&mut *self.state.lock(), DeliveryState::Ended(outcome));
        if let DeliveryState::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The outcome of a record in flight. Dropping it doesn't take the record back.
pub(super) struct Delivered(pub(super) Arc<Delivery>);

impl Future for Delivered {
    type Output = DeliveryOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DeliveryOutcome> {
        let mut state = self.0.state.lock();
        match &mut *state {
            DeliveryState::Waiting(waker) => {
                if !waker
                    .as_ref()
                    .is_some_and(|existing| existing.will_wake(context.waker()))
                {
                    *waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
            DeliveryState::Ended(_) => match std::mem::replace(&mut *state, DeliveryState::Reported) {
                DeliveryState::Ended(outcome) => Poll::Ready(outcome),
                DeliveryState::Waiting(_) | DeliveryState::Reported => Poll::Pending,
            },
            DeliveryState::Reported => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::record::Position;

    #[tokio::test]
    async fn the_outcome_comes_whether_it_was_awaited_before_or_not() {
        let appended = Appended {
            position: Position {
                epoch: 1,
                partition: 2,
                offset: 3,
            },
            appended_at_ms: 4,
        };
        let delivery = Delivery::new(1);
        delivery.end(Ok(appended));
        assert_eq!(Delivered(delivery).await.unwrap(), appended);
        let delivery = Delivery::new(1);
        let waiting = tokio::spawn(Delivered(Arc::clone(&delivery)));
        tokio::task::yield_now().await;
        delivery.end(Err(AppendError::Busy));
        assert!(matches!(waiting.await.unwrap(), Err(AppendError::Busy)));
    }
}
