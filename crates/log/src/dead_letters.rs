//! Rejected receipts for other programs: a copy of each, beside the warehouse's table, where the engine has a place for it.

use std::net::IpAddr;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use thiserror::Error;

use crate::receipt_position::ReceiptPosition;
use crate::record::{RecordKind, TraceText};

/// One rejected receipt with its bytes and what was known about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where the rejected receipt stands in the log: the message's key, and what makes it one for whoever reads it
    /// twice.
    pub position: ReceiptPosition,
    /// The bytes as received: of one receipt, or of the whole record where none could be told apart.
    pub body: Bytes,
    /// A reason of the closed list in ARCHITECTURE.md.
    pub reason: &'static str,
    /// What exactly was found, for people. At most a few hundred bytes.
    pub detail: String,
    /// `receiptId`, where it could be read.
    pub receipt_id: Option<String>,
    /// `content.publisher`, where it could be read.
    pub publisher: Option<String>,
    /// What the record was.
    pub kind: RecordKind,
    /// What `body` is of the record: `record`, `signed_batch` or `batch`.
    pub origin: &'static str,
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The request's id.
    pub request_id: String,
    /// `X-Service-Signature` of the request, if it had one.
    pub request_signature: Option<String>,
    /// The peer's address.
    pub client_address: Option<IpAddr>,
    /// The request's `traceparent`, if it had one.
    pub trace: Option<TraceText>,
}

impl DeadLetter {
    /// The message's headers: names and texts.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let kind = match self.kind {
            RecordKind::Receipt => "receipt",
            RecordKind::Batch => "batch",
        };
        let mut headers = vec![
            ("position", self.position.to_string()),
            ("reason", self.reason.to_owned()),
            ("detail", self.detail.clone()),
            ("kind", kind.to_owned()),
            ("origin", self.origin.to_owned()),
            ("received-at-ms", self.received_at_ms.to_string()),
            ("request-id", self.request_id.clone()),
        ];
        let optional = [
            ("receipt-id", self.receipt_id.clone()),
            ("publisher", self.publisher.clone()),
            ("request-signature", self.request_signature.clone()),
            ("client-address", self.client_address.map(|address| address.to_string())),
            ("traceparent", self.trace.map(|trace| trace.as_str().to_owned())),
        ];
        headers.extend(optional.into_iter().filter_map(|(name, text)| Some((name, text?))));
        headers
    }
}

/// The dead letters can't be published now: the whole call is tried again.
#[derive(Debug, Error)]
#[error("the dead letters can't be published now: {0}")]
pub struct PublishError(pub String);

/// Where dead letters go.
pub trait DeadLetters: Send + Sync + 'static {
    /// Publishes all of them; `Ok` means they are durable. At least once: after an error, or a crash before the
    /// block's commit, all come again under the same positions. Must take whatever the log itself took, since a
    /// letter that is refused for ever would stop the verifier.
    fn publish<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), PublishError>>;
}
