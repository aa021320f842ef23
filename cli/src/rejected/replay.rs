//! `receipts rejected replay`: rejected receipts that pass by the present rules go to the log once
//! more, in their original context, and count by the ordinary way.
//!
//! Idempotence comes from a mark in the table `replays` for each, and before the mark the
//! payload itself, once the verifier has counted it. A crash between append and mark leaves at most
//! a further occurrence of the same payload in the log, which the table of receipts unites with the
//! first: a duplicate, never a second receipt.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use receipt::Judge;
use receipt_log::{AppendError, Appended, Log, LogOpenError, LogWriter, OpenError, ReceiptPosition, Record};
use service::cpu::CpuPool;
use service::instant::now_ms;
use uuid::Uuid;
use warehouse::{Rejected, RejectedCursor, RejectedOrder, ReplayRow, Warehouse};

use super::on_runtime;
use super::present_policy::PresentPolicy;
use super::rejudging::{Passing, Payload, PayloadKey, Rejudgement, judge_alone, time_range};
use super::retained::Retained;
use super::selection::Selection;
use super::tally::ReplayTally;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose};
use crate::settings::{Settings, SettingsArgs};

/// Rejected receipts found at a time.
const PAGE_ROWS: u64 = 5_000;
/// Rejected receipts judged, appended and marked at a time: at most so many, and their bytes, but
/// always one.
const STEP_ROWS: usize = 1_000;
const STEP_BYTES: u64 = 8 << 20;
/// Payloads of this run that are remembered, so that the second of two equal ones isn't appended.
const REMEMBERED_MAX: usize = 100_000;
/// Pauses while the log or the warehouse takes nothing, and how many of them.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSES_MAX: u32 = 300;

const AFTER_HELP: &str = "\
Each selected receipt that wasn't replayed yet is judged again by the present rules, as of the time it was received. \
What is still rejected stays where it is. What passes is appended to the log with its original time, request id, \
signature and address, and the verifier counts it like any other; its rejected row stays for the books, marked as \
replayed. It can be interrupted and run again: nothing counts twice.

The embedded log has one writer, so stop `receipts up` first; --dry-run works beside it. On Kafka it all works beside \
the running services.

Examples:
  receipts rejected replay --dry-run
  receipts rejected replay --reason timestamp_out_of_range \\
    --from 2026-07-01 --to 2026-07-02
  receipts rejected replay --position 2863311530:0:41:0 --json

Exit codes:
  0  all that was selected counts now, or will once the verifier reads it
  1  some stay rejected, or can't be judged without a record that is gone
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable, or `receipts up` has the log open";

/// Judge rejected receipts again, and let those count that pass
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Replay {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    selection: Selection,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Replay {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let settings = self.settings.load()?;
        on_runtime(&settings, async |settings| {
            let inspection = Inspection::open(&settings, InspectionPurpose::Audit).await?;
            let tally = self.open_and_replay(&settings, &inspection).await;
            inspection.close().await;
            let tally = tally?;
            tally.write(self.json)?;
            Ok(tally.answer())
        })
    }

    async fn open_and_replay(
        &self,
        settings: &Settings,
        inspection: &Inspection,
    ) -> Result<ReplayTally, CommandFailure> {
        if self.dry_run {
            return self.replay(settings, inspection, None).await;
        }
        let held = || {
            CommandFailure::Unavailable(format!(
                "{} has the log open: stop `receipts up`, replay, and start it again (--dry-run works beside it)",
                settings.data.holder()
            ))
        };
        // Kafka's log has any number of writers.
        if inspection.live && !settings.kafka.is_given() {
            return Err(held());
        }
        let open = || Log::open(&settings.kafka, &settings.log, &settings.data.log());
        let log = tokio::task::block_in_place(open).map_err(|error| match error {
            LogOpenError::Embedded(OpenError::InUse(_)) => held(),
            error => CommandFailure::unavailable(error),
        })?;
        let tally = match tokio::task::block_in_place(|| log.writer()) {
            Ok(writer) => self.replay(settings, inspection, Some(&*writer)).await,
            Err(error) => Err(CommandFailure::unavailable(error)),
        };
        tokio::task::block_in_place(|| log.close());
        tally
    }

    async fn replay(
        &self,
        settings: &Settings,
        inspection: &Inspection,
        log: Option<&dyn LogWriter>,
    ) -> Result<ReplayTally, CommandFailure> {
        let filter = self.selection.filter(true)?;
        let warehouse = &inspection.warehouse;
        let total = warehouse
            .rejected_count(&filter)
            .await
            .map_err(CommandFailure::unavailable)?;
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} rejected receipts  eta {eta}") {
            bar.set_style(style);
        }
        let mut run = ReplayRun {
            warehouse,
            log,
            retained: Retained::of(&*inspection.log).await?,
            cpu: CpuPool::parallel("replay", 0, 4).map_err(CommandFailure::unavailable)?,
            judge: Arc::new(Judge::new(
                settings.limits.clone(),
                settings.verifier.key_cache_entries_max,
            )),
            policy: PresentPolicy::open(settings).await?,
            by: user(),
            remembered: HashMap::new(),
            tally: ReplayTally {
                dry_run: self.dry_run,
                ..ReplayTally::default()
            },
        };
        let mut after: Option<RejectedCursor> = None;
        loop {
            let keys = warehouse.rejected_keys(&filter, RejectedOrder::Stored, after.as_ref(), PAGE_ROWS);
            let keys = keys.await.map_err(CommandFailure::unavailable)?;
            let Some(last) = keys.last().cloned() else { break };
            let rows = warehouse.rejected(&keys).await.map_err(CommandFailure::unavailable)?;
            for step in steps(rows) {
                let rows = step.len() as u64;
                let done = run.step(step).await;
                done.inspect_err(|_| bar.finish_and_clear())
                    .map_err(|failure| run.stopped(failure))?;
                bar.inc(rows);
            }
            after = Some(last);
        }
        bar.finish_and_clear();
        Ok(run.tally)
    }
}

/// Rows in steps that fit into memory.
fn steps(rows: Vec<Rejected>) -> Vec<Vec<Rejected>> {
    let mut steps: Vec<Vec<Rejected>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        bytes += row.raw_bytes;
        match steps.last_mut() {
            Some(step) if step.len() < STEP_ROWS && bytes <= STEP_BYTES => step.push(row),
            _ => {
                bytes = row.raw_bytes;
                steps.push(vec![row]);
            }
        }
    }
    steps
}

/// A replay.
struct ReplayRun<'a> {
    warehouse: &'a Warehouse,
    /// `None` in a dry run.
    log: Option<&'a dyn LogWriter>,
    retained: Retained<'a>,
    cpu: CpuPool,
    judge: Arc<Judge>,
    policy: PresentPolicy,
    by: String,
    /// Positions of payloads that this run met or appended.
    remembered: HashMap<PayloadKey, u128>,
    tally: ReplayTally,
}

impl ReplayRun<'_> {
    /// Judges, appends and marks these rows.
    async fn step(&mut self, rows: Vec<Rejected>) -> Result<(), CommandFailure> {
        if self.remembered.len() > REMEMBERED_MAX {
            self.remembered.clear();
        }
        let passing = self.judge(rows).await?;
        let counted = self.counted(&passing).await?;
        self.remembered.extend(counted);
        let (mut to_append, mut equal) = (Vec::new(), Vec::new());
        let mut ahead: HashSet<PayloadKey> = HashSet::new();
        for (position, passing) in passing {
            let known = |key: &PayloadKey| self.remembered.contains_key(key) || ahead.contains(key);
            if passing.keys().all(|key| known(&key)) {
                equal.push((position, passing));
            } else {
                ahead.extend(passing.keys());
                to_append.push((position, passing));
            }
        }
        let Some(log) = self.log else {
            self.tally.appended += to_append.len() as u64;
            self.tally.already_counted += equal.len() as u64;
            let places = to_append
                .iter()
                .flat_map(|(at, passing)| passing.keys().map(|key| (key, *at)));
            self.remembered.extend(places);
            return Ok(());
        };
        let appends = to_append.iter().map(|(_, passing)| append(log, passing.record.clone()));
        let (mut marks, mut failed) = (Vec::new(), None);
        for ((position, passing), appended) in to_append.iter().zip(join_all(appends).await) {
            match appended {
                Ok(Appended { position: place, .. }) => {
                    self.tally.appended += 1;
                    self.remembered
                        .extend(passing.keys().map(|key| (key, place.receipt(0))));
                    marks.push(self.mark(*position, place.receipt(0), true));
                }
                Err(error) => failed = Some(error),
            }
        }
        for (position, passing) in equal {
            let places: Option<Vec<u128>> = passing.keys().map(|key| self.remembered.get(&key).copied()).collect();
            // None where the one it equals couldn't be appended.
            if let Some(first) = places.and_then(|places| places.into_iter().min()) {
                self.tally.already_counted += 1;
                marks.push(self.mark(position, first, false));
            }
        }
        // What was appended is marked, also where something else went wrong.
        self.write(&marks).await?;
        failed.map_or(Ok(()), |error| Err(CommandFailure::unavailable(error)))
    }

    /// Judges the rows again, counts those that don't pass, and returns the others with their
    /// positions.
    async fn judge(&mut self, rows: Vec<Rejected>) -> Result<Vec<(u128, Passing)>, CommandFailure> {
        self.tally.selected += rows.len() as u64;
        let keys: Vec<RejectedCursor> = rows.iter().map(key).collect();
        let mut raw = self
            .warehouse
            .rejected_raw(&keys)
            .await
            .map_err(CommandFailure::unavailable)?;
        let with_raw: Vec<(Rejected, Bytes)> = rows
            .into_iter()
            .filter_map(|row| raw.remove(&row.position).map(|raw| (row, Bytes::from(raw))))
            .collect();
        let judge = Arc::clone(&self.judge);
        let judged = self.cpu.run_waiting(move || {
            let judged = with_raw.into_par_iter().map(|(row, raw)| {
                let verdict = judge_alone(&judge, &row, &raw);
                (row.position, raw, verdict)
            });
            judged.collect::<Vec<_>>()
        });
        let mut passing = Vec::new();
        for (position, raw, verdict) in judged.await.map_err(CommandFailure::unavailable)? {
            let verdict = match verdict {
                Some(verdict) => verdict,
                None => {
                    let at = ReceiptPosition::from(position);
                    let Some(record) = self.retained.record(at, &self.cpu, &self.judge).await? else {
                        self.tally.not_judged(at.to_string());
                        continue;
                    };
                    record.verdict(at.index, &raw)
                }
            };
            match verdict {
                Rejudgement::Passes(passes) => passing.push((position, *passes)),
                Rejudgement::Rejected(reason) => self.tally.still_rejected(reason),
            }
        }
        self.admit(passing).await
    }

    /// Counts those that the policy refuses now, and returns the others.
    async fn admit(&mut self, passing: Vec<(u128, Passing)>) -> Result<Vec<(u128, Passing)>, CommandFailure> {
        let asked: Vec<&Passing> = passing.iter().map(|(_, passing)| passing).collect();
        let refused = self
            .policy
            .rejections(&asked)
            .await
            .map_err(CommandFailure::unavailable)?;
        let mut admitted = Vec::new();
        for (passing, refused) in passing.into_iter().zip(refused) {
            match refused {
                Some(reason) => self.tally.still_rejected(reason),
                None => admitted.push(passing),
            }
        }
        Ok(admitted)
    }

    /// Positions of those of their payloads that count already.
    async fn counted(&self, passing: &[(u128, Passing)]) -> Result<HashMap<PayloadKey, u128>, CommandFailure> {
        let payloads: Vec<&Payload> = passing.iter().flat_map(|(_, passing)| &passing.payloads).collect();
        let Some(times) = time_range(&payloads) else {
            return Ok(HashMap::new());
        };
        let ids: Vec<Uuid> = payloads.iter().map(|payload| payload.receipt_id).collect();
        let publishers: Vec<&str> = payloads.iter().map(|payload| payload.publisher.as_str()).collect();
        let standing = self.warehouse.standing(&publishers, times, &ids).await;
        let standing = standing.map_err(CommandFailure::unavailable)?;
        Ok(standing
            .into_iter()
            .map(|one| ((one.id, one.hash), one.first_position))
            .collect())
    }

    fn mark(&self, position: u128, replayed_as: u128, appended: bool) -> ReplayRow {
        ReplayRow {
            position,
            replayed_as,
            appended,
            replayed_at_ms: now_ms(),
            replayed_by: self.by.clone(),
        }
    }

    async fn write(&self, marks: &[ReplayRow]) -> Result<(), CommandFailure> {
        let mut pauses = 0;
        loop {
            match self.warehouse.insert_replays(marks).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retryable() && pauses < PAUSES_MAX => pauses += 1,
                Err(error) => return Err(CommandFailure::unavailable(error)),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A failure with what was done before it.
    fn stopped(&self, failure: CommandFailure) -> CommandFailure {
        match failure {
            CommandFailure::Unavailable(why) => CommandFailure::Unavailable(format!(
                "{why}\nstopped after {} rejected receipts, of which {} were appended to the log; it can be run again",
                self.tally.selected, self.tally.appended
            )),
            other => other,
        }
    }
}

/// Appends a record, waiting while the log's queue is full.
async fn append(log: &dyn LogWriter, record: Record) -> Result<Appended, AppendError> {
    let mut pauses = 0;
    loop {
        match log.append(record.clone()).await {
            Err(AppendError::Busy) if pauses < PAUSES_MAX => pauses += 1,
            other => return other,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn key(row: &Rejected) -> RejectedCursor {
    RejectedCursor {
        publisher: row.publisher.clone(),
        received_at_ms: row.received_at_ms,
        position: row.position,
    }
}

/// Name of the user, for the marks.
fn user() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
