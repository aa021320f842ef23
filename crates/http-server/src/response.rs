//! Bodies of answers, tracked until the peer has accepted them.
//!
//! An HTTP/2 peer that opens no window, and an HTTP/1 peer that doesn't read, leave parts of their
//! answers here. While hyper requests nothing of a body, its peer is the reason, and so it is while
//! bytes that hyper has aren't written. A body that has nothing to send yet isn't its peer's fault.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use crate::state::ConnectionState;

/// A request in progress, until it is answered or cancelled.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    state: Arc<ConnectionState>,
}

impl RunningRequest {
    pub(crate) fn begin(state: Arc<ConnectionState>, is_http2: bool) -> Self {
        state.request_begins(is_http2);
        Self { state }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.state.request_ends();
    }
}

/// Bytes of a part that a peer has to accept within the wait, so that one that accepts a byte now
/// and then doesn't keep a connection.
const PROGRESS_BYTES_MIN: usize = 16 << 10;

/// A part of an answer that its peer hasn't accepted.
#[derive(Debug)]
struct UnsentPart {
    state: Arc<ConnectionState>,
    round: u8,
    /// Accepted since the part was moved to its round.
    accepted_bytes: usize,
}

impl UnsentPart {
    fn begin(state: &Arc<ConnectionState>) -> Self {
        Self {
            round: state.part_begins(),
            state: Arc::clone(state),
            accepted_bytes: 0,
        }
    }

    fn proceed(&mut self) {
        self.round = self.state.part_proceeds(self.round);
        self.accepted_bytes = 0;
    }
}

impl Drop for UnsentPart {
    fn drop(&mut self) {
        self.state.part_ends(self.round);
    }
}

/// Body of an answer; its request is in progress until the body is dropped.
#[derive(Debug)]
pub struct TrackedBody<B> {
    body: B,
    running: RunningRequest,
    /// While hyper requests nothing. A body without bytes has none.
    unsent: Option<UnsentPart>,
}

impl<B: Body> TrackedBody<B> {
    pub(crate) fn new(body: B, running: RunningRequest) -> Self {
        let unsent = (!body.is_end_stream()).then(|| UnsentPart::begin(&running.state));
        Self { body, running, unsent }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for TrackedBody<B> {
    type Data = UnsentBytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<UnsentBytes>, B::Error>>> {
        let unsent = self.unsent.take();
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        };
        let frame = frame.map_data(|bytes| {
            let mut part = unsent.unwrap_or_else(|| UnsentPart::begin(&self.running.state));
            part.proceed();
            UnsentBytes { bytes, part }
        });
        if !self.body.is_end_stream() {
            self.unsent = Some(UnsentPart::begin(&self.running.state));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of an answer, counted as unsent until the protocol has written them. The bytes themselves
/// carry the count: hyper drops a body as soon as it has its last frame.
#[derive(Debug)]
pub struct UnsentBytes {
    bytes: Bytes,
    part: UnsentPart,
}

impl Buf for UnsentBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.part.accepted_bytes += count;
        if self.part.accepted_bytes >= PROGRESS_BYTES_MIN {
            self.part.proceed();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_part_is_stuck_unless_its_peer_accepts_enough_of_it() {
        let state = Arc::new(ConnectionState::new());
        let running = RunningRequest::begin(Arc::clone(&state), false);
        let mut body = TrackedBody::new(Full::new(Bytes::from(vec![0; 100 * PROGRESS_BYTES_MIN])), running);
        let mut bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        for round in 0..20 {
            bytes.advance(PROGRESS_BYTES_MIN);
            assert!(!state.next_round(), "{round}");
        }
        let is_stuck = (0..3).any(|_| {
            bytes.advance(1_000);
            state.next_round()
        });
        assert!(is_stuck);
    }
}
