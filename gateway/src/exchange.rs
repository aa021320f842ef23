//! An exchange: one request and its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::header::{ALLOW, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Version};
use http_server::forwarded::forwarded_for;
use hyper::body::Incoming;
use service::host;
use service::instant::now_ms;
use service::problem::{Kind, Problem};
use service::request_id::{self, RequestId};
use service::telemetry::is_slow;
use service::trace::{self, TraceParent};

use crate::answer::{Answer, published_keys};
use crate::body::Upload;
use crate::call::{Call, Spent};
use crate::connection::Connection;
use crate::rate::Standing;
use crate::refusal::{Refusal, overloaded};
use crate::route::Route;
use crate::sender::Sender;
use crate::{explain, submit, webhook};

/// Counts a request as in progress, until it is answered or given up.
struct UnderWay {
    connection: Arc<Connection>,
}

impl UnderWay {
    fn begin(connection: Arc<Connection>) -> (Self, usize) {
        let others = connection.shared.requests.fetch_add(1, Ordering::Relaxed);
        (Self { connection }, others)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.connection.shared.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers one request. There is always an answer; what fails becomes a problem.
pub(crate) async fn answer(connection: Arc<Connection>, request: Request<Incoming>) -> Answer {
    let begun = Instant::now();
    let (parts, incoming) = request.into_parts();
    let (under_way, others) = UnderWay::begin(connection);
    let shared = &under_way.connection.shared;
    let id = RequestId::of(&parts.headers);
    let trace = TraceParent::of(&parts.headers);
    let route = Route::of(parts.uri.path(), shared.routes);
    let mut upload = Upload::new(incoming, parts.version, &parts.headers);
    let sender = sender(&under_way.connection, &parts.headers);
    let arrived_ms = now_ms();
    let (mut standing, mut receipts) = (None, 1);
    let mut spent = Spent::default();
    let result = if others >= shared.config.requests_max {
        Err(overloaded())
    } else {
        let mut call = Call {
            shared,
            sender,
            id: &id,
            trace,
            arrived_ms,
            standing: None,
            receipts: 1,
            spent: Spent::default(),
        };
        let result = match handle(&mut call, route, &parts, &mut upload).await {
            Ok(answer) => Ok(answer),
            Err(refusal) => Err(Box::pin(call.reserve_faults(refusal)).await),
        };
        (standing, receipts, spent) = (call.standing, call.receipts, call.spent);
        result
    };
    upload.discard(shared.leftover());
    let result = result.inspect_err(|refusal| {
        let problem = refusal.problem();
        shared.meters.refused(problem.code());
        let (code, detail) = (problem.code(), &*problem.detail);
        if problem.kind.status().is_server_error() {
            // Ours, so it explains itself; of many a few do.
            tracing::warn!(
                request_id = %id, trace_id = trace::field(trace), route = route.name(), code, detail,
                "a request failed"
            );
        } else {
            tracing::debug!(request_id = %id, sender = %sender.address, code, detail, "refused");
        }
    });
    let standing = standing.map(|standing| (standing, receipts));
    let answer = finish(result, &id, standing, arrived_ms);
    let took = begun.elapsed();
    shared.meters.answered(route, answer.status(), took);
    if is_slow(took) {
        let (body_ms, log_ms) = spent.ms();
        tracing::warn!(
            request_id = %id, trace_id = trace::field(trace), route = route.name(), status = answer.status().as_u16(),
            took_ms = millis(took), body_ms, log_ms,
            "slow request: body_ms is its sender's, log_ms the log's"
        );
    }
    answer
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

async fn handle(call: &mut Call<'_>, route: Route, head: &Parts, upload: &mut Upload) -> Result<Answer, Refusal> {
    check_head(head, call.shared.config.head_bytes_max)?;
    if head.version < Version::HTTP_2 {
        check_http1(head)?;
    }
    if route == Route::Unknown {
        return Err(Problem::new(Kind::NotFound, call.shared.routes.signpost()).into());
    }
    if !route.allows(&head.method) {
        let allow = HeaderValue::from_static(route.allow());
        let detail = format!("use {} here", route.allow());
        return Err(Problem::new(Kind::MethodNotAllowed, detail).header(ALLOW, allow).into());
    }
    if route.takes_receipts() {
        call.shared.clock.check()?;
        call.charge_request(route.verifications())?;
    }
    match route {
        Route::Receipt => submit::receipt(call, &head.headers, upload).await,
        // Boxed, so that what is moved for every receipt isn't as large as what a batch needs.
        Route::Batch => Box::pin(submit::batch(call, &head.headers, upload)).await,
        Route::Explain => Box::pin(explain::explain(call, &head.headers, upload)).await,
        Route::Webhook => Box::pin(webhook::receive(call, &head.headers, upload)).await,
        Route::Keys => Ok(published_keys(call.shared.acknowledgement_keys.key_set())),
        Route::Document => call.shared.documents().answer(head.uri.path()),
        Route::Live => Ok(call.shared.health.liveness_response()),
        Route::Ready | Route::Unknown => Ok(call.shared.health.readiness_response()),
    }
}

/// Hyper's own limit is that of its read buffer, at least twice this one.
fn check_head(head: &Parts, bytes_max: usize) -> Result<(), Refusal> {
    let fields: usize = head
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    let path = head.uri.path_and_query().map_or(1, |path| path.as_str().len());
    if fields + path > bytes_max {
        return Err(Problem::new(Kind::HeadTooLarge, format!("at most {bytes_max} bytes are allowed")).into());
    }
    Ok(())
}

/// Checks that HTTP/1 wants and hyper leaves to the service.
fn check_http1(head: &Parts) -> Result<(), Refusal> {
    if !host::is_right(head.version, &head.headers) {
        return Err(Problem::new(Kind::BadRequest, host::WANTED).into());
    }
    // RFC 9112, 6.1 and 7: hyper takes chunked off and leaves whatever else is named on the body.
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => {
            let detail = "the one transfer coding here is chunked; compress with Content-Encoding";
            Err(Problem::new(Kind::UnsupportedTransferCoding, detail).into())
        }
    }
}

/// The peer, or whom it sends for.
fn sender(connection: &Connection, headers: &HeaderMap) -> Sender {
    let peer = connection.peer;
    if !peer.is_proxy {
        return peer.sender;
    }
    forwarded_for(headers, &connection.shared.config.trusted_proxies).map_or(peer.sender, Sender::from)
}

fn finish(
    result: Result<Answer, Refusal>,
    id: &RequestId,
    standing: Option<(Standing, u32)>,
    arrived_ms: i64,
) -> Answer {
    let mut answer = match result {
        Ok(mut answer) => {
            answer.headers_mut().insert(request_id::HEADER, id.header_value());
            answer
        }
        Err(refusal) => refusal.into_answer(id),
    };
    if let Some((standing, receipts)) = standing {
        standing.write(answer.headers_mut(), arrived_ms, receipts);
    }
    answer
}
