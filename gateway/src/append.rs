//! An append in progress: it keeps its share of the budget until the log has answered, even if
//! nobody waits any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use receipt_log::{AppendError, Appended, LogWriter, Record};

use crate::budget::Reservation;

type AppendResult = Result<Appended, AppendError>;

/// The log's word on one record. Dropped before it came (the client has gone, or the time is over),
/// it is awaited in the background: the log may hold the bytes until then, so the budget must know
/// of them.
pub(crate) struct Append {
    waiting: Option<(BoxFuture<'static, AppendResult>, Reservation)>,
}

impl Append {
    /// Hands `record` to `log`; `reservation` represents its body.
    pub(crate) fn new(log: Arc<dyn LogWriter>, record: Record, reservation: Reservation) -> Self {
        let answer = Box::pin(async move { log.append(record).await });
        Self {
            waiting: Some((answer, reservation)),
        }
    }
}

impl Future for Append {
    type Output = AppendResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AppendResult> {
        let Some((answer, _)) = &mut self.waiting else {
            return Poll::Ready(Err(AppendError::Closed));
        };
        let polled = answer.as_mut().poll(context);
        if polled.is_ready() {
            self.waiting = None;
        }
        polled
    }
}

impl Drop for Append {
    fn drop(&mut self) {
        let Some((answer, reservation)) = self.waiting.take() else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = answer.await;
                drop(reservation);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use bytes::Bytes;
    use receipt_log::{Position, RecordKind};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::budget::FairBudget;
    use crate::config::GatewayConfig;

    /// Answers when it is let.
    struct Gate(Semaphore);

    impl LogWriter for Gate {
        fn append(&self, _record: Record) -> BoxFuture<'_, AppendResult> {
            Box::pin(async {
                self.0.acquire().await.unwrap().forget();
                let position = Position {
                    epoch: 1,
                    partition: 0,
                    offset: 0,
                };
                Ok(Appended {
                    position,
                    appended_at_ms: 0,
                })
            })
        }

        fn writable(&self) -> Result<(), String> {
            Ok(())
        }
    }

    fn record() -> Record {
        Record {
            kind: RecordKind::Receipt,
            body: Bytes::from_static(b"{}"),
            request_signature: None,
            request_id: String::new(),
            received_at_ms: 0,
            client_address: None,
            trace: None,
        }
    }

    #[tokio::test]
    async fn the_budget_is_held_until_the_log_answers_whoever_waits() {
        let budget = Arc::new(FairBudget::new(&GatewayConfig::default()));
        let log = Arc::new(Gate(Semaphore::new(0)));
        let append = |reservation| Append::new(Arc::clone(&log) as Arc<dyn LogWriter>, record(), reservation);
        let mut given_up = Box::pin(append(budget.reserve(10).await.unwrap()));
        assert!(futures_util::poll!(&mut given_up).is_pending());
        drop(given_up);
        tokio::task::yield_now().await;
        assert_eq!(budget.bytes(), 10);
        log.0.add_permits(1);
        while budget.bytes() > 0 {
            tokio::task::yield_now().await;
        }
        log.0.add_permits(1);
        append(budget.reserve(10).await.unwrap()).await.unwrap();
        assert_eq!(budget.bytes(), 0);
    }
}
