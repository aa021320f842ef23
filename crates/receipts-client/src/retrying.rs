//! Tries of a request until it has an answer or its tries are used up.

use std::future::Future;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode, header};
use rand::RngExt;
use receipt::BodyKind;
use serde::Deserialize;

use crate::acknowledgement::SignedAcknowledgement;
use crate::submission::Submission;

/// The longest Retry-After that [`submit`] waits for, in seconds.
const RETRY_AFTER_S_MAX: u64 = 60;
/// The longest Retry-After that is read, in seconds: a daily quota's.
const RETRY_AFTER_S_READ_MAX: u64 = 86_400;

/// Statuses of a server, or of a proxy before it, that may accept the same bytes later. A server
/// that can't store answers 500.
const PASSING: [StatusCode; 6] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// The gateway's problems that judge the bytes of a request (conformance/README.md): sent again,
/// these bytes would be refused again. A `code` alone proves nothing, as other services have codes.
const FINAL_PROBLEMS: [&str; 13] = [
    "invalid_json",
    "invalid_receipt",
    "invalid_batch",
    "wrong_address",
    "bad_signature",
    "bad_batch_signature",
    "missing_request_signature",
    "invalid_request_signature",
    "bad_request_signature",
    "client_key_unknown",
    "client_key_revoked",
    "body_too_large",
    "decoded_body_too_large",
];

/// Bytes of an answer that a log line repeats.
const EXCERPT_CHARACTERS: usize = 80;

/// Pauses between tries: full jitter between a constant and a doubling bound. Senders that failed
/// together don't come back together. The jitter of the crate backon is added to a full pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPauses {
    /// The shortest pause.
    pub min: Duration,
    /// The longest pause, except for what a server requests.
    pub max: Duration,
}

impl RetryPauses {
    /// Pause after a try. `attempt` counts from 1; the bound begins at twice the shortest pause.
    #[must_use]
    pub fn after(self, attempt: u32) -> Duration {
        rand::rng().random_range(self.min..=self.bound(attempt))
    }

    fn bound(self, attempt: u32) -> Duration {
        let doubled = self.min.saturating_mul(1 << attempt.clamp(1, 20));
        doubled.min(self.max).max(self.min)
    }
}

/// Limits of the tries.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Tries for each request.
    pub attempts_max: u32,
    /// Longest time of one try.
    pub timeout: Duration,
    /// Longest time of all tries of a request, pauses included.
    pub total_max: Option<Duration>,
    /// Pauses between them.
    pub pauses: RetryPauses,
}

/// Outcome of a request.
#[derive(Debug)]
pub enum SubmissionOutcome {
    /// The server holds it durably, as the gateway's verified acknowledgement says.
    Accepted(Option<SignedAcknowledgement>),
    /// The server won't have it, however often it is sent.
    Refused(Refusal),
    /// The tries are used up. Whether the server has it isn't known.
    Unavailable(String),
}

/// Why a server refused a request.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The problem's code.
    pub code: String,
    /// JSON Pointer; empty for the whole body.
    pub pointer: String,
    /// Advice: what to change.
    pub detail: String,
    /// Receipts of a batch that are named.
    pub receipts: Vec<ReceiptFault>,
    /// Whether the gateway itself judged the bytes, as its problem document says.
    pub is_gateways: bool,
}

/// A fault of one receipt of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptFault {
    /// Index of the receipt in its batch.
    pub index: usize,
    /// Code of the fault.
    pub code: String,
    /// JSON Pointer within the receipt.
    pub pointer: String,
    /// Advice: what to change.
    pub detail: String,
}

/// End of a try.
#[derive(Debug)]
pub enum Try {
    /// With something that trying again doesn't change.
    Ended(SubmissionOutcome),
    /// With something that may pass.
    Again {
        /// Reason.
        reason: String,
        /// Time that the server requests to be left alone.
        after: Option<Duration>,
        /// Whether a person should look, because the answer isn't that of a server that is away or
        /// overloaded.
        is_strange: bool,
    },
}

impl Try {
    /// Without an answer that could be read.
    pub fn again(reason: impl Into<String>) -> Self {
        Self::Again {
            reason: reason.into(),
            after: None,
            is_strange: false,
        }
    }

    /// With an answer that a person should look at.
    pub fn strange(reason: impl Into<String>) -> Self {
        Self::Again {
            reason: reason.into(),
            after: None,
            is_strange: true,
        }
    }

    /// With this answer of a gateway, or of a proxy before it, which isn't a 202. Only the
    /// gateway's own judgement ends the request, and a 413 of anybody ends one with several
    /// receipts, which may fit in parts.
    pub fn answered_by_gateway(status: StatusCode, headers: &HeaderMap, body: &[u8], kind: BodyKind) -> Self {
        let refusal = Refusal::read(status, body);
        let may_fit_in_parts = status == StatusCode::PAYLOAD_TOO_LARGE && kind == BodyKind::Batch;
        if refusal.is_gateways || may_fit_in_parts {
            return Self::Ended(SubmissionOutcome::Refused(refusal));
        }
        let after = retry_after(headers);
        let is_strange = !PASSING.contains(&status) && !status.is_server_error();
        if !is_strange {
            let reason = format!("{} {}: {}", refusal.status, refusal.code, refusal.detail);
            return Self::Again {
                reason,
                after,
                is_strange,
            };
        }
        let excerpt: String = String::from_utf8_lossy(body).chars().take(EXCERPT_CHARACTERS).collect();
        let mut reason = format!("status {}, not a gateway's answer: {excerpt:?}", refusal.status);
        if let Some(location) = headers.get(header::LOCATION) {
            reason.push_str(&format!(", Location {}", String::from_utf8_lossy(location.as_bytes())));
        }
        Self::Again {
            reason,
            after,
            is_strange,
        }
    }

    /// With this answer of a publisher's webhook, which isn't the expected success.
    pub fn answered(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let refusal = Refusal::read(status, body);
        if !PASSING.contains(&status) {
            return Self::Ended(SubmissionOutcome::Refused(refusal));
        }
        Self::Again {
            reason: format!("{} {}: {}", refusal.status, refusal.code, refusal.detail),
            after: retry_after(headers),
            is_strange: false,
        }
    }
}

/// Connection to a server. Each sender has its own.
pub trait Transport: Send + 'static {
    /// Name of the server.
    const SERVER: &'static str;

    /// Sends it once.
    fn attempt(&mut self, submission: &Submission) -> impl Future<Output = Try> + Send;
}

/// Submits until there is an answer; also returns how many further tries that took. `on_retry` gets
/// the number of each failed try and its reason.
pub async fn submit<T: Transport>(
    transport: &mut T,
    submission: &Submission,
    policy: RetryPolicy,
    on_retry: impl Fn(u32, &str),
) -> (SubmissionOutcome, u64) {
    let started = Instant::now();
    let mut attempt = 1;
    loop {
        let (reason, after) = match tokio::time::timeout(policy.timeout, transport.attempt(submission)).await {
            Ok(Try::Ended(outcome)) => return (outcome, u64::from(attempt - 1)),
            Ok(Try::Again { reason, after, .. }) => (reason, after),
            Err(_) => (format!("no answer within {:?}", policy.timeout), None),
        };
        let requested = after.unwrap_or_default().min(Duration::from_secs(RETRY_AFTER_S_MAX));
        let pause = requested + policy.pauses.after(attempt);
        let late = policy
            .total_max
            .is_some_and(|total_max| started.elapsed() + pause >= total_max);
        if attempt >= policy.attempts_max || late {
            let reason = format!("{} stays unavailable after {attempt} tries: {reason}", T::SERVER);
            return (SubmissionOutcome::Unavailable(reason), u64::from(attempt - 1));
        }
        on_retry(attempt, &reason);
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}

/// `Retry-After` in seconds, or until a date (RFC 9110, 10.2.3), of at most a day.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?;
            let wait_ms = date.timestamp().as_millisecond() - jiff::Timestamp::now().as_millisecond();
            Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
        }
    };
    Some(wait.min(Duration::from_secs(RETRY_AFTER_S_READ_MAX)))
}

impl Refusal {
    /// Reads problem+json (RFC 9457) with a list of faults; makes do with less.
    fn read(status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct ReceivedProblem {
            #[serde(rename = "type")]
            problem_type: Option<String>,
            code: Option<String>,
            title: Option<String>,
            detail: Option<String>,
            pointer: Option<String>,
            errors: Vec<ReceivedFault>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct ReceivedFault {
            code: Option<String>,
            pointer: String,
            detail: Option<String>,
        }
        let mut problem: ReceivedProblem = serde_json::from_slice(body).unwrap_or_default();
        let is_gateways = status.is_client_error() && problem.problem_type.as_deref().is_some_and(is_final);
        let receipts = problem
            .errors
            .iter()
            .filter_map(|fault| {
                let (index, rest) = split_pointer(&fault.pointer)?;
                Some(ReceiptFault {
                    index,
                    code: fault.code.clone().unwrap_or_default(),
                    pointer: rest.to_owned(),
                    detail: fault.detail.clone().unwrap_or_default(),
                })
            })
            .collect();
        let first = if problem.errors.is_empty() {
            ReceivedFault::default()
        } else {
            problem.errors.swap_remove(0)
        };
        let reason = || status.canonical_reason().unwrap_or("unknown").to_owned();
        Self {
            status: status.as_u16(),
            code: first
                .code
                .or(problem.code)
                .unwrap_or_else(|| format!("http_{}", status.as_u16())),
            pointer: if first.pointer.is_empty() {
                problem.pointer.unwrap_or_default()
            } else {
                first.pointer
            },
            detail: first.detail.or(problem.detail).or(problem.title).unwrap_or_else(reason),
            receipts,
            is_gateways,
        }
    }
}

/// Whether a problem's type is the address of one of [`FINAL_PROBLEMS`], absolute or not.
fn is_final(problem_type: &str) -> bool {
    let (address, name) = problem_type.rsplit_once('/').unwrap_or(("", problem_type));
    (address == "problems" || address.ends_with("/problems")) && FINAL_PROBLEMS.contains(&name)
}

/// Index and rest of a pointer into a batch's receipts: `/receipts/3/content/url`.
fn split_pointer(pointer: &str) -> Option<(usize, &str)> {
    let rest = pointer.strip_prefix("/receipts/")?;
    let end = rest.find('/').unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const PAUSES: RetryPauses = RetryPauses {
        min: Duration::from_millis(200),
        max: Duration::from_secs(10),
    };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let bounds: Vec<u128> = (1..9).map(|attempt| PAUSES.bound(attempt).as_millis()).collect();
        assert_eq!(bounds, [400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
        for attempt in [0, 1, 5, 1_000, u32::MAX] {
            let pause = PAUSES.after(attempt);
            assert!(
                (PAUSES.min..=PAUSES.bound(attempt)).contains(&pause),
                "{attempt}: {pause:?}"
            );
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers).map(|wait| wait.as_secs())
        };
        assert_eq!(of("7"), Some(7));
        assert_eq!(of("864000"), Some(RETRY_AFTER_S_READ_MAX));
        assert_eq!(of("Fri, 31 Dec 1999 23:59:59 GMT"), Some(0));
        assert_eq!(of("Fri, 31 Dec 2199 23:59:59 GMT"), None, "that day is no Friday");
        assert_eq!(of("Tue, 31 Dec 2199 23:59:59 GMT"), Some(RETRY_AFTER_S_READ_MAX));
        assert_eq!((of("-1"), of("soon"), of("1.5")), (None, None, None));
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    /// Ends as the test wants, each try in turn.
    struct Script(Vec<Try>);

    impl Transport for Script {
        const SERVER: &'static str = "the server";

        async fn attempt(&mut self, _: &Submission) -> Try {
            if self.0.is_empty() {
                std::future::pending().await
            } else {
                self.0.remove(0)
            }
        }
    }

    fn submission() -> Submission {
        Submission {
            kind: receipt::BodyKind::Receipt,
            body: bytes::Bytes::new(),
            compression: crate::submission::Compression::None,
            signature: None,
        }
    }

    async fn ended(script: Vec<Try>, policy: RetryPolicy) -> (SubmissionOutcome, u64) {
        submit(&mut Script(script), &submission(), policy, |_, _| {}).await
    }

    #[tokio::test]
    async fn it_goes_on_until_an_answer_or_a_limit() {
        let policy = RetryPolicy {
            attempts_max: 3,
            timeout: Duration::from_secs(60),
            total_max: None,
            pauses: RetryPauses {
                min: Duration::ZERO,
                max: Duration::ZERO,
            },
        };
        let again = || Try::again("it is away");
        let (outcome, retries) = ended(
            vec![again(), again(), Try::Ended(SubmissionOutcome::Accepted(None))],
            policy,
        )
        .await;
        assert!(matches!(outcome, SubmissionOutcome::Accepted(None)) && retries == 2);
        let (outcome, retries) = ended(vec![again(), again(), again()], policy).await;
        assert!(
            matches!(&outcome, SubmissionOutcome::Unavailable(why) if why.contains("after 3 tries: it is away")),
            "{outcome:?}"
        );
        assert_eq!(retries, 2);
        // The pause that a server requests would go beyond the whole time: it isn't begun.
        let short = RetryPolicy {
            total_max: Some(Duration::from_secs(30)),
            ..policy
        };
        let long = Try::Again {
            reason: "429".to_owned(),
            after: Some(Duration::from_secs(31)),
            is_strange: false,
        };
        let (outcome, retries) = ended(vec![long], short).await;
        assert!(matches!(outcome, SubmissionOutcome::Unavailable(_)) && retries == 0);
        // A try that hangs is one that failed.
        let hasty = RetryPolicy {
            attempts_max: 1,
            timeout: Duration::from_millis(10),
            ..policy
        };
        let (outcome, _) = ended(Vec::new(), hasty).await;
        assert!(
            matches!(&outcome, SubmissionOutcome::Unavailable(why) if why.contains("no answer within 10ms")),
            "{outcome:?}"
        );
    }

    #[test]
    fn only_statuses_that_may_pass_are_tried_again() {
        let body = br#"{"code": "rate_limited", "detail": "too many"}"#;
        let tried = Try::answered(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), body);
        assert!(matches!(tried, Try::Again { reason, after: None, .. } if reason == "429 rate_limited: too many"));
        let tried = Try::answered(StatusCode::NOT_FOUND, &HeaderMap::new(), b"<html>");
        let Try::Ended(SubmissionOutcome::Refused(refusal)) = tried else {
            panic!("{tried:?}")
        };
        assert_eq!(
            (refusal.code.as_str(), refusal.detail.as_str(), refusal.is_gateways),
            ("http_404", "Not Found", false)
        );
    }

    #[derive(Deserialize)]
    struct AnswerVector {
        name: String,
        status: u16,
        body: String,
        outcome: String,
    }

    #[test]
    fn answers_of_a_gateway_end_as_the_vectors_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/vectors/answers.json");
        let vectors: Vec<AnswerVector> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(vectors.len() > 50);
        for vector in vectors.iter().filter(|vector| vector.status != 202) {
            let status = StatusCode::from_u16(vector.status).unwrap();
            let answered = |kind| Try::answered_by_gateway(status, &HeaderMap::new(), vector.body.as_bytes(), kind);
            let outcome = match answered(BodyKind::Batch) {
                Try::Ended(SubmissionOutcome::Refused(refusal)) if refusal.status == 413 => "split",
                Try::Ended(_) => "refused",
                Try::Again { .. } => "retried",
            };
            assert_eq!(outcome, vector.outcome, "{}", vector.name);
        }
        let page = Try::answered_by_gateway(StatusCode::PAYLOAD_TOO_LARGE, &HeaderMap::new(), b"", BodyKind::Receipt);
        assert!(
            matches!(page, Try::Again { is_strange: true, .. }),
            "one receipt has no parts"
        );
    }

    #[test]
    fn a_refused_batch_names_its_receipts() {
        let body = br#"{"type": "/problems/invalid_batch", "code": "invalid_url", "errors": [
            {"pointer": "/receipts/3/content/url", "code": "invalid_url", "detail": "d"},
            {"pointer": "/receipts/11", "code": "receipt_too_large"}, {"pointer": "/batchId", "code": "empty_batch_id"}]}"#;
        let refusal = Refusal::read(StatusCode::BAD_REQUEST, body);
        let named: Vec<_> = refusal.receipts.iter().map(|r| (r.index, r.pointer.as_str())).collect();
        assert_eq!(named, [(3, "/content/url"), (11, "")]);
        assert_eq!(
            (refusal.pointer.as_str(), refusal.is_gateways),
            ("/receipts/3/content/url", true)
        );
    }
}
