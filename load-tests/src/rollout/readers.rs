//! Readers who query an API all the time, with the retries an ordinary client makes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header;
use http_body_util::{BodyExt, Full};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{HttpClient, client};

/// Pause between two questions.
const EVERY: Duration = Duration::from_millis(20);
/// Tries of a question, and the pause before the next.
const TRIES_MAX: u32 = 4;
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The longest that one try may take.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// Results of the queries.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    /// URL of the query.
    pub url: String,
    /// Questions that were answered.
    pub answered: u64,
    /// Tries that had to be repeated.
    pub repeated: u64,
    /// Questions that weren't answered in spite of that.
    pub failed: u64,
    /// End of the last of those tries.
    pub last_failure: Option<String>,
    /// The longest that a question took, retries included.
    pub slowest: Duration,
}

/// A reader at work.
pub struct Reader {
    stop: CancellationToken,
    task: JoinHandle<Readings>,
}

impl Reader {
    /// Requests `url` with an API key until it is signalled to finish.
    #[must_use]
    pub fn start(url: String, key: &str) -> Self {
        let (stop, key) = (CancellationToken::new(), key.to_owned());
        let task = tokio::spawn(read(url, key, stop.clone()));
        Self { stop, task }
    }

    /// Ends it.
    ///
    /// # Errors
    /// The reader panicked.
    pub async fn finish(self) -> Result<Readings> {
        self.stop.cancel();
        self.task.await.context("a reader")
    }
}

async fn read(url: String, key: String, stop: CancellationToken) -> Readings {
    // A connection each: what is led to a pod that is gone shows.
    let http = client(0);
    let mut readings = Readings {
        url: url.clone(),
        ..Readings::default()
    };
    while !stop.is_cancelled() {
        let began = Instant::now();
        let mut answered = false;
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                readings.repeated += 1;
                tokio::time::sleep(RETRY_AFTER).await;
            }
            match tokio::time::timeout(ANSWER_WAIT_MAX, ask(&http, &url, &key)).await {
                Ok(Ok(())) => {
                    answered = true;
                    break;
                }
                Ok(Err(error)) => readings.last_failure = Some(format!("{error:#}")),
                Err(_) => readings.last_failure = Some(format!("no answer in {ANSWER_WAIT_MAX:?}")),
            }
        }
        readings.answered += u64::from(answered);
        readings.failed += u64::from(!answered);
        readings.slowest = readings.slowest.max(began.elapsed());
        tokio::time::sleep(EVERY).await;
    }
    readings
}

async fn ask(http: &HttpClient, url: &str, key: &str) -> Result<()> {
    let request = http::Request::get(url).header(header::AUTHORIZATION, format!("Bearer {key}"));
    let answer = http.request(request.body(Full::<Bytes>::default())?).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}
