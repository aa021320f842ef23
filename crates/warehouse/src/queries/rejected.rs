//! Rejected receipts with everything that is stored of them, for the operator: of all publishers,
//! and to be replayed.
//!
//! A page is found by its keys alone, then its rows are fetched by them: the bytes of what isn't
//! shown are never read.

use std::collections::HashMap;
use std::fmt;

use blocks::NOT_STORED;
use clickhouse::Row;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::scope::reversed_name;
use super::{Below, QueryScope, REFUSED_BY_POLICY, REFUSED_BY_WAREHOUSE, REJECTED_SETTINGS, TIME_MS_MAX, TIME_MS_MIN};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Rows that one statement names: its parameters travel in the request's URL, which may have 64
/// KiB.
const NAMED_MAX: usize = 500;

/// Filter of rejected receipts. Empty lists and `None` let all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedFilter {
    /// Only these reasons.
    pub reasons: Vec<String>,
    /// Only these publishers, in lower case.
    pub publishers: Vec<String>,
    /// And subdomains of these.
    pub below: Vec<Below>,
    /// Only this `client.id`.
    pub client_id: Option<Uuid>,
    /// Only this `receiptId`.
    pub receipt_id: Option<Uuid>,
    /// Only at this position.
    pub position: Option<u128>,
    /// Received at or after, milliseconds since the Unix epoch.
    pub from_ms: Option<i64>,
    /// Received before, milliseconds since the Unix epoch.
    pub to_ms: Option<i64>,
}

/// In which order they are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectedOrder {
    /// By the time they were received, newest first, for people.
    Newest,
    /// As the table is sorted, which makes each page as cheap as the first: by publisher, time and
    /// position.
    Stored,
}

/// A cursor between two rejected receipts: that of the last one seen.
#[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
pub struct RejectedCursor {
    /// The publisher it names. Only matters in [`RejectedOrder::Stored`].
    pub publisher: String,
    /// When it was received, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// Position in the log.
    pub position: u128,
}

/// A rejected receipt, with all that is stored but its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Position in the log.
    pub position: u128,
    /// The reason, one of `receipt::RejectReason`.
    pub reason: String,
    /// Finding in detail.
    pub detail: String,
    /// The publisher it names, or empty.
    pub publisher: String,
    /// The id it names.
    pub receipt_id: Option<Uuid>,
    /// The client it names.
    pub client_id: Option<Uuid>,
    /// The entry it names.
    pub entry_id: Option<Uuid>,
    /// SHA-256 of its canonical bytes.
    pub payload_hash: Option<[u8; 32]>,
    /// When the gateway took it, milliseconds since the Unix epoch.
    pub received_at_ms: i64,
    /// The request's id.
    pub request_id: String,
    /// The peer's address, or empty.
    pub client_address: String,
    /// Kind of the log record: `receipt` or `batch`.
    pub kind: String,
    /// `X-Service-Signature` of the request, if it had one.
    pub request_signature: Option<String>,
    /// Part of its record that the bytes are, as `blocks::RejectedRow::origin`.
    pub origin: String,
    /// The size of its bytes.
    pub raw_bytes: u64,
    /// Fingerprint of the key whose outer signature was verified.
    pub key_fingerprint: Option<[u8; 32]>,
    /// Receipts that the row counts; several only where `origin` is `not_stored`.
    pub receipts: u32,
}

impl Rejected {
    /// Whether its bytes are stored.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.origin != NOT_STORED
    }
}

/// A stored verdict, whatever the present rules say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Row, Deserialize)]
pub struct StandingRejection {
    /// The rejected receipt's position.
    pub position: u128,
    /// Whether it is a whole batch, in which no receipt could be distinguished: it is one receipt
    /// in the ledger.
    pub whole_batch: bool,
    /// Whether judging it again is expected to say otherwise: only the warehouse or a policy
    /// refused it.
    pub passes_now: bool,
    /// Receipts that the row counts, and of which it has the first position.
    pub receipts: u32,
}

#[derive(Row, Deserialize)]
struct RejectedListRow {
    position: u128,
    reason_text: String,
    detail: String,
    publisher: String,
    #[serde(with = "clickhouse::serde::uuid::option")]
    receipt_id: Option<Uuid>,
    #[serde(with = "clickhouse::serde::uuid::option")]
    client_id: Option<Uuid>,
    #[serde(with = "clickhouse::serde::uuid::option")]
    entry_id: Option<Uuid>,
    payload_hash: Option<[u8; 32]>,
    received_ms: i64,
    request_id: String,
    client_address: String,
    kind_text: String,
    request_signature: Option<String>,
    origin_text: String,
    raw_bytes: u64,
    fingerprint: [u8; 32],
    counted: u32,
}

#[derive(Row, Deserialize)]
struct RawRow {
    position: u128,
    raw: Bytes,
}

/// A `String` column that needn't be text.
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Any)
    }
}

impl RejectedFilter {
    fn condition(&self) -> String {
        let mut condition = "received_at >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
            AND received_at < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')"
            .to_owned();
        for (wanted, text) in [
            (!self.reasons.is_empty(), " AND reason IN {reasons:Array(String)}"),
            (self.client_id.is_some(), " AND client_id = {client_id:UUID}"),
            (self.receipt_id.is_some(), " AND receipt_id = {receipt_id:UUID}"),
            (self.position.is_some(), " AND position = {position:UInt128}"),
        ] {
            if wanted {
                condition.push_str(text);
            }
        }
        let scope = self.scope();
        if !scope.is_empty() {
            condition = format!("{} AND {condition}", scope.condition());
        }
        condition
    }

    fn scope(&self) -> QueryScope {
        QueryScope {
            publishers: self.publishers.clone(),
            below: self.below.clone(),
        }
    }

    /// A call with the parameters of [`condition`](Self::condition) bound.
    fn call(&self, sql: String) -> SqlStatement {
        let time = |ms: Option<i64>, otherwise| ms.unwrap_or(otherwise).clamp(TIME_MS_MIN, TIME_MS_MAX);
        let mut call = SqlStatement::new(sql)
            .with("from_ms", time(self.from_ms, TIME_MS_MIN))
            .with("to_ms", time(self.to_ms, TIME_MS_MAX))
            .slow();
        if !self.reasons.is_empty() {
            call = call.with("reasons", self.reasons.clone());
        }
        let scope = self.scope();
        if !scope.is_empty() {
            call = scope.bind(call);
        }
        if let Some(client_id) = self.client_id {
            call = call.with("client_id", client_id.to_string());
        }
        if let Some(receipt_id) = self.receipt_id {
            call = call.with("receipt_id", receipt_id.to_string());
        }
        if let Some(position) = self.position {
            call = call.with("position", position);
        }
        call
    }
}

impl Warehouse {
    /// Number of rejected receipts.
    pub async fn rejected_count(&self, filter: &RejectedFilter) -> Result<u64, WarehouseError> {
        let condition = filter.condition();
        let sql = format!("SELECT sum(receipts) FROM rejected FINAL WHERE {condition} {REJECTED_SETTINGS}");
        self.one("rejected_count", filter.call(sql)).await
    }

    /// At most `rows_max` of them that come after `after`, in `order`: only where they stand.
    pub async fn rejected_keys(
        &self,
        filter: &RejectedFilter,
        order: RejectedOrder,
        after: Option<&RejectedCursor>,
        rows_max: u64,
    ) -> Result<Vec<RejectedCursor>, WarehouseError> {
        const AFTER_MS: &str = "fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')";
        let mut condition = filter.condition();
        if after.is_some() {
            condition.push_str(&match order {
                RejectedOrder::Newest => format!(
                    " AND (received_at < {AFTER_MS} OR received_at = {AFTER_MS} AND position < {{after_position:UInt128}})"
                ),
                // Spelled out, so that the primary key cuts it.
                RejectedOrder::Stored => format!(
                    " AND (reverse(publisher) > reverse({{after_publisher:String}}) OR publisher = {{after_publisher:String}}
                        AND (received_at > {AFTER_MS} OR received_at = {AFTER_MS} AND position > {{after_position:UInt128}}))"
                ),
            });
        }
        let order_by = match order {
            RejectedOrder::Newest => "received_at DESC, position DESC",
            RejectedOrder::Stored => "reverse(publisher), received_at, position",
        };
        let sql = format!(
            "SELECT publisher, toUnixTimestamp64Milli(received_at) AS received_at_ms, position
             FROM rejected FINAL WHERE {condition}
             ORDER BY {order_by} LIMIT {{rows_max:UInt64}} {REJECTED_SETTINGS}"
        );
        let mut call = filter.call(sql).with("rows_max", rows_max);
        if let Some(after) = after {
            call = call
                .with("after_ms", after.received_at_ms)
                .with("after_position", after.position);
            if order == RejectedOrder::Stored {
                call = call.with("after_publisher", after.publisher.clone());
            }
        }
        self.rows("rejected_keys", call).await
    }

    /// Returns the rejected receipts at `keys`, in that order, without their bytes. One that is
    /// gone since is left out.
    pub async fn rejected(&self, keys: &[RejectedCursor]) -> Result<Vec<Rejected>, WarehouseError> {
        let sql = "SELECT position, toString(reason) AS reason_text, detail, publisher, receipt_id, client_id, entry_id,
                payload_hash, toUnixTimestamp64Milli(received_at) AS received_ms, request_id, client_address,
                toString(kind) AS kind_text, request_signature, toString(origin) AS origin_text, length(raw) AS raw_bytes,
                CAST(key_fingerprint AS FixedString(32)) AS fingerprint, receipts AS counted";
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(NAMED_MAX) {
            let rows: Vec<RejectedListRow> = self.rows("rejected", at(keys, sql)).await?;
            let mut found: HashMap<u128, Rejected> =
                rows.into_iter().map(|row| (row.position, rejected(row))).collect();
            all.extend(keys.iter().filter_map(|key| found.remove(&key.position)));
        }
        Ok(all)
    }

    /// The bytes of those that stand at `keys`, by position.
    pub async fn rejected_raw(&self, keys: &[RejectedCursor]) -> Result<HashMap<u128, Vec<u8>>, WarehouseError> {
        let mut all = HashMap::with_capacity(keys.len());
        for keys in keys.chunks(NAMED_MAX) {
            let rows: Vec<RawRow> = self.rows("rejected_raw", at(keys, "SELECT position, raw")).await?;
            all.extend(rows.into_iter().map(|row| (row.position, row.raw.0)));
        }
        Ok(all)
    }

    /// The rejected receipts from `first` to `last`, both inclusive, in log order.
    pub async fn standing_rejections(&self, first: u128, last: u128) -> Result<Vec<StandingRejection>, WarehouseError> {
        let sql = format!(
            "SELECT position, toBool(origin = 'record' AND kind = 'batch') AS whole_batch,
                toBool(reason IN ('{REFUSED_BY_WAREHOUSE}', '{}')) AS passes_now, receipts
             FROM rejected FINAL WHERE position >= {{first:UInt128}} AND position <= {{last:UInt128}}
             ORDER BY position {REJECTED_SETTINGS}",
            REFUSED_BY_POLICY.join("', '")
        );
        let call = SqlStatement::new(sql).with("first", first).with("last", last).slow();
        self.rows("standing_rejections", call).await
    }
}

/// A call over the rows at `keys`. The ranges of publishers and times are for the primary key.
fn at(keys: &[RejectedCursor], select: &str) -> SqlStatement {
    let times = || keys.iter().map(|key| key.received_at_ms);
    let reversed = || keys.iter().map(|key| reversed_name(&key.publisher));
    let sql = format!(
        "{select} FROM rejected FINAL
         WHERE reverse(publisher) >= {{reversed_min:String}} AND reverse(publisher) <= {{reversed_max:String}}
            AND received_at >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC')
            AND received_at <= fromUnixTimestamp64Milli({{to_ms:Int64}}, 'UTC')
            AND position IN {{positions:Array(UInt128)}} {REJECTED_SETTINGS}"
    );
    SqlStatement::new(sql)
        .with("reversed_min", reversed().min().unwrap_or_default())
        .with("reversed_max", reversed().max().unwrap_or_default())
        .with("from_ms", times().min().unwrap_or_default())
        .with("to_ms", times().max().unwrap_or_default())
        .with("positions", keys.iter().map(|key| key.position).collect::<Vec<_>>())
        .slow()
}

fn rejected(row: RejectedListRow) -> Rejected {
    Rejected {
        position: row.position,
        reason: row.reason_text,
        detail: row.detail,
        publisher: row.publisher,
        receipt_id: row.receipt_id,
        client_id: row.client_id,
        entry_id: row.entry_id,
        payload_hash: row.payload_hash,
        received_at_ms: row.received_ms,
        request_id: row.request_id,
        client_address: row.client_address,
        kind: row.kind_text,
        request_signature: row.request_signature,
        origin: row.origin_text,
        raw_bytes: row.raw_bytes,
        key_fingerprint: Some(row.fingerprint).filter(|fingerprint| *fingerprint != [0; 32]),
        receipts: row.counted,
    }
}
