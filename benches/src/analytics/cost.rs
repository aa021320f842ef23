//! What rollups take of the CPU: all at once when they catch up, and beside the receipts that come in.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::Arguments;
use super::loading::Load;
use super::service::{Rollups, Service};
use super::stream::Stream;
use crate::progress::Progress;
use crate::row::{Row, Target, number};

/// Rollups over inserts, at most.
const SHARE_MAX: f64 = 0.15;
/// The longest that catching up may take.
const BACKFILL_MAX: Duration = Duration::from_secs(3 * 3_600);
/// A process is at rest below so much of a core.
const REST_CORES: f64 = 0.15;
const REST_LOOK: Duration = Duration::from_secs(3);
const REST_MAX: Duration = Duration::from_secs(600);
/// What late receipts touch is made anew in a pass every ten minutes, the first of which begins with the service: so rollups are looked at
/// for just as long, in seconds, and from a time on when the first is over.
const PASS_S: u64 = 600;
const FIRST_PASS_S: u64 = 200;
/// The stream's own beginning, in seconds.
const BEGIN_S: u64 = 3;

/// Waits until everything that was loaded is rolled.
pub(super) async fn backfill(service: &Service, load: &Load, progress: &Progress) -> Result<Row> {
    let began = Instant::now();
    let cpu = service.cpu_seconds()?;
    let wanted = service
        .sql("SELECT intDiv(toUnixTimestamp64Milli(min(timestamp)), 3600000) FROM receipts")
        .await?;
    let wanted: i64 = wanted.parse()?;
    loop {
        let from = first_hour(service).await?;
        if from.is_some_and(|from| from <= wanted) {
            break;
        }
        ensure!(began.elapsed() < BACKFILL_MAX, "it goes on for too long");
        let still = from.map_or("nothing is rolled yet".to_owned(), |from| {
            format!("{} hours to go", from - wanted)
        });
        progress.step("rolling up what is there", &still);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), service.cpu_seconds()? - cpu);
    let millions = load.receipts() as f64 / 1e6;
    let stored = "SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts
        WHERE active AND (table LIKE 'usage%' OR table LIKE 'rollup%') GROUP BY table ORDER BY table";
    let stored = service.sql(stored).await?.replace('\t', " ").replace('\n', "; ");
    Ok(Row::alone(
        "rollup-backfill",
        "CPU of rolling up a million receipts that are there, merges included",
        "s",
        cpu / millions,
    )
    .note(format!("{} s, {} s of CPU", number(seconds), number(cpu)))
    .note(format!("table, rows, bytes on disk, parts: {stored}")))
}

/// The first hour that is rolled, since the Unix epoch.
async fn first_hour(service: &Service) -> Result<Option<i64>> {
    let state = "SELECT JSONExtractInt(max(state).3, 'window', 1) FROM rollup_states";
    let hour: i64 = service.sql(state).await?.parse()?;
    Ok((hour > 0).then_some(hour))
}

/// The same stream without rollups, with them, and without again; of a short run with whatever falls into it.
pub(super) async fn running(
    arguments: &Arguments,
    mut service: Service,
    data: &Path,
    load: &Load,
    progress: &Progress,
) -> Result<Row> {
    service.stop().await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (before_s, with_s) = if arguments.is_quick() {
        (BEGIN_S, arguments.seconds)
    } else {
        (FIRST_PASS_S, PASS_S)
    };
    let alone = (Rollups::Off, BEGIN_S, arguments.seconds);
    for (rollups, before_s, seconds) in [alone, (Rollups::On, before_s, with_s), alone] {
        progress.step("cost", &format!("rollups {rollups:?}"));
        let mut service = Service::start(arguments, data, rollups).await?;
        rest(&service).await?;
        let taken = taking_in(arguments.rate, before_s, seconds, &service, load).await?;
        match rollups {
            Rollups::Off => without.push(taken),
            _ => with.push(taken),
        }
        service.stop().await?;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (with_mean, without_mean) = (mean(&with), mean(&without));
    let shown = |values: &[f64]| values.iter().map(|value| number(*value)).collect::<Vec<_>>().join(", ");
    Ok(Row::alone(
        "rollup-cost",
        format!("CPU of rollups over that of taking receipts in, {} receipts/s", arguments.rate),
        "",
        (with_mean - without_mean) / without_mean,
    )
    .target(Target::Below(SHARE_MAX))
    .note(format!(
        "CPU ms of the whole service for a thousand receipts: with rollups {}, for {with_s} s with one pass over what late receipts \
         touched, and before and after that without {}, for {} s each. The roll of each hour that ends is not in it: rollup-backfill says what that costs",
        shown(&with),
        shown(&without),
        arguments.seconds
    )))
}

/// CPU milliseconds of the service for a thousand receipts, from `before_s` seconds after the first on.
async fn taking_in(rate: u32, before_s: u64, seconds: u64, service: &Service, load: &Load) -> Result<f64> {
    let stream = Stream::start(service.gateway(), load, rate)?;
    tokio::time::sleep(Duration::from_secs(before_s)).await;
    let taken = || stream.acknowledged.receipts.load(Ordering::Relaxed);
    let (cpu, receipts) = (service.cpu_seconds()?, taken());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (cpu, receipts) = (service.cpu_seconds()? - cpu, taken() - receipts);
    stream.stop().await?;
    if receipts == 0 {
        bail!("nothing was taken in");
    }
    Ok(cpu * 1e6 / receipts as f64)
}

/// Waits until the audit and the merges of a start are done.
async fn rest(service: &Service) -> Result<()> {
    let began = Instant::now();
    let mut quiet = 0;
    while quiet < 2 && began.elapsed() < REST_MAX {
        let cpu = service.cpu_seconds()?;
        tokio::time::sleep(REST_LOOK).await;
        let cores = (service.cpu_seconds()? - cpu) / REST_LOOK.as_secs_f64();
        quiet = if cores < REST_CORES { quiet + 1 } else { 0 };
    }
    Ok(())
}
