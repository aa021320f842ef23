//! `receipts rejected replay`: rejected receipts go back into the log `receipts` with their
//! original arrival, and verifier and writer decide as for every record.
//!
//! A receipt counts once however often it is replayed: its payload hash makes the second occurrence
//! a duplicate. A receipt that is rejected again is a further row of `rejected`, of which the next
//! replay appends only one.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use receipt::{Origin, RejectReason};
use receipt_log::{
    AppendError, Log, LogInspector, LogOpenError, LogWriter, OpenError, ReceiptPosition, Record, RecordKind,
};
use serde::Serialize;
use warehouse::{Rejected, RejectedCursor, RejectedFilter, RejectedOrder, Warehouse};

use super::rendering::count;
use super::selection::Selection;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose, inspect};
use crate::listing;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::{WARN, mark, paint};

/// Rejected receipts found at a time.
const PAGE_ROWS: u64 = 5_000;
/// Rejected receipts appended at a time: at most so many, and their bytes, but always one.
const STEP_ROWS: usize = 1_000;
const STEP_BYTES: u64 = 8 << 20;
/// Pauses while the log's queue is full, and how many of them.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSES_MAX: u32 = 300;

const AFTER_HELP: &str = "\
For receipts that a policy, the warehouse or the end of their batch's checks rejected, after the cause is fixed: \
reasons client_key_unknown, client_key_revoked, entry_unknown, refused_by_warehouse and batch_abandoned. Receipts with \
other reasons are rejected again whoever appends them; their sender has to send better ones.

Each selected receipt is appended to the log with its original time, request id, signature and address. The verifier \
decides by the present policies, as of the original time. The rejected row stays. What is rejected again is a further \
row. A replay can be interrupted and run again: nothing counts twice.

The embedded log has one writer, so stop `receipts up` first; --dry-run works beside it. On Kafka it all works beside \
the running services.

Examples:
  receipts rejected replay --dry-run
  receipts rejected replay --reason client_key_unknown \\
    --from 2026-07-01 --to 2026-07-02
  receipts rejected replay --position 2863311530:0:41:0 --json

Exit codes:
  0  all that was selected is in the log again
  1  the bytes of some weren't stored, so they can't be replayed
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable, or `receipts up` has the log open";

/// Append rejected receipts to the log again, for a new verdict
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Replay {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    selection: Selection,
    /// Count what would be appended, and append nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Replay {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let filter = replayable(self.selection.filter()?)?;
        let summary = inspect(
            &self.settings,
            InspectionPurpose::Audit,
            async |settings, inspection| self.open_and_replay(settings, inspection, &filter).await,
        )?;
        listing::report(&summary, self.json, &summary.to_lines())?;
        Ok(CommandOutcome::of(summary.without_bytes == 0))
    }

    async fn open_and_replay(
        &self,
        settings: &Settings,
        inspection: &Inspection,
        filter: &RejectedFilter,
    ) -> Result<ReplaySummary, CommandFailure> {
        if self.dry_run {
            return replay(inspection, filter, None).await;
        }
        let held = || {
            CommandFailure::Unavailable(format!(
                "{} has the log open: stop `receipts up`, replay, and start it again (--dry-run works beside it)",
                settings.data.holder()
            ))
        };
        // Kafka's log has any number of writers.
        if inspection.live && !settings.kafka.is_shared() {
            return Err(held());
        }
        let open = || Log::open(&settings.kafka, &settings.log, &settings.data.log());
        let log = tokio::task::block_in_place(open).map_err(|error| match error {
            LogOpenError::Embedded(OpenError::InUse(_)) => held(),
            error => CommandFailure::unavailable(error),
        })?;
        let summary = match tokio::task::block_in_place(|| log.writer()) {
            Ok(writer) => replay(inspection, filter, Some(&*writer)).await,
            Err(error) => Err(CommandFailure::unavailable(error)),
        };
        tokio::task::block_in_place(|| log.close());
        summary
    }
}

/// Whether a receipt that was rejected for this reason may pass unchanged.
fn may_pass_later(reason: RejectReason) -> bool {
    reason.is_of_policy() || matches!(reason, RejectReason::RefusedByWarehouse | RejectReason::BatchAbandoned)
}

/// Restricts the filter to reasons that may pass later.
fn replayable(mut filter: RejectedFilter) -> Result<RejectedFilter, CommandFailure> {
    let reasons = RejectReason::ALL.iter().filter(|reason| may_pass_later(**reason));
    let texts: Vec<String> = reasons.map(ToString::to_string).collect();
    if let Some(other) = filter.reasons.iter().find(|reason| !texts.contains(reason)) {
        return Err(CommandFailure::Input(format!(
            "a receipt that is rejected as {other} is rejected again; its sender has to send a better one. Reasons that \
             can be replayed: {}",
            texts.join(", ")
        )));
    }
    if filter.reasons.is_empty() {
        filter.reasons = texts;
    }
    Ok(filter)
}

/// Results of a replay.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplaySummary {
    /// Whether nothing was changed.
    dry_run: bool,
    /// Appended to the log.
    appended: u64,
    /// Receipts whose bytes weren't stored.
    without_bytes: u64,
}

impl ReplaySummary {
    fn to_lines(&self) -> Vec<String> {
        let done = match self.dry_run {
            true => "would be appended to the log",
            false => "appended to the log; the verifier decides when it reads them there",
        };
        let receipts = |n| count(n, "rejected receipt");
        let mut lines = vec![format!("{} {} {done}", mark(true), receipts(self.appended))];
        if self.without_bytes > 0 {
            lines.push(format!(
                "{} {} can't be replayed: their bytes weren't stored (limits of [verifier]); their sender has to send \
                 them again",
                paint(WARN, "!"),
                receipts(self.without_bytes)
            ));
        }
        lines
    }
}

/// Appends what the filter selects. Without a log it only counts.
async fn replay(
    inspection: &Inspection,
    filter: &RejectedFilter,
    log: Option<&dyn LogWriter>,
) -> Result<ReplaySummary, CommandFailure> {
    let warehouse = &inspection.warehouse;
    let mut run = ReplayRun {
        warehouse,
        log,
        snapshot: LogSnapshot::read(&*inspection.log).await?,
        arrival: None,
        bodies: HashSet::new(),
        summary: ReplaySummary {
            dry_run: log.is_none(),
            ..ReplaySummary::default()
        },
    };
    let mut after: Option<RejectedCursor> = None;
    loop {
        let keys = warehouse.rejected_keys(filter, RejectedOrder::Stored, after.as_ref(), PAGE_ROWS);
        let mut keys = keys.await.map_err(CommandFailure::unavailable)?;
        let Some(last) = keys.last().cloned() else {
            return Ok(run.summary);
        };
        keys.retain(|key| run.snapshot.contains(key.position.into()));
        let rows = warehouse.rejected(&keys).await.map_err(CommandFailure::unavailable)?;
        for step in steps(rows) {
            run.step(step).await?;
        }
        after = Some(last);
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

/// Ends of the log's partitions before the replay. Beside running services, what the replay appends
/// is rejected while it runs, and must not be replayed by the same run.
struct LogSnapshot(HashMap<(u32, u32), u64>);

impl LogSnapshot {
    async fn read(log: &dyn LogInspector) -> Result<Self, CommandFailure> {
        let partitions = log.partitions(verifier::GROUP).await;
        let partitions = partitions.map_err(CommandFailure::unavailable)?.into_iter();
        let ends = partitions.map(|state| ((state.epoch, state.partition), state.end_offset));
        Ok(Self(ends.collect()))
    }

    /// Whether the position existed before the replay. Positions of other epochs are older logs'.
    fn contains(&self, position: ReceiptPosition) -> bool {
        let record = position.record;
        let end = self.0.get(&(record.epoch, record.partition));
        end.is_none_or(|end| record.offset < *end)
    }
}

struct ReplayRun<'a> {
    warehouse: &'a Warehouse,
    /// `None` in a dry run.
    log: Option<&'a dyn LogWriter>,
    snapshot: LogSnapshot,
    /// Publisher and time of arrival of `bodies`.
    arrival: Option<(String, i64)>,
    /// Distinct bodies of one publisher and time, with their signatures. Earlier replays have left
    /// further rows of the same arrival, which follow each other in the order of the table.
    bodies: HashSet<(Bytes, Option<String>)>,
    summary: ReplaySummary,
}

impl ReplayRun<'_> {
    /// Appends the receipts of these rows.
    async fn step(&mut self, rows: Vec<Rejected>) -> Result<(), CommandFailure> {
        let keys: Vec<RejectedCursor> = rows.iter().map(key).collect();
        let bodies = self.warehouse.rejected_raw(&keys).await;
        let mut bodies = bodies.map_err(CommandFailure::unavailable)?;
        let mut records = Vec::new();
        for row in rows {
            if !row.has_bytes() {
                self.summary.without_bytes += u64::from(row.receipts);
                continue;
            }
            // Otherwise the row has expired since it was found.
            if let Some(body) = bodies.remove(&row.position) {
                let record = record(&row, body.into());
                if self.is_first(row.publisher, &record) {
                    records.push(record);
                }
            }
        }
        let Some(log) = self.log else {
            self.summary.appended += records.len() as u64;
            return Ok(());
        };
        let mut failed = None;
        for appended in join_all(records.into_iter().map(|record| append(log, record))).await {
            match appended {
                Ok(()) => self.summary.appended += 1,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), |error| {
            Err(CommandFailure::Unavailable(format!(
                "{error}\nstopped after {} were appended to the log; it can be run again",
                count(self.summary.appended, "rejected receipt")
            )))
        })
    }

    /// Whether no record of this run has this body and arrival.
    fn is_first(&mut self, publisher: String, record: &Record) -> bool {
        let arrival = Some((publisher, record.received_at_ms));
        if self.arrival != arrival {
            self.arrival = arrival;
            self.bodies.clear();
        }
        self.bodies
            .insert((record.body.clone(), record.request_signature.clone()))
    }
}

/// The record in which a rejected receipt arrived. A receipt of a signed batch becomes a record of
/// its own, because the batch's signature was good.
fn record(rejected: &Rejected, body: Bytes) -> Record {
    let is_whole = rejected.origin == Origin::Record.as_str();
    let kind = if is_whole && rejected.kind == "batch" {
        RecordKind::Batch
    } else {
        RecordKind::Receipt
    };
    Record {
        kind,
        body,
        request_signature: rejected.request_signature.clone().filter(|_| is_whole),
        request_id: rejected.request_id.clone(),
        received_at_ms: rejected.received_at_ms,
        client_address: rejected.client_address.parse().ok(),
        trace: None,
    }
}

/// Appends a record, waiting while the log's queue is full.
async fn append(log: &dyn LogWriter, record: Record) -> Result<(), AppendError> {
    let mut pauses = 0;
    loop {
        match log.append(record.clone()).await {
            Err(AppendError::Busy) if pauses < PAUSES_MAX => pauses += 1,
            other => return other.map(|_| ()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_that_may_pass_later_are_replayed() {
        let filter = |reasons: &[&str]| RejectedFilter {
            reasons: reasons.iter().map(ToString::to_string).collect(),
            ..RejectedFilter::default()
        };
        let all = [
            "batch_abandoned",
            "refused_by_warehouse",
            "client_key_unknown",
            "client_key_revoked",
            "entry_unknown",
        ];
        assert_eq!(replayable(filter(&[])).unwrap(), filter(&all));
        assert_eq!(replayable(filter(&all[3..])).unwrap(), filter(&all[3..]));
        assert!(replayable(filter(&["entry_unknown", "bad_signature"])).is_err());
    }

    /// Otherwise a run beside the services would replay its own records, without an end.
    #[test]
    fn records_appended_since_the_start_are_not_replayed() {
        let snapshot = LogSnapshot(HashMap::from([((7, 0), 41)]));
        let contains = |position: &str| snapshot.contains(position.parse().unwrap());
        assert!(contains("7:0:40:9"));
        assert!(!contains("7:0:41:0"));
        assert!(contains("6:0:99:0"), "of the log before it was recreated");
    }
}
