//! Shutdown: SIGTERM or SIGINT requests a drain, a second one ends the process at once, and a drain
//! has a deadline. SIGHUP, which ends a process by default, has it read files again.

use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::reload;

/// The exit status after a second signal: 128 + SIGINT, as a shell reports an interrupted command.
pub const INTERRUPTED_EXIT: i32 = 130;

/// A token that the first SIGTERM or SIGINT cancels. The second ends the process with
/// [`INTERRUPTED_EXIT`]. SIGHUP calls [`reload::start`].
///
/// # Errors
/// The signal handlers can't be set. Must be called within a tokio runtime.
pub fn signals() -> std::io::Result<CancellationToken> {
    let signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hangup: signal(SignalKind::hangup())?,
    };
    let token = CancellationToken::new();
    tokio::spawn(signals.listen(token.clone()));
    Ok(token)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    async fn listen(mut self, token: CancellationToken) {
        let name = self.next().await;
        tracing::info!(signal = name, "draining; a second signal ends the process at once");
        token.cancel();
        let name = self.next().await;
        tracing::warn!(signal = name, "ended by a second signal before the drain was done");
        std::process::exit(INTERRUPTED_EXIT);
    }

    async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => reload::start(),
            }
        }
    }
}

/// Work that was unfinished when its time to drain was over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} didn't finish within {} ms", limit.as_millis())]
pub struct DrainTimeout {
    /// Unfinished work.
    pub what: String,
    /// The time it had.
    pub limit: Duration,
}

/// Waits for `work` without end until `shutdown`, and for at most `limit` from then on.
///
/// # Errors
/// [`DrainTimeout`]; `work` is then dropped.
pub async fn drain<T>(
    what: &str,
    shutdown: &CancellationToken,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, DrainTimeout> {
    let over = async {
        shutdown.cancelled().await;
        tokio::time::sleep(limit).await;
    };
    tokio::select! {
        // Work that ends in the same instant has ended in time.
        biased;
        done = work => Ok(done),
        () = over => Err(DrainTimeout { what: what.to_owned(), limit }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[tokio::test]
    async fn work_that_ends_is_returned() {
        let shutdown = CancellationToken::new();
        assert_eq!(drain("a", &shutdown, Duration::ZERO, async { 7 }).await, Ok(7));
        shutdown.cancel();
        assert_eq!(drain("a", &shutdown, Duration::ZERO, async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn work_that_never_ends_is_given_up_after_the_deadline() {
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        let gone = drain(
            "connections",
            &shutdown,
            Duration::from_millis(5),
            std::future::pending::<()>(),
        )
        .await;
        assert_eq!(gone.unwrap_err().to_string(), "connections didn't finish within 5 ms");
    }
}
