//! A client of a live stream.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use uuid::Uuid;

use crate::world::{Publisher, Server, is_proven};

pub(crate) type HttpClient = Client<HttpConnector, Empty<Bytes>>;

/// Patience, not a limit.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn client(h2c: bool) -> HttpClient {
    Client::builder(TokioExecutor::new()).http2_only(h2c).build_http()
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// State of a client by its events.
pub(crate) struct Stream {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    unread: Vec<u8>,
    events: VecDeque<Event>,
    /// `retry` as last said.
    pub(crate) retry_ms: Option<u64>,
    pub(crate) last_id: String,
}

pub(crate) async fn open(http: &HttpClient, server: &Server, key: &str, query: &str, last_id: Option<&str>) -> Stream {
    let bearer = format!("Bearer {key}");
    open_with(http, server, &[("authorization", &bearer)], query, last_id).await
}

/// A stream with this credential.
pub(crate) async fn open_with(
    http: &HttpClient,
    server: &Server,
    credential: &[(&str, &str)],
    query: &str,
    last_id: Option<&str>,
) -> Stream {
    let address = format!("http://{}/api/v1/analytics/live{query}", server.address);
    let mut request = Request::get(address).header("accept", "text/event-stream");
    for (name, value) in credential {
        request = request.header(*name, *value);
    }
    if let Some(last_id) = last_id {
        request = request.header("last-event-id", last_id);
    }
    let answer = tokio::time::timeout(PATIENCE, http.request(request.body(Empty::new()).unwrap()));
    let (parts, body) = answer.await.unwrap().unwrap().into_parts();
    Stream {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
        unread: Vec::new(),
        events: VecDeque::new(),
        retry_ms: None,
        last_id: last_id.unwrap_or_default().to_owned(),
    }
}

/// A stream of its own connection.
pub(crate) async fn listen(server: &Server, publisher: &Publisher, last_id: Option<&str>) -> Stream {
    let stream = open(&client(false), server, &publisher.key, "", last_id).await;
    assert_eq!(stream.status, 200);
    stream
}

impl Stream {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                if !event.id.is_empty() {
                    self.last_id.clone_from(&event.id);
                }
                return Some(event);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame());
            let frame = frame.await.expect("an event in time")?.unwrap();
            self.unread.extend_from_slice(frame.data_ref().unwrap());
            self.parse();
        }
    }

    /// As the WHATWG's grammar has it, as far as it is used.
    fn parse(&mut self) {
        while let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = self.unread.drain(..end + 2).collect();
            let mut event = Event {
                name: String::new(),
                id: String::new(),
                data: Value::Null,
            };
            for line in std::str::from_utf8(&block).unwrap().lines() {
                match line.split_once(": ") {
                    Some(("event", name)) => name.clone_into(&mut event.name),
                    Some(("id", id)) => id.clone_into(&mut event.id),
                    Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                    Some(("retry", ms)) => self.retry_ms = Some(ms.parse().unwrap()),
                    _ => assert!(line.is_empty() || line.starts_with(':'), "{line}"),
                }
            }
            if !event.name.is_empty() {
                self.events.push_back(event);
            }
        }
    }

    /// The next event of this name; others are passed over.
    pub(crate) async fn next_of(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event.name == name {
                return event;
            }
        }
    }

    /// Reads until these receipts, and nothing else, have been received, each once; `received` is
    /// what was received before.
    pub(crate) async fn until(&mut self, received: &mut BTreeSet<Uuid>, wanted: &BTreeSet<Uuid>) {
        while received != wanted {
            let event = self.next_of("receipts").await;
            assert_eq!(event.data["leftOut"], 0);
            take(received, &event);
            assert!(received.is_subset(wanted), "{event:?}");
        }
    }

    /// The whole body of an answer that isn't a stream.
    pub(crate) async fn problem(self) -> Value {
        let body = self.body.collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }
}

/// Adds an event's receipts; none may have been received before.
pub(crate) fn take(received: &mut BTreeSet<Uuid>, event: &Event) {
    for receipt in event.data["receipts"].as_array().unwrap() {
        let id: Uuid = receipt["receiptId"].as_str().unwrap().parse().unwrap();
        assert!(received.insert(id), "{id} twice");
        let trust = if is_proven(id) { "proven" } else { "unproven" };
        assert_eq!(receipt["trust"], trust, "{id}");
    }
}
