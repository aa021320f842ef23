//! Kills, restarts, freezes and wrong clocks of our own processes.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use test_engines::fault_proxy::Fault;

use super::Stage;
use crate::fleet::ActiveWriter;
use crate::fleet::replica::Replica;

pub(super) async fn kill_gateway(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let http = stage.fleet.http();
    let kills = stage.times(15, 3);
    for _ in 0..kills {
        stage.wait_at_random(0.1, 1.5).await;
        let victim = stage.pick(stage.fleet.gateways.len());
        let gateway = &mut stage.fleet.gateways[victim];
        gateway.process.kill()?;
        gateway.process.start()?;
        gateway.process.ready(&http).await?;
    }
    stage.figure("kills", kills.to_string());
    stage.settle(load).await?;
    Ok(())
}

pub(super) async fn kill_verifier(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let kills = stage.times(15, 3);
    for _ in 0..kills {
        stage.wait_at_random(0.2, 3.0).await;
        let victim = stage.pick(stage.fleet.verifiers.len());
        let verifier = &mut stage.fleet.verifiers[victim];
        verifier.process.kill()?;
        verifier.process.start()?;
    }
    stage.fleet.ready().await?;
    stage.figure("kills", kills.to_string());
    let (_, ledger) = stage.settle(load).await?;
    stage.figure("handovers", ledger.handovers().to_string());
    Ok(())
}

/// Every third round kills both, so that verdicts and their insertion break off together.
pub(super) async fn kill_writer(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let kills = stage.times(15, 4);
    let first = stage.fleet.active_writer().await?;
    for round in 0..kills {
        stage.wait_at_random(0.2, 3.0).await;
        // The shard's writer, not the one that stands by.
        let writer = match round % 3 {
            1 => None,
            _ => Some(stage.fleet.active_writer().await?.index),
        };
        let verifier = (round % 3 != 0).then(|| stage.pick(stage.fleet.verifiers.len()));
        if let Some(index) = writer {
            stage.fleet.writers[index].process.kill()?;
        }
        if let Some(index) = verifier {
            stage.fleet.verifiers[index].process.kill()?;
        }
        if let Some(index) = verifier {
            stage.fleet.verifiers[index].process.start()?;
        }
        if let Some(index) = writer {
            stage.fleet.writers[index].process.start()?;
        }
    }
    stage.fleet.ready().await?;
    stage.figure("kills", kills.to_string());
    stage.settle(load).await?;
    let last = stage.fleet.active_writer().await?;
    ensure!(
        last.epoch > first.epoch,
        "no writer took the shard over although its owner was killed"
    );
    stage.figure("epochs", format!("{:.0}", last.epoch - first.epoch));
    Ok(())
}

pub(super) async fn kill_all(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let kills = stage.times(8, 2);
    for _ in 0..kills {
        stage.wait_at_random(0.2, 3.0).await;
        for service in stage.fleet.services() {
            service.process.kill()?;
        }
        stage.fleet.endpoint.kill()?;
        stage.fleet.endpoint.start()?;
        let http = stage.fleet.http();
        stage.fleet.endpoint.ready(&http).await?;
        for service in stage.fleet.services() {
            service.process.start()?;
        }
        stage.fleet.ready().await?;
    }
    stage.until_acknowledged(&load.run).await?;
    stage.figure("kills", kills.to_string());
    stage.settle(load).await?;
    Ok(())
}

pub(super) async fn churn(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let rounds = stage.times(10, 3);
    for _ in 0..rounds {
        stage.wait(3.0, 1.5).await;
        let victim = stage.pick(stage.fleet.verifiers.len());
        let mut gone = stage.fleet.verifiers.swap_remove(victim);
        gone.process.kill()?;
        stage.fleet.add_verifier()?;
    }
    stage.fleet.ready().await?;
    stage.figure("rounds", rounds.to_string());
    let (_, ledger) = stage.settle(load).await?;
    stage.figure("verifiers", ledger.verifiers().to_string());
    stage.figure("handovers", ledger.handovers().to_string());
    Ok(())
}

/// A verifier that stops without dying: its partitions go to the others, and what it had in flight
/// when it wakes is not committed.
pub(super) async fn frozen_verifier(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let before = stage.fleet.ledger().await?;
    // One that has work: the others may be between two rebalances.
    let held = |stage: &Stage, index: usize| {
        let id = stage.fleet.verifiers[index].process.id().unwrap_or(0);
        before.by_process(id).partitions()
    };
    let busy: Vec<usize> = (0..stage.fleet.verifiers.len())
        .filter(|index| !held(stage, *index).is_empty())
        .collect();
    ensure!(!busy.is_empty(), "no verifier that lives has verdicts in the ledger");
    let frozen = busy[stage.pick(busy.len())];
    let id = stage.fleet.verifiers[frozen].process.id().context("it doesn't run")?;
    let fenced = stage.fleet.verifiers_metric("receipts_verifier_fenced_total").await;

    stage.say("freezing a verifier");
    stage.fleet.verifiers[frozen].process.freeze()?;
    // Beyond the session, so that the broker gives its partitions away.
    stage.wait(20.0, 10.0).await;
    let taken = stage.fleet.ledger().await?;
    stage.wait(4.0, 2.0).await;
    let while_frozen = stage.fleet.ledger().await?.since(&taken);
    ensure!(
        while_frozen.by_process(id).lines.is_empty(),
        "a frozen verifier's verdicts came into the ledger"
    );
    let all = before.partitions();
    let others = while_frozen.partitions();
    ensure!(
        others.is_superset(&all),
        "of the partitions {all:?} only {others:?} went on without the frozen verifier"
    );
    stage.say("thawing it");
    stage.fleet.verifiers[frozen].process.thaw()?;
    stage.wait(6.0, 3.0).await;
    // What it had in flight is in nobody's line twice: settling checks that lines neither overlap
    // nor leave gaps.
    let (_, ledger) = stage.settle(load).await?;
    let fenced = stage.fleet.verifiers_metric("receipts_verifier_fenced_total").await - fenced;
    stage.figure("fenced", format!("{fenced:.0}"));
    stage.figure("handovers", ledger.handovers().to_string());
    Ok(())
}

/// Inserts at which a writer is frozen, and what is held meanwhile.
const FREEZING: [(&str, &str, Fault); 3] = [
    // It continues with the insert into `usage`.
    ("before", "receipts", Fault::AnswerHeld),
    ("during", "usage", Fault::Held),
    ("after", "usage", Fault::AnswerHeld),
];

/// A writer that stops without dying, before, during and after an insert: another takes the shard
/// over, and what the frozen one had in flight when it wakes changes nothing.
pub(super) async fn frozen_writer(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    for (when, table, fault) in FREEZING {
        freeze_writer(stage, table, fault)
            .await
            .with_context(|| format!("a writer that is frozen {when} an insert"))?;
    }
    // Counts and books: settling checks that nothing is missing and that nothing counts twice.
    stage.settle(load).await?;
    let http = stage.fleet.http();
    let mut superseded = 0.0;
    for writer in &stage.fleet.writers {
        let metric = writer.metric(&http, "receipts_writer_superseded_total").await;
        superseded += metric.unwrap_or(0.0);
    }
    stage.figure("superseded", format!("{superseded:.0}"));
    Ok(())
}

async fn freeze_writer(stage: &Stage, table: &'static str, fault: Fault) -> Result<()> {
    let http = stage.fleet.http();
    let frozen = stage.fleet.active_writer().await?;
    let proxy = &stage.fleet.warehouse;
    proxy.arm(table, fault);
    proxy.reached().await.with_context(|| format!("inserts into {table}"))?;
    stage.fleet.writers[frozen.index].process.freeze()?;
    proxy.release();
    stage.say("the shard's writer is frozen");
    let taken_over = successor(stage, frozen.index, frozen.epoch).await;
    // With a batch that is long another's, and with more to read than it has read.
    stage.wait(10.0, 2.0).await;
    stage.say("thawing it");
    stage.fleet.writers[frozen.index].process.thaw()?;
    let successor = taken_over?;
    stage.wait(1.0, 1.0).await;
    let stored = "receipts_writer_receipts_total";
    let read = async |stage: &Stage| -> Result<(f64, f64, f64)> {
        let (thawed, active) = (
            &stage.fleet.writers[frozen.index],
            &stage.fleet.writers[successor.index],
        );
        Ok((
            thawed.metric(&http, "receipts_writer_epoch").await?,
            thawed.metric(&http, stored).await?,
            active.metric(&http, stored).await?,
        ))
    };
    let before = read(stage).await?;
    stage.wait(6.0, 2.0).await;
    let after = read(stage).await?;
    ensure!(
        after.0 == frozen.epoch && after.1 == before.1,
        "the thawed writer stored {} receipts with epoch {}; the shard is its successor's, with epoch {}",
        after.1 - before.1,
        after.0,
        successor.epoch
    );
    ensure!(
        after.2 > before.2,
        "the successor stored nothing after the other was thawed"
    );
    Ok(())
}

/// Waits until another writer has inserted with a higher epoch.
async fn successor(stage: &Stage, frozen: usize, epoch: f64) -> Result<ActiveWriter> {
    let http = stage.fleet.http();
    for _ in 0..600 {
        for (index, writer) in stage
            .fleet
            .writers
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != frozen)
        {
            let now = writer.metric(&http, "receipts_writer_epoch").await.unwrap_or(0.0);
            if now > epoch {
                return Ok(ActiveWriter { index, epoch: now });
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("no other writer took the shard over within a minute")
}

pub(super) async fn rolling_restart(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let rounds = stage.times(3, 1);
    let http = stage.fleet.http();
    let mut restarts = 0;
    for _ in 0..rounds {
        for service in stage.fleet.services() {
            service.process.stop().await?;
            service.process.start()?;
            service.process.ready(&http).await?;
            restarts += 1;
        }
    }
    stage.figure("restarts", restarts.to_string());
    stage.settle(load).await?;
    Ok(())
}

/// Numbers that are exact may not depend on our clocks. The limits on a receipt's own timestamp do,
/// so the gateway stays within them.
pub(super) async fn clock_skew(stage: &mut Stage) -> Result<()> {
    stage.fleet.gateways[0].shift_clock(Some(-240))?;
    // The arrival decides whether a domain was verified before, so it was an hour ago here. A
    // verification within the last minutes would be later than the arrivals of that gateway.
    stage.key_environment = stage.fleet.gateways[0].shifted_clock(-3_600)?;
    for replica in ahead(stage) {
        replica.shift_clock(Some(3_600))?;
    }
    restart_skewed(stage).await?;
    let load = stage.load().await?;
    stage.key_environment.clear();
    stage.wait(20.0, 4.0).await;
    let settled = stage.settle(load).await;
    stage.fleet.gateways[0].shift_clock(None)?;
    for replica in ahead(stage) {
        replica.shift_clock(None)?;
    }
    restart_skewed(stage).await?;
    let (_, ledger) = settled?;
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let ahead = ledger.lines.iter().filter(|line| line.committed_at_ms > now_ms).count();
    ensure!(ahead > 0, "no line shows the writers' wrong clock: it wasn't wrong");
    stage.figure("lines from the future", ahead.to_string());
    // A wrong instant would outlast the wrong clock, and the next fault would show numbers as
    // complete that aren't.
    let complete_ms = stage.fleet.latest_complete_ms().await?;
    let now_ms = jiff::Timestamp::now().as_millisecond();
    ensure!(
        complete_ms <= now_ms,
        "a partition is said to be complete through {complete_ms}, and it is {now_ms}"
    );
    Ok(())
}

/// Replicas whose clock is ahead: one verifier of several, and every writer, because any of them
/// may own the shard.
fn ahead(stage: &mut Stage) -> impl Iterator<Item = &mut Replica> {
    stage.fleet.verifiers.iter_mut().take(1).chain(&mut stage.fleet.writers)
}

async fn restart_skewed(stage: &mut Stage) -> Result<()> {
    stage.fleet.gateways[0].process.stop().await?;
    stage.fleet.gateways[0].process.start()?;
    for replica in ahead(stage) {
        replica.process.stop().await?;
        replica.process.start()?;
    }
    stage.fleet.ready().await
}
