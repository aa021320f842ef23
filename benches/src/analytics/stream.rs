//! Receipts that come in through the gateway while something is measured: single ones, signed
//! beforehand, at a steady rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use load_tests::http::{HttpClient, client};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use receipt::{Algorithm, Limits, SigningKey};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;

use super::loading::{Load, publisher};

/// Clients that send.
const CLIENTS: usize = 20;
const ENTRIES: usize = 2_000;
/// Requests in progress at a time.
const UNDER_WAY_MAX: usize = 512;
/// Signed ahead of their time.
const AHEAD_MAX: usize = 4_096;
/// Ratio of receipts that state an access of up to two days before, most of them of less: lateness
/// follows Zipf's law.
pub(super) const LATE_EVERY: u32 = 200;
const LATE_MS_MAX: u64 = 172_800_000;

/// A signed receipt, ready to be sent.
pub(super) struct Signed {
    pub(super) receipt_id: Uuid,
    pub(super) body: Bytes,
    pub(super) signature: String,
}

/// Signs receipts.
pub(super) struct Signer {
    random: StdRng,
    keys: Vec<(Uuid, SigningKey)>,
    entries: Vec<Uuid>,
}

impl Signer {
    pub(super) fn new() -> Result<Self> {
        let key = |_| Ok((Uuid::new_v4(), SigningKey::generate(Algorithm::Ed25519)?));
        Ok(Self {
            random: StdRng::seed_from_u64(1),
            keys: (0..CLIENTS).map(key).collect::<Result<_>>()?,
            entries: (0..ENTRIES).map(|_| Uuid::new_v4()).collect(),
        })
    }

    /// A receipt of a publisher drawn as the loaded ones were.
    fn any(&mut self, publishers: u64) -> Result<Signed> {
        let number = if self.random.random_bool(0.2) {
            0
        } else {
            self.by_zipf(publishers.max(2))
                .clamp(1, publishers.saturating_sub(1).max(1))
        };
        let late_ms = if self.random.random_range(0..LATE_EVERY) == 0 {
            i64::try_from(self.by_zipf(LATE_MS_MAX))?
        } else {
            self.random.random_range(0..2_000)
        };
        self.of(&publisher(number), late_ms)
    }

    fn by_zipf(&mut self, below: u64) -> u64 {
        by_zipf(&mut self.random, below)
    }

    /// A receipt of an access `late_ms` ago.
    pub(super) fn of(&mut self, publisher: &str, late_ms: i64) -> Result<Signed> {
        let entry = self.entries[self.random.random_range(0..self.entries.len())];
        let (client_id, key) = &self.keys[self.random.random_range(0..self.keys.len())];
        let receipt_id = Uuid::new_v4();
        let purpose = ["inference", "inference", "training", "research"][self.random.random_range(0..4_usize)];
        let body = json!({
            "version": "1.0.0",
            "receiptId": receipt_id,
            "timestamp": service::instant::rfc3339_ms(service::instant::now_ms() - late_ms),
            "content": {
                "entryId": entry,
                "url": format!("https://{publisher}/2026/articles/{entry}?section=science"),
                "contentHash": format!("sha256:{:064x}", entry.as_u128()),
                "publisher": publisher,
            },
            "client": {
                "id": client_id,
                "name": "Streaming Reader",
                "version": "4.2.0",
                "organization": "Example Operator",
                "publicKey": key.public_key_pem(),
            },
            "usage": {"purpose": purpose, "context": "answering a question of a reader", "modelId": "m-large-3"},
        });
        let body = receipt::sign_receipt(&serde_json::to_vec(&body)?, key, &Limits::default())?;
        let signature = STANDARD.encode(key.sign(&body)?);
        Ok(Signed {
            receipt_id,
            body: body.into(),
            signature,
        })
    }
}

/// A number from 1, below `below`, by Zipf's law: log-uniform.
pub(super) fn by_zipf(random: &mut impl RngExt, below: u64) -> u64 {
    let drawn = (random.random::<f64>() * (below as f64).ln()).exp();
    // Whole, positive and below a `u64`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = drawn as u64;
    whole
}

/// Sends one receipt; when it was acknowledged.
pub(super) async fn send(http: &HttpClient, gateway: &str, signed: Signed) -> Result<Instant> {
    let request = Request::post(format!("{gateway}/api/v1/receipts"))
        .header("content-type", "application/json")
        .header("x-service-signature", signed.signature)
        .body(Full::new(signed.body))?;
    let answer = http.request(request).await?;
    anyhow::ensure!(
        answer.status() == StatusCode::ACCEPTED,
        "the gateway answered {}",
        answer.status()
    );
    Ok(Instant::now())
}

/// Acknowledged receipts.
#[derive(Default)]
pub(super) struct Acknowledged {
    pub(super) receipts: AtomicU64,
    pub(super) failed: AtomicU64,
    /// The longest that the sender was behind its plan, in milliseconds.
    pub(super) behind_ms: AtomicU64,
}

/// A running stream.
pub(super) struct Stream {
    pub(super) acknowledged: Arc<Acknowledged>,
    stop: Arc<AtomicBool>,
    sending: JoinHandle<Result<()>>,
}

impl Stream {
    pub(super) fn start(gateway: String, load: &Load, rate: u32) -> Result<Self> {
        let (ahead, mut signed) = mpsc::channel(AHEAD_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let mut signer = Signer::new()?;
        let (publishers, stopped) = (load.publishers(), Arc::clone(&stop));
        std::thread::Builder::new().name("signing".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // The time of a receipt that waits to be sent is a little in the past, as it would
                // be.
                let Ok(one) = signer.any(publishers) else { break };
                if ahead.blocking_send(one).is_err() {
                    break;
                }
            }
        })?;
        let acknowledged = Arc::new(Acknowledged::default());
        let counts = Arc::clone(&acknowledged);
        let sending = tokio::spawn(async move {
            let http = client(UNDER_WAY_MAX);
            let permits = Arc::new(Semaphore::new(UNDER_WAY_MAX));
            let mut tasks = JoinSet::new();
            let began = Instant::now();
            let mut count = 0_u64;
            while let Some(one) = signed.recv().await {
                let intended = began + Duration::from_secs_f64(count as f64 / f64::from(rate));
                tokio::time::sleep_until(intended.into()).await;
                let behind_ms = u64::try_from(intended.elapsed().as_millis()).unwrap_or(u64::MAX);
                counts.behind_ms.fetch_max(behind_ms, Ordering::Relaxed);
                count += 1;
                let permit = Arc::clone(&permits).acquire_owned().await?;
                let (http, gateway, counts) = (http.clone(), gateway.clone(), Arc::clone(&counts));
                tasks.spawn(async move {
                    match send(&http, &gateway, one).await {
                        Ok(_) => {
                            counts.receipts.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(_) => {
                            counts.failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    drop(permit);
                });
                while tasks.try_join_next().is_some() {}
            }
            while tasks.join_next().await.is_some() {}
            Ok(())
        });
        Ok(Self {
            acknowledged,
            stop,
            sending,
        })
    }

    /// Ends it once all answers are there.
    pub(super) async fn stop(self) -> Result<Arc<Acknowledged>> {
        self.stop.store(true, Ordering::Relaxed);
        self.sending.await.context("the sender")??;
        Ok(self.acknowledged)
    }
}
