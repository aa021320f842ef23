//! Evidence of receipts: their bytes as they were received, and signatures of their batches.

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::receipt::{PayloadCursor, ReceiptsOf};
use super::receipt_key::{KEY, ReceiptCursor};
use super::{FINAL_SETTINGS, StoredReceipt};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Payloads of a receipt whose evidence one query returns.
const PAYLOADS_MAX: usize = 10;

/// Evidence of one payload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredEvidence {
    /// Host of `content.url`, in canonical form.
    pub publisher: String,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
    /// When the gateway first received it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The receipt as it was received; empty if an erasure has blanked it.
    pub received: String,
    /// Signature of the batch that the receipt arrived in, if it arrived in one.
    pub batch: Option<StoredBatchSignature>,
}

/// Evidence of a page of a receipt's payloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvidencePage {
    /// Evidence of those payloads of which it is stored.
    pub payloads: Vec<StoredEvidence>,
    /// The last payload of the page, if there are more.
    pub next: Option<PayloadCursor>,
}

/// Signature of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatchSignature {
    /// SHA-256 of the batch's canonical bytes, which the signature is over.
    pub payload_hash: [u8; 32],
    /// In hexadecimal.
    pub signature_hex: String,
}

#[derive(Row, Deserialize)]
pub(super) struct EvidenceRow {
    name: String,
    timestamp_ms: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    entry: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    receipt: Uuid,
    hash: [u8; 32],
    received_ms: i64,
    pub(super) received: String,
    batch_hash: [u8; 32],
    batch_signature: String,
}

/// Columns that [`EvidenceRow`] has beside the key.
pub(super) const ARRIVAL: &str =
    "    toUnixTimestamp64Milli(tupleElement(arrival, 1)) AS received_ms, tupleElement(arrival, 3) AS received,
    CAST(tupleElement(arrival, 4) AS FixedString(32)) AS batch_hash, hex(tupleElement(arrival, 5)) AS batch_signature";

impl Warehouse {
    /// Returns the evidence of a receipt: of at most 10 payloads, in the order of
    /// [`Warehouse::receipt`].
    pub async fn evidence(
        &self,
        of: &ReceiptsOf,
        receipt_id: Uuid,
        after: Option<&PayloadCursor>,
    ) -> Result<EvidencePage, WarehouseError> {
        let (page, next) = self.payloads(of, receipt_id, after, PAYLOADS_MAX).await?;
        if page.is_empty() {
            return Ok(EvidencePage::default());
        }
        let column = |value: fn(&StoredReceipt) -> String| page.iter().map(value).collect::<Vec<_>>();
        let sql = format!(
            "SELECT {KEY}, {ARRIVAL} FROM evidence FINAL
             WHERE publisher IN {{publishers:Array(String)}} AND receipt_id = {{receipt_id:UUID}}
                AND payload_hash IN (SELECT toFixedString(unhex(arrayJoin({{hashes:Array(String)}})), 32))
             {FINAL_SETTINGS}"
        );
        let call = SqlStatement::new(sql)
            .with("publishers", column(|payload| payload.publisher.clone()))
            .with("receipt_id", receipt_id.to_string())
            .with("hashes", column(|payload| hex::encode(payload.payload_hash)));
        let rows: Vec<EvidenceRow> = self.rows("evidence", call).await?;
        let mut payloads: Vec<StoredEvidence> = rows.into_iter().map(StoredEvidence::from).collect();
        payloads.sort_by_key(|stored| page.iter().position(|one| one.payload_hash == stored.payload_hash));
        Ok(EvidencePage { payloads, next })
    }
}

impl EvidenceRow {
    pub(super) fn key(&self) -> ReceiptCursor {
        ReceiptCursor {
            publisher: self.name.clone(),
            timestamp_ms: self.timestamp_ms,
            entry_id: self.entry,
            receipt_id: self.receipt,
            payload_hash: self.hash,
        }
    }
}

impl From<EvidenceRow> for StoredEvidence {
    fn from(row: EvidenceRow) -> Self {
        let batch = StoredBatchSignature {
            payload_hash: row.batch_hash,
            signature_hex: row.batch_signature,
        };
        Self {
            publisher: row.name,
            payload_hash: row.hash,
            received_at_ms: row.received_ms,
            received: row.received,
            batch: Some(batch).filter(|batch| !batch.signature_hex.is_empty()),
        }
    }
}
