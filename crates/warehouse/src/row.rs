//! Rows of the tables, encoded by hand into ClickHouse's RowBinary.
//!
//! Encoding is plain and synchronous, appends to the caller's buffer and allocates nothing else, so that it runs
//! where the rows are made: on the CPU pool. Each `COLUMNS` names the columns in the order of the bytes.

use uuid::Uuid;

use crate::progress::VerdictsPosition;

/// One valid occurrence of a receipt. Times are milliseconds since the Unix epoch; an empty string is an absent one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptRow<'a> {
    /// `content.publisher`, a domain in lower case.
    pub publisher: &'a str,
    /// `timestamp`.
    pub timestamp_ms: i64,
    /// `content.entryId`.
    pub entry_id: Uuid,
    /// `receiptId`.
    pub receipt_id: Uuid,
    /// SHA-256 of the canonical bytes.
    pub payload_hash: &'a [u8; 32],
    /// Where in the log this occurrence stands (`receipt_log::Position::receipt`).
    pub position: u128,
    /// When the gateway took it.
    pub received_at_ms: i64,
    /// `content.url`.
    pub url: &'a str,
    /// `content.contentHash`, decoded.
    pub content_hash: &'a [u8; 32],
    /// `client.id`.
    pub client_id: Uuid,
    /// `client.name`.
    pub client_name: &'a str,
    /// `client.version`.
    pub client_version: &'a str,
    /// `client.organization`.
    pub organization: &'a str,
    /// SHA-256 of the client's SPKI.
    pub key_fingerprint: &'a [u8; 32],
    /// `signatureAlgorithm`.
    pub algorithm: &'a str,
    /// `usage.purpose`.
    pub purpose: &'a str,
    /// `usage.context`.
    pub context: &'a str,
    /// `usage.datasetId`.
    pub dataset_id: &'a str,
    /// `usage.modelId`.
    pub model_id: &'a str,
    /// `usage.queryId`.
    pub query_id: &'a str,
    /// `usage.sessionId`.
    pub session_id: &'a str,
    /// `usage.studyId`.
    pub study_id: &'a str,
    /// `usage.researcherId`.
    pub researcher_id: &'a str,
}

/// One refused receipt with its bytes. What couldn't be read out of it is empty or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedRow<'a> {
    /// Where in the log it stands.
    pub position: u128,
    /// A reason of the closed list in ARCHITECTURE.md.
    pub reason: &'a str,
    /// What exactly was found, for people.
    pub detail: &'a str,
    /// The publisher it names.
    pub publisher: &'a str,
    /// The id it names.
    pub receipt_id: Option<Uuid>,
    /// The client it names.
    pub client_id: Option<Uuid>,
    /// The entry it names.
    pub entry_id: Option<Uuid>,
    /// SHA-256 of its canonical bytes.
    pub payload_hash: Option<&'a [u8; 32]>,
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The request's id.
    pub request_id: &'a str,
    /// The peer's address.
    pub client_address: &'a str,
    /// What the log record was: `receipt` or `batch`.
    pub kind: &'a str,
    /// The receipt's bytes as received.
    pub raw: &'a [u8],
    /// `X-Service-Signature` of the request, if it had one.
    pub request_signature: Option<&'a str>,
    /// What `raw` is of its record: `record` (the whole body), `signed_batch` (one receipt of a batch whose signature
    /// is good), `batch` (one receipt of another batch).
    pub origin: &'a str,
}

/// That a rejected receipt counts now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayRow {
    /// The rejected row's position.
    pub position: u128,
    /// Where the receipt stands now: the position it was appended at, or that of its equal that was there before.
    pub replayed_as: u128,
    /// Whether a replay appended it; otherwise the same payload already counted.
    pub appended: bool,
    /// When, in milliseconds since the Unix epoch.
    pub replayed_at_ms: i64,
    /// By whom: user and host.
    pub replayed_by: String,
}

/// Row of the ledger: verdicts of one shard on a run of whole records of one source
/// partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first offset of the block.
    pub first_offset: u64,
    /// The last offset of the block, inclusive.
    pub last_offset: u64,
    /// Log records in the block.
    pub records: u64,
    /// Receipts in those records.
    pub receipts_in: u64,
    /// How many were valid.
    pub accepted: u64,
    /// How many were refused.
    pub rejected: u64,
    /// Which verifier wrote it.
    pub verifier: String,
    /// When the writer stored it, milliseconds since the Unix epoch.
    pub committed_at_ms: i64,
    /// The shard whose writer stored it.
    pub shard: u32,
    /// The record of `verdicts` that holds the block.
    pub verdicts: VerdictsPosition,
}

impl ReceiptRow<'_> {
    /// The table.
    pub const TABLE: &'static str = "receipts";
    /// The columns in the order of [`encode`](Self::encode).
    pub const COLUMNS: &'static str = "publisher, timestamp, entry_id, receipt_id, payload_hash, positions, received_at, \
         url, content_hash, client_id, client_name, client_version, organization, key_fingerprint, algorithm, purpose, \
         context, dataset_id, model_id, query_id, session_id, study_id, researcher_id";

    /// Appends the row in RowBinary.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_string(out, self.publisher.as_bytes());
        put_i64(out, self.timestamp_ms);
        put_uuid(out, self.entry_id);
        put_uuid(out, self.receipt_id);
        out.extend_from_slice(self.payload_hash);
        // `positions` is an array: of one here, ClickHouse unites them.
        put_length(out, 1);
        out.extend_from_slice(&self.position.to_le_bytes());
        put_i64(out, self.received_at_ms);
        put_string(out, self.url.as_bytes());
        out.extend_from_slice(self.content_hash);
        put_uuid(out, self.client_id);
        put_string(out, self.client_name.as_bytes());
        put_string(out, self.client_version.as_bytes());
        put_string(out, self.organization.as_bytes());
        out.extend_from_slice(self.key_fingerprint);
        for text in [
            self.algorithm,
            self.purpose,
            self.context,
            self.dataset_id,
            self.model_id,
            self.query_id,
            self.session_id,
            self.study_id,
            self.researcher_id,
        ] {
            put_string(out, text.as_bytes());
        }
    }
}

impl RejectedRow<'_> {
    /// The table.
    pub const TABLE: &'static str = "rejected";
    /// The columns in the order of [`encode`](Self::encode).
    pub const COLUMNS: &'static str = "position, reason, detail, publisher, receipt_id, client_id, entry_id, payload_hash, \
         received_at, request_id, client_address, kind, raw, request_signature, origin";

    /// Appends the row in RowBinary.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.position.to_le_bytes());
        put_string(out, self.reason.as_bytes());
        put_string(out, self.detail.as_bytes());
        put_string(out, self.publisher.as_bytes());
        for id in [self.receipt_id, self.client_id, self.entry_id] {
            if put_present(out, id.is_some())
                && let Some(id) = id
            {
                put_uuid(out, id);
            }
        }
        if put_present(out, self.payload_hash.is_some())
            && let Some(hash) = self.payload_hash
        {
            out.extend_from_slice(hash);
        }
        put_i64(out, self.received_at_ms);
        put_string(out, self.request_id.as_bytes());
        put_string(out, self.client_address.as_bytes());
        put_string(out, self.kind.as_bytes());
        put_string(out, self.raw);
        if put_present(out, self.request_signature.is_some())
            && let Some(signature) = self.request_signature
        {
            put_string(out, signature.as_bytes());
        }
        put_string(out, self.origin.as_bytes());
    }
}

impl ReplayRow {
    /// The table.
    pub const TABLE: &'static str = "replays";
    /// The columns in the order of [`encode`](Self::encode).
    pub const COLUMNS: &'static str = "position, replayed_as, appended, replayed_at, replayed_by";

    /// Appends the row in RowBinary.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.replayed_as.to_le_bytes());
        out.push(u8::from(self.appended));
        put_i64(out, self.replayed_at_ms);
        put_string(out, self.replayed_by.as_bytes());
    }
}

impl LedgerRow {
    /// The table.
    pub const TABLE: &'static str = "ledger";
    /// The columns in the order of [`encode`](Self::encode).
    pub const COLUMNS: &'static str = "epoch, partition, first_offset, last_offset, records, receipts_in, accepted, \
         rejected, verifier, committed_at, shard, verdicts_epoch, verdicts_offset";
    /// The columns with their types.
    pub const STRUCTURE: &'static str = "epoch UInt32, partition UInt32, first_offset UInt64, last_offset UInt64, \
         records UInt64, receipts_in UInt64, accepted UInt64, rejected UInt64, verifier String, \
         committed_at DateTime64(3, 'UTC'), shard UInt32, verdicts_epoch UInt32, verdicts_offset UInt64";

    /// Appends the row in RowBinary.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.partition.to_le_bytes());
        for number in [
            self.first_offset,
            self.last_offset,
            self.records,
            self.receipts_in,
            self.accepted,
            self.rejected,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_string(out, self.verifier.as_bytes());
        put_i64(out, self.committed_at_ms);
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.verdicts.epoch.to_le_bytes());
        out.extend_from_slice(&self.verdicts.offset.to_le_bytes());
    }
}

fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A `Nullable`'s leading byte: 1 stands for NULL.
fn put_present(out: &mut Vec<u8>, present: bool) -> bool {
    out.push(u8::from(!present));
    present
}

/// ClickHouse keeps a UUID as two 64-bit halves, the high one first, each little-endian.
fn put_uuid(out: &mut Vec<u8>, id: Uuid) {
    let (high, low) = id.as_u64_pair();
    out.extend_from_slice(&high.to_le_bytes());
    out.extend_from_slice(&low.to_le_bytes());
}

pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// An unsigned LEB128.
pub(crate) fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        #[allow(clippy::cast_possible_truncation)] // The low seven bits are meant.
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    #[allow(clippy::cast_possible_truncation)] // Below 0x80 by the loop.
    out.push(length as u8);
}
