//! No fault at all: what the fleet sustains, and how fresh its numbers are.

use anyhow::{Context, Result, ensure};

use crate::fleet::{Fleet, Shape};
use crate::report::Report;
use crate::run::Run;

use super::{Figures, Setting};

/// Share of the sustained rate at which freshness is measured.
const EASY_SHARE: f64 = 0.4;

/// First as fast as acknowledgements come, then at less than half of what came through.
pub(super) async fn calm(setting: Setting) -> Result<Figures> {
    let mut shape = Shape::for_drills(&setting.programs);
    shape.direct = true;
    let fleet = Fleet::start(&shape).await?;
    let seconds = if setting.short { "4" } else { "30" };

    let closed = ["--duration", seconds, "--batch", "100", "--concurrency", "32"];
    let fast = load(&fleet, "fast.example", &closed).await?;
    let through = fast.counted_per_second.context("nobody saw it counted")?;

    let rate = (through * EASY_SHARE).max(50.0).to_string();
    let open = [
        "--duration",
        seconds,
        "--batch",
        "20",
        "--rate",
        &rate,
        "--sample-ms",
        "50",
    ];
    let easy = load(&fleet, "easy.example", &open).await?;
    let mut figures: Figures = vec![
        ("acknowledged", format!("{:.0} receipts/s", fast.receipts_per_second)),
        ("counted", format!("{through:.0} receipts/s")),
        ("latency at 40%", easy.latency_line()),
    ];
    if let Some(fresh) = &easy.freshness_ms {
        figures.push((
            "freshness at 40%",
            format!("p50 {} ms, p99 {} ms", fresh.p50, fresh.p99),
        ));
    }
    fleet.ledger().await?.check()?;
    Ok(figures)
}

async fn load(fleet: &Fleet, domain: &str, more: &[&str]) -> Result<Report> {
    let installation = fleet.installation();
    let key = installation.create_key(domain).await?;
    let run = Run::start(installation.load(&key, domain, more)).await?;
    let report = run.finish().await?;
    ensure!(report.passed(), "{}", report.faults().join("\n"));
    Ok(report)
}
