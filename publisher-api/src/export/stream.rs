//! An export on its way out: one page in memory, as fast as it is read, and not for ever.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::cursor::Place;
use super::form::Form;
use super::{Page, Walk, names};

/// Time for whoever reads to take a page; its place can be used again then, and the rest is had by the last cursor.
const READ_WAIT_MAX: Duration = Duration::from_secs(60);

/// A chunk of an export; the last one ends it well.
enum Chunk {
    Piece(Vec<u8>),
    Last(Vec<u8>),
}

/// The body of an export from its first page on, which was read already so that an engine that is away is answered with 503. Holds `permit`
/// until it ends.
pub(crate) fn body(walk: Walk, form: Form, head: Vec<u8>, first: Option<Page>, permit: OwnedSemaphorePermit) -> Body {
    let (chunks, arriving) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        // Whoever waits sees that the end is missing.
        if let Err(why) = produce(&walk, form, head, first, &chunks).await {
            tracing::info!(why, "an export broke off");
        }
    });
    Body::from_stream(stream::unfold((arriving, false), |(mut arriving, ended)| async move {
        match arriving.recv().await {
            Some(Chunk::Piece(bytes)) => Some((Ok(Bytes::from(bytes)), (arriving, false))),
            Some(Chunk::Last(bytes)) => Some((Ok(Bytes::from(bytes)), (arriving, true))),
            None if ended => None,
            None => Some((Err(io::Error::other("the export broke off")), (arriving, true))),
        }
    }))
}

async fn produce(
    walk: &Walk,
    form: Form,
    head: Vec<u8>,
    first: Option<Page>,
    chunks: &mpsc::Sender<Chunk>,
) -> Result<(), &'static str> {
    let mut counts = BTreeMap::new();
    send(chunks, Chunk::Piece(head)).await?;
    let mut page = first;
    while let Some(some) = page {
        let name = names().get(some.collection).copied().unwrap_or_default();
        *counts.entry(name).or_default() += some.rows.len() as u64;
        let next: Place = some.next.clone();
        send(chunks, Chunk::Piece(form.page(some, now_s(walk)))).await?;
        page = walk.next(next).await.map_err(|_| "an engine doesn't answer")?;
    }
    send(chunks, Chunk::Last(form.end(&counts, now_s(walk)))).await
}

async fn send(chunks: &mpsc::Sender<Chunk>, chunk: Chunk) -> Result<(), &'static str> {
    match timeout(READ_WAIT_MAX, chunks.send(chunk)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err("nobody reads it any more"),
        Err(_) => Err("nobody has read on for a minute"),
    }
}

fn now_s(walk: &Walk) -> i64 {
    walk.deps.accounts.now_ms() / 1_000
}
