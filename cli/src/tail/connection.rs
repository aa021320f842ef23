//! A stream of the analytics API.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::event_reader::{EventReader, StreamEvent};
use crate::failure::CommandFailure;
use crate::service_client::{Answered, ServiceClient, field};

const PATH: &str = "/api/v1/analytics/live";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The longest wait for the head of the answer.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// The longest silence: the service sends a comment every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// A stream that is open.
pub(super) struct LiveStream {
    body: Incoming,
    reader: EventReader,
    ready: VecDeque<StreamEvent>,
}

/// Why a stream ended or can't be opened.
#[derive(Debug)]
pub(super) enum StreamFailure {
    /// The request is wrong: another attempt doesn't change that.
    Refused(CommandFailure),
    /// Another attempt may succeed, after the pause that the service requests.
    Broken(String, Option<Duration>),
}

impl StreamFailure {
    fn broken(reason: impl Into<String>) -> Self {
        Self::Broken(reason.into(), None)
    }

    /// The pause that the service requests.
    pub(super) fn pause(&self) -> Duration {
        match self {
            Self::Broken(_, Some(pause)) => *pause,
            _ => Duration::ZERO,
        }
    }
}

impl fmt::Display for StreamFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(failure) => failure.fmt(f),
            Self::Broken(reason, _) => f.write_str(reason),
        }
    }
}

impl LiveStream {
    /// Opens a stream that continues behind `last_id`.
    ///
    /// # Errors
    /// [`StreamFailure::Refused`] for a wrong key or parameter.
    pub(super) async fn open(
        client: &ServiceClient,
        query: &str,
        api_key: &str,
        last_id: Option<&str>,
    ) -> Result<Self, StreamFailure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let mut bearer = field("--api-key", &format!("Bearer {api_key}")).map_err(StreamFailure::Refused)?;
        bearer.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, bearer);
        if let Some(id) = last_id {
            headers.insert(LAST_EVENT_ID, field("--after", id).map_err(StreamFailure::Refused)?);
        }
        let path = format!("{PATH}?{query}");
        let answer = client.request(Method::GET, &path, headers, Bytes::new());
        let answer = match tokio::time::timeout(HEAD_WAIT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure @ CommandFailure::Unavailable(_))) => {
                return Err(StreamFailure::broken(failure.to_string()));
            }
            Ok(Err(failure)) => return Err(StreamFailure::Refused(failure)),
            Err(_) => return Err(StreamFailure::broken(format!("no answer within {HEAD_WAIT:?}"))),
        };
        let (head, body) = answer.into_parts();
        if head.status == StatusCode::OK {
            let kind = head
                .headers
                .get(header::CONTENT_TYPE)
                .and_then(|kind| kind.to_str().ok());
            if !kind.unwrap_or("").starts_with("text/event-stream") {
                return Err(StreamFailure::Refused(CommandFailure::Input(format!(
                    "{} isn't a live stream: --url names another server",
                    client.url(PATH)
                ))));
            }
            return Ok(Self {
                body,
                reader: EventReader::default(),
                ready: VecDeque::new(),
            });
        }
        let answer = Answered::read(head.status, head.headers, body).await;
        let answer = answer.map_err(|failure| StreamFailure::broken(failure.to_string()))?;
        Err(refused(client, &answer))
    }

    /// The next event.
    ///
    /// # Errors
    /// The stream has ended or broken.
    pub(super) async fn next(&mut self) -> Result<StreamEvent, StreamFailure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let frame = match tokio::time::timeout(SILENCE_MAX, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(StreamFailure::broken(format!("the connection is lost: {error}"))),
                Ok(None) => return Err(StreamFailure::broken("the service has ended the stream")),
                Err(_) => return Err(StreamFailure::broken(format!("silence for {SILENCE_MAX:?}"))),
            };
            if let Some(bytes) = frame.data_ref() {
                let events = self.reader.feed(bytes);
                self.ready
                    .extend(events.map_err(|error| StreamFailure::broken(error.to_string()))?);
            }
        }
    }

    /// The pause before a reconnection that the service requests.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_millis(self.reader.retry_ms().unwrap_or_default())
    }
}

/// An answer that isn't a stream, with what to do.
fn refused(client: &ServiceClient, answer: &Answered) -> StreamFailure {
    let (status, detail) = (answer.status.as_u16(), answer.detail());
    let what = match answer.status {
        StatusCode::UNAUTHORIZED => format!(
            "401: {detail}\nthe API key is unknown, expired or revoked: `receipts keys list` shows the keys, \
             `receipts keys create` makes one"
        ),
        StatusCode::FORBIDDEN => format!(
            "403: {detail}\nthe API key may not read this: a stream needs the scope `read`, and --domain one of the \
             key's domains"
        ),
        StatusCode::NOT_FOUND => format!(
            "404: there is no analytics API at {}: --url names another server or port",
            client.url(PATH)
        ),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            return StreamFailure::Broken(format!("{status}: {detail}"), answer.retry_after());
        }
        other if other.is_server_error() => {
            return StreamFailure::Broken(format!("{status}: {detail}"), answer.retry_after());
        }
        _ => format!("{status}: {detail}"),
    };
    StreamFailure::Refused(CommandFailure::Input(what))
}
