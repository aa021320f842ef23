//! Records to rows: plain functions of the records, run on rayon, with no state but the key cache.

use std::borrow::Cow;
use std::collections::BTreeMap;

use accounts::{ClientKey, Fingerprint};
use rayon::prelude::*;
use receipt::{Arrival, BodyKind, Judge, Judged, RejectReason, RejectedReceipt, VerifiedReceipt};
use receipt_log::{DeadLetter, LoggedRecord, ReceiptPosition, RecordKind};
use uuid::Uuid;
use warehouse::{LedgerRow, MarkRow, ReceiptRow, RejectedRow, Touched};

use crate::block::Block;
use crate::offenders::Tallies;
use crate::rows::{Rows, RowsBuilder, Source};

/// A block whose receipts all have their outcome, encoded for the warehouse.
#[derive(Debug)]
#[must_use = "a judged block holds outcomes that must be written"]
pub struct JudgedBlock {
    /// `RowBinary` for the table of receipts.
    pub receipts: Rows,
    /// `RowBinary` for the table of rejected receipts.
    pub rejected: Rows,
    /// A copy of each rejected receipt for the dead letters, if they are [kept](Letters::Keep).
    pub letters: Vec<DeadLetter>,
    /// One ledger line per run of offsets without a gap, in order within each partition, without its time of commit.
    pub lines: Vec<LedgerRow>,
    /// For each line, which hours of which publishers its receipts touch, those that a policy or the warehouse refuses too.
    pub marks: Vec<MarkRow>,
    /// What a policy asks of each receipt in `receipts`, in order, if it is [kept](Facts::Keep).
    pub facts: Vec<Fact>,
    /// Rejections by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Outcomes by client, as the receipts state it.
    pub clients: Tallies,
    /// The block itself. Its records stay until its rows are written: a row that the warehouse refuses needs its own.
    pub block: Block,
}

impl JudgedBlock {
    /// How many rows `receipts` holds.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.lines.iter().map(|line| line.accepted).sum()
    }

    /// How many rows `rejected` holds.
    #[must_use]
    pub fn rejections(&self) -> u64 {
        self.lines.iter().map(|line| line.rejected).sum()
    }
}

/// Whether a judged block holds dead letters: each keeps its whole record in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// It does.
    Keep,
    /// Nothing would publish them.
    Drop,
}

/// Whether a judged block holds the facts that a policy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facts {
    /// It does.
    Keep,
    /// No policy asks.
    Drop,
}

/// What a policy asks of a receipt whose every check passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// Where it stands in its block.
    pub source: Source,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// Who signed it.
    pub client_key: ClientKey,
    /// `content.entryId`.
    pub entry_id: Uuid,
}

/// One receipt's outcome as an encoded row.
enum Row {
    Receipt(Accepted, Option<Box<Fact>>),
    Rejected(RejectReason, Option<Uuid>, Vec<u8>, Option<Box<DeadLetter>>),
}

/// An accepted receipt.
struct Accepted {
    client_id: Uuid,
    timestamp_ms: i64,
    publisher: Box<str>,
    row: Vec<u8>,
}

/// One record's outcomes.
struct JudgedRecord {
    rows: Vec<Row>,
}

/// Judges every receipt of a block. Runs on the calling thread's rayon pool.
pub fn judge_block(judge: &Judge, block: Block, verifier: &str, letters: Letters, facts: Facts) -> JudgedBlock {
    let judged: Vec<JudgedRecord> = block
        .records
        .par_iter()
        .enumerate()
        .map(|(record, logged)| {
            let record = u32::try_from(record).unwrap_or(u32::MAX);
            judge_record(judge, logged, record, letters, facts)
        })
        .collect();

    let mut receipts = RowsBuilder::default();
    let mut rejected = RowsBuilder::default();
    let mut letters = Vec::new();
    let mut facts = Vec::new();
    let mut reasons = BTreeMap::new();
    let mut clients = Tallies::default();
    let mut lines: BTreeMap<u32, Vec<(LedgerRow, Touched)>> = BTreeMap::new();
    for (record, (logged, outcome)) in (0_u32..).zip(block.records.iter().zip(judged)) {
        let position = logged.position;
        let runs = lines.entry(position.partition).or_default();
        // A gap stands where an earlier line has done the records (see `resuming`): no line may cover it again.
        if runs
            .last()
            .is_none_or(|(line, _)| line.last_offset + 1 != position.offset)
        {
            let line = LedgerRow {
                epoch: position.epoch,
                partition: position.partition,
                first_offset: position.offset,
                last_offset: position.offset,
                records: 0,
                receipts_in: 0,
                accepted: 0,
                rejected: 0,
                verifier: verifier.to_owned(),
                committed_at_ms: 0,
            };
            runs.push((line, Touched::default()));
        }
        let last = runs.len() - 1;
        let (line, touched) = &mut runs[last];
        line.last_offset = position.offset;
        line.records += 1;
        line.receipts_in += outcome.rows.len() as u64;
        for (index, row) in (0_u16..).zip(outcome.rows) {
            let source = Source { record, index };
            match row {
                Row::Receipt(accepted, fact) => {
                    clients.accepted(accepted.client_id);
                    line.accepted += 1;
                    touched.add(accepted.timestamp_ms, &accepted.publisher);
                    receipts.push(&accepted.row, source);
                    facts.extend(fact.map(|fact| *fact));
                }
                Row::Rejected(reason, client_id, bytes, letter) => {
                    clients.rejected(client_id);
                    line.rejected += 1;
                    *reasons.entry(reason.as_str()).or_insert(0) += 1;
                    rejected.push(&bytes, source);
                    letters.extend(letter.map(|letter| *letter));
                }
            }
        }
    }
    let marked = |(line, touched): (LedgerRow, Touched)| {
        let mark = MarkRow {
            epoch: line.epoch,
            partition: line.partition,
            first_offset: line.first_offset,
            last_offset: line.last_offset,
            touched,
        };
        (line, mark)
    };
    let (lines, marks) = lines.into_values().flatten().map(marked).unzip();
    JudgedBlock {
        receipts: receipts.finish(),
        rejected: rejected.finish(),
        letters,
        lines,
        marks,
        facts,
        reasons,
        clients,
        block,
    }
}

/// A record as the judge takes it.
pub(crate) fn arrival(logged: &LoggedRecord) -> Arrival<'_> {
    Arrival {
        kind: match logged.record.kind {
            RecordKind::Receipt => BodyKind::Receipt,
            RecordKind::Batch => BodyKind::Batch,
        },
        body: &logged.record.body,
        request_signature: logged.record.request_signature.as_deref(),
        received_at_ms: logged.record.received_at_ms,
    }
}

fn judge_record(judge: &Judge, logged: &LoggedRecord, record: u32, letters: Letters, facts: Facts) -> JudgedRecord {
    let rows = judge.judge(&arrival(logged), &|index, judged| match judged {
        Judged::Verified(verified) => Row::Receipt(
            Accepted {
                client_id: verified.receipt.client_id,
                timestamp_ms: verified.receipt.timestamp_ms,
                publisher: (*verified.receipt.publisher).into(),
                row: encode_receipt(logged, index, &verified),
            },
            (facts == Facts::Keep).then(|| Box::new(fact(Source { record, index }, &verified))),
        ),
        Judged::Rejected(rejected) => Row::Rejected(
            rejected.reason,
            rejected.client_id,
            encode_rejected(logged, index, &rejected),
            (letters == Letters::Keep).then(|| Box::new(dead_letter(logged, index, rejected))),
        ),
    });
    JudgedRecord { rows }
}

fn fact(source: Source, verified: &VerifiedReceipt<'_>) -> Fact {
    Fact {
        source,
        receipt_id: verified.receipt.receipt_id,
        client_key: ClientKey {
            client_id: verified.receipt.client_id,
            fingerprint: Fingerprint(verified.key_fingerprint),
        },
        entry_id: verified.receipt.entry_id,
    }
}

fn encode_receipt(logged: &LoggedRecord, index: u16, verified: &VerifiedReceipt<'_>) -> Vec<u8> {
    let receipt = &verified.receipt;
    let mut out = Vec::with_capacity(512);
    ReceiptRow {
        publisher: &receipt.publisher,
        timestamp_ms: receipt.timestamp_ms,
        entry_id: receipt.entry_id,
        receipt_id: receipt.receipt_id,
        payload_hash: &verified.payload_hash,
        position: logged.position.receipt(index),
        received_at_ms: logged.record.received_at_ms,
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
    }
    .encode(&mut out);
    out
}

pub(crate) fn encode_rejected(logged: &LoggedRecord, index: u16, rejected: &RejectedReceipt<'_>) -> Vec<u8> {
    let address = logged
        .record
        .client_address
        .map(|address| address.to_string())
        .unwrap_or_default();
    let mut out = Vec::with_capacity(256 + rejected.raw.len());
    RejectedRow {
        position: logged.position.receipt(index),
        reason: rejected.reason.as_str(),
        detail: &rejected.detail,
        publisher: rejected.publisher.as_deref().unwrap_or_default(),
        receipt_id: rejected.receipt_id,
        client_id: rejected.client_id,
        entry_id: rejected.entry_id,
        payload_hash: rejected.payload_hash.as_ref(),
        received_at_ms: logged.record.received_at_ms,
        request_id: &logged.record.request_id,
        client_address: &address,
        kind: match logged.record.kind {
            RecordKind::Receipt => "receipt",
            RecordKind::Batch => "batch",
        },
        raw: rejected.raw,
        request_signature: logged.record.request_signature.as_deref(),
        origin: rejected.origin.as_str(),
    }
    .encode(&mut out);
    out
}

pub(crate) fn dead_letter(logged: &LoggedRecord, index: u16, rejected: RejectedReceipt<'_>) -> DeadLetter {
    let record = &logged.record;
    DeadLetter {
        position: ReceiptPosition {
            record: logged.position,
            index,
        },
        body: record.body.slice_ref(rejected.raw),
        reason: rejected.reason.as_str(),
        detail: rejected.detail,
        receipt_id: rejected.receipt_id.map(|id| id.to_string()),
        publisher: rejected.publisher.map(Cow::into_owned),
        kind: record.kind,
        origin: rejected.origin.as_str(),
        received_at_ms: record.received_at_ms,
        request_id: record.request_id.clone(),
        request_signature: record.request_signature.clone(),
        client_address: record.client_address,
        trace: record.trace,
    }
}
