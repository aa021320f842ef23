//! From acknowledged to seen. In the dashboard: asked again and again, each receipt's delay ends
//! with the first answer whose total holds it, in the order of acknowledgement, so it is an upper
//! bound. In the live feed: until the receipt itself arrives.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use load_tests::http::{HttpClient, client};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::get::{get, quantile};
use super::service::Service;
use super::stream::{Signer, send};
use crate::row::{Row, Target, number};

/// A publisher of its own, a few receipts a second.
pub(super) const PROBE: &str = "probe.example";
const PROBE_EVERY: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const MILLISECONDS_MAX: f64 = 1_000.0;
/// Time within which everything acknowledged at the end must be seen.
const TAIL: Duration = Duration::from_secs(5);

/// The delays, in milliseconds.
pub(super) struct Fresh {
    counted: Result<Vec<f64>>,
    live: Result<Vec<f64>>,
}

type Waiting = Arc<Mutex<HashMap<String, Instant>>>;

impl Fresh {
    pub(super) async fn watch(service: &Service, probe_key: String, end: Instant) -> Result<Self> {
        let sent = Sent::default();
        let loaded = total(&client(1), &service.analytics(), &probe_key).await?;
        let counted = tokio::spawn(dashboard(
            service.analytics(),
            probe_key.clone(),
            loaded,
            Arc::clone(&sent),
            end,
        ));
        let waiting = Waiting::default();
        let seen = tokio::spawn(live(service.analytics(), probe_key, Arc::clone(&waiting), end + TAIL));
        let probing = tokio::spawn(probe(service.gateway(), waiting, sent, end));
        probing.await??;
        Ok(Self {
            counted: joined(counted).await,
            live: joined(seen).await,
        })
    }

    pub(super) fn rows(self) -> Vec<Row> {
        let row = |name: &str, what: &str, delays: Result<Vec<f64>>| {
            let delays = match delays {
                Ok(delays) if delays.is_empty() => return Row::skipped(name, "nothing was seen"),
                Ok(delays) => delays,
                Err(error) => return Row::skipped(name, format!("{error:#}")),
            };
            Row::alone(name, what, "ms", quantile(&delays, 0.99))
                .target(Target::Below(MILLISECONDS_MAX))
                .note(format!(
                    "{} receipts, p50 {} ms, max {} ms",
                    number(delays.len() as f64),
                    number(quantile(&delays, 0.5)),
                    number(quantile(&delays, 1.0))
                ))
        };
        vec![
            row(
                "fresh-dashboard",
                "from acknowledged to counted in a dashboard, meanwhile, p99",
                self.counted,
            ),
            row(
                "fresh-live",
                "from acknowledged to sent in the live feed, meanwhile, p99",
                self.live,
            ),
        ]
    }
}

async fn joined(task: JoinHandle<Result<Vec<f64>>>) -> Result<Vec<f64>> {
    task.await?
}

/// When receipts of the probe were acknowledged, in order, as far as nobody has taken them.
type Sent = Arc<Mutex<VecDeque<Instant>>>;

/// All of a publisher's receipts.
async fn total(http: &HttpClient, base: &str, key: &str) -> Result<u64> {
    let address = format!("{base}/api/v1/analytics/dashboard?limit=1");
    let answer: Value = serde_json::from_slice(&get(http, &address, key).await?)?;
    answer["totalReceipts"].as_u64().context("no total")
}

/// The publisher's total grows by what is acknowledged from `loaded` on. What is counted before it
/// is acknowledged waits for its acknowledgement.
async fn dashboard(base: String, key: String, loaded: u64, sent: Sent, end: Instant) -> Result<Vec<f64>> {
    let http = client(1);
    let mut delays = Vec::new();
    let mut covered = loaded;
    let mut first = true;
    while Instant::now() < end {
        // What is too busy to answer shows in the next one's delays.
        let Ok(counted) = total(&http, &base, &key).await else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        let now = Instant::now();
        let seen = {
            let mut waiting = sent.lock();
            let count = usize::try_from(counted.saturating_sub(covered))?.min(waiting.len());
            waiting.drain(..count).collect::<Vec<Instant>>()
        };
        covered += seen.len() as u64;
        // What arrived before anybody looked says nothing.
        if !std::mem::take(&mut first) {
            delays.extend(
                seen.iter()
                    .map(|at| now.saturating_duration_since(*at).as_secs_f64() * 1_000.0),
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(delays)
}

async fn probe(gateway: String, waiting: Waiting, sent: Sent, end: Instant) -> Result<()> {
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
        sent.lock().push_back(at);
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
            let Some(told) = line.trim_end().strip_prefix("data:") else {
                continue;
            };
            let Ok(told) = serde_json::from_str::<Value>(told) else {
                continue;
            };
            for receipt in told["receipts"].as_array().into_iter().flatten() {
                let id = receipt["receiptId"].as_str().unwrap_or_default();
                if let Some(at) = waiting.lock().remove(id) {
                    delays.push(now.saturating_duration_since(at).as_secs_f64() * 1_000.0);
                }
            }
        }
    }
}
