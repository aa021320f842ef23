//! Other services on the gateway's port, in a process that has several.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use crate::connection::Connection;
use crate::exchange;
use crate::route::Route;

/// Body of a neighbour's answer.
pub type NeighbourBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Services that share the gateway's port. Limits of the connection are the gateway's, those of a
/// request are its own service's.
pub trait Neighbour: Send + Sync {
    /// Whether `path` is theirs. Addresses that take receipts are the gateway's whatever this
    /// returns.
    fn has(&self, path: &str) -> bool;

    /// Answers a request of `peer` to one of their addresses.
    fn answer(&self, peer: IpAddr, request: Request<Incoming>) -> BoxFuture<'static, Response<NeighbourBody>>;
}

/// Answers a request to the gateway or to its neighbour.
pub(crate) fn answer(
    neighbour: Option<&Arc<dyn Neighbour>>,
    connection: &Arc<Connection>,
    request: Request<Incoming>,
) -> impl Future<Output = Response<Either<Full<Bytes>, NeighbourBody>>> + Send + use<> {
    let theirs = neighbour.filter(|neighbour| {
        let path = request.uri().path();
        !Route::of(path, connection.shared.routes).takes_receipts() && neighbour.has(path)
    });
    match theirs {
        None => {
            let answer = exchange::answer(Arc::clone(connection), request);
            future::Either::Left(answer.map(|answer| answer.map(Either::Left)))
        }
        Some(neighbour) => {
            let answer = neighbour.answer(connection.peer.sender.address, request);
            future::Either::Right(answer.map(|answer| answer.map(Either::Right)))
        }
    }
}
