//! A client and a gateway of a few lines that verifies what arrives. conformance/ has the scenarios
//! that all client libraries share; these are about what only this crate has.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_signatures::{DirectoryKey, key_set};
use parking_lot::Mutex;
use receipt::{Algorithm, Judge, Limits, SigningKey, canonicalize};
use receipts_client::retrying::RetryPauses;
use receipts_client::{ClientIdentity, ClientOptions, GatewayClient, ReceiptSigner, ReceiptsClient, RecordError, Use};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

const WAIT_MAX: Duration = Duration::from_secs(300);

/// Answers `status`, verifies batches, and has what it accepted.
struct Gateway {
    url: String,
    status: AtomicU16,
    is_proxy: AtomicBool,
    /// Signs acknowledgements, and is published.
    key: SigningKey,
    bodies: Mutex<Vec<Value>>,
    problems: Mutex<Vec<String>>,
}

impl Gateway {
    async fn start(status: StatusCode) -> Arc<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let gateway = Arc::new(Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            status: AtomicU16::new(status.as_u16()),
            is_proxy: AtomicBool::new(false),
            key: SigningKey::generate(Algorithm::Ed25519).unwrap(),
            bodies: Mutex::default(),
            problems: Mutex::default(),
        });
        let routes = Router::new()
            .route("/api/v1/receipts/batch", post(answer))
            .route("/.well-known/receipts-keys.json", get(keys))
            .with_state(Arc::clone(&gateway));
        tokio::spawn(async { axum::serve(listener, routes).await });
        gateway
    }

    fn published(&self) -> DirectoryKey {
        DirectoryKey::from_pem(self.key.public_key_pem()).unwrap()
    }

    fn acknowledgement(&self, body: &[u8]) -> Value {
        let batch: Value = serde_json::from_slice(body).unwrap();
        let mut answer =
            json!({"batchId": batch["batchId"], "receiptCount": batch["receipts"].as_array().unwrap().len()});
        let mut signed = answer.clone();
        signed["requestDigest"] = format!("sha256:{}", hex::encode(Sha256::digest(body))).into();
        signed["keyId"] = self.published().thumbprint.into();
        let canonical = canonicalize(signed.to_string().as_bytes(), 8).unwrap();
        signed["signature"] = STANDARD.encode(self.key.sign(&canonical).unwrap()).into();
        answer["status"] = "queued".into();
        answer["acknowledgement"] = signed;
        answer
    }

    fn answers(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    fn accepted(&self) -> BTreeSet<String> {
        let bodies = self.bodies.lock();
        let receipts = bodies.iter().flat_map(|body| body["receipts"].as_array().unwrap());
        receipts
            .map(|receipt| receipt["receiptId"].as_str().unwrap().to_owned())
            .collect()
    }
}

async fn answer(State(gateway): State<Arc<Gateway>>, headers: HeaderMap, body: Bytes) -> Response {
    let body = match headers.get(header::CONTENT_ENCODING) {
        Some(_) => {
            let mut decoded = Vec::new();
            flate2::read::GzDecoder::new(&body[..])
                .read_to_end(&mut decoded)
                .unwrap();
            decoded.into()
        }
        None => body,
    };
    let judge = Judge::new(Limits::default(), 10);
    if let Err(error) = judge.check_signed_batch(&body, jiff::Timestamp::now().as_millisecond()) {
        gateway.problems.lock().push(format!("{error:?}"));
    }
    let status = StatusCode::from_u16(gateway.status.load(Ordering::Relaxed)).unwrap();
    if gateway.is_proxy.load(Ordering::Relaxed) {
        return (status, [(header::CONTENT_TYPE, "text/html")], "<html>").into_response();
    }
    if status != StatusCode::ACCEPTED {
        let problem = json!({"type": "/problems/client_key_unknown", "code": "scripted", "detail": "d"});
        return (status, Json(problem)).into_response();
    }
    gateway.bodies.lock().push(serde_json::from_slice(&body).unwrap());
    (status, Json(gateway.acknowledgement(&body))).into_response()
}

async fn keys(State(gateway): State<Arc<Gateway>>) -> String {
    key_set([&gateway.published()]).unwrap()
}

fn start(gateway: &Gateway, algorithm: Algorithm, options: ClientOptions) -> ReceiptsClient {
    let identity = ClientIdentity {
        id: "018f3f3c-7f2e-7cc0-8b6a-2f6d1c7e9a10".to_owned(),
        name: "Atlas".to_owned(),
        version: "3.1".to_owned(),
        organization: "Example Labs".to_owned(),
    };
    let signer = ReceiptSigner::new(SigningKey::generate(algorithm).unwrap(), identity).unwrap();
    let gateway = GatewayClient::new(&gateway.url, WAIT_MAX, None).unwrap();
    ReceiptsClient::start(&gateway, signer, options).unwrap()
}

fn options(spool: &Path) -> ClientOptions {
    ClientOptions {
        spool_dir: Some(spool.to_owned()),
        batch_receipts_max: 10,
        batch_delay: Duration::from_millis(20),
        retry_pauses: RetryPauses {
            min: Duration::from_millis(10),
            max: Duration::from_millis(50),
        },
        ..ClientOptions::default()
    }
}

fn content_use(number: usize) -> Use {
    Use {
        url: format!("https://news.example/{number}"),
        purpose: "inference".to_owned(),
        context: "an answer".to_owned(),
        content: Some(format!("text {number}")),
        ..Use::default()
    }
}

async fn record(client: &ReceiptsClient, count: usize) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for number in 0..count {
        ids.insert(client.record(&content_use(number)).await.unwrap().to_string());
    }
    ids
}

#[tokio::test]
async fn another_key_delivers_what_the_old_one_left() {
    let (dir, gateway) = (
        tempfile::tempdir().unwrap(),
        Gateway::start(StatusCode::SERVICE_UNAVAILABLE).await,
    );
    let slow = ClientOptions {
        batch_delay: WAIT_MAX,
        ..options(dir.path())
    };
    // Two sealed batches, and five receipts that aren't in a batch.
    let old = start(&gateway, Algorithm::EcdsaP256, slow);
    let recorded = record(&old, 25).await;
    old.sync().await.unwrap();
    while old.counters().retries < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // As a kill: nothing is closed or flushed.
    drop(old);
    let lock = std::fs::File::open(dir.path().join("0/lock")).unwrap();
    while lock.try_lock().is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(lock);
    gateway.answers(StatusCode::ACCEPTED);
    let new = start(&gateway, Algorithm::Ed25519, options(dir.path()));
    assert!(new.flush(WAIT_MAX).await);
    assert_eq!(gateway.accepted(), recorded);
    assert_eq!(*gateway.problems.lock(), Vec::<String>::new());
    let algorithms: Vec<String> = gateway
        .bodies
        .lock()
        .iter()
        .map(|b| b["signatureAlgorithm"].to_string())
        .collect();
    assert_eq!(
        algorithms.iter().filter(|name| name.contains("ECDSA")).count(),
        2,
        "{algorithms:?}"
    );
    assert_eq!(
        algorithms.iter().filter(|name| name.contains("Ed25519")).count(),
        1,
        "{algorithms:?}"
    );
    assert_eq!(new.counters().refused, 0);
}

#[tokio::test]
async fn a_proxys_page_loses_nothing_and_a_gateways_refusal_is_retained() {
    let (dir, gateway) = (
        tempfile::tempdir().unwrap(),
        Gateway::start(StatusCode::NOT_FOUND).await,
    );
    gateway.is_proxy.store(true, Ordering::Relaxed);
    let client = start(&gateway, Algorithm::Ed25519, options(dir.path()));
    let recorded = record(&client, 3).await;
    while client.counters().retries < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gateway.is_proxy.store(false, Ordering::Relaxed);
    gateway.answers(StatusCode::ACCEPTED);
    assert!(client.flush(WAIT_MAX).await);
    assert_eq!(gateway.accepted(), recorded);
    gateway.answers(StatusCode::FORBIDDEN);
    record(&client, 2).await;
    assert!(client.flush(WAIT_MAX).await);
    let counters = client.counters();
    assert_eq!(
        (counters.acknowledged, counters.refused, counters.queued_bytes),
        (3, 2, 0)
    );
    assert_eq!(dir.path().join("rejected").read_dir().unwrap().count(), 1);
}

#[tokio::test]
async fn a_batch_that_is_too_old_is_given_up() {
    let (dir, gateway) = (
        tempfile::tempdir().unwrap(),
        Gateway::start(StatusCode::SERVICE_UNAVAILABLE).await,
    );
    let refused = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&refused);
    let hasty = ClientOptions {
        spool_age_max: Duration::from_millis(300),
        on_refused: Some(Arc::new(move |receipt| {
            reported.lock().push((receipt.receipt_id.clone(), receipt.code.clone()));
        })),
        ..options(dir.path())
    };
    let client = start(&gateway, Algorithm::Ed25519, hasty);
    let recorded = record(&client, 1).await.pop_first().unwrap();
    assert!(client.flush(WAIT_MAX).await);
    assert_eq!(*refused.lock(), [(recorded, "expired".to_owned())]);
    assert!(gateway.bodies.lock().is_empty());
}

#[tokio::test]
async fn many_receipts_are_queued_together_or_not_at_all() {
    let (dir, gateway) = (
        tempfile::tempdir().unwrap(),
        Gateway::start(StatusCode::SERVICE_UNAVAILABLE).await,
    );
    let narrow = ClientOptions {
        queue_receipts_max: 30,
        queue_wait: Duration::from_millis(10),
        ..options(dir.path())
    };
    let client = start(&gateway, Algorithm::Ed25519, narrow);
    let signed = |count: usize| -> Vec<_> { (0..count).map(|n| client.sign(&content_use(n)).unwrap()).collect() };
    client.put(&signed(25)).await.unwrap();
    assert!(matches!(client.put(&signed(6)).await, Err(RecordError::QueueFull)));
    client.put(&signed(5)).await.unwrap();
    let (one, two) = tokio::join!(client.sync(), client.sync());
    one.and(two).unwrap();
    gateway.answers(StatusCode::ACCEPTED);
    assert!(client.close(WAIT_MAX).await);
    assert_eq!(gateway.accepted().len(), 30);
    assert!(matches!(client.record(&content_use(1)).await, Err(RecordError::Closed)));
    assert!(client.sync().await.is_err(), "nothing syncs any more");
}

#[tokio::test]
async fn acknowledged_batches_are_retained_with_their_proof() {
    let (dir, gateway) = (tempfile::tempdir().unwrap(), Gateway::start(StatusCode::ACCEPTED).await);
    let keeping = ClientOptions {
        acknowledged_bytes_max: 1 << 20,
        ..options(dir.path())
    };
    let client = start(&gateway, Algorithm::Ed25519, keeping);
    let recorded = record(&client, 25).await;
    assert!(client.close(WAIT_MAX).await);
    let mut proven = BTreeSet::new();
    for file in dir.path().join("acknowledged").read_dir().unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let head = r#"{"acknowledgement":"#;
            let (acknowledgement, batch) = line.strip_prefix(head).unwrap().split_once(r#","batch":"#).unwrap();
            let batch = batch.strip_suffix('}').unwrap();
            let acknowledgement: Value = serde_json::from_str(acknowledgement).unwrap();
            let digest = format!("sha256:{}", hex::encode(Sha256::digest(batch)));
            assert_eq!(acknowledgement["requestDigest"], digest);
            let batch: Value = serde_json::from_str(batch).unwrap();
            let ids = batch["receipts"].as_array().unwrap().iter();
            proven.extend(ids.map(|receipt| receipt["receiptId"].as_str().unwrap().to_owned()));
        }
    }
    assert_eq!(proven, recorded);
}
