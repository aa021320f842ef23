//! The adapter of conformance/README.md for this crate.
#![allow(clippy::expect_used)]

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use receipt::SigningKey;
use receipts_client::{ClientIdentity, ClientOptions, GatewayClient, ReceiptSigner, ReceiptsClient, RecordError, Use};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

/// Time for a connection to the scripted gateway.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Client, and what it reported.
#[derive(Default)]
struct Adapter {
    client: Mutex<Option<Arc<ReceiptsClient>>>,
    refused: Arc<std::sync::Mutex<Vec<Value>>>,
    acknowledged: Arc<std::sync::Mutex<Vec<Value>>>,
}

type Answer = (StatusCode, Json<Value>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitOptions {
    url: String,
    client_id: String,
    client_name: String,
    client_version: String,
    organization: String,
    private_key: String,
    spool_dir: Option<PathBuf>,
    batch_receipts_max: Option<usize>,
    batch_bytes_max: Option<usize>,
    batch_delay_ms: Option<u64>,
    queue_receipts_max: Option<usize>,
    queue_bytes_max: Option<usize>,
    queue_wait_ms: Option<u64>,
    requests_in_flight_max: Option<usize>,
    retry_delay_ms_min: Option<u64>,
    retry_delay_ms_max: Option<u64>,
}

impl InitOptions {
    fn client_options(&self) -> ClientOptions {
        let mut options = ClientOptions::default();
        options.spool_dir.clone_from(&self.spool_dir);
        for (option, given) in [
            (&mut options.batch_receipts_max, self.batch_receipts_max),
            (&mut options.batch_bytes_max, self.batch_bytes_max),
            (&mut options.queue_receipts_max, self.queue_receipts_max),
            (&mut options.queue_bytes_max, self.queue_bytes_max),
            (&mut options.requests_in_flight_max, self.requests_in_flight_max),
        ] {
            *option = given.unwrap_or(*option);
        }
        for (option, given_ms) in [
            (&mut options.batch_delay, self.batch_delay_ms),
            (&mut options.queue_wait, self.queue_wait_ms),
            (&mut options.retry_pauses.min, self.retry_delay_ms_min),
            (&mut options.retry_pauses.max, self.retry_delay_ms_max),
        ] {
            *option = given_ms.map_or(*option, Duration::from_millis);
        }
        options
    }
}

#[derive(Deserialize)]
struct Uses {
    uses: Vec<Use>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flush {
    timeout_ms: u64,
}

fn wrong(error: impl ToString) -> Answer {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error.to_string()})))
}

async fn init(State(adapter): State<Arc<Adapter>>, Json(given): Json<InitOptions>) -> Answer {
    let mut options = given.client_options();
    let refused = Arc::clone(&adapter.refused);
    options.on_refused = Some(Arc::new(move |receipt| {
        let mut refused = refused.lock().expect("no panic");
        refused.push(
            json!({"receiptId": receipt.receipt_id, "code": receipt.code, "pointer": receipt.pointer,
                            "detail": receipt.detail}),
        );
    }));
    let acknowledged = Arc::clone(&adapter.acknowledged);
    options.on_acknowledged = Some(Arc::new(move |batch| {
        let mut acknowledged = acknowledged.lock().expect("no panic");
        acknowledged.push(json!({"batchId": batch.batch_id, "receiptIds": batch.receipt_ids,
                                 "acknowledgement": batch.acknowledgement}));
    }));
    let identity = ClientIdentity {
        id: given.client_id,
        name: given.client_name,
        version: given.client_version,
        organization: given.organization,
    };
    let key = match SigningKey::from_pkcs8_pem(&given.private_key) {
        Ok(key) => key,
        Err(error) => return wrong(error),
    };
    let signer = match ReceiptSigner::new(key, identity) {
        Ok(signer) => signer,
        Err(error) => return wrong(error),
    };
    let gateway = match GatewayClient::new(&given.url, CONNECT_WAIT, None) {
        Ok(gateway) => gateway,
        Err(error) => return wrong(error),
    };
    match ReceiptsClient::start(&gateway, signer, options) {
        Ok(client) => *adapter.client.lock().await = Some(Arc::new(client)),
        Err(error) => return wrong(error),
    }
    (StatusCode::OK, Json(json!({})))
}

impl Adapter {
    async fn client(&self) -> Arc<ReceiptsClient> {
        let client = self.client.lock().await;
        Arc::clone(client.as_ref().expect("/init comes first"))
    }
}

async fn record(State(adapter): State<Arc<Adapter>>, body: String) -> Answer {
    let uses: Uses = match serde_json::from_str(&body) {
        Ok(uses) => uses,
        Err(error) => return wrong(error),
    };
    let client = adapter.client().await;
    let mut recorded = Vec::new();
    for content_use in uses.uses {
        match client.record(&content_use).await {
            Ok(id) => recorded.push(id.to_string()),
            Err(RecordError::QueueFull) => {
                let answer = json!({"receiptIds": recorded, "error": "queue_full"});
                return (StatusCode::INSUFFICIENT_STORAGE, Json(answer));
            }
            Err(RecordError::Spool(_)) => {
                let answer = json!({"receiptIds": recorded, "error": "spool_failed"});
                return (StatusCode::INSUFFICIENT_STORAGE, Json(answer));
            }
            Err(error) => return wrong(error),
        }
    }
    (StatusCode::OK, Json(json!({"receiptIds": recorded})))
}

async fn flush(State(adapter): State<Arc<Adapter>>, Json(flush): Json<Flush>) -> Json<Value> {
    let client = adapter.client().await;
    Json(json!({"flushed": client.flush(Duration::from_millis(flush.timeout_ms)).await}))
}

async fn close(State(adapter): State<Arc<Adapter>>) -> Json<Value> {
    adapter.client().await.close(Duration::from_secs(5)).await;
    Json(json!({}))
}

async fn state(State(adapter): State<Arc<Adapter>>) -> Json<Value> {
    let counters = adapter.client().await.counters();
    let mut state = json!(counters);
    state["rejected"] = json!(*adapter.refused.lock().expect("no panic"));
    state["acknowledgements"] = json!(*adapter.acknowledged.lock().expect("no panic"));
    state["metrics"] = json!({"damaged": counters.damaged});
    Json(state)
}

/// Scenarios that this library can't pass yet, with the reasons.
async fn capabilities() -> Json<Value> {
    Json(json!({"unsupported": {
        "a_record_that_nobody_awaits_reports_its_failure": "a result that isn't used is a warning of the compiler",
        "what_isnt_known_is_refused": "options are members of a structure, which the compiler checks",
        "metrics_have_the_same_names": "there are counters instead of metrics",
    }}))
}

async fn kill() {
    let this = std::process::id().to_string();
    let _ = std::process::Command::new("kill").args(["-9", &this]).status();
}

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::WARN)
        .init();
    let port = std::env::var("PORT").expect("PORT is set");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse().expect("PORT is a port"))).await;
    let routes = Router::new()
        .route("/init", post(init))
        .route("/record", post(record))
        .route("/flush", post(flush))
        .route("/close", post(close))
        .route("/state", get(state))
        .route("/kill", post(kill))
        .route("/capabilities", get(capabilities))
        .with_state(Arc::new(Adapter::default()));
    axum::serve(listener.expect("the port is free"), routes)
        .await
        .expect("it serves");
}
