//! Exact bytes of accepted receipts, from the log `verdicts` into the table `evidence`.
//!
//! A consumer group of its own reads the log, so evidence never delays numbers. The position is
//! published behind the insert, and reading continues there. A crash in between repeats the insert,
//! which changes nothing.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use arrow_array::RecordBatch;
use receipt_log::{
    Assignment, Commit, CommitError, ConsumeError, Log, LogConsumer, LogOpenError, LoggedRecord, PollLimits, Polled,
};
use service::cpu::CpuPool;
use service::retry::{Pauses, Retry, Stopped};
use tokio::time::Instant;
use tracing::{error, warn};
use warehouse::{Remedy, VerdictsPosition, Warehouse};

use crate::config::WriterConfig;
use crate::error::WriterError;
use crate::horizon;
use crate::reading::decode;
use crate::shard_database::shard_database;

/// The longest wait of one poll, and the pause between two while the log has little: evidence isn't
/// urgent, and many small polls cost CPU.
const POLL_WAIT_MAX: Duration = Duration::from_millis(500);
/// Records that one poll returns.
const POLL_RECORDS_MAX: usize = 256;
/// Intervals after which a position is published although no evidence precedes it.
const INTERVALS_WITHOUT_ROWS: u32 = 6;
/// The part of readiness that fails while evidence can't be stored.
const PART: &str = "evidence";

/// Stores evidence of the shards that are assigned to it.
pub struct EvidenceWriter {
    /// Warehouse whose shards take the rows.
    pub warehouse: Warehouse,
    /// [`receipt_log::Log::deletes_after_ms`] of `verdicts`.
    pub deletes_after_ms: Option<u64>,
    /// Threads for decoding blocks.
    pub cpu: CpuPool,
    /// Repeats failed attempts.
    pub retry: Retry,
}

/// Rows that aren't inserted yet.
struct Gathered {
    shards: BTreeMap<u32, EvidenceShard>,
    bytes: usize,
    /// When gathering began.
    opened: Instant,
}

struct EvidenceShard {
    rows: Vec<RecordBatch>,
    /// Position behind the rows.
    next: VerdictsPosition,
    /// When the last record before it was appended.
    appended_at_ms: i64,
}

/// The consumer of evidence, or none if the configuration wants no evidence. Then the log doesn't
/// keep records for it any more. Blocks.
pub fn consumer(verdicts: &Log, config: &WriterConfig) -> Result<Option<Box<dyn LogConsumer>>, LogOpenError> {
    if config.evidence {
        return verdicts.consumer(crate::EVIDENCE_GROUP).map(Some);
    }
    verdicts.forget_group(crate::EVIDENCE_GROUP)?;
    Ok(None)
}

impl Gathered {
    fn new() -> Self {
        Self {
            shards: BTreeMap::new(),
            bytes: 0,
            opened: Instant::now(),
        }
    }

    /// Time until an insert is due, where nothing is inserted that has no rows yet.
    fn wait(&self, interval: Duration) -> Duration {
        let has_rows = self.shards.values().any(|shard| !shard.rows.is_empty());
        let interval = if has_rows {
            interval
        } else {
            interval * INTERVALS_WITHOUT_ROWS
        };
        interval.saturating_sub(self.opened.elapsed())
    }
}

impl EvidenceWriter {
    /// Runs until the retries are stopped, or until something fails that no pause can cure. What
    /// was gathered by then is read again. `consumer` is a member of the group
    /// [`crate::EVIDENCE_GROUP`] of `verdicts`.
    pub async fn run(self, config: &WriterConfig, consumer: Box<dyn LogConsumer>) {
        if let Err(EvidenceEnd::Failed(failed)) = self.store(config, consumer).await {
            error!(error = %failed, "no more evidence is stored until this process is started again");
            self.retry.parts.failed(PART, failed.to_string());
        }
    }

    async fn store(&self, config: &WriterConfig, mut consumer: Box<dyn LogConsumer>) -> Result<(), EvidenceEnd> {
        let interval = Duration::from_millis(config.evidence_interval_ms);
        let mut gathered = Gathered::new();
        // Shards that the configuration doesn't have: their records stay in the log.
        let mut unknown = HashSet::new();
        let mut pauses = self.retry.pauses();
        loop {
            let limits = PollLimits {
                records_max: POLL_RECORDS_MAX,
                bytes_max: config.evidence_bytes_max.saturating_sub(gathered.bytes).max(1),
                wait_max: gathered.wait(interval).min(POLL_WAIT_MAX),
            };
            let polled = tokio::select! {
                () = self.retry.stop.cancelled() => return Ok(()),
                polled = consumer.poll(limits) => polled,
            };
            let is_little = polled
                .as_ref()
                .is_ok_and(|polled| polled.records.len() < POLL_RECORDS_MAX);
            match polled {
                Ok(polled) => {
                    pauses = self.retry.pauses();
                    self.retry.parts.recovered(PART);
                    let records = self
                        .assigned(polled, consumer.as_mut(), &mut gathered, &mut unknown)
                        .await?;
                    self.gather(records, &mut gathered).await?;
                }
                Err(error) => self.failed(error, &mut pauses).await?,
            }
            let wait = gathered.wait(interval);
            if gathered.bytes < config.evidence_bytes_max && !wait.is_zero() {
                if is_little {
                    tokio::time::sleep(wait.min(POLL_WAIT_MAX)).await;
                }
                continue;
            }
            let due = std::mem::replace(&mut gathered, Gathered::new());
            let commits = self.insert(due).await?;
            commit(consumer.as_mut(), commits).await;
        }
    }

    async fn failed(&self, error: ConsumeError, pauses: &mut Pauses) -> Result<(), EvidenceEnd> {
        match error {
            ConsumeError::Unavailable(reason) => Ok(self.retry.pause(PART, &reason, pauses).await?),
            damaged @ ConsumeError::Damaged { .. } => Err(EvidenceEnd::Failed(WriterError::Damaged(damaged))),
        }
    }

    /// Begins and ends shards. Returns the records that are to be gathered.
    async fn assigned(
        &self,
        polled: Polled,
        consumer: &mut dyn LogConsumer,
        gathered: &mut Gathered,
        unknown: &mut HashSet<u32>,
    ) -> Result<Vec<LoggedRecord>, EvidenceEnd> {
        for shard in polled.revoked {
            gathered.shards.remove(&shard);
            unknown.remove(&shard);
        }
        let mut records = polled.records;
        for assignment in &polled.assigned {
            let shard = assignment.partition;
            gathered.shards.remove(&shard);
            unknown.remove(&shard);
            match shard_database(&self.warehouse, &self.retry, PART, shard).await? {
                Some(warehouse) => {
                    self.resume(assignment, &warehouse, consumer).await?;
                    // The consumer returns these records again.
                    records.retain(|logged| logged.position.partition != shard);
                }
                None => drop(unknown.insert(shard)),
            }
        }
        records.retain(|logged| !unknown.contains(&logged.position.partition));
        Ok(records)
    }

    /// Moves the consumer behind what the table has, whatever the group's offset says: the tables
    /// may have been restored from an older copy.
    async fn resume(
        &self,
        assignment: &Assignment,
        warehouse: &Warehouse,
        consumer: &mut dyn LogConsumer,
    ) -> Result<(), EvidenceEnd> {
        let (shard, begin) = (assignment.partition, assignment.begin_offset);
        let read = || warehouse.evidence_progress(shard);
        let stored = self.retry.until_done(PART, read).await?;
        // Of another log, nothing is stored.
        let stored = stored.filter(|stored| stored.epoch == assignment.epoch);
        let offset = stored.map_or(0, |stored| stored.offset);
        if stored.is_some() && offset < begin {
            warn!(
                shard,
                offset, begin, "the log verdicts begins behind the stored evidence: what is between is missing"
            );
        }
        let mut pauses = self.retry.pauses();
        loop {
            match consumer.seek(shard, offset.max(begin)).await {
                Ok(()) => return Ok(()),
                Err(error) => self.failed(error, &mut pauses).await?,
            }
        }
    }

    async fn gather(&self, records: Vec<LoggedRecord>, gathered: &mut Gathered) -> Result<(), EvidenceEnd> {
        gathered.bytes += records.iter().map(|logged| logged.record.body.len()).sum::<usize>();
        let decoded = self.cpu.run_waiting(move || decode_all(&records)).await;
        let panicked = |panicked| {
            error!(error = %panicked, "decoding evidence panicked");
            EvidenceEnd::Failed(WriterError::TaskEnded(0))
        };
        for Decoded {
            shard,
            next,
            appended_at_ms,
            rows,
        } in decoded.map_err(panicked)?.map_err(EvidenceEnd::Failed)?
        {
            let of_shard = gathered.shards.entry(shard).or_insert(EvidenceShard {
                rows: Vec::new(),
                next,
                appended_at_ms,
            });
            (of_shard.next, of_shard.appended_at_ms) = (next, appended_at_ms);
            of_shard.rows.extend(Some(rows).filter(|rows| rows.num_rows() > 0));
        }
        Ok(())
    }

    /// Inserts what was gathered, and returns the offsets behind it.
    async fn insert(&self, gathered: Gathered) -> Result<Vec<Commit>, Stopped> {
        let mut commits = Vec::new();
        for (number, shard) in gathered.shards {
            let Ok(warehouse) = self.warehouse.shard(number) else {
                continue;
            };
            self.insert_rows(warehouse, &shard.rows).await?;
            let next = shard.next;
            let publish = || warehouse.publish_evidence_progress(number, next);
            self.retry.until_done(PART, publish).await?;
            horizon::state(
                crate::EVIDENCE_GROUP,
                number,
                shard.appended_at_ms,
                self.deletes_after_ms,
            );
            commits.push(Commit {
                partition: number,
                epoch: next.epoch,
                next_offset: next.offset,
                metadata: String::new(),
            });
        }
        Ok(commits)
    }

    /// Inserts rows in as many statements as the limits of one want. Rows that the table refuses
    /// are left out: the receipts are counted without them.
    async fn insert_rows(&self, warehouse: &Warehouse, mut rows: &[RecordBatch]) -> Result<(), Stopped> {
        let mut rows_max = rows.len();
        let mut pauses = self.retry.pauses();
        while !rows.is_empty() {
            let (some, rest) = rows.split_at(rows_max.min(rows.len()));
            match warehouse.insert_evidence(some).await {
                Ok(()) => rows = rest,
                Err(error) if some.len() > 1 && (error.remedy() == Remedy::Split || error.is_out_of_memory()) => {
                    rows_max = some.len() / 2;
                }
                Err(error) if error.remedy() == Remedy::Split => {
                    error!(%error, "evidence that the table refuses is left out");
                    rows = rest;
                }
                Err(error) => self.retry.pause(PART, &error, &mut pauses).await?,
            }
        }
        Ok(())
    }
}

async fn commit(consumer: &mut dyn LogConsumer, commits: Vec<Commit>) {
    // One by one, because one that is refused refuses the others.
    for commit in commits {
        match consumer.commit(vec![commit]).await {
            // Another process has the shard, or its evidence is stored again.
            Ok(()) | Err(CommitError::Fenced(_)) => {}
            Err(CommitError::Unavailable(reason) | CommitError::Invalid(reason)) => {
                warn!(
                    reason,
                    "the offset of evidence can't be committed; the next commit is behind it"
                );
            }
        }
    }
}

enum EvidenceEnd {
    Stopped,
    Failed(WriterError),
}

impl From<Stopped> for EvidenceEnd {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// The accepted rows of a record.
struct Decoded {
    shard: u32,
    /// Position behind the record.
    next: VerdictsPosition,
    appended_at_ms: i64,
    rows: RecordBatch,
}

fn decode_all(records: &[LoggedRecord]) -> Result<Vec<Decoded>, WriterError> {
    let decoded = records.iter().map(|logged| {
        Ok(Decoded {
            shard: logged.position.partition,
            next: VerdictsPosition {
                epoch: logged.position.epoch,
                offset: logged.position.offset + 1,
            },
            appended_at_ms: logged.appended_at_ms,
            rows: decode(logged)?.block.accepted(),
        })
    });
    decoded.collect()
}
