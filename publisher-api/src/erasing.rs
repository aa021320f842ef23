//! Erasures carried out, and data that are retained for a time deleted: by one replica at a time,
//! in steps that may be done twice.
//!
//! A lease in the store keeps replicas from working side by side; where one outlives it, each step
//! still bears its successor's. What was begun before a crash is found in the store and continues.

mod aggregates;

use std::sync::Arc;
use std::time::Duration;

use accounts::{Accounts, AccountsError, Coverage, Erasure, Person, PersonKind};
use tokio::sync::Notify;
use usage::Usage;
use warehouse::{Below, ErasedPerson, MetadataErasure, MetadataRows, QueryScope, Warehouse, WarehouseError};

use crate::lease::{self, Turn};
use crate::tasks;
use aggregates::AggregatesLeft;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Accounts whose erasure is begun at a time.
const ACCOUNTS_MAX: i64 = 100;
/// Tries at erasing rows that arrived meanwhile, before the rest is left to the next turn.
const CONFIRM_TRIES: u32 = 3;
/// The lease of the work, and what marks that what is past its time went today.
const JOB: &str = "erasures";
const DAILY: &str = "erasures.daily";

/// Executor of erasures.
pub struct Eraser {
    /// The store.
    pub accounts: Accounts,
    /// Receipts.
    pub warehouse: Warehouse,
    /// Days in which an erased receipt's duplicates may still come: how far back a receipt may lie
    /// when it arrives, and how long the log holds what `receipts repair` may read again.
    pub look_after_days: i64,
    /// Days that technical data of requests is retained.
    pub address_days_max: i64,
    /// Holder of the lease.
    holder: String,
}

/// Why a turn ended early.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The store.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The warehouse.
    #[error(transparent)]
    Warehouse(#[from] WarehouseError),
    /// Rows come in as fast as they are erased, or a replica doesn't answer.
    #[error("{0:?} rows still identify clients after they were erased")]
    Unconfirmed(MetadataRows),
    /// The aggregates of usage can't be confirmed, as rows can't.
    #[error("aggregates of usage still have clients after they were erased: {0:?}")]
    UnconfirmedAggregates(AggregatesLeft),
    /// The shard's writer hasn't executed the request yet.
    #[error("the writer hasn't rebuilt the aggregates of usage yet; is one running?")]
    NotRebuilt,
    /// Another replica continues.
    #[error("the lease was lost")]
    LeaseLost,
}

impl Eraser {
    /// Makes an executor on these stores.
    #[must_use]
    pub fn new(accounts: Accounts, warehouse: Warehouse, look_after_days: i64, address_days_max: i64) -> Self {
        Self {
            accounts,
            warehouse,
            look_after_days,
            address_days_max,
            holder: uuid::Uuid::now_v7().simple().to_string(),
        }
    }

    /// Does all there is to do now, if no other replica is at it. An erasure that can't continue is
    /// passed over; it says why to whoever asks.
    ///
    /// # Errors
    /// Errors that concern all of them.
    pub async fn turn(&self) -> Result<(), EraseError> {
        let done = match lease::alone(&self.accounts, JOB, &self.holder, self.work()).await? {
            Turn::Done(done) => done,
            Turn::Elsewhere => return Ok(()),
            Turn::Lost => Err(EraseError::LeaseLost),
        };
        if done.is_ok() {
            tasks::done("erasure");
        }
        done
    }

    async fn work(&self) -> Result<(), EraseError> {
        let now_ms = self.accounts.now_ms();
        for account_id in self.accounts.accounts_due_for_erasure(now_ms, ACCOUNTS_MAX).await? {
            self.accounts.begin_account_erasure(&account_id).await?;
        }
        self.accounts.begin_scheduled_erasures().await?;
        let mut failing: u32 = 0;
        for erasure in self.accounts.open_erasures().await? {
            if let Err(error) = self.carry_out(&erasure).await {
                failing = failing.saturating_add(1);
                tracing::warn!(erasure = erasure.id, %error, "an erasure can't continue now");
                self.accounts
                    .note_erasure_problem(&erasure.id, &error.to_string())
                    .await?;
            }
        }
        for erasure in self.accounts.erasures_to_look_after(now_ms - DAY_MS).await? {
            if let Err(error) = self.look_after(&erasure, now_ms).await {
                failing = failing.saturating_add(1);
                tracing::warn!(erasure = erasure.id, %error, "an erasure can't be checked now");
            }
        }
        metrics::gauge!("receipts_publisher_erasures_failing").set(failing);
        // A holder of its own each time: for whoever comes within the day the lease isn't free.
        let today = format!("{} {now_ms}", self.holder);
        if self.accounts.claim(DAILY, &today, DAY_MS).await?
            && let Err(error) = self.blank_addresses(now_ms).await
        {
            self.accounts.release(DAILY, &today).await?;
            return Err(error);
        }
        Ok(())
    }

    /// Blanks client addresses that are past their time.
    async fn blank_addresses(&self, now_ms: i64) -> Result<(), EraseError> {
        let before_ms = now_ms - self.address_days_max * DAY_MS;
        let rows = self.warehouse.blank_addresses(before_ms).await?;
        if rows > 0 {
            tracing::info!(rows, "client addresses are past their time and were blanked");
        }
        Ok(())
    }

    async fn carry_out(&self, erasure: &Erasure) -> Result<(), EraseError> {
        while self.accounts.erase_some(&erasure.id).await? {}
        if let Some(coverage) = &erasure.request.receipt_metadata {
            let rows = metadata(coverage, erasure);
            let found = self.warehouse.metadata_left(&rows).await?;
            let counts = [
                ("receipts", found.receipts),
                ("rejected", found.rejected),
                ("evidence", found.evidence),
            ];
            self.accounts.note_erased_rows(&erasure.id, &counts).await?;
            self.erase(&rows, found).await?;
        }
        if self.accounts.finish_erasure(&erasure.id).await? {
            tracing::info!(erasure = erasure.id, "an erasure is done");
        }
        Ok(())
    }

    /// Erases until a query finds nothing more, in receipts first: aggregates are rebuilt from
    /// them.
    async fn erase(&self, rows: &MetadataErasure, found: MetadataRows) -> Result<(), EraseError> {
        let usage = Usage::new(self.warehouse.clone());
        let mut left = found;
        for _ in 0..CONFIRM_TRIES {
            if !left.is_none() {
                self.warehouse.erase_metadata(rows).await?;
            }
            let aggregates_left = aggregates::left(&usage, rows).await?;
            if left.is_none() && aggregates_left.is_none() {
                return Ok(());
            }
            if !aggregates_left.is_none() {
                aggregates::erase(&usage, rows, aggregates_left).await?;
            }
            left = self.warehouse.metadata_left(rows).await?;
        }
        let aggregates_left = aggregates::left(&usage, rows).await?;
        if !left.is_none() {
            Err(EraseError::Unconfirmed(left))
        } else if !aggregates_left.is_none() {
            Err(EraseError::UnconfirmedAggregates(aggregates_left))
        } else {
            Ok(())
        }
    }

    /// Rows that arrived since (a duplicate's own bytes, a block written again) go too. Queries
    /// don't see it even before.
    async fn look_after(&self, erasure: &Erasure, now_ms: i64) -> Result<(), EraseError> {
        if let Some(coverage) = &erasure.request.receipt_metadata {
            let rows = metadata(coverage, erasure);
            let found = self.warehouse.metadata_left(&rows).await?;
            self.erase(&rows, found).await?;
        }
        let since_ms = now_ms - erasure.finished_at_ms.unwrap_or(now_ms);
        let settled = since_ms >= self.look_after_days * DAY_MS;
        self.accounts.note_erasure_check(&erasure.id, settled).await?;
        Ok(())
    }
}

/// Does a turn at once, whenever one is wanted, and every `pause`.
pub(crate) async fn watch(eraser: Eraser, wanted: Arc<Notify>, pause: Duration) {
    tasks::begin("erasure");
    loop {
        if let Err(error) = eraser.turn().await {
            tracing::warn!(%error, "erasures wait for the next turn");
        }
        tokio::select! {
            () = wanted.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn metadata(coverage: &Coverage, erasure: &Erasure) -> MetadataErasure {
    let person = erasure.request.person.clone();
    MetadataErasure {
        scope: scope(coverage),
        before_ms: erasure.requested_at_ms,
        person: person.map(|Person { kind, id }| match kind {
            PersonKind::Researcher => ErasedPerson::Researcher(id),
            PersonKind::Session => ErasedPerson::Session(id),
        }),
    }
}

/// Scope of the warehouse for a coverage.
pub(crate) fn scope(coverage: &Coverage) -> QueryScope {
    let below = coverage.inherited.iter().map(|inherited| Below {
        parent: inherited.parent.clone(),
        except: inherited.except.clone(),
    });
    QueryScope {
        publishers: coverage.domains.clone(),
        below: below.collect(),
    }
}
