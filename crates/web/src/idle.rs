//! Requests of a connection: when none has run for a while, the connection is idle.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    begun: u64,
    running: u64,
}

/// The requests of one connection. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(watch::Sender<Counts>);

/// A request that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Running(watch::Sender<Counts>);

impl Requests {
    pub(crate) fn begin(&self) -> Running {
        self.0.send_modify(|counts| {
            counts.begun += 1;
            counts.running += 1;
        });
        Running(self.0.clone())
    }

    /// Waits until no request has run for `wait`.
    pub(crate) async fn none_for(&self, wait: Duration) {
        let mut counts = self.0.subscribe();
        loop {
            // The sender lives in `self`, so waiting never fails.
            let Ok(begun) = counts
                .wait_for(|counts| counts.running == 0)
                .await
                .map(|counts| counts.begun)
            else {
                return;
            };
            if timeout(wait, counts.wait_for(|counts| counts.begun != begun))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.running -= 1);
    }
}

/// The body of an answer, whose request runs until it is sent.
pub(crate) struct Answer {
    pub(crate) body: Body,
    pub(crate) _running: Running,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
