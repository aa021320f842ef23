//! Answers that are written piece by piece: one piece in memory, as fast as it is read, and not for
//! ever.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Time for whoever reads to take a piece.
const READ_WAIT_MAX: Duration = Duration::from_secs(60);
/// Time for a whole answer.
const STREAM_MAX: Duration = Duration::from_secs(600);

/// Why an answer broke off, for the log.
pub type BrokenOff = &'static str;

enum StreamChunk {
    Piece(Vec<u8>),
    Last(Vec<u8>),
}

/// Writer of the pieces.
#[derive(Debug)]
pub struct PieceWriter(mpsc::Sender<StreamChunk>);

impl PieceWriter {
    /// Waits until this piece is next.
    ///
    /// # Errors
    /// Nobody reads any more, or hasn't for a minute.
    pub async fn send(&self, bytes: Vec<u8>) -> Result<(), BrokenOff> {
        self.chunk(StreamChunk::Piece(bytes)).await
    }

    async fn chunk(&self, chunk: StreamChunk) -> Result<(), BrokenOff> {
        match timeout(READ_WAIT_MAX, self.0.send(chunk)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err("nobody reads it any more"),
            Err(_) => Err("nobody has read on for a minute"),
        }
    }
}

/// A body of what `work` sends, and of what it gives back at last. If `work` fails, or takes more
/// than ten minutes, the body breaks off: whoever reads it sees that the end is missing. What
/// `work` holds is dropped before the last piece is sent.
pub fn body<F>(work: impl FnOnce(PieceWriter) -> F) -> Body
where
    F: Future<Output = Result<Vec<u8>, BrokenOff>> + Send + 'static,
{
    let (chunks, arriving) = mpsc::channel(1);
    let last = PieceWriter(chunks.clone());
    let work = work(PieceWriter(chunks));
    tokio::spawn(async move {
        let ended = match timeout(STREAM_MAX, work).await {
            Ok(Ok(end)) => last.chunk(StreamChunk::Last(end)).await,
            Ok(Err(why)) => Err(why),
            Err(_) => Err("it took more than ten minutes"),
        };
        if let Err(why) = ended {
            tracing::info!(why, "a streamed answer broke off");
        }
    });
    Body::from_stream(stream::unfold((arriving, false), |(mut arriving, ended)| async move {
        match arriving.recv().await {
            Some(StreamChunk::Piece(bytes)) => Some((Ok(Bytes::from(bytes)), (arriving, false))),
            Some(StreamChunk::Last(bytes)) => Some((Ok(Bytes::from(bytes)), (arriving, true))),
            None if ended => None,
            None => Some((Err(io::Error::other("the answer broke off")), (arriving, true))),
        }
    }))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn pieces_arrive_in_order_and_a_missing_end_shows() {
        let whole = body(|pieces| async move {
            pieces.send(b"a".to_vec()).await?;
            pieces.send(b"b".to_vec()).await?;
            Ok(b"c".to_vec())
        });
        assert_eq!(
            whole.collect().await.ok().map(|read| read.to_bytes()).as_deref(),
            Some(&b"abc"[..])
        );
        let broken = body(|pieces| async move {
            pieces.send(b"a".to_vec()).await?;
            Err("an engine is away")
        });
        assert!(broken.collect().await.is_err());
    }
}
