//! Tries of a request until it has an answer or its tries are used up.

use std::future::Future;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode, header};
use indicatif::ProgressBar;
use rand::RngExt;
use serde::Deserialize;

use super::submission::Submission;

/// The first pause lasts up to this long; it doubles from try to try.
const PAUSE_MS_FIRST: u64 = 200;
/// The longest pause of our own choosing.
const PAUSE_MS_MAX: u64 = 10_000;
/// The longest Retry-After that is waited for, in seconds.
const RETRY_AFTER_S_MAX: u64 = 60;

/// Limits of the tries.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Tries for each request.
    pub attempts_max: u32,
    /// Longest time of one try.
    pub timeout: Duration,
    /// Longest time of all tries of a request, pauses included.
    pub total_max: Option<Duration>,
}

/// Outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The server holds it durably.
    Accepted,
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
}

/// End of a try.
#[derive(Debug)]
pub enum Try {
    /// With something that trying again doesn't change.
    Ended(Outcome),
    /// With something that may pass.
    Again {
        /// Reason.
        reason: String,
        /// Time that the server wishes to be left alone.
        after: Option<Duration>,
    },
}

impl Try {
    /// Without an answer that could be read.
    pub fn again(reason: impl Into<String>) -> Self {
        Self::Again {
            reason: reason.into(),
            after: None,
        }
    }

    /// With this answer, if it isn't one of success: again for a status of `passing`.
    pub fn answered(status: StatusCode, headers: &HeaderMap, body: &[u8], passing: &[StatusCode]) -> Self {
        let refusal = Refusal::read(status, body);
        if !passing.contains(&status) {
            return Self::Ended(Outcome::Refused(refusal));
        }
        Self::Again {
            reason: format!("{} {}: {}", refusal.status, refusal.code, refusal.detail),
            after: retry_after(headers),
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

/// Submits until there is an answer; also returns how many further tries that took.
pub async fn submit<T: Transport>(
    transport: &mut T,
    submission: &Submission,
    policy: RetryPolicy,
    progress: &ProgressBar,
) -> (Outcome, u64) {
    let started = Instant::now();
    let mut attempt = 1;
    loop {
        let (reason, after) = match tokio::time::timeout(policy.timeout, transport.attempt(submission)).await {
            Ok(Try::Ended(outcome)) => return (outcome, u64::from(attempt - 1)),
            Ok(Try::Again { reason, after }) => (reason, after),
            Err(_) => (format!("no answer within {:?}", policy.timeout), None),
        };
        let pause = pause(attempt).max(after.unwrap_or_default());
        let late = policy
            .total_max
            .is_some_and(|total_max| started.elapsed() + pause >= total_max);
        if attempt >= policy.attempts_max || late {
            let reason = format!("{} stays unavailable after {attempt} tries: {reason}", T::SERVER);
            return (Outcome::Unavailable(reason), u64::from(attempt - 1));
        }
        if attempt == 3 {
            super::notice(progress, &format!("trying again: {reason}"));
        }
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}

/// Up to the whole of a doubling pause: with full jitter, senders that failed together don't come
/// back together.
fn pause(attempt: u32) -> Duration {
    Duration::from_millis(rand::rng().random_range(0..=longest_pause_ms(attempt)))
}

fn longest_pause_ms(attempt: u32) -> u64 {
    let doubled = PAUSE_MS_FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(16));
    doubled.min(PAUSE_MS_MAX)
}

/// `Retry-After` in seconds, or until a date (RFC 9110, 10.2.3), cut to what is bearable.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?;
            let wait_s = date.timestamp().as_second() - jiff::Timestamp::now().as_second();
            u64::try_from(wait_s).unwrap_or(0)
        }
    };
    Some(Duration::from_secs(seconds.min(RETRY_AFTER_S_MAX)))
}

impl Refusal {
    /// Reads problem+json (RFC 9457) with a list of faults; makes do with less.
    fn read(status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Problem {
            code: Option<String>,
            title: Option<String>,
            detail: Option<String>,
            pointer: Option<String>,
            errors: Vec<Fault>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Fault {
            code: Option<String>,
            pointer: String,
            detail: Option<String>,
        }
        let mut problem: Problem = serde_json::from_slice(body).unwrap_or_default();
        let first = if problem.errors.is_empty() {
            Fault::default()
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
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let longest: Vec<u64> = (1..9).map(longest_pause_ms).collect();
        assert_eq!(longest, [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(longest_pause_ms(u32::MAX), PAUSE_MS_MAX);
        for attempt in [1, 5, 1_000] {
            assert!(pause(attempt) <= Duration::from_millis(longest_pause_ms(attempt)));
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
        assert_eq!(of("86400"), Some(RETRY_AFTER_S_MAX));
        assert_eq!(of("Fri, 31 Dec 1999 23:59:59 GMT"), Some(0));
        assert_eq!(of("Fri, 31 Dec 2199 23:59:59 GMT"), None, "that day is no Friday");
        assert_eq!(of("Tue, 31 Dec 2199 23:59:59 GMT"), Some(RETRY_AFTER_S_MAX));
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
            compression: super::super::submission::Compression::None,
            signature: None,
            receipts: 1,
            line: 1,
            input_bytes: 0,
        }
    }

    async fn ended(script: Vec<Try>, policy: RetryPolicy) -> (Outcome, u64) {
        submit(&mut Script(script), &submission(), policy, &ProgressBar::hidden()).await
    }

    #[tokio::test]
    async fn it_goes_on_until_an_answer_or_a_limit() {
        let policy = RetryPolicy {
            attempts_max: 3,
            timeout: Duration::from_secs(60),
            total_max: None,
        };
        let again = || Try::again("it is away");
        let (outcome, retries) = ended(vec![again(), again(), Try::Ended(Outcome::Accepted)], policy).await;
        assert!(matches!(outcome, Outcome::Accepted) && retries == 2);
        let (outcome, retries) = ended(vec![again(), again(), again()], policy).await;
        assert!(
            matches!(&outcome, Outcome::Unavailable(why) if why.contains("after 3 tries: it is away")),
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
        };
        let (outcome, retries) = ended(vec![long], short).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)) && retries == 0);
        // A try that hangs is one that failed.
        let hasty = RetryPolicy {
            attempts_max: 1,
            timeout: Duration::from_millis(10),
            total_max: None,
        };
        let (outcome, _) = ended(Vec::new(), hasty).await;
        assert!(
            matches!(&outcome, Outcome::Unavailable(why) if why.contains("no answer within 10ms")),
            "{outcome:?}"
        );
    }

    #[test]
    fn only_statuses_that_may_pass_are_tried_again() {
        let passing = [StatusCode::TOO_MANY_REQUESTS];
        let body = br#"{"code": "rate_limited", "detail": "too many"}"#;
        let tried = Try::answered(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), body, &passing);
        assert!(matches!(tried, Try::Again { reason, after: None } if reason == "429 rate_limited: too many"));
        let tried = Try::answered(StatusCode::NOT_FOUND, &HeaderMap::new(), b"<html>", &passing);
        let Try::Ended(Outcome::Refused(refusal)) = tried else {
            panic!("{tried:?}")
        };
        assert_eq!(
            (refusal.code.as_str(), refusal.detail.as_str()),
            ("http_404", "Not Found")
        );
    }
}
