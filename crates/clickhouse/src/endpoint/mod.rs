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

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use http_server::{Listener, ServerConfig, WhenFull};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use self::answer::EndpointFault;
use self::body::{BodyBudget, StatementBody};
use self::request::StatementHead;
use crate::statements::{Lane, StatementKind};
use config::Secret;

/// Bytes of a query with its parameters.
const QUERY_BYTES_MAX: usize = 4 << 20;
/// Limits of a listener. Further connections wait: they are this service's own.
const CONFIG: ServerConfig = ServerConfig {
    name: "warehouse",
    connections_max: 256,
    when_full: WhenFull::Wait,
    address_connections_max: 256,
    unlimited: Vec::new(),
    head_bytes_max: 64 << 10,
    streams_max: 1,
    half_close: false,
    head_wait_max: Duration::from_secs(10),
    idle_wait_max: Duration::from_secs(600),
    unread_wait_max: Duration::from_secs(60),
    drain_delay: Duration::ZERO,
    drain_wait_max: Duration::ZERO,
};

/// Permitted users of a listener.
#[derive(Debug, Clone)]
pub(crate) enum EndpointAccess {
    /// Whoever can open the socket's file.
    FileMode,
    /// Users who know these.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
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

    async fn answer(&self, request: Request<Incoming>, access: &EndpointAccess) -> Response<Full<Bytes>> {
        self.run(request, access).await.unwrap_or_else(|fault| fault.response())
    }

    async fn run(
        &self,
        request: Request<Incoming>,
        access: &EndpointAccess,
    ) -> Result<Response<Full<Bytes>>, EndpointFault> {
        let (parts, incoming) = request.into_parts();
        match (parts.uri.path(), &parts.method) {
            ("/ping", &Method::GET) => return Ok(Response::new(Full::new(Bytes::from_static(b"Ok.\n")))),
            ("/", &Method::GET | &Method::POST) => {}
            ("/" | "/ping", _) => return Err(EndpointFault::Method),
            _ => return Err(EndpointFault::NotFound),
        }
        let head = StatementHead::parse(&parts)?;
        if !allowed(access, head.credentials()) {
            return Err(EndpointFault::Unauthorized);
        }
        let length_max = if head.body_is_query() {
            QUERY_BYTES_MAX
        } else {
            self.insert_bytes_max
        };
        let body = StatementBody::read(incoming, head.framed, length_max, self.body_wait_max, &self.budget).await?;
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

fn allowed(access: &EndpointAccess, (given_user, given_password): (&str, &str)) -> bool {
    match access {
        EndpointAccess::FileMode => true,
        EndpointAccess::Password { user, password } => {
            let user = user.as_bytes().ct_eq(given_user.as_bytes());
            let password = password.reveal().as_bytes().ct_eq(given_password.as_bytes());
            bool::from(user & password)
        }
    }
}

/// Serves a listener until `shutdown`; then lets the statements in progress end, for at most
/// `drain_wait_max`.
pub(crate) async fn serve(
    endpoint: Arc<Endpoint>,
    listener: impl Listener,
    access: EndpointAccess,
    shutdown: CancellationToken,
    drain_wait_max: Duration,
) {
    let access = Arc::new(access);
    let handlers = |_| {
        let (endpoint, access) = (endpoint.clone(), access.clone());
        move |request| {
            let (endpoint, access) = (endpoint.clone(), access.clone());
            async move { endpoint.answer(request, &access).await }
        }
    };
    let config = ServerConfig {
        drain_wait_max,
        ..CONFIG
    };
    let cut = http_server::serve(listener, config, Arc::default(), handlers, &shutdown).await;
    if cut > 0 {
        tracing::warn!(cut, "the warehouse endpoint left statements behind at its end");
    }
}
