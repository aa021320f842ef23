//! Flushes journals to the disk: in groups, at an interval, and as soon as somebody waits for it.

use std::io;
use std::sync::Arc;

use crate::delivery::ClientState;
use crate::spool::SpoolJournal;

/// Runs until the client is dropped.
pub(crate) async fn sync_regularly(shared: Arc<ClientState>) {
    loop {
        shared.written.notified().await;
        tokio::select! {
            () = shared.sync_requested.notified() => {}
            () = tokio::time::sleep(shared.options.sync_interval) => {}
        }
        sync_once(&shared).await;
    }
}

/// Flushes what is written, and answers those who wait.
pub(crate) async fn sync_once(shared: &ClientState) {
    let (journals, waiters) = shared.queue.lock().take_unsynced();
    if journals.is_empty() && waiters.is_empty() {
        return;
    }
    let synced = journals.clone();
    let synced = shared.io.run(move || sync_all(&synced)).await;
    let result = synced.and_then(|result| result).map_err(|error| error.to_string());
    if let Err(error) = &result {
        tracing::error!(error, "the spool can't be flushed to the disk");
        shared.queue.lock().leave_journals(&journals);
        shared.changed.notify_waiters();
    }
    for waiter in waiters {
        // Whoever waited may have gone.
        let _ = waiter.send(result.clone());
    }
}

fn sync_all(journals: &[Arc<SpoolJournal>]) -> io::Result<()> {
    journals.iter().try_for_each(|journal| journal.sync())
}
