//! Attempts that are repeated until they succeed or the process stops.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::health::Parts;

/// The process is stopping. Whatever was attempted may not have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// Cancels `stop` so long after the signal to shut down. Dropping the handle ends the wait.
pub fn cancel_after(shutdown: CancellationToken, stop: CancellationToken, wait: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        shutdown.cancelled().await;
        tokio::time::sleep(wait).await;
        stop.cancel();
    }))
}

/// Growing pauses with jitter between two bounds, without an end.
#[derive(Debug)]
pub struct Pauses {
    backoff: ExponentialBackoff,
    max: Duration,
}

impl Pauses {
    /// The first pause is between `min_ms` and twice that, the longest between `max_ms` and twice
    /// that.
    #[must_use]
    pub fn new(min_ms: u64, max_ms: u64) -> Self {
        let max = Duration::from_millis(max_ms);
        let backoff = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(min_ms))
            .with_max_delay(max)
            .without_max_times()
            .with_jitter();
        Self {
            backoff: backoff.build(),
            max,
        }
    }

    /// The next pause.
    pub fn next_wait(&mut self) -> Duration {
        self.backoff.next().unwrap_or(self.max)
    }
}

/// The settings of repeated attempts: where failures show, how long to pause, and what ends them.
#[derive(Debug, Clone)]
pub struct Retry {
    /// Readiness of the process, by part.
    pub parts: Parts,
    /// The first pause, in milliseconds.
    pub wait_ms_min: u64,
    /// The longest pause, in milliseconds.
    pub wait_ms_max: u64,
    /// Ends the attempts.
    pub stop: CancellationToken,
}

impl Retry {
    /// Pauses of a new series.
    #[must_use]
    pub fn pauses(&self) -> Pauses {
        Pauses::new(self.wait_ms_min, self.wait_ms_max)
    }

    /// Repeats `attempt` until it succeeds. `part` is what readiness and log lines name.
    pub async fn until_done<F, T, E>(&self, part: &'static str, mut attempt: impl FnMut() -> F) -> Result<T, Stopped>
    where
        F: Future<Output = Result<T, E>>,
        E: Display,
    {
        let mut pauses = self.pauses();
        loop {
            match attempt().await {
                Ok(done) => {
                    self.parts.recovered(part);
                    return Ok(done);
                }
                Err(error) => self.pause(part, &error, &mut pauses).await?,
            }
        }
    }

    /// Reports a failure and pauses.
    pub async fn pause(&self, part: &'static str, error: &impl Display, pauses: &mut Pauses) -> Result<(), Stopped> {
        self.parts.failed(part, format!("{part}: {error}"));
        tracing::warn!(part, %error, "an attempt failed; retrying");
        tokio::select! {
            () = self.stop.cancelled() => Err(Stopped),
            () = tokio::time::sleep(pauses.next_wait()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        let mut pauses = Pauses::new(10, 1_000);
        let waits: Vec<Duration> = (0..100).map(|_| pauses.next_wait()).collect();
        assert!(waits[0] >= Duration::from_millis(10) && waits[0] <= Duration::from_millis(20));
        assert!(waits[99] >= Duration::from_secs(1) && waits.iter().all(|wait| *wait <= Duration::from_secs(2)));
    }

    #[tokio::test]
    async fn attempts_are_repeated_until_one_succeeds_and_readiness_follows() {
        let health = crate::health::Health::new();
        let retry = Retry {
            parts: Parts::new(health.register("test")),
            wait_ms_min: 1,
            wait_ms_max: 2,
            stop: CancellationToken::new(),
        };
        let mut left = 3;
        let done = retry.until_done("disk", || {
            left -= 1;
            let ready = health.is_ready();
            async move { if left > 0 { Err("full") } else { Ok(ready) } }
        });
        assert_eq!(done.await, Ok(false), "not ready before the attempt that succeeds");
        assert!(health.is_ready());
        retry.stop.cancel();
        let never = retry.until_done("disk", || async { Err::<(), _>("full") });
        assert_eq!(never.await, Err(Stopped));
    }
}
