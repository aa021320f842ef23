//! A rejected receipt judged again by the present rules, in its original context: when it came,
//! how, and with what.

use std::ops::RangeInclusive;

use accounts::{ClientKey, Fingerprint};
use bytes::Bytes;
use receipt::{Arrival, BodyKind, Judge, Judged, Origin, RejectReason, VerifiedReceipt};
use receipt_log::{Record, RecordKind};
use uuid::Uuid;
use warehouse::Rejected;

/// Verdict of a rejudgement.
#[derive(Debug, Clone)]
pub enum Rejudgement {
    /// The record passes and would make it count.
    Passes(Box<Passing>),
    /// The record is rejected, as before or for another reason.
    Rejected(RejectReason),
}

/// Record that goes to the log, and the receipts that will count then.
#[derive(Debug, Clone)]
pub struct Passing {
    /// The receipt, or the whole record where no receipt could be distinguished before. Times, ids
    /// and address are those of its first arrival.
    pub record: Record,
    /// The receipts in it that pass. Never empty.
    pub payloads: Vec<Payload>,
}

/// A receipt that would count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Host of `content.url`, in lower case.
    pub publisher: String,
    /// `timestamp`, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// SHA-256 of the canonical bytes.
    pub hash: [u8; 32],
    /// Key that signed it.
    pub client_key: ClientKey,
    /// `content.entryId`.
    pub entry_id: Uuid,
}

/// Identity of a receipt: `receiptId`, and the hash of the canonical bytes.
pub type PayloadKey = (Uuid, [u8; 32]);

impl Passing {
    /// Keys of its payloads, as the table of receipts distinguishes them.
    pub fn keys(&self) -> impl Iterator<Item = PayloadKey> + '_ {
        self.payloads.iter().map(|payload| (payload.receipt_id, payload.hash))
    }
}

/// A record of the log judged again, receipt by receipt.
#[derive(Debug)]
pub struct RejudgedRecord {
    record: Record,
    receipts: Vec<Result<(Payload, Bytes), RejectReason>>,
}

/// The range that holds the timestamps of all payloads.
#[must_use]
pub fn time_range(payloads: &[&Payload]) -> Option<RangeInclusive<i64>> {
    let times = || payloads.iter().map(|payload| payload.timestamp_ms);
    Some(times().min()?..=times().max()?)
}

/// Judges it by what is kept with it. `None` if that isn't enough: a row of an earlier version
/// needs its record.
#[must_use]
pub fn judge_alone(judge: &Judge, rejected: &Rejected, raw: &Bytes) -> Option<Rejudgement> {
    let whole = rejected.origin == Origin::Record.as_str();
    if !whole && rejected.origin != Origin::SignedBatch.as_str() {
        return None;
    }
    // A receipt of a signed batch is judged by itself: what the batch's signature said of it was
    // checked then.
    let kind = if whole && rejected.kind == "batch" {
        RecordKind::Batch
    } else {
        RecordKind::Receipt
    };
    let record = Record {
        kind,
        body: raw.clone(),
        request_signature: rejected.request_signature.clone().filter(|_| whole),
        request_id: rejected.request_id.clone(),
        received_at_ms: rejected.received_at_ms,
        client_address: rejected.client_address.parse().ok(),
        trace: None,
    };
    let judged = RejudgedRecord::new(judge, record);
    Some(judged.whole())
}

impl RejudgedRecord {
    /// Judges a record.
    #[must_use]
    pub fn new(judge: &Judge, record: Record) -> Self {
        let arrival = Arrival {
            kind: match record.kind {
                RecordKind::Batch => BodyKind::Batch,
                RecordKind::Receipt | RecordKind::Verdicts => BodyKind::Receipt,
            },
            body: &record.body,
            request_signature: record.request_signature.as_deref(),
            received_at_ms: record.received_at_ms,
        };
        let receipts = judge.judge(&arrival, &|_, judged| match judged {
            Judged::Verified(verified) => Ok((payload(&verified), record.body.slice_ref(verified.receipt.raw))),
            Judged::Rejected(rejected) => Err(rejected.reason),
        });
        Self { record, receipts }
    }

    /// The verdict on what was rejected at `index`, whose bytes were `raw`.
    #[must_use]
    pub fn verdict(&self, index: u16, raw: &[u8]) -> Rejudgement {
        if raw == self.record.body {
            return self.whole();
        }
        match self.receipts.get(usize::from(index)) {
            Some(Ok((payload, body))) => Rejudgement::Passes(Box::new(Passing {
                record: Record {
                    kind: RecordKind::Receipt,
                    body: body.clone(),
                    // Only single receipts have one that is looked at, and they are whole records.
                    request_signature: None,
                    ..self.record.clone()
                },
                payloads: vec![payload.clone()],
            })),
            Some(Err(reason)) => Rejudgement::Rejected(*reason),
            None => self.whole_rejected(),
        }
    }

    /// The verdict on the record where nothing in it could be distinguished before: it passes if
    /// anything in it does, and what doesn't is rejected for itself then.
    fn whole(&self) -> Rejudgement {
        let payloads: Vec<Payload> = self
            .receipts
            .iter()
            .flatten()
            .map(|(payload, _)| payload.clone())
            .collect();
        if payloads.is_empty() {
            return self.whole_rejected();
        }
        Rejudgement::Passes(Box::new(Passing {
            record: self.record.clone(),
            payloads,
        }))
    }

    fn whole_rejected(&self) -> Rejudgement {
        let reason = self.receipts.iter().find_map(|receipt| receipt.as_ref().err());
        Rejudgement::Rejected(reason.copied().unwrap_or(RejectReason::Malformed))
    }
}

fn payload(verified: &VerifiedReceipt<'_>) -> Payload {
    Payload {
        publisher: verified.receipt.host().into_owned(),
        timestamp_ms: verified.receipt.timestamp_ms,
        receipt_id: verified.receipt.receipt_id,
        hash: verified.payload_hash,
        client_key: ClientKey {
            client_id: verified.receipt.client_id,
            fingerprint: Fingerprint(verified.key_fingerprint),
        },
        entry_id: verified.receipt.entry_id,
    }
}
