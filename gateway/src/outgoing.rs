//! Bytes of an answer, counted as unsent until the protocol has written them.
//!
//! An HTTP/2 peer that opens no window, and an HTTP/1 peer that doesn't read, leave their answers
//! here. The bytes themselves carry the count, not the body that brought them: hyper drops a
//! body as soon as it has its last piece.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::Response;
use http_body_util::Full;

use crate::answer::Answer;
use crate::connection::Line;

/// An answer as hyper gets it.
pub(crate) type Sent = Response<Full<Outgoing>>;

/// The bytes of one answer.
pub(crate) struct Outgoing {
    bytes: Bytes,
    line: Arc<Line>,
    turn: u8,
}

/// Counts the answer as unsent from here on. One without a body is never held up.
pub(crate) fn outgoing(answer: Answer, line: &Arc<Line>) -> Sent {
    answer.map(|body| {
        let bytes = body.into_inner();
        bytes.map_or_else(Full::default, |bytes| {
            Full::new(Outgoing {
                bytes,
                line: Arc::clone(line),
                turn: line.pulse.answer_begins(),
            })
        })
    })
}

impl Buf for Outgoing {
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

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.line.pulse.answer_ends(self.turn);
    }
}
