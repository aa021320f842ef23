//! The one way from a tokio worker to the disk.

use tokio::task::JoinError;

/// Runs `work` on a thread that may block. Each consumer and each look has at most one piece of
/// work at a time, so the runtime's blocking threads bound it.
#[allow(clippy::disallowed_methods)] // reads, position files: disk work of this engine, and short
pub(super) async fn off_the_workers<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(work).await
}
