//! Requests to the relay, and their answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use receipts_client::{ReceiptsClient, RecordError, SignedReceipt, Use};
use serde::Serialize;
use serde_json::{Deserializer, json};
use service::cpu::CpuPool;
use service::host;
use service::problem::{Kind, Problem};
use service::request_id::{HEADER as REQUEST_ID, RequestId};
use tokio::time::timeout;

/// Time for a body to arrive.
const BODY_WAIT_MAX: Duration = Duration::from_secs(30);
/// Seconds after which a full spool may have room.
const FULL_RETRY_S: u32 = 1;
/// Seconds after which a spool that can't be written may be writable.
const SPOOL_RETRY_S: u32 = 5;

/// Origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionOrigin {
    /// The Unix socket: whoever its mode lets.
    Socket,
    /// The port: every program of this machine, web pages in a browser among them.
    Port,
}

/// Takes uses, and has the client of the gateway.
pub struct Intake {
    client: ReceiptsClient,
    cpu: CpuPool,
    body_bytes_max: usize,
}

impl Intake {
    /// Answers for `client`, and signs on `cpu`.
    #[must_use]
    pub fn new(client: ReceiptsClient, cpu: CpuPool, body_bytes_max: usize) -> Self {
        Self {
            client,
            cpu,
            body_bytes_max,
        }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &ReceiptsClient {
        &self.client
    }

    /// Answers a request.
    pub async fn answer<B>(self: Arc<Self>, request: Request<B>, caller: ConnectionOrigin) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let id = RequestId::new();
        let answered = self.route(request, caller).await;
        let mut response = match answered {
            Ok(response) => response,
            Err(problem) => return problem.into_response(&id),
        };
        response.headers_mut().insert(REQUEST_ID, id.header_value());
        response
    }

    async fn route<B>(
        self: Arc<Self>,
        request: Request<B>,
        caller: ConnectionOrigin,
    ) -> Result<Response<Full<Bytes>>, Box<Problem>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !host::is_right(request.version(), request.headers()) {
            return Err(Box::new(Problem::new(Kind::BadRequest, host::WANTED)));
        }
        if caller == ConnectionOrigin::Port {
            check_origin(request.uri(), request.headers())?;
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        match (path.as_str(), method) {
            ("/v1/uses", Method::POST) => {
                if caller == ConnectionOrigin::Port {
                    check_media_type(request.headers())?;
                }
                let body = self.read(request.into_body()).await?;
                self.record(body).await
            }
            ("/v1/uses", _) => Err(Box::new(not_allowed("POST"))),
            ("/v1/state", Method::GET | Method::HEAD) => Ok(answer(StatusCode::OK, &self.client.counters())),
            ("/healthz", Method::GET | Method::HEAD) => Ok(answer(StatusCode::OK, &json!({"status": "ok"}))),
            ("/v1/state" | "/healthz", _) => Err(Box::new(not_allowed("GET, HEAD"))),
            _ => Err(Box::new(Problem::new(
                Kind::NotFound,
                "the relay has POST /v1/uses, GET /v1/state and GET /healthz",
            ))),
        }
    }

    async fn read<B>(&self, body: B) -> Result<Bytes, Box<Problem>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limited = Limited::new(body, self.body_bytes_max);
        let read = timeout(BODY_WAIT_MAX, limited.collect()).await;
        let late = || Box::new(Problem::new(Kind::RequestTimeout, "the body didn't arrive within 30 s"));
        match read.map_err(|_| late())? {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Box::new(Problem::new(
                Kind::BodyTooLarge,
                format!(
                    "a request may have {} bytes (--body-kib-max): send fewer uses in one",
                    self.body_bytes_max
                ),
            ))),
            Err(error) => Err(Box::new(Problem::new(
                Kind::BadRequest,
                format!("the body can't be read: {error}"),
            ))),
        }
    }

    /// Signs, queues and syncs. The answer comes once everything is on the disk.
    async fn record(self: Arc<Self>, body: Bytes) -> Result<Response<Full<Bytes>>, Box<Problem>> {
        let ours = Arc::clone(&self);
        let signed = self.cpu.run_waiting(move || ours.sign_all(&body)).await;
        let receipts = signed.map_err(|error| {
            tracing::error!(%error, "uses can't be signed");
            Problem::new(Kind::Internal, "uses can't be signed: see the relay's log")
        })??;
        self.client.put(&receipts).await.map_err(not_recorded)?;
        self.client.sync().await.map_err(not_recorded)?;
        let ids: Vec<_> = receipts.iter().map(|receipt| receipt.id).collect();
        Ok(answer(StatusCode::ACCEPTED, &json!({"receiptIds": ids})))
    }

    fn sign_all(&self, body: &[u8]) -> Result<Vec<SignedReceipt>, Box<Problem>> {
        let (uses, is_list) = parse(body)?;
        let mut problem = Problem::new(Kind::InvalidBody, "nothing was recorded: correct the named members");
        let mut receipts = Vec::with_capacity(uses.len());
        for (index, content_use) in uses.iter().enumerate() {
            let prefix = if is_list { format!("/{index}") } else { String::new() };
            match self.client.sign(content_use) {
                Ok(receipt) => receipts.push(receipt),
                Err(error) => {
                    for fault in error.faults {
                        problem = problem.fault(format!("{prefix}/{}", fault.member), fault.code, fault.detail);
                    }
                }
            }
        }
        if problem.faults.is_empty() {
            Ok(receipts)
        } else {
            Err(Box::new(problem))
        }
    }
}

/// Reads one use, an array, or one a line; also returns whether there may be several.
fn parse(body: &[u8]) -> Result<(Vec<Use>, bool), Box<Problem>> {
    let wrong = |index: usize, error: serde_json::Error| {
        let kind = if error.is_data() {
            Kind::InvalidBody
        } else {
            Kind::InvalidJson
        };
        let detail = format!("use {index} can't be read: {error}; nothing was recorded");
        Box::new(Problem::new(kind, detail))
    };
    let is_array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let uses: Vec<Use> = if is_array {
        serde_json::from_slice(body).map_err(|error| wrong(0, error))?
    } else {
        let lines = Deserializer::from_slice(body).into_iter::<Use>();
        let uses = lines
            .enumerate()
            .map(|(index, read)| read.map_err(|error| wrong(index, error)));
        uses.collect::<Result<_, _>>()?
    };
    if uses.is_empty() {
        let detail = "the body has no use: send a JSON object, an array, or an object a line";
        return Err(Box::new(Problem::new(Kind::InvalidBody, detail)));
    }
    let is_list = is_array || uses.len() > 1;
    Ok((uses, is_list))
}

fn not_recorded(error: RecordError) -> Problem {
    match error {
        RecordError::QueueFull => Problem::new(
            Kind::Overloaded,
            "nothing was recorded, because the spool is full: send it again later. If the gateway is reachable (see \
             GET /v1/state), raise --spool-receipts-max and --spool-mib-max, or send fewer uses in one request",
        )
        .retry_after_s(FULL_RETRY_S),
        RecordError::Closed => Problem::new(Kind::Draining, "the relay is ending: nothing was recorded"),
        error => {
            tracing::error!(%error, "uses can't be stored");
            let detail = format!("{error}; some of the uses may be recorded");
            Problem::new(Kind::LogUnavailable, detail).retry_after_s(SPOOL_RETRY_S)
        }
    }
}

fn not_allowed(methods: &'static str) -> Problem {
    Problem::new(Kind::MethodNotAllowed, format!("use {methods}")).header(ALLOW, HeaderValue::from_static(methods))
}

/// Refuses web pages. They can send requests to this machine, and their names can resolve to it.
/// The host is that of `Host`, and of a target in absolute form (RFC 9112, section 3.2.2).
fn check_origin(target: &Uri, headers: &HeaderMap) -> Result<(), Box<Problem>> {
    let host = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    let hosts = [host, target.authority().map(|authority| authority.as_str())];
    let is_local = |host: &str| {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        matches!(name, "127.0.0.1" | "localhost" | "[::1]")
    };
    let is_named = hosts.iter().any(Option::is_some);
    if headers.contains_key(ORIGIN) || !is_named || !hosts.into_iter().flatten().all(is_local) {
        let detail = "the relay is for programs of this machine, not for web pages: send no Origin, and name \
                      127.0.0.1 or localhost as the host";
        return Err(Box::new(Problem::new(Kind::BadRequest, detail)));
    }
    Ok(())
}

/// Requires a media type that a web page can't send without permission.
fn check_media_type(headers: &HeaderMap) -> Result<(), Box<Problem>> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if ["application/json", "application/x-ndjson"]
        .iter()
        .any(|allowed| essence.eq_ignore_ascii_case(allowed))
    {
        return Ok(());
    }
    let detail = "send Content-Type: application/json or application/x-ndjson";
    Err(Box::new(Problem::new(Kind::UnsupportedMediaType, detail)))
}

fn answer(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const USE: &str = r#"{"url": "https://a.example/", "purpose": "research", "context": "c", "content": "t"}"#;

    #[test]
    fn a_body_is_one_use_an_array_or_a_use_a_line() {
        let parsed = |body: &str| parse(body.as_bytes()).map(|(uses, is_list)| (uses.len(), is_list));
        assert_eq!(parsed(USE).unwrap(), (1, false));
        assert_eq!(parsed(&format!("\n [{USE}, {USE}]")).unwrap(), (2, true));
        assert_eq!(parsed(&format!("{USE}\n{USE}\n\n{USE}\n")).unwrap(), (3, true));
        for (body, kind) in [
            ("", Kind::InvalidBody),
            ("[]", Kind::InvalidBody),
            ("7", Kind::InvalidBody),
            (r#"{"url": "https://a.example/"}"#, Kind::InvalidBody),
            (r#"{"URL": 1}"#, Kind::InvalidBody),
            ("{", Kind::InvalidJson),
            ("[{}", Kind::InvalidBody),
            ("nonsense", Kind::InvalidJson),
        ] {
            assert_eq!(parsed(body).unwrap_err().kind, kind, "{body}");
        }
    }

    #[test]
    fn web_pages_are_refused() {
        let headers = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
            headers
        };
        let path = Uri::from_static("/v1/uses");
        for host in ["127.0.0.1:8787", "localhost:8787", "[::1]:8787"] {
            assert!(check_origin(&path, &headers(host, None)).is_ok(), "{host}");
            let of_page = headers(host, Some("https://evil.example"));
            assert!(check_origin(&path, &of_page).is_err(), "{host}");
        }
        for host in ["evil.example:8787", "127.0.0.1.evil.example", ""] {
            assert!(check_origin(&path, &headers(host, None)).is_err(), "{host}");
        }
        for (target, is_local) in [
            ("http://localhost:8787/v1/uses", true),
            ("http://evil.example/v1/uses", false),
            ("http://localhost@evil.example/v1/uses", false),
        ] {
            let target = Uri::from_static(target);
            let checked = check_origin(&target, &headers("127.0.0.1:8787", None));
            assert_eq!(checked.is_ok(), is_local, "{target}");
        }
        assert!(check_origin(&path, &HeaderMap::new()).is_err());
    }
}
