//! The verifier's pipeline.
//!
//! ```text
//! polled -> judged -> stamped -> encoded -> appended
//! ```
//!
//! A task judges, stamps and encodes a block at a time while the next one is gathered. The task
//! that owns the consumer appends blocks in order.

use std::sync::Arc;
use std::time::Duration;

use accounts::ShardMapCache;
use receipt::Judge;
use receipt_log::{LogInspector, LogProcessor};
use service::cpu::CpuPool;
use service::health::{Health, Parts};
use service::retry::Retry;
use service::shutdown::drain;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, warn};

use crate::config::VerifierConfig;
use crate::consuming::PartitionConsumer;
use crate::error::VerifierError;
use crate::gathering::due;
use crate::idle::Observed;
use crate::stages::Stages;
use crate::stamping::Policies;

/// Dependencies of the verifier.
pub struct Deps {
    /// Membership in the group [`crate::GROUP`] of `receipts`, which appends to
    /// `verdicts`.
    pub processor: Box<dyn LogProcessor>,
    /// The log `receipts`.
    pub receipts: Arc<dyn LogInspector>,
    /// The log `verdicts`.
    pub verdicts: Arc<dyn LogInspector>,
    /// Conditions of the deployment on receipts; `None` without any.
    pub policies: Option<Policies>,
    /// The shard map; `None` where the log `verdicts` has one partition.
    pub shard_map: Option<ShardMapCache>,
    /// Threads for judging and encoding.
    pub cpu: CpuPool,
    /// The rules, the limits and the key cache.
    pub judge: Arc<Judge>,
    /// Readiness of the process.
    pub health: Health,
}

/// Runs until `shutdown`, then finishes the blocks in flight, for at most `drain_ms_max`. What an
/// engine that is away keeps it from finishing is dropped: the next owner judges it again.
///
/// # Errors
/// [`VerifierError`]: what no pause can cure.
pub async fn run(config: VerifierConfig, deps: Deps, shutdown: CancellationToken) -> Result<(), VerifierError> {
    let stop = CancellationToken::new();
    let _stopped_at_the_end = stop.clone().drop_guard();
    let retry = Retry {
        parts: Parts::new(deps.health.register("verifier")),
        wait_ms_min: config.retry_wait_ms_min,
        wait_ms_max: config.retry_wait_ms_max,
        stop: shutdown.clone(),
    };
    let readiness = retry.parts.clone();
    let interval = Duration::from_millis(config.idle_interval_ms);
    let mut observed = Observed::start(Arc::clone(&deps.receipts), interval, stop);
    let (to_stages, polled) = mpsc::channel(1);
    let (encoded_blocks, mut encoded) = mpsc::channel(1);
    let stages = Stages::new(
        &config,
        deps.policies,
        deps.shard_map,
        deps.cpu,
        deps.judge,
        retry.clone(),
    );
    let mut staging = AbortOnDropHandle::new(tokio::spawn(stages.clone().run(polled, encoded_blocks)));
    let mut consuming = PartitionConsumer::new(&config, deps.processor, deps.receipts, deps.verdicts, retry);

    let mut is_interrupted = false;
    let ended = loop {
        let (due_at, is_full) = (consuming.due_at(), consuming.is_full());
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break Ok(()),
            failed = &mut staging => break failed.unwrap_or_else(|panic| Err(VerifierError::Judging(panic.to_string()))),
            Some(block) = encoded.recv() => match consuming.append(block).await {
                Ok(()) => observed.notice(),
                Err(ended) => {
                    is_interrupted = true;
                    break ended.into();
                }
            },
            permit = async { due(due_at).await; to_stages.reserve().await } => match permit {
                Ok(permit) => permit.send(consuming.close_block()),
                Err(_) => break Ok(()),
            },
            () = observed.changed() => {
                stages.set_source_partitions(observed.partitions());
                if let Err(ended) = consuming.append_idle(&stages, &observed).await {
                    break ended.into();
                }
            }
            polled = consuming.poll(), if !is_full => match consuming.accept(polled, &stages).await {
                Ok(has_assigned) => if has_assigned { observed.notice() },
                Err(ended) => break ended.into(),
            },
        }
    };
    // Blocks in flight are finished, unless the one before them wasn't appended: then they would
    // leave a gap. What was only gathered is read again by the next owner.
    drop(to_stages);
    let finishing = async {
        while !is_interrupted && let Some(block) = encoded.recv().await {
            if consuming.append(block).await.is_err() {
                break;
            }
        }
    };
    let drain_max = Duration::from_millis(config.drain_ms_max);
    if let Err(late) = drain("blocks in flight", &shutdown, drain_max, finishing).await {
        warn!(%late, "left to their next owner");
    }
    if let Err(failed) = &ended {
        readiness.failed("verifier", failed.to_string());
        error!(error = %failed, "stopping rather than skipping records");
    }
    ended
}
