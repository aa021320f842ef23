//! CPU of ingestion, counting included, while nobody asks.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Arguments;
use super::loading::Load;
use super::service::Service;
use super::stream::Stream;
use crate::row::{Row, number};

/// A process is at rest below so much of a core.
const REST_CORES: f64 = 0.15;
const REST_LOOK: Duration = Duration::from_secs(3);
const REST_MAX: Duration = Duration::from_secs(600);
/// The stream's own beginning.
const BEGIN: Duration = Duration::from_secs(3);

/// CPU milliseconds of the service for a thousand receipts at a steady rate.
pub(super) async fn measure(arguments: &Arguments, service: &Service, load: &Load) -> Result<Row> {
    rest(service).await?;
    let stream = Stream::start(service.gateway(), load, arguments.rate)?;
    tokio::time::sleep(BEGIN).await;
    let acknowledged = || stream.acknowledged.receipts.load(Ordering::Relaxed);
    let (cpu, receipts) = (service.cpu_seconds()?, acknowledged());
    tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
    let (cpu, receipts) = (service.cpu_seconds()? - cpu, acknowledged() - receipts);
    stream.stop().await?;
    ensure!(receipts > 0, "no receipt was acknowledged");
    let what = format!(
        "CPU of the whole service for a thousand receipts, {} receipts/s",
        arguments.rate
    );
    let row = Row::alone("ingest-cost", what, "ms", cpu * 1e6 / receipts as f64);
    Ok(row.note(format!(
        "{} receipts, {} s of CPU",
        number(receipts as f64),
        number(cpu)
    )))
}

/// Waits until merges and other work of before are done.
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
