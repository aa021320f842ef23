//! Read access to a data directory, whether `receipts up` has it open or not.

use std::sync::Arc;

use receipt_log::{Log, LogInspector, PartitionState};
use serde::Serialize;
use warehouse::{EmbeddedEngine, ShardProgress, Target, Warehouse, WarehouseError};

use crate::data_dir::Lock;
use crate::failure::CommandFailure;
use crate::runtime;
use crate::settings::{Settings, SettingsArgs};

/// The log of receipts, read only, and the warehouse: the running one through its socket, or one
/// opened here.
pub struct Inspection {
    /// The log of receipts.
    pub log: Arc<dyn LogInspector>,
    /// The warehouse.
    pub warehouse: Warehouse,
    /// Whether `receipts up` runs beside us, or the services of a log and a warehouse that are
    /// servers' may.
    pub live: bool,
    /// Tables that were gone and have been recreated, empty: only for a repair.
    pub tables_restored: Vec<String>,
    embedded: Option<(EmbeddedEngine, Lock)>,
}

/// Purpose of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InspectionPurpose {
    /// To look; a warehouse whose tables are gone is refused.
    Audit,
    /// To fix; tables that are gone are recreated.
    Repair,
}

/// Runs `work` on the data of the settings, and closes it afterwards.
///
/// # Errors
/// The settings are invalid, [`Inspection::open`] fails, or `work` does.
pub fn inspect<T>(
    settings: &SettingsArgs,
    purpose: InspectionPurpose,
    work: impl AsyncFnOnce(&Settings, &Inspection) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    let settings = settings.load()?;
    runtime::with_threads()?.block_on(async {
        let inspection = Inspection::open(&settings, purpose).await?;
        let done = work(&settings, &inspection).await;
        inspection.close().await;
        done
    })
}

/// A partition of `receipts`, and how far its records have come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPartition {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The oldest record still in the log.
    pub begin_offset: u64,
    /// The first offset whose verdicts aren't in the tables.
    #[serde(rename = "committedOffset")]
    pub next_offset: u64,
    /// The first offset without verdicts.
    pub verified_offset: u64,
    /// Offset behind the newest record.
    pub end_offset: u64,
}

impl Inspection {
    /// Opens both.
    ///
    /// # Errors
    /// There is no such data, or an engine is unavailable.
    pub async fn open(settings: &Settings, purpose: InspectionPurpose) -> Result<Self, CommandFailure> {
        let lock = if settings.kafka.is_shared() && settings.warehouse.url.is_some() {
            None
        } else {
            if !settings.kafka.is_shared() {
                settings.data.require()?;
            }
            settings.data.create()?;
            settings.data.lock()?
        };
        let live = lock.is_none();
        let open = || Log::open_to_look(&settings.kafka, &settings.data.log());
        let log = tokio::task::block_in_place(open).map_err(CommandFailure::unavailable)?;
        let mut tables_restored = Vec::new();
        let (warehouse, embedded) = match (&settings.warehouse.url, lock) {
            (Some(url), _) => {
                let target = Target::Url(url.clone());
                (
                    Warehouse::connect(&target, &settings.warehouse)
                        .await
                        .map_err(CommandFailure::unavailable)?,
                    None,
                )
            }
            (None, Some(lock)) => {
                let (directory, socket) = (settings.data.warehouse(), settings.data.socket());
                let engine = match purpose {
                    InspectionPurpose::Audit => EmbeddedEngine::start(&settings.warehouse, &directory, &socket).await,
                    InspectionPurpose::Repair => {
                        let started = EmbeddedEngine::start_for_repair(&settings.warehouse, &directory, &socket).await;
                        started.map(|(engine, restored)| {
                            tables_restored = restored;
                            engine
                        })
                    }
                };
                let engine = engine.map_err(CommandFailure::unavailable)?;
                (engine.warehouse(), Some((engine, lock)))
            }
            (None, None) => {
                let socket = settings.data.socket();
                let connected = Warehouse::connect(&Target::Socket(socket.clone()), &settings.warehouse).await;
                let silent = |error| {
                    let (holder, shown) = (settings.data.holder(), socket.display());
                    CommandFailure::Unavailable(if socket.exists() {
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
        if purpose == InspectionPurpose::Repair && embedded.is_none() {
            let restored = warehouse.restore_tables().await;
            tables_restored = restored.map_err(CommandFailure::unavailable)?;
        }
        Ok(Self {
            log,
            warehouse,
            live,
            tables_restored,
            embedded,
        })
    }

    /// The log of verdicts, read only.
    ///
    /// # Errors
    /// There is no such log, or it can't be read.
    pub fn verdicts(&self, settings: &Settings) -> Result<Arc<dyn LogInspector>, CommandFailure> {
        let open = || Log::open_verdicts_to_look(&settings.kafka, &settings.data.verdicts());
        tokio::task::block_in_place(open)
            .map_err(|error| CommandFailure::Unavailable(format!("the log verdicts: {error}")))
    }

    /// The shards and their numbers.
    pub fn shards(&self) -> impl Iterator<Item = (u32, &Warehouse)> {
        (0..).zip(self.warehouse.shards())
    }

    /// Progress of a shard's writer, as stored. Where the ledger is damaged, as published.
    ///
    /// # Errors
    /// The warehouse is unavailable.
    pub async fn stored(&self, shard: u32) -> Result<ShardProgress, CommandFailure> {
        let warehouse = self.warehouse.shard(shard).map_err(CommandFailure::input)?;
        let stored = match writer::resumption::stored(warehouse, shard).await {
            Err(WarehouseError::Damaged(_)) => {
                let published = warehouse.progress().await;
                published.map(|all| all.into_iter().find(|one| one.shard == shard).unwrap_or_default())
            }
            stored => stored,
        };
        stored.map_err(CommandFailure::unavailable)
    }

    /// Progress of all shards' writers, as stored.
    ///
    /// # Errors
    /// The warehouse is unavailable.
    pub async fn all_stored(&self) -> Result<Vec<ShardProgress>, CommandFailure> {
        let mut all = Vec::new();
        for (shard, _) in self.shards() {
            all.push(self.stored(shard).await?);
        }
        Ok(all)
    }

    /// The partitions of `receipts`, as far as their verdicts are in the tables of all shards.
    ///
    /// # Errors
    /// An engine is unavailable.
    pub async fn partitions(&self) -> Result<Vec<StoredPartition>, CommandFailure> {
        // The tables first: nothing is stored that isn't in the log by then.
        let stored = self.all_stored().await?;
        let states = self.log.partitions(verifier::GROUP).await;
        let partition = |state: PartitionState| {
            let verified = state.committed.as_ref();
            let verified = verified.filter(|committed| committed.epoch == state.epoch);
            StoredPartition {
                epoch: state.epoch,
                partition: state.partition,
                begin_offset: state.begin_offset,
                next_offset: stored_by_all(&stored, &state).unwrap_or(0),
                verified_offset: verified.map_or(0, |committed| committed.next_offset),
                end_offset: state.end_offset,
            }
        };
        Ok(states
            .map_err(CommandFailure::unavailable)?
            .into_iter()
            .map(partition)
            .collect())
    }

    /// Closes what was opened here.
    pub async fn close(self) {
        if let Some((engine, lock)) = self.embedded {
            engine.stop().await;
            drop(lock);
        }
    }
}

/// The offset of a partition below which all shards have stored what is theirs. A shard without any
/// range of the partition is new.
pub fn stored_by_all(shards: &[ShardProgress], state: &PartitionState) -> Option<u64> {
    let partitions = shards.iter().flat_map(|shard| &shard.partitions);
    let of_it = partitions.filter(|one| (one.epoch, one.partition) == (state.epoch, state.partition));
    of_it.map(|one| one.next_offset).min()
}
