//! Blocking work off tokio's threads.

use std::io;

use tokio::sync::oneshot;

/// Runs `work` on a thread of its own and waits for it without blocking. For what is rare and long:
/// opening and closing the engine.
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
