//! Kills, restarts, freezes and wrong clocks of our own processes.

use anyhow::{Context, Result, ensure};

use super::Stage;

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

/// A verifier that stops without dying: its partitions go to the others, and what it had in hand when it wakes is not
/// committed.
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
    ensure!(!busy.is_empty(), "no verifier that lives has written anything");
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
        "a frozen verifier wrote to the ledger"
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
    // What it had in hand is in nobody's line twice: settling checks that lines neither overlap nor leave gaps.
    let (_, ledger) = stage.settle(load).await?;
    let fenced = stage.fleet.verifiers_metric("receipts_verifier_fenced_total").await - fenced;
    stage.figure("fenced", format!("{fenced:.0}"));
    stage.figure("handovers", ledger.handovers().to_string());
    Ok(())
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

/// Nothing that is exact may depend on our clocks. The limits on a receipt's own timestamp do, so the gateway stays within them.
pub(super) async fn clock_skew(stage: &mut Stage) -> Result<()> {
    stage.fleet.gateways[0].shift_clock(Some(-240))?;
    stage.fleet.verifiers[0].shift_clock(Some(3_600))?;
    restart_skewed(stage).await?;
    let load = stage.load().await?;
    stage.wait(20.0, 4.0).await;
    let settled = stage.settle(load).await;
    stage.fleet.gateways[0].shift_clock(None)?;
    stage.fleet.verifiers[0].shift_clock(None)?;
    restart_skewed(stage).await?;
    let (_, ledger) = settled?;
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let ahead = ledger.lines.iter().filter(|line| line.committed_at_ms > now_ms).count();
    ensure!(ahead > 0, "no line shows the verifier's wrong clock: it wasn't wrong");
    stage.figure("lines from the future", ahead.to_string());
    Ok(())
}

async fn restart_skewed(stage: &mut Stage) -> Result<()> {
    stage.fleet.gateways[0].process.stop().await?;
    stage.fleet.gateways[0].process.start()?;
    stage.fleet.verifiers[0].process.stop().await?;
    stage.fleet.verifiers[0].process.start()?;
    stage.fleet.ready().await
}
