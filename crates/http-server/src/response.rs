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

/// A part of an answer that its peer hasn't accepted.
#[derive(Debug)]
struct UnsentPart {
    state: Arc<ConnectionState>,
    round: u8,
}

impl UnsentPart {
    fn begin(state: &Arc<ConnectionState>) -> Self {
        Self {
            round: state.part_begins(),
            state: Arc::clone(state),
        }
    }

    fn proceed(mut self) -> Self {
        self.round = self.state.part_proceeds(self.round);
        self
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
            let part = unsent.map_or_else(|| UnsentPart::begin(&self.running.state), UnsentPart::proceed);
            UnsentBytes { bytes, _part: part }
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
    _part: UnsentPart,
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
    }
}
