//! Counters of a client.

use serde::Serialize;

/// Numbers of a client since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCounters {
    /// Receipts that wait.
    pub queued: usize,
    /// Bytes of what isn't acknowledged.
    pub queued_bytes: usize,
    /// Receipts in requests without an answer yet.
    pub in_flight: usize,
    /// Receipts that a 202 acknowledged.
    pub acknowledged: u64,
    /// Batches that a 202 acknowledged.
    pub batches_acknowledged: u64,
    /// Requests that are or were repeated.
    pub retries: u64,
    /// Batches in files that wait.
    pub spooled_batches: usize,
    /// Receipts that the service refused, that were too old, or that a closed client had nowhere to
    /// leave.
    pub refused: u64,
    /// Receipts that can't be read from the spool any more.
    pub damaged: u64,
}
