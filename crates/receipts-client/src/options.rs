//! Bounds and intervals of a client, and what it reports.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use receipt::Limits;
use serde::Deserialize;

use crate::acknowledgement::SignedAcknowledgement;
use crate::retrying::RetryPauses;

/// A receipt that ends without an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedReceipt {
    /// `receiptId`; empty if it can't be read.
    pub receipt_id: String,
    /// The service's problem code; `expired` for a receipt that was in the spool for longer than
    /// `spool_age_max`, `damaged` for one that can't be read, `undelivered` for one that a closed
    /// client had nowhere to leave.
    pub code: String,
    /// JSON Pointer within the receipt.
    pub pointer: String,
    /// Advice: what to change.
    pub detail: String,
    /// The signed receipt, or what is left of it.
    pub receipt: Bytes,
}

/// A batch with its acknowledgement, whose signature was verified.
#[derive(Debug, Clone)]
pub struct AcknowledgedBatch {
    /// `batchId`.
    pub batch_id: String,
    /// `receiptId` of each receipt.
    pub receipt_ids: Vec<String>,
    /// The signed object (docs/acknowledgements.md). With `body` it proves to a third party that
    /// the service had these receipts, and when.
    pub acknowledgement: SignedAcknowledgement,
    /// The batch as it was sent.
    pub body: Bytes,
}

impl AcknowledgedBatch {
    pub(crate) fn new(acknowledgement: SignedAcknowledgement, body: Bytes) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct SentReceipt {
            receipt_id: String,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct SentBatch {
            batch_id: String,
            receipts: Vec<SentReceipt>,
        }
        // The client made it.
        let sent: SentBatch = serde_json::from_slice(&body).unwrap_or_default();
        Self {
            batch_id: sent.batch_id,
            receipt_ids: sent.receipts.into_iter().map(|receipt| receipt.receipt_id).collect(),
            acknowledgement,
            body,
        }
    }
}

/// Gets each acknowledged batch, on a task of the client's.
pub type OnAcknowledged = Arc<dyn Fn(&AcknowledgedBatch) + Send + Sync>;

/// Gets each refused receipt, on a task of the client's.
pub type OnRefused = Arc<dyn Fn(&RefusedReceipt) + Send + Sync>;

/// Bounds and intervals.
#[derive(Clone)]
pub struct ClientOptions {
    /// Directory of the spool. Without it, receipts are only in memory.
    pub spool_dir: Option<PathBuf>,
    /// Receipts of a batch.
    pub batch_receipts_max: usize,
    /// Bytes of a batch's receipts.
    pub batch_bytes_max: usize,
    /// Time after which a batch that isn't full is sent.
    pub batch_delay: Duration,
    /// Receipts that aren't acknowledged.
    pub queue_receipts_max: usize,
    /// Bytes of those receipts.
    pub queue_bytes_max: usize,
    /// Time that `record` waits for room in the queue.
    pub queue_wait: Duration,
    /// Requests at one time.
    pub requests_in_flight_max: usize,
    /// Time for one request.
    pub request_timeout: Duration,
    /// Pauses between tries.
    pub retry_pauses: RetryPauses,
    /// Interval at which journals are flushed to the disk.
    pub sync_interval: Duration,
    /// Age at which a batch in the spool is given up.
    pub spool_age_max: Duration,
    /// Bytes of refused batches, and of damaged files, that the spool retains for people.
    pub retained_bytes_max: u64,
    /// Bytes of acknowledged batches with their acknowledgements that the spool retains, in the
    /// folder `acknowledged`. With 0, there are none.
    pub acknowledged_bytes_max: u64,
    /// Gets each receipt that ends without an acknowledgement.
    pub on_refused: Option<OnRefused>,
    /// Gets each acknowledged batch.
    pub on_acknowledged: Option<OnAcknowledged>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            spool_dir: None,
            batch_receipts_max: 500,
            batch_bytes_max: 1 << 20,
            batch_delay: Duration::from_secs(1),
            queue_receipts_max: 100_000,
            queue_bytes_max: 64 << 20,
            queue_wait: Duration::from_secs(1),
            requests_in_flight_max: 2,
            request_timeout: Duration::from_secs(30),
            retry_pauses: RetryPauses {
                min: Duration::from_millis(200),
                max: Duration::from_secs(30),
            },
            sync_interval: Duration::from_millis(100),
            spool_age_max: Duration::from_secs(72 * 3_600),
            retained_bytes_max: 64 << 20,
            acknowledged_bytes_max: 0,
            on_refused: None,
            on_acknowledged: None,
        }
    }
}

/// Largest size of a batch without its receipts.
const BATCH_FRAME_BYTES: usize = 4 << 10;

impl ClientOptions {
    /// Checks the bounds.
    ///
    /// # Errors
    /// A sentence that names the option.
    pub fn validate(&self) -> Result<(), String> {
        let limits = Limits::default();
        for (name, value) in [
            ("batch_receipts_max", self.batch_receipts_max),
            ("batch_bytes_max", self.batch_bytes_max),
            ("queue_receipts_max", self.queue_receipts_max),
            ("queue_bytes_max", self.queue_bytes_max),
            ("requests_in_flight_max", self.requests_in_flight_max),
        ] {
            if value == 0 {
                return Err(format!("{name} must be at least 1"));
            }
        }
        if self.batch_receipts_max > limits.batch_receipts_max {
            return Err(format!(
                "batch_receipts_max must be at most {}",
                limits.batch_receipts_max
            ));
        }
        let bytes_max = limits.batch_bytes_max - BATCH_FRAME_BYTES;
        if self.batch_bytes_max > bytes_max {
            return Err(format!("batch_bytes_max must be at most {bytes_max}"));
        }
        if self.retry_pauses.min > self.retry_pauses.max {
            return Err("the shortest pause between tries must be at most the longest".to_owned());
        }
        Ok(())
    }
}
