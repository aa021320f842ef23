//! Answers that nobody reads don't stay for ever: a connection whose peer takes nothing for a while
//! is ended.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail once the peer has taken nothing for `wait_max`.
pub(crate) struct Patient<S> {
    stream: S,
    wait_max: Duration,
    /// While a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, wait_max: Duration) -> Self {
        Self {
            stream,
            wait_max,
            waiting: None,
        }
    }

    /// Result of a write, or its end if it has waited too long.
    fn judge<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let wait_max = self.wait_max;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(wait_max)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the answer isn't read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_ends_the_write() {
        let (near, _far) = duplex(8);
        let mut near = Patient::new(near, Duration::ZERO);
        near.write_all(&[0; 8]).await.unwrap();
        let error = near.write_all(&[0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn one_that_reads_is_waited_for() {
        let (near, mut far) = duplex(8);
        let mut near = Patient::new(near, Duration::from_secs(3_600));
        let sent: Vec<u8> = (0..=255).collect();
        let mut taken = vec![0; sent.len()];
        let (written, read) = tokio::join!(near.write_all(&sent), far.read_exact(&mut taken));
        written.unwrap();
        read.unwrap();
        assert_eq!((taken, near.waiting.is_none()), (sent, true));
    }
}
