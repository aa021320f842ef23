//! Rows to the warehouse. A block stays in hand until the warehouse has it: what can't be written is
//! tried again with growing, jittered pauses, and meanwhile nothing is committed and nothing is lost.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use receipt_log::{DeadLetter, DeadLetters};
use service::health::Component;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use warehouse::{LedgerRow, LedgerRun, Warehouse};

use crate::config::VerifierConfig;
use crate::judging::JudgedBlock;

/// Runs of ledger lines read at an assignment: more than one means that lines are missing between them.
const RUNS_MAX: u64 = 10_000;

/// Growing pauses with jitter: between half and the whole of a doubling wait.
#[derive(Debug)]
pub struct Backoff {
    next_ms: u64,
    max_ms: u64,
}

impl Backoff {
    /// The first pause of a new series is at most `retry_wait_ms_min`.
    #[must_use]
    pub fn new(config: &VerifierConfig) -> Self {
        Self {
            next_ms: config.retry_wait_ms_min,
            max_ms: config.retry_wait_ms_max,
        }
    }

    /// The next pause.
    pub fn next_wait(&mut self) -> Duration {
        let wait_ms = rand::rng().random_range(self.next_ms / 2..=self.next_ms);
        self.next_ms = self.next_ms.saturating_mul(2).min(self.max_ms);
        Duration::from_millis(wait_ms)
    }
}

/// The writing side of the pipeline.
#[derive(Clone)]
pub struct Writer {
    /// Where rows go.
    pub warehouse: Warehouse,
    /// Where copies of rejected receipts go.
    pub dead_letters: Option<Arc<dyn DeadLetters>>,
    /// Pauses between tries.
    pub config: VerifierConfig,
    /// Says in `/readyz` when rows or dead letters aren't taken.
    pub health: Component,
    /// Ends the trying.
    pub stop: CancellationToken,
}

/// The verifier is stopping; the block was not written and not committed, so it will be read again.
#[derive(Debug)]
pub struct Stopped;

impl Writer {
    /// Writes a block's rows, both tables at once, trying until it succeeds or the verifier stops.
    ///
    /// # Errors
    /// [`Stopped`] only.
    pub async fn write(&self, block: &JudgedBlock) -> Result<(), Stopped> {
        let (receipts, rejected) = tokio::join!(
            self.insist("receipts", || self
                .warehouse
                .insert_receipts(block.receipts.clone(), block.accepted())),
            self.insist("rejected", || self
                .warehouse
                .insert_rejected(block.rejected.clone(), block.rejections())),
        );
        receipts.and(rejected)
    }

    /// Writes ledger rows, trying until it succeeds or the verifier stops. Writing one twice changes nothing.
    ///
    /// # Errors
    /// [`Stopped`] only.
    pub async fn write_ledger(&self, lines: &[LedgerRow]) -> Result<(), Stopped> {
        self.insist("ledger", || self.warehouse.insert_ledger(lines)).await
    }

    /// What the ledger says is done of a partition from `from_offset` on, trying until it answers or the verifier stops.
    ///
    /// # Errors
    /// [`Stopped`] only.
    pub async fn ledger_runs(&self, epoch: u32, partition: u32, from_offset: u64) -> Result<Vec<LedgerRun>, Stopped> {
        let runs = || self.warehouse.ledger_runs(epoch, partition, from_offset, RUNS_MAX);
        self.insist("ledger", runs).await
    }

    /// Publishes a block's dead letters, trying until it succeeds or the verifier stops. Publishing one twice is
    /// harmless: its position tells.
    ///
    /// # Errors
    /// [`Stopped`] only.
    pub async fn publish(&self, letters: &[DeadLetter]) -> Result<(), Stopped> {
        let Some(dead_letters) = self.dead_letters.as_deref().filter(|_| !letters.is_empty()) else {
            return Ok(());
        };
        self.insist("dead letters", || dead_letters.publish(letters)).await?;
        metrics::counter!("receipts_verifier_dead_letters_total").increment(letters.len() as u64);
        Ok(())
    }

    async fn insist<T, F, E>(&self, table: &'static str, mut attempt: impl FnMut() -> F) -> Result<T, Stopped>
    where
        F: Future<Output = Result<T, E>>,
        E: Display,
    {
        let mut backoff = Backoff::new(&self.config);
        let mut failed = false;
        loop {
            match attempt().await {
                Ok(answer) => {
                    if failed {
                        self.health.ready();
                    }
                    return Ok(answer);
                }
                Err(error) => {
                    failed = true;
                    metrics::counter!("receipts_verifier_write_failures_total", "table" => table).increment(1);
                    self.health.not_ready(format!("{table} can't be written: {error}"));
                    warn!(table, %error, "a block's rows or dead letters were not taken; trying again");
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return Err(Stopped),
                () = tokio::time::sleep(backoff.next_wait()) => {}
            }
        }
    }
}
