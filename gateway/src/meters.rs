//! The gateway's metrics, with every handle registered once.

use std::sync::OnceLock;
use std::time::Duration;

use http::StatusCode;
use http_server::OpenConnections;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use receipt_log::RecordKind;

use crate::route::Route;

/// The statuses the gateway answers, and one for any other.
const STATUSES: [u16; 16] = [
    200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 500, 501, 503, 0,
];

/// Failures of ours are there from the start, at 0: of a counter that is born with its first event
/// no rate shows that event.
const COUNTED_FROM_THE_START: [u16; 2] = [500, 503];

/// Handles of all metrics.
pub(crate) struct Meters {
    requests: [[OnceLock<Counter>; STATUSES.len()]; Route::ALL.len()],
    seconds: [Histogram; Route::ALL.len()],
    body_bytes: Counter,
    receipts: Counter,
    batch_receipts: Counter,
    inflight_bytes: Gauge,
    connections: Gauge,
    refused_connections: Counter,
}

impl Meters {
    pub(crate) fn new() -> Self {
        let meters = Self {
            requests: Default::default(),
            seconds: Route::ALL.map(|route| histogram!("receipts_gateway_request_seconds", "route" => route.name())),
            body_bytes: counter!("receipts_gateway_body_bytes_total"),
            receipts: counter!("receipts_gateway_receipts_total", "kind" => "single"),
            batch_receipts: counter!("receipts_gateway_receipts_total", "kind" => "batch"),
            inflight_bytes: gauge!("receipts_gateway_inflight_bytes"),
            connections: gauge!("receipts_gateway_connections"),
            refused_connections: counter!("receipts_gateway_connections_refused_total"),
        };
        for route in [Route::Receipt, Route::Batch, Route::Webhook] {
            for status in COUNTED_FROM_THE_START {
                meters.requests(route, status).increment(0);
            }
        }
        meters
    }

    /// Requests answered with `status`.
    fn requests(&self, route: Route, status: u16) -> &Counter {
        let index = STATUSES.iter().position(|listed| *listed == status);
        let index = index.unwrap_or(STATUSES.len() - 1);
        self.requests[route as usize][index].get_or_init(
            || counter!("receipts_gateway_requests_total", "route" => route.name(), "status" => status.to_string()),
        )
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: Route, status: StatusCode, took: Duration) {
        self.requests(route, status.as_u16()).increment(1);
        self.seconds[route as usize].record(took.as_secs_f64());
    }

    /// A request was refused, and why. Refusals are rare enough to look the handle up.
    pub(crate) fn refused(&self, code: &str) {
        counter!("receipts_gateway_refused_total", "code" => code.to_owned()).increment(1);
    }

    /// A body was read: its bytes as received.
    pub(crate) fn body_read(&self, bytes: usize) {
        self.body_bytes.increment(bytes as u64);
    }

    /// Receipts were acknowledged.
    pub(crate) fn acknowledged(&self, kind: RecordKind, receipts: u32) {
        match kind {
            RecordKind::Receipt => self.receipts.increment(receipts.into()),
            RecordKind::Batch => self.batch_receipts.increment(receipts.into()),
            // Verifiers append these, no gateway.
            RecordKind::Verdicts => {}
        }
    }

    /// Sets the gauges of connections and bytes in flight.
    pub(crate) fn under_way(&self, connections: &OpenConnections, inflight_bytes: usize) {
        self.connections.set(connections.open() as f64);
        self.refused_connections.absolute(connections.refused());
        self.inflight_bytes.set(inflight_bytes as f64);
    }
}
