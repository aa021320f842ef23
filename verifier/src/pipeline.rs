//! The verifier's pipeline.
//!
//! ```text
//! log ── poll ──> gather ──> judge (rayon) ──> admit (accounts) ──> write (warehouse) ──> dead letters ──> commit (log, carries the ledger line) ──> ledger row
//! ```
//!
//! Admitting is asking the deployment's policy, if it has one, and is part of the judging. Judging and writing each hold
//! one block at a time and run beside the gathering of the next; commits
//! are made in order by the one task that owns the consumer.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, histogram};
use receipt::Judge;
use receipt_log::{Assignment, Commit, CommitError, ConsumeError, DeadLetters, LogConsumer, LogInspector, PollLimits};
use service::cpu::CpuPool;
use service::health::Health;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, error, info, warn};
use warehouse::{LedgerRow, Warehouse};

use crate::admitting::{Admission, NotTaken};
use crate::block::{Block, Claims, Gathering};
use crate::config::VerifierConfig;
use crate::judging::{Facts, JudgedBlock, judge_block};
use crate::ledger;
use crate::policy::PolicyBook;
use crate::resuming::{NotResumed, Resuming};
use crate::standing::Standing;
use crate::traces::Traces;
use crate::writing::{Backoff, Stopped, Writer};

/// The longest one poll waits while nothing is under way, so that a stop is noticed.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// The longest one poll waits while blocks are under way, so that their commits aren't late.
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// What the verifier works with.
pub struct Deps {
    /// This verifier's membership in the group [`crate::GROUP`].
    pub consumer: Box<dyn LogConsumer>,
    /// The log, to see how far it goes.
    pub log: Arc<dyn LogInspector>,
    /// Where outcomes go.
    pub warehouse: Warehouse,
    /// What the deployment demands of receipts beyond good signatures. `None`, for the open policy only, where there is no account
    /// store.
    pub policy: Option<PolicyBook>,
    /// Where copies of rejected receipts go, if the log's engine has a place for them.
    pub dead_letters: Option<Arc<dyn DeadLetters>>,
    /// Where judging runs.
    pub cpu: CpuPool,
    /// The rules, the limits and the key cache.
    pub judge: Arc<Judge>,
    /// Where this verifier says whether it gets on.
    pub health: Health,
}

/// Why the verifier gave up. Everything that a pause can cure is waited for instead.
#[derive(Debug, Error)]
pub enum VerifierError {
    /// A stored record is damaged: going on would lose it in silence.
    #[error(
        "{0}. Nothing is skipped in silence, so the verifier stops here; everything before is in the warehouse. With the \
         embedded log: to go on without what comes after, stop, move log/ aside (keep it) and start again; receipts \
         acknowledged and not yet verified are then only in the log moved aside"
    )]
    Damaged(ConsumeError),
    /// The ledger has lines for records that the log doesn't hold, or holds others in their place.
    #[error(
        "partition {partition}: the ledger has lines up to offset {ledger_end}, but {detail}. The log was set back, as by \
         restoring an older copy, and new records would get the positions of old ones. With the embedded log: stop, move \
         log/ aside (keep it) and start again: a new epoch begins, and nothing that is in the warehouse is lost; what \
         was acknowledged since the log was set back is only in the log moved aside"
    )]
    SetBack {
        /// The partition.
        partition: u32,
        /// One past the last offset that the ledger knows.
        ledger_end: u64,
        /// What shows it.
        detail: String,
    },
    /// The account store with the marks of an earlier policy isn't configured any more.
    #[error(
        "receipts that a policy refused stand above the committed position: an earlier verifier with a [policy] wrote them and \
         didn't commit. Their records can only be judged again with what it noted in the account store: configure the same \
         [accounts] again; [policy] may stay open"
    )]
    PolicyForgotten,
    /// A stage ended without being told to.
    #[error("the verifier's {0} stage ended unexpectedly")]
    StageEnded(&'static str),
}

/// Runs until `shutdown`, then finishes the blocks in hand (at most `drain_ms_max`) and returns.
///
/// # Errors
/// [`VerifierError`]: what no pause can cure.
pub async fn run(config: VerifierConfig, deps: Deps, shutdown: CancellationToken) -> Result<(), VerifierError> {
    let Deps {
        mut consumer,
        log,
        warehouse,
        policy,
        dead_letters,
        cpu,
        judge,
        health,
    } = deps;
    let give_up = CancellationToken::new();
    // Whatever ends this function ends the trying in its stages.
    let _given_up = give_up.clone().drop_guard();
    let writer = Writer {
        warehouse,
        dead_letters,
        cpu,
        judge,
        refused_before: Arc::default(),
        config: config.clone(),
        standing: Standing::new(health.register("verifier")),
        offenders: Arc::default(),
        stop: give_up.clone(),
    };
    let admission = Admission {
        book: policy,
        log,
        writer: writer.clone(),
        watched: Arc::default(),
    };
    let name: Arc<str> = format!("{}-{:08x}", std::process::id(), rand::random::<u32>()).into();

    let (to_judge, gathered) = mpsc::channel(1);
    let (to_write, judged) = mpsc::channel(1);
    let (to_commit, mut written) = mpsc::channel(1);
    let judging = tokio::spawn(judge_stage(gathered, to_write, name, admission.clone()));
    let writing = tokio::spawn(write_stage(judged, to_commit, writer.clone()));

    let mut claims = Claims::default();
    let mut gathering = Gathering::new(
        config.block_bytes_max,
        config.block_records_max,
        Duration::from_millis(config.block_wait_ms_max),
    );
    let mut resuming = Resuming::default();
    let mut backoff = Backoff::new(&config);
    let mut under_way = 0_usize;
    let _trying_ends = AbortOnDropHandle::new(tokio::spawn(drain(
        shutdown.clone(),
        give_up.clone(),
        config.drain_ms_max,
    )));

    while !shutdown.is_cancelled() {
        while let Ok(block) = written.try_recv() {
            under_way -= 1;
            commit(consumer.as_mut(), &mut claims, block, &writer, &config).await;
        }
        if judging.is_finished() || writing.is_finished() {
            return Err(VerifierError::StageEnded("judging or writing"));
        }
        if gathering.due() && to_judge.capacity() > 0 {
            under_way += 1;
            to_judge
                .send(gathering.close())
                .await
                .map_err(|_| VerifierError::StageEnded("judging"))?;
        }
        if gathering.full() {
            // Judging has no room either: wait for a block to come out rather than spin.
            if let Ok(Some(block)) = tokio::time::timeout(IDLE_WAIT, written.recv()).await {
                under_way -= 1;
                commit(consumer.as_mut(), &mut claims, block, &writer, &config).await;
            }
            continue;
        }
        let idle_wait = if under_way > 0 { BUSY_WAIT } else { IDLE_WAIT };
        let limits = PollLimits {
            records_max: gathering.records_left(),
            bytes_max: gathering.bytes_left(),
            wait_max: gathering.time_left().map_or(idle_wait, |left| left.min(idle_wait)),
        };
        match consumer.poll(limits).await {
            Ok(mut polled) => {
                backoff = Backoff::new(&config);
                writer.standing.well("log");
                for partition in polled.revoked {
                    claims.revoke(partition);
                    gathering.forget(partition);
                    resuming.forget(partition);
                }
                for assignment in &polled.assigned {
                    claims.assign(assignment);
                    if repair_ledger(assignment, &writer).await.is_err() {
                        break;
                    }
                    match resuming.assign(assignment, consumer.as_mut(), &writer).await {
                        Ok(false) => {}
                        // They come again, from where the reading goes on.
                        Ok(true) => polled
                            .records
                            .retain(|logged| logged.position.partition != assignment.partition),
                        Err(NotResumed::Stopped) => break,
                        Err(NotResumed::Failed(failed)) => return Err(stopping(failed, &writer)),
                    }
                }
                if writer.recall_refused(&polled.assigned).await.is_err() {
                    continue;
                }
                match admission.take(&polled.assigned).await {
                    Ok(()) => {}
                    Err(NotTaken::Stopped) => continue,
                    Err(NotTaken::Failed(failed)) => return Err(stopping(failed, &writer)),
                }
                let done = resuming.pass_over(&mut polled.records);
                for line in done.map_err(|failed| stopping(failed, &writer))? {
                    if let Err(NotCommitted::Fenced) = commit_line(consumer.as_mut(), &line, &writer, &config).await {
                        claims.revoke(line.partition);
                        resuming.forget(line.partition);
                    }
                }
                gathering.add(polled.records, &claims);
            }
            Err(damaged @ ConsumeError::Damaged { .. }) => {
                return Err(stopping(VerifierError::Damaged(damaged), &writer));
            }
            Err(ConsumeError::Unavailable(reason)) => {
                writer
                    .standing
                    .failing("log", format!("the log can't be read: {reason}"));
                warn!(reason, "the log can't be read; trying again");
                counter!("receipts_verifier_poll_failures_total").increment(1);
                tokio::time::sleep(backoff.next_wait()).await;
            }
        }
    }

    // What is in hand is finished; what was only gathered is read again by whoever comes next.
    drop(to_judge);
    while let Some(Some(block)) = give_up.run_until_cancelled(written.recv()).await {
        commit(consumer.as_mut(), &mut claims, block, &writer, &config).await;
    }
    give_up.cancel();
    let (judging, writing) = tokio::join!(judging, writing);
    judging.map_err(|_| VerifierError::StageEnded("judging"))?;
    writing.map_err(|_| VerifierError::StageEnded("writing"))?;
    Ok(())
}

/// Lets the blocks in hand be finished for so long after the signal to stop, then ends the trying, also where the loop
/// itself waits for an engine that is away.
async fn drain(shutdown: CancellationToken, give_up: CancellationToken, wait_ms_max: u64) {
    shutdown.cancelled().await;
    tokio::time::sleep(Duration::from_millis(wait_ms_max)).await;
    give_up.cancel();
}

/// Says why the verifier stops.
fn stopping(failed: VerifierError, writer: &Writer) -> VerifierError {
    writer.standing.failing("log", failed.to_string());
    error!(error = %failed, "stopping rather than skipping records");
    failed
}

async fn judge_stage(
    mut gathered: mpsc::Receiver<Block>,
    to_write: mpsc::Sender<JudgedBlock>,
    name: Arc<str>,
    admission: Admission,
) {
    let writer = &admission.writer;
    let letters = writer.letters();
    while let Some(block) = gathered.recv().await {
        let started = Instant::now();
        let (judge, name) = (Arc::clone(&writer.judge), Arc::clone(&name));
        let facts = admission.facts(&block);
        // A panic while judging ends the stage, and with it the verifier: the same records would make it panic
        // again, and nothing may be skipped in silence.
        let mut judged = match writer
            .cpu
            .run_waiting(move || judge_block(&judge, block, &name, letters, facts))
            .await
        {
            Ok(judged) => judged,
            Err(panicked) => {
                error!(error = %panicked, "judging a block failed");
                return;
            }
        };
        histogram!("receipts_verifier_stage_seconds", "stage" => "judge").record(started.elapsed().as_secs_f64());
        if facts == Facts::Keep {
            let started = Instant::now();
            if admission.admit(&mut judged).await.is_err() {
                return;
            }
            histogram!("receipts_verifier_stage_seconds", "stage" => "admit").record(started.elapsed().as_secs_f64());
        }
        if to_write.send(judged).await.is_err() {
            return;
        }
    }
}

async fn write_stage(mut judged: mpsc::Receiver<JudgedBlock>, to_commit: mpsc::Sender<JudgedBlock>, writer: Writer) {
    while let Some(mut block) = judged.recv().await {
        let started = Instant::now();
        let (records, traces) = (block.block.records.len(), Traces::of(&block.block.records));
        if writer.write(&mut block).instrument(traces.span()).await.is_err() {
            return;
        }
        // Only what stands in the table is published, and before the commit: at least once.
        let letters = std::mem::take(&mut block.letters);
        if writer.publish(&letters).instrument(traces.span()).await.is_err() {
            return;
        }
        drop(letters);
        traces.tell_written(records, started.elapsed());
        histogram!("receipts_verifier_stage_seconds", "stage" => "write").record(started.elapsed().as_secs_f64());
        if to_commit.send(block).await.is_err() {
            return;
        }
    }
}

/// Commits a written block where its partitions are still ours, then writes its ledger rows. The rows must stand
/// before the next commit replaces the metadata they could be repaired from, so this is awaited in order.
async fn commit(
    consumer: &mut dyn LogConsumer,
    claims: &mut Claims,
    block: JudgedBlock,
    writer: &Writer,
    config: &VerifierConfig,
) {
    let started = Instant::now();
    let committed_at_ms = service::instant::now_ms();
    for line in &block.lines {
        let claim = block.block.claims.get(&line.partition);
        if !claim.is_some_and(|claim| claims.holds(line.partition, *claim)) {
            continue;
        }
        let line = LedgerRow {
            committed_at_ms,
            ..line.clone()
        };
        match commit_line(consumer, &line, writer, config).await {
            Ok(()) => {}
            Err(NotCommitted::Fenced) => {
                claims.revoke(line.partition);
                continue;
            }
            Err(NotCommitted::Stopped) => return,
        }
        if writer.write_ledger(std::slice::from_ref(&line)).await.is_err() {
            return;
        }
        counter!("receipts_verifier_records_total").increment(line.records);
        counter!("receipts_verifier_receipts_total", "outcome" => "accepted").increment(line.accepted);
        counter!("receipts_verifier_receipts_total", "outcome" => "rejected").increment(line.rejected);
        histogram!("receipts_verifier_block_receipts").record(line.receipts_in as f64);
    }
    writer.offenders.lock().note(&block.clients, Instant::now());
    for (reason, count) in &block.reasons {
        counter!("receipts_verifier_rejected_total", "reason" => *reason).increment(*count);
    }
    histogram!("receipts_verifier_stage_seconds", "stage" => "commit").record(started.elapsed().as_secs_f64());
    histogram!("receipts_verifier_block_seconds").record(block.block.opened.elapsed().as_secs_f64());
}

/// Why a line was not committed.
enum NotCommitted {
    /// The partition has another owner, who reads the block again.
    Fenced,
    /// The verifier is stopping.
    Stopped,
}

async fn commit_line(
    consumer: &mut dyn LogConsumer,
    line: &LedgerRow,
    writer: &Writer,
    config: &VerifierConfig,
) -> Result<(), NotCommitted> {
    let commit = Commit {
        partition: line.partition,
        epoch: line.epoch,
        next_offset: line.last_offset + 1,
        metadata: ledger::to_metadata(line),
    };
    let mut backoff = Backoff::new(config);
    loop {
        match consumer.commit(vec![commit.clone()]).await {
            Ok(()) => {
                writer.standing.well("commit");
                return Ok(());
            }
            Err(CommitError::Fenced(partition)) => {
                counter!("receipts_verifier_fenced_total").increment(1);
                info!(
                    partition,
                    "another verifier owns this partition now; its block is dropped"
                );
                return Err(NotCommitted::Fenced);
            }
            Err(CommitError::Unavailable(reason)) => {
                writer
                    .standing
                    .failing("commit", format!("positions can't be committed: {reason}"));
                warn!(reason, "positions can't be committed; trying again");
                tokio::select! {
                    () = writer.stop.cancelled() => return Err(NotCommitted::Stopped),
                    () = tokio::time::sleep(backoff.next_wait()) => {}
                }
            }
        }
    }
}

/// Writes the ledger row of a new partition's last commit, which a crash may have kept from the table.
async fn repair_ledger(assignment: &Assignment, writer: &Writer) -> Result<(), Stopped> {
    let Some(committed) = &assignment.committed else {
        return Ok(());
    };
    match ledger::from_metadata(&committed.metadata) {
        Ok(Some(line)) => writer.write_ledger(&[line]).await,
        Ok(None) => {
            error!(
                partition = assignment.partition,
                next_offset = committed.next_offset,
                "the position was set by someone else than a verifier: records before it may not have been verified; \
                 `receipts audit` names them, `receipts repair` judges them"
            );
            Ok(())
        }
        Err(error) => {
            // The audit will find the gap; reading on is right, because the commit itself is valid.
            error!(partition = assignment.partition, %error, "the last commit's metadata is no ledger line");
            Ok(())
        }
    }
}
