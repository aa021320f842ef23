//! A thread that owns its state and works off requests, one after the other. For clients of
//! librdkafka, whose calls block.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use super::inspected_topic::unavailable;
use crate::{kafka_config::KafkaOpenError, traits::InspectError};

/// Requests that may wait; beyond it they are answered `Unavailable`.
const WAITING_MAX: usize = 64;
/// Interval at which a thread without requests serves librdkafka's events.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

type Request<S> = Box<dyn FnOnce(&mut S) + Send>;

/// State that a thread owns.
pub(super) trait ActorState: Send + 'static {
    /// Work after each request, which was answered by then.
    fn after_request(&mut self) {}

    /// Work after each second without a request.
    fn idle(&mut self);
}

/// The thread of a state. It ends when this is dropped.
pub(super) struct Actor<S> {
    // If the thread panics, this channel drops what is queued, so that everybody is answered.
    requests: SyncSender<Request<S>>,
}

impl<S: ActorState> Actor<S> {
    pub(super) fn start(name: &str, state: S) -> Result<Self, KafkaOpenError> {
        let (requests, received) = sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(state, &received))
            .map_err(|error| KafkaOpenError::Client(error.to_string()))?;
        Ok(Self { requests })
    }

    /// Runs a request on the thread and returns its answer.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut S) -> Result<T, InspectError> + Send + 'static,
    ) -> Result<T, InspectError> {
        let (answer, answered) = oneshot::channel();
        let refused = match self
            .requests
            .try_send(Box::new(move |state| drop(answer.send(request(state)))))
        {
            Ok(()) => {
                return answered
                    .await
                    .unwrap_or_else(|_| Err(unavailable("the thread that looks stopped")));
            }
            Err(TrySendError::Full(_)) => "too many requests are waiting",
            Err(TrySendError::Disconnected(_)) => "the log is closed",
        };
        Err(unavailable(refused))
    }
}

fn serve<S: ActorState>(mut state: S, requests: &Receiver<Request<S>>) {
    loop {
        match requests.recv_timeout(IDLE_INTERVAL) {
            Ok(request) => {
                request(&mut state);
                state.after_request();
            }
            Err(RecvTimeoutError::Timeout) => state.idle(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures_util::FutureExt;

    use super::*;

    #[derive(Default)]
    struct Counter {
        requests: u32,
        done: u32,
    }

    impl ActorState for Counter {
        fn after_request(&mut self) {
            self.done += 1;
        }

        fn idle(&mut self) {}
    }

    #[tokio::test]
    async fn requests_run_one_after_the_other_on_one_state() {
        let actor = Actor::start("counter", Counter::default()).unwrap();
        for number in 1..4 {
            let count = |counter: &mut Counter| {
                counter.requests += 1;
                Ok((counter.requests, counter.done))
            };
            assert_eq!(actor.ask(count).await.unwrap(), (number, number - 1));
        }
        let refused = actor.ask(|_| Err::<(), _>(unavailable("no"))).await;
        assert!(matches!(refused, Err(InspectError::Unavailable(detail)) if detail == "no"));
    }

    #[tokio::test]
    async fn a_request_that_panics_and_those_after_it_have_no_answer() {
        let actor = Actor::start("counter", Counter::default()).unwrap();
        #[allow(clippy::panic)]
        let panicking = |_: &mut Counter| -> Result<(), InspectError> { panic!("a bug") };
        for _ in 0..2 {
            assert!(matches!(actor.ask(panicking).await, Err(InspectError::Unavailable(_))));
        }
    }

    #[tokio::test]
    async fn requests_beyond_the_limit_are_refused_at_once() {
        let actor = Actor::start("counter", Counter::default()).unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let hold = actor.ask(move |_| {
            let _ = begun.send(());
            Ok(released.recv().is_err())
        });
        let rest = async {
            has_begun.await.unwrap();
            let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(actor.ask(|_| Ok(())))).collect();
            for request in &mut waiting {
                assert!(request.as_mut().now_or_never().is_none());
            }
            let refused = actor.ask(|_| Ok(())).await;
            drop(release);
            for request in waiting {
                request.await.unwrap();
            }
            refused
        };
        let (held, refused) = tokio::join!(hold, rest);
        assert!(held.unwrap());
        assert!(matches!(refused, Err(InspectError::Unavailable(detail)) if detail.contains("too many")));
    }
}
