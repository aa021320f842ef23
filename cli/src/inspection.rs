//! Looking into a data directory, whether `receipts up` holds it or not.

use std::sync::Arc;

use accounts::Accounts;
use receipt_log::{Log, LogInspector};
use verifier::{PolicyBook, ledger};
use warehouse::{EmbeddedEngine, LedgerRow, LogBegin, Target, Warehouse};

use crate::data_dir::Lock;
use crate::failure::Failure;
use crate::settings::Settings;

/// The log, read only, and the warehouse: the running one through its socket, or one opened here.
pub struct Inspection {
    /// The log.
    pub log: Arc<dyn LogInspector>,
    /// The warehouse.
    pub warehouse: Warehouse,
    /// Whether `receipts up` runs beside us, or the services of a log and a warehouse that are servers' may.
    pub live: bool,
    /// Tables that were gone and have been made anew, empty: only for a repair.
    pub tables_restored: Vec<String>,
    embedded: Option<(EmbeddedEngine, Lock)>,
}

/// What an inspection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To look; a warehouse whose tables are gone is refused.
    Audit,
    /// To mend; tables that are gone are made anew.
    Repair,
}

/// A committed partition, as the log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedPartition {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The oldest record still stored.
    pub begin_offset: u64,
    /// The first offset that isn't committed.
    pub next_offset: u64,
    /// One past the newest record.
    pub end_offset: u64,
    /// Where the block of the last commit begins. Its line is written again from the commit wherever it is missing.
    pub last_block: Option<u64>,
}

/// The policy and the account store behind it.
///
/// # Errors
/// The store can't be opened.
pub async fn open_policy_book(settings: &Settings) -> Result<PolicyBook, Failure> {
    let accounts = Accounts::open(&settings.accounts, settings.data.root()).await;
    let accounts = accounts.map_err(Failure::unavailable)?;
    let cached = settings.verifier.policy_cache_entries_max;
    Ok(PolicyBook::new(accounts, settings.policy, cached))
}

impl Inspection {
    /// Opens both.
    ///
    /// # Errors
    /// There is no such data, or an engine is unavailable.
    pub async fn open(settings: &Settings, purpose: Purpose) -> Result<Self, Failure> {
        let lock = if settings.kafka.is_given() && settings.warehouse.url.is_some() {
            None
        } else {
            if !settings.kafka.is_given() {
                settings.data.require()?;
            }
            settings.data.create()?;
            settings.data.lock()?
        };
        let live = lock.is_none();
        let open = || Log::open_to_look(&settings.kafka, &settings.data.log());
        let log = tokio::task::block_in_place(open).map_err(Failure::unavailable)?;
        let mut tables_restored = Vec::new();
        let (warehouse, embedded) = match (&settings.warehouse.url, lock) {
            (Some(url), _) => {
                let target = Target::Url(url.clone());
                (
                    Warehouse::connect(&target, &settings.warehouse)
                        .await
                        .map_err(Failure::unavailable)?,
                    None,
                )
            }
            (None, Some(lock)) => {
                let (directory, socket) = (settings.data.warehouse(), settings.data.socket());
                let engine = match purpose {
                    Purpose::Audit => EmbeddedEngine::start(&settings.warehouse, &directory, &socket).await,
                    Purpose::Repair => {
                        let started = EmbeddedEngine::start_for_repair(&settings.warehouse, &directory, &socket).await;
                        started.map(|(engine, restored)| {
                            tables_restored = restored;
                            engine
                        })
                    }
                };
                let engine = engine.map_err(Failure::unavailable)?;
                (engine.warehouse(), Some((engine, lock)))
            }
            (None, None) => {
                let socket = settings.data.socket();
                let connected = Warehouse::connect(&Target::Socket(socket.clone()), &settings.warehouse).await;
                let silent = |error| {
                    let (holder, shown) = (settings.data.holder(), socket.display());
                    Failure::Unavailable(if socket.exists() {
                        format!("{holder} has the data open, but doesn't answer on {shown}: {error}")
                    } else {
                        format!(
                            "{holder} has the data open, but its socket {shown} isn't there: while it starts, try again; \
                             if the socket was removed, stop it and start it again"
                        )
                    })
                };
                (connected.map_err(silent)?, None)
            }
        };
        if purpose == Purpose::Repair && embedded.is_none() {
            let restored = warehouse.restore_tables().await;
            tables_restored = restored.map_err(Failure::unavailable)?;
        }
        Ok(Self {
            log,
            warehouse,
            live,
            tables_restored,
            embedded,
        })
    }

    /// Where each partition's log begins.
    ///
    /// # Errors
    /// The log can't be read.
    pub async fn log_begins(&self) -> Result<Vec<LogBegin>, Failure> {
        let states = self.log.partitions(verifier::GROUP).await;
        let begins = states.map_err(Failure::unavailable)?.into_iter().map(|state| LogBegin {
            epoch: state.epoch,
            partition: state.partition,
            offset: state.begin_offset,
        });
        Ok(begins.collect())
    }

    /// The partitions and their commits, with the ledger complete up to them.
    ///
    /// A ledger row is written after the commit that carries it. Between the two, or after a crash there, the commit is
    /// the truth and the row is behind: writing it here is what the verifier does at its next start, and changes nothing
    /// where it stands already.
    ///
    /// # Errors
    /// An engine is unavailable, or a commit is not the verifier's.
    pub async fn committed(&self) -> Result<Vec<CommittedPartition>, Failure> {
        let states = self
            .log
            .partitions(verifier::GROUP)
            .await
            .map_err(Failure::unavailable)?;
        let mut partitions = Vec::new();
        for state in states {
            let committed = state.committed.filter(|committed| committed.epoch == state.epoch);
            let mut last_block = None;
            if let Some(committed) = &committed {
                let line = ledger::from_metadata(&committed.metadata);
                let line =
                    line.map_err(|e| Failure::Unavailable(format!("the last commit carries no ledger line: {e}")))?;
                last_block = line.as_ref().map(|line| line.first_offset);
                self.write_line(line).await?;
            }
            partitions.push(CommittedPartition {
                epoch: state.epoch,
                partition: state.partition,
                begin_offset: state.begin_offset,
                next_offset: committed.map_or(0, |committed| committed.next_offset),
                end_offset: state.end_offset,
                last_block,
            });
        }
        Ok(partitions)
    }

    async fn write_line(&self, line: Option<LedgerRow>) -> Result<(), Failure> {
        match line {
            Some(line) => self
                .warehouse
                .insert_ledger(&[line])
                .await
                .map_err(Failure::unavailable),
            None => Ok(()),
        }
    }

    /// Closes what was opened here.
    pub async fn close(self) {
        if let Some((engine, lock)) = self.embedded {
            engine.stop().await;
            drop(lock);
        }
    }
}
