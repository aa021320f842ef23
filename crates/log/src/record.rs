//! Records of the log: a body as it was received, with what the gateway knew about it.

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;

/// Kind of a record's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A single receipt.
    Receipt,
    /// A whole batch: its signature covers it whole, so it is never taken apart in the log.
    Batch,
    /// An encoded block of verdicts, opaque to the log. Occurs in the log of verdicts only.
    Verdicts,
}

/// An accepted request, as the gateway hands it to the log. The body is after content decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Kind of the body.
    pub kind: RecordKind,
    /// The body's bytes, exactly as the client signed them.
    pub body: Bytes,
    /// `X-Service-Signature` as received (base64), if there was one.
    pub request_signature: Option<String>,
    /// The request's id, as answered in `X-Request-Id`. At most 64 bytes.
    pub request_id: String,
    /// When the gateway took the request, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The peer's address.
    pub client_address: Option<IpAddr>,
    /// The request's `traceparent`, if it had a valid one.
    pub trace: Option<TraceText>,
}

impl Record {
    /// A record of the log of verdicts: an encoded block, made at `now_ms`.
    #[must_use]
    pub fn verdicts(block: Bytes, now_ms: i64) -> Self {
        Self {
            kind: RecordKind::Verdicts,
            body: block,
            request_signature: None,
            request_id: String::new(),
            received_at_ms: now_ms,
            client_address: None,
            trace: None,
        }
    }
}

/// Bytes of a `traceparent` of version 00 (W3C Trace Context, 3.2).
pub(crate) const TRACE_BYTES: usize = 55;

/// A `traceparent` as text. The log carries it and doesn't look into it: whoever put it in has read
/// it, and in a topic anyone may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceText([u8; TRACE_BYTES]);

impl TraceText {
    /// Visible ASCII of the right length, or none.
    #[must_use]
    pub fn new(text: &[u8]) -> Option<Self> {
        let bytes = <[u8; TRACE_BYTES]>::try_from(text).ok()?;
        bytes.iter().all(u8::is_ascii_graphic).then_some(Self(bytes))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for TraceText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A record's position. Offsets of a partition rise from 0 in each epoch, in `receipts` without
/// gaps. In `verdicts` on Kafka, transactions leave gaps: their markers, and what was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The life of the log this offset belongs to: a recreated log or topic has another epoch,
    /// so that a position is never used twice.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The record's position in its partition. Fewer than 2^48.
    pub offset: u64,
}

impl Position {
    /// Position of one receipt as one integer: epoch (32 bits), partition (32), offset (48), index
    /// in the batch (16), from the highest bit down, so that numeric order is log order.
    #[must_use]
    pub fn receipt(self, index: u16) -> u128 {
        (u128::from(self.epoch) << 96)
            | (u128::from(self.partition) << 64)
            | (u128::from(self.offset & ((1 << 48) - 1)) << 16)
            | u128::from(index)
    }
}

/// A record that was appended and is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Position in the log.
    pub position: Position,
    /// When the log took it, by the log's clock: its readers' [`LoggedRecord::appended_at_ms`].
    pub appended_at_ms: i64,
}

/// A record read back from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRecord {
    /// Position in the log.
    pub position: Position,
    /// When the log took it, milliseconds since the Unix epoch, by the log's clock. It falls along
    /// a partition only where that clock was set back.
    pub appended_at_ms: i64,
    /// The record.
    pub record: Record,
}
