//! Sending of a request, with the retries an ordinary client makes: 429 and 503 (after
//! `Retry-After`), time-outs and broken connections, each try at the next gateway.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt, Full};

use crate::http::HttpClient;
use crate::workload::{Answer, Request};

/// The most a pause between two tries takes, where the answer doesn't say.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The most that `Retry-After` is heeded.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// Addresses and settings of sending.
pub struct Sender {
    http: HttpClient,
    gateways: Vec<String>,
    next: AtomicUsize,
    tries_max: u32,
    answer_wait_max: Duration,
}

/// End of a request.
#[derive(Debug)]
pub enum Ending {
    /// Answered as it must be.
    AsExpected,
    /// Answered otherwise.
    Wrong(StatusCode, String),
    /// Every try failed; the text says how the last one did.
    GivenUp(String),
}

/// Tries of a request until its end.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tries {
    /// Tries that had to be repeated.
    pub repeated: u32,
    /// Number of tries that left open whether the record was stored: no answer, or a 503 that
    /// doesn't say.
    pub open: u32,
    /// Answers 503.
    pub unavailable: u32,
    /// Number of tries whose answer had no `Retry-After`.
    pub without_retry_after: u32,
    /// The longest that a 503 took.
    pub slowest_unavailable: Duration,
}

impl Sender {
    /// Sends to `gateways` in turn.
    #[must_use]
    pub fn new(http: HttpClient, gateways: Vec<String>, tries_max: u32, answer_wait_max: Duration) -> Self {
        Self {
            http,
            gateways,
            next: AtomicUsize::new(0),
            tries_max,
            answer_wait_max,
        }
    }

    /// Sends until there is a final answer.
    ///
    /// # Errors
    /// The request can't be built: a wrong address.
    pub async fn submit(&self, request: &Request) -> Result<(Ending, Tries)> {
        let mut tries = Tries::default();
        let mut last = String::new();
        let mut at_least = Duration::ZERO;
        for attempt in 0..self.tries_max {
            if attempt > 0 {
                tries.repeated += 1;
                let doubled = Duration::from_millis(10 << attempt.min(8)).min(WAIT_MAX);
                let wait = doubled.max(at_least).mul_f64(rand::random_range(0.5..1.0));
                tokio::time::sleep(wait.max(at_least)).await;
                at_least = Duration::ZERO;
            }
            let begun = Instant::now();
            let (status, headers, body) = match self.one_try(request).await? {
                Tried::Answered(status, headers, body) => (status, headers, body),
                Tried::NotSent(why) => {
                    last = why;
                    continue;
                }
                Tried::Open(why) => {
                    tries.open += 1;
                    last = why;
                    continue;
                }
            };
            match (status, request.answer) {
                (StatusCode::ACCEPTED, Answer::Accepted) | (StatusCode::BAD_REQUEST, Answer::Refused) => {
                    return Ok((Ending::AsExpected, tries));
                }
                (StatusCode::TOO_MANY_REQUESTS, _) => last = format!("rate limited: {body}"),
                (StatusCode::SERVICE_UNAVAILABLE, _) => {
                    tries.unavailable += 1;
                    tries.slowest_unavailable = tries.slowest_unavailable.max(begun.elapsed());
                    tries.open += u32::from(!surely_not_stored(&body));
                    last = format!("503: {body}");
                }
                _ => return Ok((Ending::Wrong(status, body), tries)),
            }
            match retry_after(&headers) {
                Some(wait) => at_least = wait.min(RETRY_AFTER_MAX),
                None => tries.without_retry_after += 1,
            }
        }
        Ok((Ending::GivenUp(last), tries))
    }

    async fn one_try(&self, request: &Request) -> Result<Tried> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let base = &self.gateways[turn % self.gateways.len()];
        let mut builder = http::Request::builder()
            .method(Method::POST)
            .uri(format!("{base}{}", request.path))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(signature) = &request.signature {
            builder = builder.header("x-service-signature", signature);
        }
        let answer = self.http.request(builder.body(Full::new(request.body.clone()))?);
        let whole = async {
            match answer.await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    match body.collect().await {
                        Ok(body) => {
                            let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
                            Tried::Answered(head.status, head.headers, body)
                        }
                        Err(error) => Tried::Open(format!("the answer broke off: {error}")),
                    }
                }
                // A refused connection never carried the request; anything else may have.
                Err(error) if error.is_connect() => Tried::NotSent(error.to_string()),
                Err(error) => Tried::Open(error.to_string()),
            }
        };
        Ok(match tokio::time::timeout(self.answer_wait_max, whole).await {
            Ok(tried) => tried,
            Err(_) => Tried::Open(format!("no answer in {:?}", self.answer_wait_max)),
        })
    }
}

enum Tried {
    Answered(StatusCode, HeaderMap, String),
    NotSent(String),
    Open(String),
}

/// Requests that are refused for want of room never reach the log.
fn surely_not_stored(problem: &str) -> bool {
    problem.contains("\"code\":\"overloaded\"")
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use http::HeaderMap;

    use super::{retry_after, surely_not_stored};

    #[test]
    fn only_what_the_gateway_refused_for_room_is_surely_not_stored() {
        assert!(surely_not_stored(
            r#"{"type":"/problems/overloaded","code":"overloaded"}"#
        ));
        assert!(!surely_not_stored(
            r#"{"type":"/problems/log_unavailable","code":"log_unavailable"}"#
        ));
    }

    #[test]
    fn retry_after_is_seconds() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers), None);
        headers.insert("retry-after", "3".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(3)));
    }
}
