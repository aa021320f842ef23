//! How many answers are made at one time, how many requests wait for their turn, and how long one may take.

use std::future::Future;
use std::time::Duration;

use service::problem::{Kind, Problem};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use web::Failure;

/// Bounds the work in hand.
pub struct Gate {
    /// Places at work and in the queue together.
    admitted: Semaphore,
    working: Semaphore,
    wait_max: Duration,
}

impl Gate {
    /// `concurrent_max` at work, `waiting_max` behind them, `wait_max` for each, its time in the queue included.
    #[must_use]
    pub fn new(concurrent_max: usize, waiting_max: usize, wait_max: Duration) -> Self {
        Self {
            admitted: Semaphore::new(concurrent_max + waiting_max),
            working: Semaphore::new(concurrent_max),
            wait_max,
        }
    }

    /// Runs `work` in its turn.
    ///
    /// # Errors
    /// 503 with Retry-After: `overloaded` at once if the queue is full, or if the turn didn't come in time;
    /// `warehouse_unavailable` if `work` itself took too long; and whatever `work` fails with.
    pub async fn run<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Ok(_place) = self.admitted.try_acquire() else {
            return Err(overloaded());
        };
        let deadline = tokio::time::Instant::now() + self.wait_max;
        let Ok(Ok(_turn)) = timeout(self.wait_max, self.working.acquire()).await else {
            return Err(overloaded());
        };
        match tokio::time::timeout_at(deadline, work).await {
            Ok(done) => done,
            Err(_) => {
                let detail = format!(
                    "no answer within {} ms; try again, or ask for a shorter range",
                    self.wait_max.as_millis()
                );
                Err(Problem::new(Kind::WarehouseUnavailable, detail).retry_after_s(1).into())
            }
        }
    }
}

fn overloaded() -> Failure {
    let problem = Problem::new(Kind::Overloaded, "as many queries are at work as allowed; try again");
    problem.retry_after_s(1).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::pending;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn work_over_the_limits_is_refused_at_once() {
        let gate = Gate::new(1, 1, Duration::from_secs(3_600));
        let mut first = Box::pin(gate.run(pending::<Result<(), Failure>>()));
        let mut second = Box::pin(gate.run(async { Ok(()) }));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        // One at work, one in the queue: the third finds no place.
        let third = gate.run(async { Ok(()) }).await.unwrap_err();
        assert_eq!(third.0.kind, Kind::Overloaded);
        assert_eq!(third.0.retry_after_s, Some(1));
        // A caller that goes away frees its place, and the next one's turn comes.
        drop(first);
        second.await.unwrap();
        gate.run(async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn slow_work_and_slow_turns_end_differently() {
        let gate = Gate::new(1, 1, Duration::from_millis(5));
        let slow = gate.run(pending::<Result<(), Failure>>()).await.unwrap_err();
        assert_eq!(
            (slow.0.kind, slow.0.retry_after_s),
            (Kind::WarehouseUnavailable, Some(1))
        );
        let _turn = gate.working.acquire().await.unwrap();
        let waited = gate.run(async { Ok(()) }).await.unwrap_err();
        assert_eq!(waited.0.kind, Kind::Overloaded);
    }
}
