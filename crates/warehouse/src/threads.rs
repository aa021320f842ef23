//! Blocking work off tokio's threads.

use std::io;

use tokio::sync::oneshot;

use crate::WarehouseError;

/// Rows that are gone through where they are.
const AT_ONCE_MAX: usize = 4_000;

/// Runs `work` on a thread of its own and waits for it without blocking. For what is rare or long: opening and closing
/// the engine, compressing a whole insert, adding up many rows.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    // What was waiting may be gone by the end; the result is then nobody's.
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(8 << 20)
        .spawn(move || drop(done.send(work())))?;
    result.await.map_err(|_| io::Error::other("the thread panicked"))
}

/// Goes through so many rows: where no other request waits for it, if they take a while.
pub(crate) async fn elsewhere<T: Send + 'static>(
    rows: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WarehouseError> {
    if rows <= AT_ONCE_MAX {
        return Ok(work());
    }
    let done = on_own_thread("warehouse-sum", work).await;
    done.map_err(|error| WarehouseError::Unavailable(format!("adding up: {error}")))
}
