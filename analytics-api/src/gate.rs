//! Limits of answers: how many are made at one time, how many requests wait, and how long one
//! may take. An account has half of the answers being made, and as many permits as it leaves free,
//! so that no other waits behind what it asks. A part of an account has half of the account's.

use std::future::Future;
use std::time::Duration;

use service::problem::{Kind, Problem};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use web::Failure;
use web::shares::{FairSemaphore, FairSemaphoreFull, Shares, path_name};

/// Bounds the work in flight.
pub struct Gate {
    /// Places at work and in the queue together.
    admitted: FairSemaphore,
    working: Semaphore,
    /// Of accounts, and of their parts.
    working_of: [Shares; 2],
    wait_max: Duration,
}

impl Gate {
    /// `concurrent_max` at work, `waiting_max` behind them, `wait_max` for each, its time in the
    /// queue included.
    #[must_use]
    pub fn new(concurrent_max: usize, waiting_max: usize, wait_max: Duration) -> Self {
        Self {
            admitted: FairSemaphore::new(concurrent_max + waiting_max),
            working: Semaphore::new(concurrent_max),
            working_of: [2, 4].map(|share| Shares::new(concurrent_max.div_ceil(share))),
            wait_max,
        }
    }

    /// Runs the `work` of an account in its turn: `path` has the account, and may have a part of
    /// it.
    ///
    /// # Errors
    /// 503 with Retry-After: `overloaded` at once if the queue, or the account's part of it, is
    /// full, or if the turn didn't come in time; `warehouse_unavailable` if `work` itself took too
    /// long; and whatever `work` fails with.
    pub async fn run<T>(&self, path: &[&str], work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let _permit = self.admitted.take(path).map_err(|full| {
            overloaded(match full {
                FairSemaphoreFull::Account => "this account has as many queries at work as one may have",
                FairSemaphoreFull::All => "as many queries are at work as allowed",
            })
        })?;
        let deadline = tokio::time::Instant::now() + self.wait_max;
        let turn = async {
            // The turn of the part, then the account's: what waits for it holds no permit at work.
            let mut own = Vec::with_capacity(path.len());
            for (depth, shares) in self.working_of.iter().enumerate().take(path.len()).rev() {
                let permits = shares.of(&path_name(&path[..=depth]));
                own.push(permits.acquire_owned().await.ok()?);
            }
            Some((own, self.working.acquire().await.ok()?))
        };
        let Ok(Some(_turn)) = timeout(self.wait_max, turn).await else {
            return Err(overloaded("the queries before this one took too long"));
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

fn overloaded(why: &str) -> Failure {
    let problem = Problem::new(Kind::Overloaded, format!("{why}; try again"));
    problem.retry_after_s(1).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn work_over_the_limits_is_refused_at_once() {
        let gate = Gate::new(1, 1, Duration::from_secs(3_600));
        let mut first = Box::pin(gate.run(&["acc_a"], pending::<Result<(), Failure>>()));
        let mut second = Box::pin(gate.run(&["acc_b"], async { Ok(()) }));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        // One at work, one in the queue: the third finds no permit.
        let third = gate.run(&["acc_c"], async { Ok(()) }).await.unwrap_err();
        assert_eq!(third.0.kind, Kind::Overloaded);
        assert_eq!(third.0.retry_after_s, Some(1));
        // A caller that goes away frees its permit, and the next one's turn comes.
        drop(first);
        second.await.unwrap();
        gate.run(&["acc_c"], async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn an_account_that_asks_much_leaves_half_of_the_permits_and_of_the_work() {
        let gate = Gate::new(2, 6, Duration::from_secs(3_600));
        let mut busy: Vec<_> = (0..4)
            .map(|_| Box::pin(gate.run(&["acc_a"], pending::<Result<(), Failure>>())))
            .collect();
        for one in &mut busy {
            assert!(one.now_or_never().is_none());
        }
        let fifth = gate.run(&["acc_a"], async { Ok(()) }).await.unwrap_err();
        assert_eq!(fifth.0.kind, Kind::Overloaded);
        assert!(fifth.0.detail.starts_with("this account"), "{}", fifth.0.detail);
        gate.run(&["acc_b"], async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn two_accounts_that_ask_much_leave_permits_to_a_third() {
        let gate = Gate::new(2, 10, Duration::from_secs(3_600));
        let paths = [["acc_a"], ["acc_b"]];
        let mut busy: Vec<_> = (0..24)
            .map(|nth| Box::pin(gate.run(&paths[nth % 2], pending::<Result<(), Failure>>())))
            .collect();
        let refused = busy.iter_mut().filter_map(|one| one.now_or_never());
        assert_eq!(refused.filter(Result::is_err).count(), 24 - 8);
        let mut third = Box::pin(gate.run(&["acc_c"], pending::<Result<(), Failure>>()));
        assert!((&mut third).now_or_never().is_none());
    }

    #[tokio::test]
    async fn slow_work_and_slow_turns_end_differently() {
        let gate = Gate::new(1, 1, Duration::from_millis(5));
        let slow = gate
            .run(&["acc_a"], pending::<Result<(), Failure>>())
            .await
            .unwrap_err();
        assert_eq!(
            (slow.0.kind, slow.0.retry_after_s),
            (Kind::WarehouseUnavailable, Some(1))
        );
        let _turn = gate.working.acquire().await.unwrap();
        let waited = gate.run(&["acc_a"], async { Ok(()) }).await.unwrap_err();
        assert_eq!(waited.0.kind, Kind::Overloaded);
    }

    #[tokio::test]
    async fn a_part_of_an_account_leaves_half_of_the_accounts_work() {
        let gate = Gate::new(8, 64, Duration::from_secs(3_600));
        let at_work = AtomicUsize::new(0);
        let work = async || -> Result<(), Failure> {
            at_work.fetch_add(1, Ordering::Relaxed);
            pending().await
        };
        let mut of_part: Vec<_> = (0..40).map(|_| Box::pin(gate.run(&["a", "part"], work()))).collect();
        for one in &mut of_part {
            let _ = one.now_or_never();
        }
        assert_eq!(at_work.load(Ordering::Relaxed), 2);
        let mut of_account: Vec<_> = (0..3).map(|_| Box::pin(gate.run(&["a"], work()))).collect();
        for one in &mut of_account {
            assert!(one.now_or_never().is_none(), "there is a permit for it");
        }
        assert_eq!(at_work.load(Ordering::Relaxed), 4);
    }
}
