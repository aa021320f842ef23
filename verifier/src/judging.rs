//! Records to rows of verdicts: plain functions of the records, run on rayon, with no state but the
//! key cache.

use std::sync::Arc;

use blocks::{AcceptedRow, BlockError, Columns, RejectedRow, Rows};
use rayon::prelude::*;
use receipt::{Arrival, BodyKind, JUDGED_TOGETHER, Judge, Judged, RejectReason, RejectedReceipt, VerifiedReceipt};
use receipt_log::{LoggedRecord, RecordKind};
use tokio::time::Instant;

use crate::assignment::AppendClaim;
use crate::gathering::{PartitionRecords, PolledBlock};
use crate::traces::Traces;

/// `kind` of the rows of a batch.
pub const BATCH: &str = "batch";

/// A record whose receipts are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRecord {
    /// Offset in the log `receipts`.
    pub offset: u64,
    /// When the log took it.
    pub appended_at_ms: i64,
    /// Accepted rows. With the rejected ones at least one.
    pub accepted: usize,
    /// Rejected rows.
    pub rejected: usize,
    /// Bytes of the rows in columns.
    pub bytes: usize,
}

/// ReceiptStamp of an accepted receipt, given once, when it arrives.
#[derive(Debug, Clone)]
pub struct ReceiptStamp {
    /// Domain of the operator whose key it was on arrival; `None` if the receipt is unproven.
    pub operator: Option<Arc<str>>,
    /// Whether somebody had verified the publisher's domain before the receipt arrived.
    pub publisher_verified: bool,
    /// Why a policy rejects the receipt after all, with the detail for its sender.
    pub rejection: Option<(RejectReason, String)>,
}

/// Receipts of consecutive records with their verdicts.
#[derive(Debug)]
pub struct JudgedRows {
    /// The records, in offset order.
    pub records: Vec<SourceRecord>,
    /// Rows of receipts whose every check passed, in the records' order.
    pub accepted: Columns,
    /// Rows of receipts, or of records that are none, that failed a check.
    pub rejected: Columns,
    /// Stamps of the accepted rows. Their columns in `accepted` aren't set.
    pub stamps: Vec<ReceiptStamp>,
}

/// Judged records of one partition.
#[derive(Debug)]
pub struct JudgedPartition {
    /// The claim under which they were polled.
    pub claim: AppendClaim,
    /// The epoch of the log `receipts`.
    pub epoch: u32,
    /// In offset order, without gaps.
    pub rows: Vec<JudgedRows>,
}

/// A block whose receipts all have a verdict.
#[derive(Debug)]
#[must_use = "verdicts must be appended"]
pub struct JudgedBlock {
    /// At most one element per partition.
    pub partitions: Vec<JudgedPartition>,
    /// When the first record was polled.
    pub opened: Instant,
    /// The traces of its requests.
    pub traces: Traces,
}

/// Judges every receipt of a block. Runs on the calling thread's rayon pool.
///
/// # Errors
/// [`BlockError`]: rows that no Arrow column can hold (2 GiB of text).
pub fn judge(judge: &Judge, block: PolledBlock) -> Result<JudgedBlock, BlockError> {
    let partition = |part: &PartitionRecords| {
        let chunks = part.records.par_chunks(JUDGED_TOGETHER);
        let judged = chunks.fold(RowsOfRecords::default, |mut rows, chunk| {
            rows.judge(judge, chunk);
            rows
        });
        Ok(JudgedPartition {
            claim: part.claim,
            epoch: part.records.first().map_or(0, |logged| logged.position.epoch),
            rows: judged.map(RowsOfRecords::finish).collect::<Result<_, _>>()?,
        })
    };
    Ok(JudgedBlock {
        traces: Traces::new(block.records()),
        partitions: block.partitions.iter().map(partition).collect::<Result<_, _>>()?,
        opened: block.opened,
    })
}

/// A record as the judge takes it.
#[must_use]
pub fn arrival(logged: &LoggedRecord) -> Arrival<'_> {
    Arrival {
        kind: match logged.record.kind {
            RecordKind::Batch => BodyKind::Batch,
            // A record of another kind in this log isn't a receipt: parsing it says so.
            RecordKind::Receipt | RecordKind::Verdicts => BodyKind::Receipt,
        },
        body: &logged.record.body,
        request_signature: logged.record.request_signature.as_deref(),
        received_at_ms: logged.record.received_at_ms,
    }
}

/// Rows of judged records, being collected.
#[derive(Default)]
pub(crate) struct RowsOfRecords {
    records: Vec<SourceRecord>,
    rows: Rows,
}

impl RowsOfRecords {
    /// Judges the records behind those so far. Single receipts behind each other are judged
    /// together.
    fn judge(&mut self, judge: &Judge, records: &[LoggedRecord]) {
        let is_single = |logged: &LoggedRecord| arrival(logged).kind == BodyKind::Receipt;
        for run in records.chunk_by(|left, right| is_single(left) && is_single(right)) {
            if let [logged] = run {
                let row = RowOfRecord::new(logged);
                let add = |rows: &mut Rows, index, judged: Judged<'_>| row.add(index, &judged, rows);
                self.add(logged, judge.fold(&arrival(logged), &add));
            } else {
                let arrivals: Vec<_> = run.iter().map(arrival).collect();
                for (logged, judged) in run.iter().zip(judge.judge_receipts(&arrivals)) {
                    self.add_one(logged, &judged);
                }
            }
        }
    }

    fn add_one(&mut self, logged: &LoggedRecord, judged: &Judged<'_>) {
        let bytes = self.rows.bytes();
        RowOfRecord::new(logged).add(0, judged, &mut self.rows);
        let is_accepted = matches!(judged, Judged::Verified(_));
        self.records.push(SourceRecord {
            offset: logged.position.offset,
            appended_at_ms: logged.appended_at_ms,
            accepted: usize::from(is_accepted),
            rejected: usize::from(!is_accepted),
            bytes: self.rows.bytes() - bytes,
        });
    }

    /// Adds a record with its rows, each of which is of one receipt.
    pub(crate) fn add(&mut self, logged: &LoggedRecord, parts: Vec<Rows>) {
        let mut record = SourceRecord {
            offset: logged.position.offset,
            appended_at_ms: logged.appended_at_ms,
            accepted: 0,
            rejected: 0,
            bytes: 0,
        };
        for rows in parts {
            record.accepted += rows.accepted();
            record.rejected += usize::try_from(rows.rejected()).unwrap_or(usize::MAX);
            record.bytes += rows.bytes();
            self.rows.append(rows);
        }
        self.records.push(record);
    }

    /// Ends the collection. Without an account store the stamps stay as they are made here.
    pub(crate) fn finish(self) -> Result<JudgedRows, BlockError> {
        let unstamped = ReceiptStamp {
            operator: None,
            publisher_verified: true,
            rejection: None,
        };
        let stamps = vec![unstamped; self.rows.accepted()];
        let (accepted, rejected) = self.rows.batches()?;
        Ok(JudgedRows {
            records: self.records,
            accepted: Columns::new(&accepted)?,
            rejected: Columns::new(&rejected)?,
            stamps,
        })
    }
}

/// Values that the rows of a record have in common.
struct RowOfRecord<'a> {
    logged: &'a LoggedRecord,
    client_address: String,
    kind: &'static str,
    request_signature: &'a str,
}

impl<'a> RowOfRecord<'a> {
    fn new(logged: &'a LoggedRecord) -> Self {
        let address = logged.record.client_address;
        Self {
            logged,
            client_address: address.map_or_else(String::new, |address| address.to_string()),
            kind: match logged.record.kind {
                RecordKind::Batch => BATCH,
                RecordKind::Receipt | RecordKind::Verdicts => "receipt",
            },
            request_signature: logged.record.request_signature.as_deref().unwrap_or_default(),
        }
    }

    /// Adds the row of the record's receipt with that index.
    fn add(&self, index: u16, judged: &Judged<'_>, rows: &mut Rows) {
        match judged {
            Judged::Verified(verified) => self.add_accepted(index, verified, rows),
            Judged::Rejected(rejected) => self.add_rejected(index, rejected, rows),
        }
    }

    fn add_accepted(&self, index: u16, verified: &VerifiedReceipt<'_>, rows: &mut Rows) {
        let receipt = &verified.receipt;
        let batch = verified.batch.as_deref();
        rows.push_accepted(&AcceptedRow {
            position: self.logged.position.receipt(index),
            publisher: &receipt.host(),
            timestamp_ms: receipt.timestamp_ms,
            entry_id: receipt.entry_id,
            receipt_id: receipt.receipt_id,
            payload_hash: &verified.payload_hash,
            received_at_ms: self.logged.record.received_at_ms,
            url: &receipt.url,
            content_hash: &receipt.content_hash,
            client_id: receipt.client_id,
            client_name: &receipt.client_name,
            client_version: &receipt.client_version,
            organization: &receipt.organization,
            key_fingerprint: &verified.key_fingerprint,
            algorithm: receipt.algorithm.as_str(),
            purpose: receipt.purpose.as_str(),
            context: &receipt.context,
            dataset_id: receipt.dataset_id.as_deref().unwrap_or_default(),
            model_id: receipt.model_id.as_deref().unwrap_or_default(),
            query_id: receipt.query_id.as_deref().unwrap_or_default(),
            session_id: receipt.session_id.as_deref().unwrap_or_default(),
            study_id: receipt.study_id.as_deref().unwrap_or_default(),
            researcher_id: receipt.researcher_id.as_deref().unwrap_or_default(),
            request_id: &self.logged.record.request_id,
            client_address: &self.client_address,
            kind: self.kind,
            raw: verified.raw,
            request_signature: self.request_signature,
            origin: verified.origin.as_str(),
            batch_signature: batch.map_or(&[], |batch| &batch.signature),
            batch_hash: batch.map_or(&[0; 32], |batch| &batch.payload_hash),
            // The stamps are the next stage's.
            ..AcceptedRow::default()
        });
    }

    fn add_rejected(&self, index: u16, rejected: &RejectedReceipt<'_>, rows: &mut Rows) {
        rows.push_rejected(&RejectedRow {
            position: self.logged.position.receipt(index),
            reason: rejected.reason.as_str(),
            detail: &rejected.detail,
            publisher: rejected.publisher.as_deref().unwrap_or_default(),
            receipt_id: rejected.receipt_id.unwrap_or_default(),
            client_id: rejected.client_id.unwrap_or_default(),
            entry_id: rejected.entry_id.unwrap_or_default(),
            payload_hash: &rejected.payload_hash.unwrap_or_default(),
            key_fingerprint: &rejected.key_fingerprint.unwrap_or_default(),
            timestamp_ms: 0,
            received_at_ms: self.logged.record.received_at_ms,
            request_id: &self.logged.record.request_id,
            client_address: &self.client_address,
            kind: self.kind,
            raw: rejected.raw,
            request_signature: self.request_signature,
            origin: rejected.origin.as_str(),
            receipts: 1,
        });
    }
}
