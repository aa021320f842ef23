//! Kafka, ClickHouse, Redis and PostgreSQL away, frozen, slow and refusing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use test_engines::fault_proxy::Mode;
use tokio::task::block_in_place;

use crate::check::dashboard_status;

use super::Stage;

/// Memory of a gateway beyond its size at rest: bodies in flight, Kafka's queue, and what the
/// allocator keeps.
const GATEWAY_GROWTH_BYTES_MAX: u64 = (40 + 64 + 64) << 20;

pub(super) async fn kafka_killed(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let kills = stage.times(5, 2);
    for _ in 0..kills {
        stage.wait_at_random(0.5, 3.0).await;
        block_in_place(|| stage.fleet.kafka.kill())?;
        stage.wait_at_random(0.1, 2.0).await;
        block_in_place(|| stage.fleet.kafka.restart())?;
        stage.until_acknowledged(&load.run).await?;
    }
    stage.figure("kills", kills.to_string());
    stage.settle(load).await?;
    Ok(())
}

pub(super) async fn kafka_frozen(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    // The session is 4 s: once well within it, once well beyond.
    for (long, short) in [(2.0, 2.0), (30.0, 8.0)] {
        stage.fleet.kafka.freeze()?;
        stage.wait(long, short).await;
        stage.fleet.kafka.thaw()?;
        let back = stage.until_at_rate(&load.run).await?;
        stage.figure("back at rate in", format!("{:.1} s", back.as_secs_f64()));
    }
    stage.settle(load).await?;
    Ok(())
}

pub(super) async fn kafka_away(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    stage.wait(5.0, 1.0).await;
    let weight = |stage: &Stage| -> Result<u64> {
        let mut most = 0;
        for gateway in &stage.fleet.gateways {
            most = most.max(gateway.process.memory()?.peak_bytes);
        }
        Ok(most)
    };
    let before = weight(stage)?;
    block_in_place(|| stage.fleet.kafka.stop())?;
    let away = stage.seconds(60.0, 8.0);
    stage.say(&format!("Kafka is away for {away:?}"));
    let until = Instant::now() + away;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let acknowledged = load.run.acknowledged();
    tokio::time::sleep_until(until.into()).await;
    let meanwhile = load.run.acknowledged() - acknowledged;
    ensure!(meanwhile == 0, "{meanwhile} receipts were acknowledged without a log");
    let grown = weight(stage)?.saturating_sub(before);
    block_in_place(|| stage.fleet.kafka.restart())?;
    let back = stage.until_at_rate(&load.run).await?;
    stage.wait(5.0, 1.0).await;
    let (report, _) = stage.settle(load).await?;
    ensure!(report.unavailable > 0, "no client learned that Kafka is away");
    ensure!(
        grown <= GATEWAY_GROWTH_BYTES_MAX,
        "a gateway grew by {} MiB, more than its queues hold",
        grown >> 20
    );
    let peak = weight(stage)?;
    stage.figure("gateway peak", format!("{} MiB (+{} MiB)", peak >> 20, grown >> 20));
    stage.figure("back at rate in", format!("{:.1} s", back.as_secs_f64()));
    Ok(())
}

pub(super) async fn clickhouse_down(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let kills = stage.times(4, 1);
    let http = stage.fleet.http();
    for _ in 0..kills {
        stage.fleet.endpoint.kill()?;
        let before = load.run.acknowledged();
        stage.wait(10.0, 3.0).await;
        ensure!(
            load.run.acknowledged() > before,
            "nothing was acknowledged while ClickHouse was away"
        );
        stage.fleet.endpoint.start()?;
        stage.fleet.endpoint.ready(&http).await?;
        stage.wait_at_random(1.0, 3.0).await;
    }
    stage.figure("kills", kills.to_string());
    stage.settle(load).await?;
    Ok(())
}

pub(super) async fn clickhouse_slow(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    stage.fleet.warehouse.set(Mode::Slow(Duration::from_millis(800)));
    stage.wait(20.0, 5.0).await;
    stage.fleet.warehouse.set(Mode::Open);
    stage.settle(load).await?;
    Ok(())
}

/// Errors of every kind that isn't about the rows: none of them may make a receipt a rejected one.
pub(super) async fn clickhouse_refusing(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let modes = [
        Mode::answer(
            "503 Service Unavailable",
            "Code: 202. DB::Exception: Too many simultaneous queries. (TOO_MANY_SIMULTANEOUS_QUERIES)",
        ),
        Mode::answer(
            "500 Internal Server Error",
            "Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)",
        ),
        Mode::answer(
            "500 Internal Server Error",
            "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)",
        ),
        Mode::answer("502 Bad Gateway", "<html>bad gateway</html>"),
        Mode::answer(
            "403 Forbidden",
            "Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)",
        ),
        Mode::Down,
    ];
    for mode in modes {
        stage.fleet.warehouse.set(mode);
        stage.wait(4.0, 1.5).await;
        stage.fleet.warehouse.set(Mode::Open);
        stage.wait(1.0, 0.3).await;
    }
    stage.settle(load).await?;
    Ok(())
}

pub(super) async fn redis_down(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let installation = stage.fleet.installation();
    let key = installation.create_key("redis-drill.example").await?;
    block_in_place(|| stage.fleet.redis.kill())?;
    let until = Instant::now() + stage.seconds(15.0, 4.0);
    let http = stage.fleet.http();
    let mut answered = 0_u32;
    while Instant::now() < until {
        let status = dashboard_status(&http, &installation.analytics, &key).await;
        ensure!(
            status == Some(StatusCode::OK),
            "without Redis the dashboard answered {status:?}"
        );
        answered += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    block_in_place(|| stage.fleet.redis.restart())?;
    stage.figure("dashboards without Redis", answered.to_string());
    stage.settle(load).await?;
    Ok(())
}

pub(super) async fn postgres_down(stage: &mut Stage) -> Result<()> {
    let load = stage.load().await?;
    let installation = stage.fleet.installation();
    let http = stage.fleet.http();
    block_in_place(|| stage.fleet.postgres.kill())?;
    let before = load.run.acknowledged();
    // Longer than a key that was checked is remembered.
    stage.wait(15.0, 5.0).await;
    let meanwhile = load.run.acknowledged() - before;
    ensure!(meanwhile > 0, "nothing was acknowledged while PostgreSQL was away");
    let status = dashboard_status(&http, &installation.analytics, "no-key-that-was-seen-before").await;
    block_in_place(|| stage.fleet.postgres.restart())?;
    let status = status.context("the analytics API doesn't answer without PostgreSQL")?;
    ensure!(
        status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::UNAUTHORIZED,
        "without PostgreSQL an unknown key was answered {status}"
    );
    stage.figure("receipts without PostgreSQL", meanwhile.to_string());
    stage.settle(load).await?;
    Ok(())
}
