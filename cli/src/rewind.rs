//! `receipts rewind`: after the log of verdicts was lost, sets the verifiers back to what is
//! stored.
//!
//! | crash after | what happens then |
//! |---|---|
//! | the old log is moved aside | the writer refuses the new log's epoch; run it again |
//! | the positions are set back | the writer refuses the missing verdicts; run it again |
//! | progress is published | the writer continues in the new log |

use std::path::{Path, PathBuf};

use receipt_log::{KafkaOpenError, Log, LogInspector, LogOpenError, OpenError, PartitionState};
use serde::Serialize;
use warehouse::{ShardProgress, VerdictsPosition, Warehouse};
use writer::continuity::break_in;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::inspection::{Inspection, InspectionPurpose, inspect, stored_by_all};
use crate::listing;
use crate::settings::{Settings, SettingsArgs};
use crate::terminal::mark;

const AFTER_HELP: &str = "\
For the day the writer stops because the log of verdicts was lost, truncated, damaged or made again, or because source \
records are missing in it. Sets the verifiers' positions in the log of receipts back to what the ledger says is stored. \
They then append the missing verdicts again, to a new log of verdicts, and the writer continues there. Nothing is counted \
twice. Receipts are judged again by the present rules and policy, unless their verdicts are stored already. With several \
shards, that means in all of them: what one shard has stored beyond the others is judged again, so don't change policies \
before.

The embedded log: stop `receipts up` first. The old log of verdicts is moved aside, to verdicts.old-TIME in the data \
directory; delete it once `receipts audit` passes. On Kafka: stop the verifiers and delete the topic of verdicts first; \
the command creates it again. It refuses to change anything while a verifier runs, or where nothing is lost.

Examples:
  receipts rewind --data /var/lib/receipts
  receipts rewind --config receipts.toml --json
  kafka-topics.sh --bootstrap-server kafka:9092 --delete --topic verdicts &&
    receipts rewind --config receipts.toml

Exit codes:
  0  the verifiers continue behind what is stored, now or already before
  1  records that are needed are no longer in the log of receipts, see --accept-loss
  2  wrong usage, or there is no such data directory
  3  an engine is unavailable, or a verifier runs";

/// Set the verifiers back, after the log of verdicts was lost
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Rewind {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Also continue where records without stored verdicts are no longer in the log of receipts
    #[arg(long)]
    accept_loss: bool,
    /// Write what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Position from which the verifiers of a partition continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct RewindTarget {
    partition: u32,
    #[serde(skip)]
    epoch: u32,
    /// Offset that they had reached.
    from: u64,
    /// Offset from which they continue.
    to: u64,
    /// Records that are neither stored nor in the log.
    #[serde(rename = "recordsLost")]
    lost: u64,
}

/// Result of a run.
#[derive(Debug)]
enum RewindOutcome {
    /// The log of verdicts continues what is stored.
    Unneeded,
    /// Records are lost, and nothing was changed.
    Refused { reason: String, targets: Vec<RewindTarget> },
    /// The verifiers were set back.
    Rewound {
        reason: String,
        targets: Vec<RewindTarget>,
        moved_to: Option<PathBuf>,
    },
}

impl Rewind {
    /// Runs the command.
    pub fn run(self) -> Result<CommandOutcome, CommandFailure> {
        let outcome = inspect(
            &self.settings,
            InspectionPurpose::Audit,
            async |settings, inspection| rewind(settings, inspection, self.accept_loss).await,
        )?;
        listing::report(&outcome.shown(), self.json, &outcome.to_lines())?;
        let is_refused = matches!(outcome, RewindOutcome::Refused { .. });
        Ok(CommandOutcome::of(!is_refused))
    }
}

async fn rewind(
    settings: &Settings,
    inspection: &Inspection,
    accept_loss: bool,
) -> Result<RewindOutcome, CommandFailure> {
    if inspection.live && !settings.kafka.is_shared() {
        let holder = settings.data.holder();
        return Err(CommandFailure::Unavailable(format!(
            "{holder} has the logs open: stop `receipts up`, rewind, and start it again"
        )));
    }
    let receipts = inspection.log.partitions(verifier::GROUP).await;
    let receipts = receipts.map_err(CommandFailure::unavailable)?;
    let stored = inspection.all_stored().await?;
    let Some(reason) = reason(settings, &receipts, &stored).await? else {
        return Ok(RewindOutcome::Unneeded);
    };
    let targets = targets(&receipts, &stored)?;
    if !accept_loss && targets.iter().any(|target| target.lost > 0) {
        return Ok(RewindOutcome::Refused { reason, targets });
    }
    let moved_to = if settings.kafka.is_shared() {
        None
    } else {
        move_aside(&settings.data.verdicts())?
    };
    // From here on no other process is a shard's writer.
    let mut writer_epochs = Vec::new();
    for (shard, warehouse) in inspection.shards() {
        let writer_epoch = warehouse.take_epoch(shard).await.map_err(CommandFailure::unavailable)?;
        let reason = "another process became a shard's writer at the same time: run `receipts rewind` again";
        writer_epochs.push(writer_epoch.ok_or_else(|| CommandFailure::unavailable(reason))?);
    }
    let next = VerdictsPosition {
        epoch: new_log(settings).await?,
        offset: 0,
    };
    set_back(settings, &targets)?;
    for (((_, warehouse), stored), writer_epoch) in inspection.shards().zip(&stored).zip(&writer_epochs) {
        forget_ledger(warehouse, &targets).await?;
        let progress = progress(stored, &targets, next);
        let published = warehouse.publish_progress(&progress, Some(writer_epoch)).await;
        published.map_err(CommandFailure::unavailable)?;
        if !warehouse
            .holds_epoch(writer_epoch)
            .await
            .map_err(CommandFailure::unavailable)?
        {
            let reason = "a writer started meanwhile: stop the writers, and run `receipts rewind` again";
            return Err(CommandFailure::unavailable(reason));
        }
    }
    Ok(RewindOutcome::Rewound {
        reason,
        targets,
        moved_to,
    })
}

/// Deletes the ledger lines of a shard that has stored more than all others: the verdicts on them
/// come again. Their rows are equal to those that are stored, and merge.
async fn forget_ledger(warehouse: &Warehouse, targets: &[RewindTarget]) -> Result<(), CommandFailure> {
    for target in targets {
        let offsets = target.to..u64::MAX;
        let lines = warehouse.ledger_bounds(target.epoch, target.partition, offsets).await;
        let lines = lines.map_err(CommandFailure::unavailable)?;
        let first_offsets: Vec<u64> = lines.iter().map(|line| line.start).collect();
        let deleted = warehouse.delete_ledger_lines(target.epoch, target.partition, &first_offsets);
        deleted.await.map_err(CommandFailure::unavailable)?;
    }
    Ok(())
}

/// Why the log of verdicts can't continue what is stored; none if it can.
async fn reason(
    settings: &Settings,
    receipts: &[PartitionState],
    stored: &[ShardProgress],
) -> Result<Option<String>, CommandFailure> {
    let open = || Log::open_verdicts_to_look(&settings.kafka, &settings.data.verdicts());
    let verdicts = match tokio::task::block_in_place(open) {
        Ok(verdicts) => verdicts,
        // Only an engine that can't be reached may be in order.
        Err(missing @ LogOpenError::Kafka(KafkaOpenError::Missing { .. })) => return Ok(Some(missing.to_string())),
        Err(LogOpenError::Embedded(
            unusable @ (OpenError::Missing(_) | OpenError::Damaged { .. } | OpenError::DamagedPosition { .. }),
        )) => return Ok(Some(unusable.to_string())),
        Err(error) => return Err(CommandFailure::unavailable(error)),
    };
    for shard in stored {
        match break_in(verdicts.as_ref(), receipts, shard).await {
            Ok(None) => {}
            Ok(reason) => return Ok(reason),
            // The disk is here, so a file that can't be read is damaged.
            Err(damaged) if !settings.kafka.is_shared() => return Ok(Some(damaged.to_string())),
            Err(error) => return Err(CommandFailure::unavailable(error)),
        }
    }
    Ok(None)
}

/// Reads where the verifiers continue: behind what all shards have stored.
fn targets(receipts: &[PartitionState], stored: &[ShardProgress]) -> Result<Vec<RewindTarget>, CommandFailure> {
    let mut targets = Vec::new();
    for state in receipts {
        // A shard without anything may have lost its tables: then all that is left is judged again.
        let has_empty = stored.iter().any(|shard| shard.partitions.is_empty());
        let common = stored_by_all(stored, state).filter(|_| !has_empty);
        let wanted = common.unwrap_or(state.begin_offset);
        if wanted > state.end_offset {
            return Err(CommandFailure::Unavailable(format!(
                "partition {} of receipts ends at offset {}, and verdicts are stored up to offset {wanted}: the log of receipts \
                 was set back. With the embedded log: move log/ aside, too (keep it), and start again; a new epoch begins",
                state.partition, state.end_offset
            )));
        }
        let to = wanted.max(state.begin_offset);
        let committed = state
            .committed
            .as_ref()
            .filter(|committed| committed.epoch == state.epoch);
        targets.push(RewindTarget {
            partition: state.partition,
            epoch: state.epoch,
            from: committed.map_or(state.begin_offset, |committed| committed.next_offset),
            to,
            lost: to - wanted,
        });
    }
    Ok(targets)
}

/// Progress with which the writer continues: everything that is stored, in the new log.
fn progress(stored: &ShardProgress, targets: &[RewindTarget], next: VerdictsPosition) -> ShardProgress {
    let mut progress = stored.clone();
    progress.version += 1;
    progress.verdicts = next;
    for one in &mut progress.partitions {
        let mut targets = targets.iter();
        if let Some(target) = targets.find(|target| (target.epoch, target.partition) == (one.epoch, one.partition)) {
            one.next_offset = target.to;
        }
    }
    progress
}

/// Renames the old log of verdicts, if there is one.
fn move_aside(verdicts: &Path) -> Result<Option<PathBuf>, CommandFailure> {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.3fZ");
    let aside = verdicts.with_file_name(format!("verdicts.old-{time}"));
    match std::fs::rename(verdicts, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let (from, to) = (verdicts.display(), aside.display());
            Err(CommandFailure::Unavailable(format!(
                "{from} can't be moved to {to}: {error}"
            )))
        }
    }
}

/// Makes the new log of verdicts and returns its epoch. On Kafka a topic without records may exist
/// already.
async fn new_log(settings: &Settings) -> Result<u32, CommandFailure> {
    let open = || Log::open_verdicts(&settings.kafka, &settings.verdicts.0, &settings.data.verdicts());
    let log = tokio::task::block_in_place(open).map_err(CommandFailure::unavailable)?;
    let states = log.inspector().partitions(writer::GROUP).await;
    tokio::task::block_in_place(|| log.close());
    let states = states.map_err(CommandFailure::unavailable)?;
    if states.iter().any(|state| state.end_offset > 0) {
        let (brokers, topic) = (&settings.kafka.brokers, &settings.kafka.verdicts_topic);
        return Err(CommandFailure::Unavailable(format!(
            "the topic {topic} has records that don't continue what is stored. Stop the verifiers, delete the topic, and run \
             `receipts rewind` again:\n  kafka-topics.sh --bootstrap-server {brokers} --delete --topic {topic}"
        )));
    }
    let state = states.first();
    let state = state.ok_or_else(|| CommandFailure::Unavailable("the log of verdicts has no partition".to_owned()))?;
    Ok(state.epoch)
}

/// Sets the verifiers' positions.
fn set_back(settings: &Settings, targets: &[RewindTarget]) -> Result<(), CommandFailure> {
    let positions: Vec<(u32, u64)> = targets.iter().map(|target| (target.partition, target.to)).collect();
    let rewind = || Log::rewind(&settings.kafka, &settings.data.log(), verifier::GROUP, &positions);
    tokio::task::block_in_place(rewind).map_err(CommandFailure::unavailable)
}

/// A result for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRewind<'a> {
    rewound: bool,
    reason: Option<&'a str>,
    moved_to: Option<&'a Path>,
    partitions: &'a [RewindTarget],
}

impl RewindOutcome {
    fn shown(&self) -> ShownRewind<'_> {
        let (rewound, reason, partitions, moved_to) = match self {
            Self::Unneeded => (false, None, &[][..], None),
            Self::Refused { reason, targets } => (false, Some(reason), &targets[..], None),
            Self::Rewound {
                reason,
                targets,
                moved_to,
            } => (true, Some(reason), &targets[..], moved_to.as_deref()),
        };
        ShownRewind {
            rewound,
            reason: reason.map(String::as_str),
            moved_to,
            partitions,
        }
    }

    fn to_lines(&self) -> Vec<String> {
        let lost = |target: &&RewindTarget| target.lost > 0;
        let loss = |target: &RewindTarget| {
            let RewindTarget {
                partition, lost, to, ..
            } = target;
            let (first, last) = (to - lost, to - 1);
            format!(
                "  partition {partition}: records {first} to {last} have no stored verdicts and are no longer in the log"
            )
        };
        match self {
            Self::Unneeded => vec![format!(
                "{} the log of verdicts continues what is stored: nothing to rewind",
                mark(true)
            )],
            Self::Refused { reason, targets } => {
                let mut lines = vec![format!("{} the log of verdicts is unusable: {reason}", mark(false))];
                lines.extend(targets.iter().filter(lost).map(loss));
                lines.push(
                    "nothing was changed. `receipts rewind --accept-loss` continues without them: their receipts aren't counted, \
                     and `receipts audit` reports the gap"
                        .to_owned(),
                );
                lines
            }
            Self::Rewound {
                reason,
                targets,
                moved_to,
            } => {
                let mut lines = vec![format!("{} the log of verdicts was replaced: {reason}", mark(true))];
                lines.extend(
                    moved_to
                        .iter()
                        .map(|path| format!("  the old one is in {}", path.display())),
                );
                let set = |target: &RewindTarget| {
                    let RewindTarget {
                        partition, from, to, ..
                    } = target;
                    format!("  partition {partition}: the verifiers continue at offset {to} (they had come to {from})")
                };
                lines.extend(targets.iter().map(set));
                lines.extend(targets.iter().filter(lost).map(loss));
                lines.push("start the services again, then run `receipts audit`".to_owned());
                lines
            }
        }
    }
}
