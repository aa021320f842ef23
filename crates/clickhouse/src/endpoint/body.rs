//! Request bodies within their limits.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::EndpointFault;
use crate::frame::FrameReader;

/// Bytes in one permit of the shared budget.
const PERMIT_BYTES: usize = 4096;

/// Memory that all request bodies together may take.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    permits: Arc<Semaphore>,
}

impl BodyBudget {
    /// A budget of about `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new((bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS))),
        }
    }
}

/// A whole body; its share of the budget goes back when this is dropped.
pub(crate) struct StatementBody {
    /// The bytes, decompressed, in the pieces they arrived in.
    pub(crate) chunks: Vec<Bytes>,
    permits: Vec<OwnedSemaphorePermit>,
    length: usize,
    held: usize,
    length_max: usize,
    budget: BodyBudget,
}

impl StatementBody {
    /// Reads all of it: a body that doesn't come to its proper end is an error, and nothing of it
    /// reaches the engine.
    pub(crate) async fn read(
        mut incoming: Incoming,
        framed: bool,
        length_max: usize,
        wait_max: Duration,
        budget: &BodyBudget,
    ) -> Result<Self, EndpointFault> {
        let budget = budget.clone();
        let mut body = Self {
            chunks: Vec::new(),
            permits: Vec::new(),
            length: 0,
            held: 0,
            length_max,
            budget,
        };
        let mut frames = framed.then(FrameReader::default);
        let deadline = tokio::time::Instant::now() + wait_max;
        loop {
            let frame = tokio::time::timeout_at(deadline, incoming.frame())
                .await
                .map_err(|_| EndpointFault::SlowBody)?;
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|_| EndpointFault::BrokenBody)?.into_data() else {
                continue;
            };
            let Some(frames) = &mut frames else {
                body.add(data)?;
                continue;
            };
            frames.push(&data);
            while let Some(block) = frames
                .next_block(length_max - body.length)
                .map_err(EndpointFault::Frame)?
            {
                body.add(block.map_err(|_| EndpointFault::LargeBody(length_max))?)?;
            }
        }
        if let Some(frames) = frames {
            frames.finish().map_err(EndpointFault::Frame)?;
        }
        Ok(body)
    }

    fn add(&mut self, data: Bytes) -> Result<(), EndpointFault> {
        self.length += data.len();
        if self.length > self.length_max {
            return Err(EndpointFault::LargeBody(self.length_max));
        }
        while self.held < self.length {
            let missing = (self.length - self.held).div_ceil(PERMIT_BYTES).next_multiple_of(16);
            // Never wait here: several half-read bodies that wait for each other's memory would
            // wait for ever.
            let permits = u32::try_from(missing).map_err(|_| EndpointFault::LargeBody(self.length_max))?;
            let permit = self
                .budget
                .permits
                .clone()
                .try_acquire_many_owned(permits)
                .map_err(|_| EndpointFault::Busy)?;
            self.permits.push(permit);
            self.held += missing * PERMIT_BYTES;
        }
        self.chunks.push(data);
        Ok(())
    }

    /// All of it in one piece.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        if self.chunks.len() == 1 {
            return self.chunks.remove(0);
        }
        let mut whole = BytesMut::with_capacity(self.length);
        for chunk in &self.chunks {
            whole.extend_from_slice(chunk);
        }
        whole.freeze()
    }
}
