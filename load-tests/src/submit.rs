//! One request, with the retries an ordinary client makes: 429, 503, time-outs and broken connections.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::workload::{Answer, Request};

/// The HTTP client of the whole run.
pub type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// The most a pause between two tries takes.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// An answer is waited for so long.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

/// How a request ended.
#[derive(Debug)]
pub enum Ending {
    /// Answered as it must be. `unanswered` tries before it may have been taken too.
    AsExpected {
        /// Tries without an answer, or with one that leaves open whether the record was stored.
        unanswered: u32,
    },
    /// Answered otherwise.
    Wrong(StatusCode, String),
    /// Every try failed.
    GivenUp(String),
}

/// A client that keeps its connections.
#[must_use]
pub fn client(connections: usize) -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(connections)
        .build(connector)
}

/// Sends until there is a final answer.
///
/// # Errors
/// The request can't be built: a wrong address.
pub async fn submit(client: &HttpClient, base: &str, request: &Request, tries_max: u32) -> Result<Ending> {
    let mut unanswered = 0;
    let mut last = String::new();
    for attempt in 0..tries_max {
        if attempt > 0 {
            let doubled = Duration::from_millis(10 << attempt.min(8)).min(WAIT_MAX);
            tokio::time::sleep(doubled.mul_f64(rand::random_range(0.5..1.0))).await;
        }
        let mut builder = http::Request::builder()
            .method(Method::POST)
            .uri(format!("{base}{}", request.path))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(signature) = &request.signature {
            builder = builder.header("x-service-signature", signature);
        }
        let answer = client.request(builder.body(Full::new(request.body.clone()))?);
        let response = match tokio::time::timeout(ANSWER_WAIT_MAX, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                // A refused connection never carried the request; anything else may have.
                if !error.is_connect() {
                    unanswered += 1;
                }
                last = format!("{error}");
                continue;
            }
            Err(_) => {
                unanswered += 1;
                last = "no answer in time".to_owned();
                continue;
            }
        };
        let status = response.status();
        let Ok(body) = response.into_body().collect().await else {
            unanswered += 1;
            last = "the answer broke off".to_owned();
            continue;
        };
        match (status, request.answer) {
            (StatusCode::ACCEPTED, Answer::Accepted) | (StatusCode::BAD_REQUEST, Answer::Refused) => {
                return Ok(Ending::AsExpected { unanswered });
            }
            (StatusCode::TOO_MANY_REQUESTS, _) => last = "rate limited".to_owned(),
            (StatusCode::SERVICE_UNAVAILABLE, _) => {
                unanswered += 1;
                last = "503".to_owned();
            }
            _ => {
                return Ok(Ending::Wrong(
                    status,
                    String::from_utf8_lossy(&body.to_bytes()).into_owned(),
                ));
            }
        }
    }
    Ok(Ending::GivenUp(last))
}
