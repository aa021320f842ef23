//! ClickHouse's HTTP protocol in front of the embedded engine, as far as the official client uses
//! it.
//!
//! - [`request`]: head and body to a statement; [`sql`], [`settings`], [`multipart`], [`body`]: its
//!   parts
//! - [`answer`]: outcome or fault to a response
//!
//! Whoever can connect may run any statement that the engine's grants allow: a Unix socket is
//! guarded by its file mode, a TCP listener by user and password, and only on a loopback address.

mod answer;
mod body;
mod multipart;
mod request;
mod settings;
mod sql;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};

use self::answer::Fault;
use self::body::{Body, BodyBudget};
use self::request::Head;
use crate::Password;
use crate::statements::{Lane, StatementKind};

/// Connections one listener holds at a time.
const CONNECTIONS_MAX: usize = 256;
/// Bytes of a query with its parameters.
const QUERY_BYTES_MAX: usize = 4 << 20;
/// Time a request's head may take.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// Permitted users of a listener.
#[derive(Debug, Clone)]
pub(crate) enum Access {
    /// Whoever can open the socket's file.
    FileMode,
    /// Users who know these.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Password,
    },
}

/// A listener of either kind.
pub(crate) enum Listener {
    /// A Unix socket.
    Unix(UnixListener),
    /// TCP.
    Tcp(TcpListener),
}

/// The endpoint, shared by all listeners and connections.
pub(crate) struct Endpoint {
    queries: Lane,
    inserts: Lane,
    insert_bytes_max: usize,
    body_wait_max: Duration,
    budget: BodyBudget,
}

impl Endpoint {
    /// Puts an endpoint before two lanes. All bodies together may hold twice one insert's limit.
    pub(crate) fn new(queries: Lane, inserts: Lane, insert_bytes_max: usize, body_wait_max: Duration) -> Self {
        let budget = BodyBudget::new(insert_bytes_max.saturating_mul(2).saturating_add(QUERY_BYTES_MAX));
        Self {
            queries,
            inserts,
            insert_bytes_max,
            body_wait_max,
            budget,
        }
    }

    /// Lets the statements in progress end and closes their connections. Blocks.
    pub(crate) fn stop(&self) {
        self.inserts.stop();
        self.queries.stop();
    }

    async fn answer(&self, request: Request<Incoming>, access: &Access) -> Response<Full<Bytes>> {
        self.run(request, access).await.unwrap_or_else(|fault| fault.response())
    }

    async fn run(&self, request: Request<Incoming>, access: &Access) -> Result<Response<Full<Bytes>>, Fault> {
        let (parts, incoming) = request.into_parts();
        match (parts.uri.path(), &parts.method) {
            ("/ping", &Method::GET) => return Ok(Response::new(Full::new(Bytes::from_static(b"Ok.\n")))),
            ("/", &Method::GET | &Method::POST) => {}
            ("/" | "/ping", _) => return Err(Fault::Method),
            _ => return Err(Fault::NotFound),
        }
        let head = Head::parse(&parts)?;
        if !allowed(access, head.credentials()) {
            return Err(Fault::Unauthorized);
        }
        let length_max = if head.body_is_query() {
            QUERY_BYTES_MAX
        } else {
            self.insert_bytes_max
        };
        let body = Body::read(incoming, head.framed, length_max, self.body_wait_max, &self.budget).await?;
        let packing = head.packing;
        let (statement, held) = head.statement(body)?;
        let lane = match statement.kind {
            StatementKind::Query(_) if !statement.sql.starts_with("INSERT") => &self.queries,
            _ => &self.inserts,
        };
        let outcome = lane.run(statement).await?;
        drop(held);
        answer::data(outcome.output, outcome.rows_written, packing)
    }
}

fn allowed(access: &Access, (given_user, given_password): (&str, &str)) -> bool {
    match access {
        Access::FileMode => true,
        Access::Password { user, password } => {
            let user = user.as_bytes().ct_eq(given_user.as_bytes());
            let password = password.expose().as_bytes().ct_eq(given_password.as_bytes());
            bool::from(user & password)
        }
    }
}

/// Answers on a listener until `stop` changes; then takes no more, and lets what is in progress end
/// within `drain_max`.
pub(crate) async fn serve(
    endpoint: Arc<Endpoint>,
    listener: Listener,
    access: Access,
    mut stop: watch::Receiver<bool>,
    drain_max: Duration,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let access = Arc::new(access);
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            break;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // Out of descriptors, or the peer is gone already: neither ends the listener.
                tracing::warn!(%error, "the warehouse endpoint could not take a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (endpoint, access) = (endpoint.clone(), access.clone());
        let service = service_fn(move |request| {
            let (endpoint, access) = (endpoint.clone(), access.clone());
            async move { Ok::<_, Infallible>(endpoint.answer(request, &access).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WAIT)
            .serve_connection(TokioIo::new(stream), service);
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!(%error, "a connection to the warehouse endpoint ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(drain_max, graceful.shutdown()).await.is_err() {
        tracing::warn!("the warehouse endpoint left statements behind at its end");
    }
}

/// A stream of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Listener {
    async fn accept(&self) -> std::io::Result<Box<dyn Stream>> {
        match self {
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it, small answers wait for the peer's delayed acknowledgements.
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}
