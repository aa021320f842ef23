//! From acknowledged to sent in the live feed. `service-freshness` of `compare` measures the
//! dashboard.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use load_tests::http::client;
use parking_lot::Mutex;
use serde_json::Value;

use super::get::quantile;
use super::service::Service;
use super::stream::{Signer, send};
use crate::row::{Row, Target, number};

/// A publisher of its own, a few receipts a second.
pub(super) const PROBE: &str = "probe.example";
const PROBE_EVERY: Duration = Duration::from_millis(200);
const MILLISECONDS_MAX: f64 = 1_000.0;
/// Time within which everything acknowledged at the end must be seen.
const TAIL: Duration = Duration::from_secs(5);

type Waiting = Arc<Mutex<HashMap<String, Instant>>>;

/// Sends receipts of the probe until `end`, and measures when each arrives in its publisher's feed.
pub(super) async fn measure(service: &Service, probe_key: String, end: Instant) -> Result<Row> {
    let waiting = Waiting::default();
    let seen = tokio::spawn(live(service.analytics(), probe_key, Arc::clone(&waiting), end + TAIL));
    probe(service.gateway(), waiting, end).await?;
    let delays = seen.await??;
    ensure!(!delays.is_empty(), "nothing was seen");
    let what = "from acknowledged to sent in the live feed, meanwhile, p99";
    let row = Row::alone("fresh-live", what, "ms", quantile(&delays, 0.99));
    Ok(row.target(Target::Below(MILLISECONDS_MAX)).note(format!(
        "{} receipts, p50 {} ms, max {} ms",
        number(delays.len() as f64),
        number(quantile(&delays, 0.5)),
        number(quantile(&delays, 1.0))
    )))
}

async fn probe(gateway: String, waiting: Waiting, end: Instant) -> Result<()> {
    let http = client(1);
    let mut signer = Signer::new()?;
    // The feed begins with its listener.
    tokio::time::sleep(Duration::from_secs(1)).await;
    while Instant::now() < end {
        let signed = signer.of(PROBE, 0)?;
        let id = signed.receipt_id.to_string();
        // Before it is sent: the feed may be quicker than the answer. Counted from the answer all
        // the same.
        waiting.lock().insert(id.clone(), Instant::now());
        let at = send(&http, &gateway, signed).await?;
        if let Some(since) = waiting.lock().get_mut(&id) {
            *since = at;
        }
        tokio::time::sleep(PROBE_EVERY).await;
    }
    Ok(())
}

/// Reads the feed until `end`, or until nothing is waited for any more.
async fn live(base: String, key: String, waiting: Waiting, end: Instant) -> Result<Vec<f64>> {
    let request = Request::get(format!("{base}/api/v1/analytics/live"))
        .header("authorization", format!("Bearer {key}"))
        .header("accept", "text/event-stream")
        .body(Full::default())?;
    let answer = client(1).request(request).await?;
    ensure!(
        answer.status().is_success(),
        "the live feed answered {}",
        answer.status()
    );
    let mut body = answer.into_body();
    let mut text = String::new();
    let mut delays = Vec::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = tokio::time::sleep_until(end.into()) => None,
        };
        let Some(frame) = frame else { return Ok(delays) };
        let Ok(data) = frame?.into_data() else { continue };
        text.push_str(&String::from_utf8_lossy(&data));
        let now = Instant::now();
        while let Some(line_end) = text.find('\n') {
            let line: String = text.drain(..=line_end).collect();
            let Some(event) = line.trim_end().strip_prefix("data:") else {
                continue;
            };
            let Ok(event) = serde_json::from_str::<Value>(event) else {
                continue;
            };
            for receipt in event["receipts"].as_array().into_iter().flatten() {
                let id = receipt["receiptId"].as_str().unwrap_or_default();
                if let Some(at) = waiting.lock().remove(id) {
                    delays.push(now.saturating_duration_since(at).as_secs_f64() * 1_000.0);
                }
            }
        }
    }
}
