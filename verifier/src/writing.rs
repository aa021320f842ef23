//! Rows to the warehouse. A block stays in hand until the warehouse has it: what can't be written is
//! tried again with growing, jittered pauses, and meanwhile nothing is committed and nothing is lost.
//!
//! **A refused block** is halved until the refused rows stand alone. Such a receipt is rejected with the reason
//! `refused_by_warehouse`, and the ledger line counts it so before it is committed. This is the one verdict that isn't a
//! function of the record, so a block that is written a second time may come out otherwise:
//! - refused now, taken before: its position stands in `receipts`, and it counts as accepted;
//! - taken now, refused before: the rejected row of before is [taken back](Warehouse::take_back_refused), before the
//!   commit. Rows of before are known from the assignment: those at or above the last commit.
//!
//! Either way the tables say what the committed line says. Only a verifier that lost its partition and writes on after its
//! successor's commit, with the tables changed in between, could leave a position in both; the audit names it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use receipt::Judge;
use receipt_log::{Assignment, DeadLetter, DeadLetters};
use service::cpu::CpuPool;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use warehouse::{
    CommittedOffset, LedgerRow, LedgerRun, REFUSED_BY_WAREHOUSE, ReceiptRow, RejectedRow, Remedy, Warehouse,
    WarehouseError,
};

use crate::config::VerifierConfig;
use crate::judging::{JudgedBlock, Letters};
use crate::offenders::Offenders;
use crate::refusing::{Refusal, Refused, Turned, turn};
use crate::rows::Rows;
use crate::standing::Standing;

/// Refused positions that are kept in mind: more than what a verifier has under way can be.
const REFUSED_MAX: u64 = 1_000_000;

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
    /// Where the records of refused rows are judged again.
    pub cpu: CpuPool,
    /// Judges them.
    pub judge: Arc<Judge>,
    /// Positions that a block which was never committed had refused.
    pub refused_before: Arc<Mutex<BTreeSet<u128>>>,
    /// Pauses between tries.
    pub config: VerifierConfig,
    /// Says in `/readyz` when rows or dead letters aren't taken.
    pub standing: Standing,
    /// Clients most of whose receipts are rejected.
    pub offenders: Arc<Mutex<Offenders>>,
    /// Ends the trying.
    pub stop: CancellationToken,
}

/// The verifier is stopping; the block was not written and not committed, so it will be read again.
#[derive(Debug)]
pub struct Stopped;

/// Where the reading of assigned partitions begins.
pub(crate) fn ends(assigned: &[Assignment]) -> Vec<CommittedOffset> {
    let end = |assignment: &Assignment| CommittedOffset {
        epoch: assignment.epoch,
        partition: assignment.partition,
        next_offset: assignment.next_offset,
    };
    assigned.iter().map(end).collect()
}

/// Rows on their way: a run of them, and whether they were refused alone once.
struct Run {
    rows: Range<usize>,
    again: bool,
}

/// A table that takes a block's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Receipts,
    Rejected,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Receipts => ReceiptRow::TABLE,
            Self::Rejected => RejectedRow::TABLE,
        }
    }

    fn columns(self) -> &'static str {
        match self {
            Self::Receipts => ReceiptRow::COLUMNS,
            Self::Rejected => RejectedRow::COLUMNS,
        }
    }
}

impl Writer {
    /// Whether judged blocks are to hold dead letters.
    #[must_use]
    pub fn letters(&self) -> Letters {
        if self.dead_letters.is_some() {
            Letters::Keep
        } else {
            Letters::Drop
        }
    }

    /// Writes a block's rows and marks, all tables at once, trying until it succeeds or the verifier stops. What the warehouse
    /// refuses is rejected from then on, in the block's ledger lines too. The block's records are gone afterwards.
    ///
    /// # Errors
    /// [`Stopped`] only.
    pub async fn write(&self, block: &mut JudgedBlock) -> Result<(), Stopped> {
        let (refused, rejected, marked) = tokio::join!(
            self.put(Table::Receipts, &block.receipts),
            self.put(Table::Rejected, &block.rejected),
            self.insist("rollup marks", || self.warehouse.insert_marks(&block.marks)),
        );
        rejected?;
        marked?;
        let refused = refused?;
        if !refused.is_empty() {
            self.reject(block, refused).await?;
        }
        self.take_back(block).await?;
        block.block.records = Vec::new();
        Ok(())
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

    /// Learns what earlier owners of newly assigned partitions had refused and not committed.
    ///
    /// # Errors
    /// [`Stopped`] only.
    pub async fn recall_refused(&self, assigned: &[Assignment]) -> Result<(), Stopped> {
        let ends = ends(assigned);
        let recall = || {
            self.warehouse
                .refused_above(&ends, &[REFUSED_BY_WAREHOUSE], REFUSED_MAX)
        };
        let positions = self.insist("refused rows", recall).await?;
        self.refused_before.lock().extend(positions);
        Ok(())
    }

    /// Writes rows of one table, and returns those of `receipts` that it refuses. A row of `rejected` that is refused has
    /// no other place to go, and waits for a person.
    async fn put(&self, table: Table, rows: &Rows) -> Result<Vec<Refused>, Stopped> {
        let (rows_max, bytes_max) = self.warehouse.insert_limits();
        let run = |rows| Run { rows, again: false };
        let mut runs: Vec<Run> = rows.runs(rows_max, bytes_max).into_iter().rev().map(run).collect();
        let mut refused = Vec::new();
        let mut backoff = Backoff::new(&self.config);
        while let Some(run) = runs.pop() {
            let error = match self.insert(table, rows, run.rows.clone()).await {
                Ok(()) => {
                    self.standing.well(table.name());
                    backoff = Backoff::new(&self.config);
                    continue;
                }
                Err(error) => error,
            };
            match self.refusal(table, error, run.rows.len()).await {
                Err(waiting) => {
                    self.wait(table.name(), &waiting, &mut backoff).await?;
                    runs.push(run);
                }
                Ok(_) if run.rows.len() > 1 => {
                    metrics::counter!("receipts_verifier_splits_total").increment(1);
                    let middle = run.rows.start + run.rows.len() / 2;
                    for rows in [middle..run.rows.end, run.rows.start..middle] {
                        runs.push(Run { rows, again: false });
                    }
                }
                // A damaged transfer may look like a bad row: it is one only when it is refused twice.
                Ok(_) if !run.again => runs.push(Run { again: true, ..run }),
                Ok(error) => refused.push(Refused {
                    source: rows.source(run.rows.start),
                    refusal: Refusal::by_warehouse(&error.to_string()),
                }),
            }
        }
        Ok(refused)
    }

    async fn insert(&self, table: Table, rows: &Rows, range: Range<usize>) -> Result<(), WarehouseError> {
        let (pieces, count) = (rows.slice(range.clone()), range.len() as u64);
        match table {
            Table::Receipts => self.warehouse.insert_receipts(pieces, count).await,
            Table::Rejected => self.warehouse.insert_rejected(pieces, count).await,
        }
    }

    /// `Ok` if the rows are what is refused, `Err` with what must pass, or be put right, before the same insert can succeed.
    async fn refusal(
        &self,
        table: Table,
        error: WarehouseError,
        rows: usize,
    ) -> Result<WarehouseError, WarehouseError> {
        if error.remedy() != Remedy::Split || (table == Table::Rejected && rows == 1) {
            return Err(error);
        }
        if !error.is_about_rows() {
            // Not known to be about rows: then the table must take inserts as such.
            self.warehouse.takes_inserts(table.name(), table.columns()).await?;
        }
        Ok(error)
    }

    /// Rejects the receipts of refused rows, but for those whose row stands there from an earlier try.
    async fn reject(&self, block: &mut JudgedBlock, refused: Vec<Refused>) -> Result<(), Stopped> {
        let mut turned = self.turn(block, refused).await?;
        let occurrences: Vec<_> = turned.iter().map(|one| (one.receipt_id, one.position)).collect();
        let look = || self.warehouse.standing_positions(&occurrences);
        let standing: BTreeSet<u128> = self.insist("receipts", look).await?.into_iter().collect();
        turned.retain(|one| !standing.contains(&one.position));
        for one in &turned {
            self.refused_before.lock().remove(&one.position);
        }
        warn!(
            rows = turned.len(),
            "the warehouse refuses rows of a block; they are rejected with the reason refused_by_warehouse"
        );
        let rows = block.reject(turned);
        self.put(Table::Rejected, &rows).await.map(drop)
    }

    /// Refused receipts of a block as rejected ones.
    ///
    /// # Errors
    /// [`Stopped`], also where it can't be: then going on would lose them in silence.
    pub(crate) async fn turn(&self, block: &JudgedBlock, refused: Vec<Refused>) -> Result<Vec<Turned>, Stopped> {
        let turned = turn(&self.cpu, &self.judge, block, refused, self.letters()).await;
        turned.map_err(|error| {
            error!(%error, "refused receipts can't be judged again; the verifier stops");
            Stopped
        })
    }

    /// Removes the rejected rows of positions that this block brought into `receipts` after all.
    async fn take_back(&self, block: &JudgedBlock) -> Result<(), Stopped> {
        let taken: Vec<u128> = {
            let before = self.refused_before.lock();
            let ranges = block.lines.iter().map(|line| {
                let partition = (u128::from(line.epoch) << 96) | (u128::from(line.partition) << 64);
                (partition | (u128::from(line.first_offset) << 16))
                    ..=(partition | (u128::from(line.last_offset) << 16) | u128::from(u16::MAX))
            });
            ranges.flat_map(|range| before.range(range).copied()).collect()
        };
        if taken.is_empty() {
            return Ok(());
        }
        self.insist("rejected", || self.warehouse.take_back_refused(&taken))
            .await?;
        self.refused_before.lock().retain(|position| !taken.contains(position));
        Ok(())
    }

    /// Tries until it succeeds or the verifier stops.
    pub(crate) async fn insist<F, T, E>(&self, part: &'static str, mut attempt: impl FnMut() -> F) -> Result<T, Stopped>
    where
        F: Future<Output = Result<T, E>>,
        E: Display,
    {
        let mut backoff = Backoff::new(&self.config);
        loop {
            match attempt().await {
                Ok(done) => {
                    self.standing.well(part);
                    return Ok(done);
                }
                Err(error) => self.wait(part, &error, &mut backoff).await?,
            }
        }
    }

    /// Says what is failing and pauses.
    async fn wait(&self, part: &'static str, error: &impl Display, backoff: &mut Backoff) -> Result<(), Stopped> {
        metrics::counter!("receipts_verifier_write_failures_total", "table" => part).increment(1);
        self.standing.failing(part, format!("{part} can't be written: {error}"));
        warn!(part, %error, "a block's rows or dead letters were not taken; trying again");
        tokio::select! {
            () = self.stop.cancelled() => Err(Stopped),
            () = tokio::time::sleep(backoff.next_wait()) => Ok(()),
        }
    }
}
