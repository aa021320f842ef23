//! Outcomes of a sender's receipts, by the key that made the verified signature of its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::{FINAL_SETTINGS, VERIFIED};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Occurrences of a key's accepted receipts that one page covers: each is compared with the others
/// of its ID.
const OCCURRENCES_MAX: usize = 1_000;

/// A condition over the key's column.
pub(super) const OF_KEY: &str = "key_fingerprint = toFixedString(unhex({key_fingerprint:String}), 32)";

/// The positions of a receipt at which a signature of the request or batch binds it to its sender.
/// In time proportional to their number: whoever has a receipt can deliver it any number of times.
pub(super) const SIGNED_POSITIONS: &str = "if(empty(unsigned_positions), positions, arrayFilter(
    (one, nth) -> nth = 1, positions,
    arraySlice(arrayEnumerateUniq(arrayConcat(unsigned_positions, positions)), length(unsigned_positions) + 1)))";

/// A condition over `position`, which [`LogRanges::bind`] fills.
const IN_RANGES: &str = "arrayExists((first, end) -> position >= toUInt128(first) AND position < toUInt128(end),
    {firsts:Array(String)}, {ends:Array(String)})";

/// Ranges of positions in the log `receipts`, at most one of each partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogRanges(pub Vec<Range<u128>>);

impl LogRanges {
    fn bind(&self, call: SqlStatement) -> SqlStatement {
        let texts = |position: fn(&Range<u128>) -> u128| -> Vec<String> {
            self.0.iter().map(|range| position(range).to_string()).collect()
        };
        call.with("firsts", texts(|range| range.start))
            .with("ends", texts(|range| range.end))
    }

    /// The least offset and index of the ranges: the low 64 bits of a position, which an index of
    /// the table covers.
    fn least_offset(&self) -> u64 {
        // The low 64 bits are what is wanted.
        #[allow(clippy::cast_possible_truncation)]
        let low = |range: &Range<u128>| range.start as u64;
        self.0.iter().map(low).min().unwrap_or(0)
    }
}

/// The outcome of one occurrence that isn't simply counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderOutcome {
    /// The receipt was rejected.
    Rejected {
        /// The reason, one of `receipt::RejectReason`.
        reason: String,
        /// Finding in detail.
        detail: String,
        /// The request's ID.
        request_id: String,
        /// When the gateway took it, milliseconds since the Unix epoch.
        received_at_ms: i64,
        /// Receipts that it counts; several only where they are beyond what is stored of a key.
        receipts: u32,
    },
    /// The payload occurred before.
    Duplicate,
    /// Another payload of the key has the same ID, and occurred before.
    Conflict,
    /// The receipt was accepted, and belonged to no verified domain when it arrived.
    Unattributed,
}

/// An occurrence in the log `receipts` and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderOccurrence {
    /// Position in the log.
    pub position: u128,
    /// `receiptId`, where it could be read.
    pub receipt_id: Option<Uuid>,
    /// The outcome.
    pub outcome: SenderOutcome,
}

/// A page of outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SenderPage {
    /// In order of position.
    pub occurrences: Vec<SenderOccurrence>,
    /// The position at which the page ends, if it doesn't cover the ranges.
    pub next: Option<u128>,
    /// Whether the key has receipts in the ranges, whatever their outcomes.
    pub has_receipts: bool,
}

/// Rejections of a key by reason, most first, and the newest one of each.
#[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
pub struct ReasonSummary {
    /// The reason.
    pub reason_text: String,
    /// Receipts rejected for it.
    pub receipts: u64,
    /// `receiptId` of the newest, where it could be read.
    #[serde(with = "clickhouse::serde::uuid::option")]
    pub newest_id: Option<Uuid>,
    /// Finding of the newest.
    pub newest_detail: String,
    /// When the gateway took the newest, milliseconds since the Unix epoch.
    pub newest_ms: i64,
}

#[derive(Row, Deserialize)]
struct SenderRejectionRow {
    position: u128,
    reason_text: String,
    detail: String,
    #[serde(with = "clickhouse::serde::uuid::option")]
    receipt_id: Option<Uuid>,
    received_ms: i64,
    request_id: String,
    receipts: u32,
}

#[derive(Row, Deserialize)]
struct OccurrenceRow {
    position: u128,
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    hash: [u8; 32],
    verified: bool,
}

#[derive(Row, Deserialize)]
struct FirstRow {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    hash: [u8; 32],
    first_position: u128,
}

impl Warehouse {
    /// At most `limit` outcomes of a key within ranges of the log, in order of position.
    pub async fn sender_outcomes(
        &self,
        key: &[u8; 32],
        ranges: &LogRanges,
        limit: u32,
    ) -> Result<SenderPage, WarehouseError> {
        if ranges.0.is_empty() {
            return Ok(SenderPage::default());
        }
        let accepted = self.sender_accepted(key, ranges).await?;
        let rejected = self.sender_rejections(key, ranges, limit).await?;
        let has_receipts = accepted.has_receipts || !rejected.is_empty();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        // As many as requested: there may be more behind the last one.
        let rejected_end = rejected.get(limit.saturating_sub(1)).map(|last| last.position + 1);
        let end = [accepted.next, rejected_end].into_iter().flatten().min();
        let mut occurrences: Vec<_> = accepted.occurrences.into_iter().chain(rejected).collect();
        occurrences.retain(|one| end.is_none_or(|end| one.position < end));
        occurrences.sort_by_key(|one| one.position);
        if occurrences.len() > limit {
            let next = occurrences[limit].position;
            occurrences.truncate(limit);
            return Ok(SenderPage {
                occurrences,
                next: Some(next),
                has_receipts,
            });
        }
        Ok(SenderPage {
            occurrences,
            next: end,
            has_receipts,
        })
    }

    async fn sender_rejections(
        &self,
        key: &[u8; 32],
        ranges: &LogRanges,
        limit: u32,
    ) -> Result<Vec<SenderOccurrence>, WarehouseError> {
        // Without FINAL, so that the index of the key is used; rows of one position are equal, but
        // for what an erasure blanks, which is the key, too.
        let sql = format!(
            "SELECT position, toString(reason) AS reason_text, detail, receipt_id,
                toUnixTimestamp64Milli(received_at) AS received_ms, request_id, receipts
             FROM rejected
             WHERE {OF_KEY} AND {IN_RANGES}
             ORDER BY position LIMIT 1 BY position LIMIT {{limit:UInt32}}"
        );
        let call = ranges.bind(of_key(sql, key)).with("limit", limit);
        let rows: Vec<SenderRejectionRow> = self.rows("sender_rejections", call).await?;
        let occurrence = |row: SenderRejectionRow| SenderOccurrence {
            position: row.position,
            receipt_id: row.receipt_id,
            outcome: SenderOutcome::Rejected {
                reason: row.reason_text,
                detail: row.detail,
                request_id: row.request_id,
                received_at_ms: row.received_ms,
                receipts: row.receipts,
            },
        };
        Ok(rows.into_iter().map(occurrence).collect())
    }

    /// Outcomes of the first accepted occurrences of the ranges. Occurrences that no signature
    /// binds to the key's owner are left out: somebody else delivered them.
    async fn sender_accepted(&self, key: &[u8; 32], ranges: &LogRanges) -> Result<SenderPage, WarehouseError> {
        // Copies that aren't merged yet have positions of their own, so FINAL isn't needed.
        let sql = format!(
            "SELECT position, receipt_id AS id, payload_hash AS hash, {VERIFIED} AS verified
             FROM receipts ARRAY JOIN {SIGNED_POSITIONS} AS position
             WHERE {OF_KEY} AND arrayMax(CAST(positions, 'Array(UInt64)')) >= {{least:UInt64}} AND {IN_RANGES}
             ORDER BY position LIMIT 1 BY position LIMIT {{limit:UInt32}}"
        );
        let limit = u32::try_from(OCCURRENCES_MAX).unwrap_or(u32::MAX);
        let call = ranges.bind(of_key(sql, key)).with("limit", limit);
        let call = call.with("least", ranges.least_offset());
        let rows: Vec<OccurrenceRow> = self.rows("sender_occurrences", call).await?;
        let next = rows.get(OCCURRENCES_MAX - 1).map(|last| last.position + 1);
        let has_receipts = !rows.is_empty();
        let firsts = self.first_positions(key, &rows).await?;
        let occurrence = |row: OccurrenceRow| {
            let of_id = firsts.get(&row.id)?;
            let outcome = if of_id.get(&row.hash).is_some_and(|first| *first < row.position) {
                SenderOutcome::Duplicate
            } else if of_id
                .iter()
                .any(|(hash, first)| *hash != row.hash && *first < row.position)
            {
                SenderOutcome::Conflict
            } else if !row.verified {
                SenderOutcome::Unattributed
            } else {
                return None;
            };
            Some(SenderOccurrence {
                position: row.position,
                receipt_id: Some(row.id),
                outcome,
            })
        };
        Ok(SenderPage {
            occurrences: rows.into_iter().filter_map(occurrence).collect(),
            next,
            has_receipts,
        })
    }

    /// The first signed position of each payload of the key under the IDs of these rows.
    async fn first_positions(
        &self,
        key: &[u8; 32],
        rows: &[OccurrenceRow],
    ) -> Result<BTreeMap<Uuid, BTreeMap<[u8; 32], u128>>, WarehouseError> {
        let ids: BTreeSet<String> = rows.iter().map(|row| row.id.to_string()).collect();
        let mut firsts: BTreeMap<Uuid, BTreeMap<_, _>> = BTreeMap::new();
        if ids.is_empty() {
            return Ok(firsts);
        }
        let sql = format!(
            "SELECT receipt_id AS id, payload_hash AS hash, arrayMin({SIGNED_POSITIONS}) AS first_position
             FROM receipts FINAL
             WHERE receipt_id IN (SELECT toUUID(arrayJoin({{ids:Array(String)}}))) AND {OF_KEY}
                AND length(positions) > length(unsigned_positions) {FINAL_SETTINGS}"
        );
        let call = of_key(sql, key).with("ids", ids.into_iter().collect::<Vec<_>>());
        let found: Vec<FirstRow> = self.rows("sender_firsts", call).await?;
        for row in found {
            firsts.entry(row.id).or_default().insert(row.hash, row.first_position);
        }
        Ok(firsts)
    }

    /// Rejections of a key since an instant, by reason.
    pub async fn sender_reasons(&self, key: &[u8; 32], from_ms: i64) -> Result<Vec<ReasonSummary>, WarehouseError> {
        let sql = format!(
            "SELECT toString(reason) AS reason_text, sum(counted) AS receipts,
                argMax(tuple(receipt_id), position).1 AS newest_id, argMax(detail, position) AS newest_detail,
                toUnixTimestamp64Milli(argMax(received_at, position)) AS newest_ms
             FROM (
                SELECT position, reason, receipt_id, detail, received_at, receipts AS counted FROM rejected
                WHERE {OF_KEY} AND received_at >= fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC')
                LIMIT 1 BY position)
             GROUP BY reason_text ORDER BY receipts DESC, reason_text"
        );
        self.rows("sender_reasons", of_key(sql, key).with("from_ms", from_ms))
            .await
    }
}

/// A call with the parameter of [`OF_KEY`] bound.
pub(super) fn of_key(sql: String, key: &[u8; 32]) -> SqlStatement {
    bind_key(SqlStatement::new(sql), key)
}

pub(super) fn bind_key(call: SqlStatement, key: &[u8; 32]) -> SqlStatement {
    call.with("key_fingerprint", hex::encode(key))
}
