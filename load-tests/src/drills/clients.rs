//! A client that retries every time-out, while answers are lost.

use anyhow::{Result, ensure};
use test_engines::fault_proxy::{FaultProxy, Mode};

use super::Stage;

/// Requests arrive and answers are lost, again and again: what the client sends once more must
/// count once.
pub(super) async fn retries(stage: &mut Stage) -> Result<()> {
    let mut proxies = Vec::new();
    for gateway in &stage.fleet.gateways {
        let address = gateway.address.trim_start_matches("http://").parse()?;
        proxies.push(FaultProxy::start(address).await?);
    }
    let addresses: Vec<String> = proxies
        .iter()
        .map(|proxy| format!("http://{}", proxy.address()))
        .collect();
    let load = stage.load_with(&["--answer-wait-ms-max", "1000"], &addresses).await?;
    let rounds = stage.times(40, 8);
    for _ in 0..rounds {
        stage.wait_at_random(0.2, 0.5).await;
        let victim = stage.pick(proxies.len());
        proxies[victim].set(Mode::Unanswered);
        stage.wait_at_random(0.1, 0.4).await;
        proxies[victim].set(Mode::Open);
    }
    let (report, _) = stage.settle(load).await?;
    ensure!(report.repeated_tries > 0, "no answer was lost");
    Ok(())
}
