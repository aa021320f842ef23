//! The key of a row of `receipts` and of `evidence`, whose order is the export's.

use uuid::Uuid;

/// A cursor between two receipts: that of the last one seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReceiptCursor {
    /// Host of `content.url`, in lower case.
    pub publisher: String,
    /// `timestamp`, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
}

pub(super) const KEY: &str = "publisher AS name, toUnixTimestamp64Milli(timestamp) AS timestamp_ms, entry_id AS entry,
    receipt_id AS receipt, payload_hash AS hash";
