//! Records to verdicts: plain functions of the records, run on rayon, with no state but the key
//! cache.

use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use receipt::{
    Arrival, BatchSignature, BodyKind, JUDGED_TOGETHER, Judge, Judged, RejectReason, RejectedReceipt, VerifiedReceipt,
};
use receipt_log::{LoggedRecord, RecordKind};
use tokio::time::Instant;
use uuid::Uuid;

use crate::assignment::AppendClaim;
use crate::gathering::PolledBlock;
use crate::traces::Traces;

/// The identifiers that a receipt states. Nil: it couldn't be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiptIds {
    /// `receiptId`.
    pub receipt: Uuid,
    /// `client.id`.
    pub client: Uuid,
    /// `content.entryId`.
    pub entry: Uuid,
}

/// The texts of an accepted receipt, in one allocation.
#[derive(Debug, Clone, Default)]
pub struct ReceiptTexts {
    bytes: String,
    ends: [u32; TEXTS],
}

/// A text of an accepted receipt.
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
pub enum ReceiptText {
    /// Host of `content.url`, in canonical form.
    Publisher,
    /// `content.url`.
    Url,
    /// `client.name`.
    ClientName,
    /// `client.version`.
    ClientVersion,
    /// `client.organization`.
    Organization,
    /// `usage.context`.
    Context,
    /// `usage.datasetId`.
    DatasetId,
    /// `usage.modelId`.
    ModelId,
    /// `usage.queryId`.
    QueryId,
    /// `usage.sessionId`.
    SessionId,
    /// `usage.studyId`.
    StudyId,
    /// `usage.researcherId`.
    ResearcherId,
}

const TEXTS: usize = 12;

impl ReceiptTexts {
    fn new(parts: [&str; TEXTS]) -> Self {
        let mut bytes = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        let ends = parts.map(|part| {
            bytes.push_str(part);
            // A body has at most some megabytes.
            u32::try_from(bytes.len()).unwrap_or(u32::MAX)
        });
        Self { bytes, ends }
    }

    /// Returns a text; empty if the receipt doesn't have it.
    #[must_use]
    pub fn get(&self, text: ReceiptText) -> &str {
        let number = text as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start as usize..self.ends[number] as usize]
    }
}

/// A receipt whose every check passed.
#[derive(Debug, Clone)]
pub struct AcceptedReceipt {
    /// Identifiers that the receipt states.
    pub ids: ReceiptIds,
    /// `timestamp`, milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: [u8; 32],
    /// `content.contentHash`, decoded.
    pub content_hash: [u8; 32],
    /// SHA-256 of the key's SPKI.
    pub key_fingerprint: [u8; 32],
    /// Domain of the operator whose key it was on arrival; `None` if the receipt is unproven.
    pub operator: Option<Arc<str>>,
    /// Whether somebody had verified the publisher's domain before the receipt arrived.
    pub publisher_verified: bool,
    /// `signatureAlgorithm`.
    pub algorithm: &'static str,
    /// `usage.purpose`.
    pub purpose: &'static str,
    /// The other members.
    pub texts: ReceiptTexts,
    /// Bytes as received, a slice of the record's body.
    pub raw: Bytes,
    /// Part of its record that `raw` is, see [`receipt::Origin`].
    pub origin: &'static str,
    /// The signature of the batch that it arrived in, if it arrived in one.
    pub batch: Option<Arc<BatchSignature>>,
}

/// A receipt, or a record that is none, that failed a check.
#[derive(Debug, Clone)]
pub struct RejectedReceiptBytes {
    /// Why.
    pub reason: RejectReason,
    /// Finding in detail, for people. At most about a thousand bytes.
    pub detail: String,
    /// The publisher it states; empty if it couldn't be read.
    pub publisher: String,
    /// Identifiers that the receipt states.
    pub ids: ReceiptIds,
    /// SHA-256 of the canonical bytes; zero if there are none.
    pub payload_hash: [u8; 32],
    /// SHA-256 of the SPKI of the key whose signature was verified
    /// (see [`receipt::RejectedReceipt`]); zero if none was.
    pub key_fingerprint: [u8; 32],
    /// Bytes as received, or the whole body where no receipt could be distinguished.
    pub raw: Bytes,
    /// Part of its record that `raw` is, see [`receipt::Origin`]; `not_kept` without bytes.
    pub origin: &'static str,
}

impl RejectedReceiptBytes {
    /// Rejected receipts beyond what is stored of a day, in one row: with what they have in common.
    #[must_use]
    pub(crate) fn not_kept(reason: RejectReason, publisher: String, key_fingerprint: [u8; 32]) -> Self {
        Self {
            reason,
            detail: "only counted, without bytes and receiptId: more is rejected today than \
                     verifier.rejected_kept_per_day_max (of a key and publisher) or \
                     verifier.rejected_bytes_per_day_max (of all senders) lets be stored"
                .to_owned(),
            publisher,
            ids: ReceiptIds::default(),
            payload_hash: [0; 32],
            key_fingerprint,
            raw: Bytes::new(),
            origin: blocks::NOT_KEPT,
        }
    }
}

/// The outcome of one receipt.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Every check passed.
    Accepted(Box<AcceptedReceipt>),
    /// A check failed.
    Rejected(Box<RejectedReceiptBytes>),
}

impl AcceptedReceipt {
    /// Turns the receipt into a rejected one, for a reason that isn't its own.
    #[must_use]
    pub fn into_rejected(self, reason: RejectReason, detail: String) -> RejectedReceiptBytes {
        RejectedReceiptBytes {
            reason,
            detail,
            publisher: self.texts.get(ReceiptText::Publisher).to_owned(),
            ids: self.ids,
            payload_hash: self.payload_hash,
            key_fingerprint: self.key_fingerprint,
            raw: self.raw,
            origin: self.origin,
        }
    }
}

/// A record with the verdicts on its receipts.
#[derive(Debug)]
pub struct JudgedRecord {
    /// The record.
    pub logged: LoggedRecord,
    /// Verdicts by the receipt's index in the record. At least one.
    pub verdicts: Vec<Verdict>,
}

/// Judged records of one partition.
#[derive(Debug)]
pub struct JudgedPartition {
    /// The claim under which they were polled.
    pub claim: AppendClaim,
    /// In offset order, without gaps.
    pub records: Vec<JudgedRecord>,
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
pub fn judge(judge: &Judge, block: PolledBlock) -> JudgedBlock {
    let records = |records: Vec<LoggedRecord>| {
        let chunks = records.par_chunks(JUDGED_TOGETHER);
        let verdicts: Vec<_> = chunks.flat_map_iter(|chunk| judge_records(judge, chunk)).collect();
        let judged = records.into_iter().zip(verdicts);
        judged
            .map(|(logged, verdicts)| JudgedRecord { logged, verdicts })
            .collect()
    };
    let traces = Traces::new(block.records());
    JudgedBlock {
        traces,
        partitions: block
            .partitions
            .into_iter()
            .map(|part| JudgedPartition {
                claim: part.claim,
                records: records(part.records),
            })
            .collect(),
        opened: block.opened,
    }
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

/// Returns the verdicts of each record. Single receipts behind each other are judged together.
fn judge_records(judge: &Judge, records: &[LoggedRecord]) -> Vec<Vec<Verdict>> {
    let is_single = |logged: &LoggedRecord| arrival(logged).kind == BodyKind::Receipt;
    let runs = records.chunk_by(|left, right| is_single(left) && is_single(right));
    let judged = runs.flat_map(|run| match run {
        [logged] => vec![judge.judge(&arrival(logged), &|_, judged| verdict(&logged.record.body, judged))],
        _ => {
            let arrivals: Vec<_> = run.iter().map(arrival).collect();
            let judged = run.iter().zip(judge.judge_receipts(&arrivals));
            judged
                .map(|(logged, judged)| vec![verdict(&logged.record.body, judged)])
                .collect()
        }
    });
    judged.collect()
}

fn verdict(body: &Bytes, judged: Judged<'_>) -> Verdict {
    match judged {
        Judged::Verified(verified) => Verdict::Accepted(Box::new(accepted(body, &verified))),
        Judged::Rejected(rejected) => Verdict::Rejected(Box::new(self::rejected(body, rejected))),
    }
}

fn accepted(body: &Bytes, verified: &VerifiedReceipt<'_>) -> AcceptedReceipt {
    let receipt = &verified.receipt;
    AcceptedReceipt {
        ids: ReceiptIds {
            receipt: receipt.receipt_id,
            client: receipt.client_id,
            entry: receipt.entry_id,
        },
        timestamp_ms: receipt.timestamp_ms,
        payload_hash: verified.payload_hash,
        content_hash: receipt.content_hash,
        key_fingerprint: verified.key_fingerprint,
        // The stamps are the next stage's. Without a registry they stay.
        operator: None,
        publisher_verified: true,
        algorithm: receipt.algorithm.as_str(),
        purpose: receipt.purpose.as_str(),
        texts: ReceiptTexts::new([
            &receipt.host(),
            &receipt.url,
            &receipt.client_name,
            &receipt.client_version,
            &receipt.organization,
            &receipt.context,
            receipt.dataset_id.as_deref().unwrap_or_default(),
            receipt.model_id.as_deref().unwrap_or_default(),
            receipt.query_id.as_deref().unwrap_or_default(),
            receipt.session_id.as_deref().unwrap_or_default(),
            receipt.study_id.as_deref().unwrap_or_default(),
            receipt.researcher_id.as_deref().unwrap_or_default(),
        ]),
        raw: body.slice_ref(verified.raw),
        origin: verified.origin.as_str(),
        batch: verified.batch.clone(),
    }
}

fn rejected(body: &Bytes, rejected: RejectedReceipt<'_>) -> RejectedReceiptBytes {
    RejectedReceiptBytes {
        reason: rejected.reason,
        detail: rejected.detail,
        publisher: rejected.publisher.map(std::borrow::Cow::into_owned).unwrap_or_default(),
        ids: ReceiptIds {
            receipt: rejected.receipt_id.unwrap_or_default(),
            client: rejected.client_id.unwrap_or_default(),
            entry: rejected.entry_id.unwrap_or_default(),
        },
        payload_hash: rejected.payload_hash.unwrap_or_default(),
        key_fingerprint: rejected.key_fingerprint.unwrap_or_default(),
        raw: body.slice_ref(rejected.raw),
        origin: rejected.origin.as_str(),
    }
}
