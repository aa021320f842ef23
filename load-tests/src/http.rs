//! The HTTP client of generator and drills.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// The HTTP client of a whole run.
pub type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// A look at a process takes at most so long.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(5);

/// A client that keeps its connections.
#[must_use]
pub fn client(connections: usize) -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(connections)
        .build(connector)
}

/// A GET's status; `None` where nothing answers.
pub async fn status_of(http: &HttpClient, address: &str) -> Option<StatusCode> {
    let uri: Uri = address.parse().ok()?;
    let request = http::Request::get(uri).body(Full::default()).ok()?;
    let answer = tokio::time::timeout(LOOK_WAIT_MAX, http.request(request)).await;
    Some(answer.ok()?.ok()?.status())
}

/// A GET's status and body.
///
/// # Errors
/// The address doesn't answer, or not in time.
pub async fn get(http: &HttpClient, address: &str) -> Result<(StatusCode, Bytes)> {
    let request = http::Request::get(address.parse::<Uri>()?).body(Full::default())?;
    let answer = tokio::time::timeout(LOOK_WAIT_MAX, http.request(request)).await??;
    let status = answer.status();
    let body = tokio::time::timeout(LOOK_WAIT_MAX, answer.into_body().collect()).await??;
    Ok((status, body.to_bytes()))
}
