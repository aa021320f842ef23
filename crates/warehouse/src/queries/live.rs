//! Receipts that are new between two positions of `verdicts`, for live streams.
//!
//! Positions are offsets, never times: a receipt that arrives late, or long after its access, is
//! new when the ledger has its record, and a receipt that occurs twice in the log is new once. Over
//! any chain of positions, each receipt is new in exactly one link: it has an occurrence in that
//! link and none before.
//!
//! Offsets of a partition of `receipts` have the same order in `verdicts`. So a link is a range of
//! offsets per shard and partition, and *before* means below these ranges. Rows that are stored but
//! not yet published lie above them. A receipt and its duplicates are in one shard, so each shard
//! is queried by its own ranges.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use clickhouse::Row;
use serde::Deserialize;

use super::export::{REST, ReceiptRow};
use super::receipt_key::KEY;
use super::{ExportedReceipt, FINAL_SETTINGS, QueryScope};
use crate::{ShardProgress, SqlStatement, Touched, VerdictsPosition, Warehouse, WarehouseError};

/// Receipts that one query may find.
pub const ARRIVALS_MAX: usize = 1_000;

/// Ledger rows of one link. A row is a block, which is some hundred milliseconds of a partition.
const LEDGER_ROWS_MAX: usize = 20_000;

/// Age at which `touched` of a ledger row may have expired: an hour before the column's TTL,
/// because the time is from the writer's clock.
const TOUCHED_HOURS_MAX: u32 = 71;

const HOUR_S: i64 = 3_600;

/// Position of a live stream: the next record of `verdicts`, by shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamPosition(pub BTreeMap<u32, VerdictsPosition>);

impl StreamPosition {
    /// The position that the writers have published.
    #[must_use]
    pub fn new(published: &[ShardProgress]) -> Self {
        Self(published.iter().map(|shard| (shard.shard, shard.verdicts)).collect())
    }

    /// Whether all records before `earlier` are before this position too, in the same logs.
    #[must_use]
    pub fn reaches(&self, earlier: &Self) -> bool {
        let is_reached = |(shard, earlier): (&u32, &VerdictsPosition)| {
            let reached = self.0.get(shard);
            reached.is_some_and(|here| here.epoch == earlier.epoch && here.offset >= earlier.offset)
        };
        earlier.0.iter().all(is_reached)
    }

    /// Whether both are positions in the same logs.
    #[must_use]
    pub fn is_of_log(&self, other: &Self) -> bool {
        let epoch = |(shard, position): (&u32, &VerdictsPosition)| (*shard, position.epoch);
        self.0.iter().map(epoch).eq(other.0.iter().map(epoch))
    }
}

/// Changes by the records of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamChanges {
    /// Hours of publishers that may have new receipts.
    pub touched: Touched,
    /// Offsets of the records.
    pub offsets: NewOffsets,
}

/// New offsets of a link, by shard. Everything below is before the link. The range of a partition
/// without new records is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewOffsets(BTreeMap<u32, PartitionOffsets>);

/// Offsets by epoch and partition of `receipts`.
type PartitionOffsets = BTreeMap<(u32, u32), Range<u64>>;

impl NewOffsets {
    /// Appends the next link.
    pub fn append(&mut self, next: &Self) {
        for (shard, partitions) in &next.0 {
            let of_shard = self.0.entry(*shard).or_default();
            for (partition, offsets) in partitions {
                let joined = of_shard.entry(*partition).or_insert_with(|| offsets.clone());
                joined.end = offsets.end;
            }
        }
    }
}

#[derive(Debug, Row, Deserialize)]
struct LedgerRecord {
    shard: u32,
    epoch: u32,
    partition: u32,
    first_offset: u64,
    last_offset: u64,
    may_have_expired: bool,
    touched: Vec<(u32, String)>,
}

/// The offset of the occurrence `p`.
macro_rules! offset {
    () => {
        "toUInt64(bitAnd(bitShiftRight(p, 16), toUInt128(281474976710655)))"
    };
}

/// The index of `p`'s partition in the parameters; 1 for a partition that isn't among them.
macro_rules! partition {
    () => {
        "[indexOf({partitions:Array(UInt64)}, toUInt64(bitShiftRight(p, 64))) + 1]"
    };
}

/// Whether an occurrence lies in the link.
const WITHIN: &str = concat!(
    "arrayExists(p -> ",
    offset!(),
    " >= {low:Array(UInt64)}",
    partition!(),
    " AND ",
    offset!(),
    " < {high:Array(UInt64)}",
    partition!(),
    ", positions)"
);

/// Whether an occurrence lies before the link.
const BEFORE: &str = concat!(
    "arrayExists(p -> ",
    offset!(),
    " < {low:Array(UInt64)}",
    partition!(),
    ", positions)"
);

/// The primary key's hours, and the months they lie in.
const HOURS: &str = "toStartOfHour(timestamp) IN {hours:Array(DateTime('UTC'))}
    AND timestamp >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')";

impl Warehouse {
    /// Changes by the records between `from` and the published position `to`. `None` if they can't
    /// be determined: `from` is a position of another log or isn't reached, or ledger rows are
    /// missing, so old that their `touched` has expired, or too many.
    ///
    /// Missing rows are noticed if the link has other rows of their partition.
    pub async fn touched(
        &self,
        from: &StreamPosition,
        to: &[ShardProgress],
    ) -> Result<Option<StreamChanges>, WarehouseError> {
        if !StreamPosition::new(to).reaches(from) {
            return Ok(None);
        }
        let ranges = to.iter().filter_map(|shard| {
            let VerdictsPosition { epoch, offset: end } = shard.verdicts;
            let start = from.0.get(&shard.shard).map_or(0, |position| position.offset);
            // Numbers, one condition per shard.
            let condition = format!(
                "(shard = {} AND verdicts_epoch = {epoch} AND verdicts_offset >= {start} AND verdicts_offset < {end})",
                shard.shard
            );
            (start < end).then_some(condition)
        });
        let condition = ranges.collect::<Vec<_>>().join(" OR ");
        let mut records: Vec<LedgerRecord> = Vec::new();
        if !condition.is_empty() {
            let sql = format!(
                "SELECT shard, epoch, partition, first_offset, last_offset,
                    toBool(committed_at < now64(3) - INTERVAL {TOUCHED_HOURS_MAX} HOUR) AS may_have_expired,
                    touched
                 FROM ledger WHERE {condition} LIMIT {}",
                LEDGER_ROWS_MAX + 1
            );
            records = self.rows("live_ledger", SqlStatement::new(sql)).await?;
        }
        if records.len() > LEDGER_ROWS_MAX || records.iter().any(|record| record.may_have_expired) {
            return Ok(None);
        }
        records.sort_unstable_by_key(|record| record.first_offset);
        let offsets = to
            .iter()
            .map(|shard| Some((shard.shard, new_offsets(&records, shard)?)));
        let Some(offsets) = offsets.collect() else {
            return Ok(None);
        };
        let pairs = records.into_iter().flat_map(|record| record.touched);
        Ok(Some(StreamChanges {
            touched: pairs.collect(),
            offsets: NewOffsets(offsets),
        }))
    }

    /// The receipts of `scope` that are new in `offsets`, newest first as they were received.
    /// `hours` (since the Unix epoch) must contain every hour of access that has such receipts: no
    /// others are read. `None` if they are more than [`ARRIVALS_MAX`].
    ///
    /// Costs one column of those hours, and then what was found.
    pub async fn arrivals(
        &self,
        scope: &QueryScope,
        NewOffsets(offsets): &NewOffsets,
        hours: &BTreeSet<u32>,
    ) -> Result<Option<Vec<ExportedReceipt>>, WarehouseError> {
        let mut found = Vec::new();
        for (shard, offsets) in offsets {
            if scope.is_empty() || hours.is_empty() || offsets.values().all(Range::is_empty) {
                continue;
            }
            match self.shard(*shard)?.arrivals_of_shard(scope, offsets, hours).await? {
                Some(more) if found.len() + more.len() <= ARRIVALS_MAX => found.extend(more),
                _ => return Ok(None),
            }
        }
        found.sort_by_key(|row: &ReceiptRow| std::cmp::Reverse(row.received_ms));
        Ok(Some(found.into_iter().map(ExportedReceipt::from).collect()))
    }

    async fn arrivals_of_shard(
        &self,
        scope: &QueryScope,
        offsets: &PartitionOffsets,
        hours: &BTreeSet<u32>,
    ) -> Result<Option<Vec<ReceiptRow>>, WarehouseError> {
        let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
            return Ok(Some(Vec::new()));
        };
        let start_ms = |hour: u32| i64::from(hour) * HOUR_S * 1_000;
        let partitions: Vec<u64> = offsets.keys().map(partition_number).collect();
        // First the values of a partition of any other epoch: that log has ended, so all its
        // occurrences are before the link.
        let (mut low, mut high) = (vec![u64::MAX], vec![0]);
        low.extend(offsets.values().map(|offsets| offsets.start));
        high.extend(offsets.values().map(|offsets| offsets.end));
        let bound = |sql: String| {
            scope
                .bind(SqlStatement::new(sql))
                .with("partitions", partitions.clone())
                .with("low", low.clone())
                .with("high", high.clone())
                .with(
                    "hours",
                    hours.iter().map(|hour| i64::from(*hour) * HOUR_S).collect::<Vec<_>>(),
                )
                .with("from_ms", start_ms(*first))
                .with("to_ms", start_ms(last.saturating_add(1)))
        };
        let condition = format!("{} AND {HOURS}", scope.condition());
        // Unmerged rows: other occurrences of a receipt are read below.
        let sql = format!(
            "SELECT DISTINCT toString(receipt_id) FROM receipts PREWHERE {condition} AND {WITHIN} LIMIT {}",
            ARRIVALS_MAX + 1
        );
        let ids: Vec<String> = self.rows("arrivals_ids", bound(sql)).await?;
        if ids.is_empty() {
            return Ok(Some(Vec::new()));
        }
        if ids.len() > ARRIVALS_MAX {
            return Ok(None);
        }
        // Over members of the key, so that it is decided before the merge.
        let sql = format!(
            "SELECT {KEY}, {REST} FROM receipts FINAL
             WHERE {condition} AND receipt_id IN {{ids:Array(UUID)}} AND {WITHIN} AND NOT {BEFORE}
             ORDER BY received_at DESC, receipt_id, payload_hash LIMIT {} {FINAL_SETTINGS}",
            ARRIVALS_MAX + 1
        );
        let rows: Vec<ReceiptRow> = self.rows("arrivals", bound(sql).with("ids", ids)).await?;
        Ok(Some(rows).filter(|rows| rows.len() <= ARRIVALS_MAX))
    }
}

/// Epoch and partition in one number: the high half of a position.
fn partition_number(&(epoch, partition): &(u32, u32)) -> u64 {
    (u64::from(epoch) << 32) | u64::from(partition)
}

/// The new offsets of a shard in a link, from the link's ledger rows in order of their offsets and
/// the progress at its end. `None` if rows are missing.
fn new_offsets(records: &[LedgerRecord], shard: &ShardProgress) -> Option<PartitionOffsets> {
    // A partition that isn't published yet may have stored rows: none of them is before the link.
    let epochs = shard.partitions.iter().map(|one| one.epoch);
    let mut offsets: BTreeMap<_, _> = epochs
        .flat_map(|epoch| (0..shard.source_partitions).map(move |partition| ((epoch, partition), 0..0)))
        .collect();
    for one in &shard.partitions {
        offsets.insert((one.epoch, one.partition), one.next_offset..one.next_offset);
    }
    let mut seen = BTreeSet::new();
    for record in records.iter().filter(|record| record.shard == shard.shard) {
        let partition = (record.epoch, record.partition);
        if !seen.insert(partition) {
            continue;
        }
        let end = covered(records, shard.shard, partition, record.first_offset);
        let published = offsets.entry(partition).or_insert(end..end);
        if end != published.end {
            return None;
        }
        published.start = record.first_offset;
    }
    Some(offsets)
}

/// The offset up to which a shard's rows cover a partition without a gap, from `start` on.
fn covered(records: &[LedgerRecord], shard: u32, partition: (u32, u32), start: u64) -> u64 {
    let of_partition = records
        .iter()
        .filter(|record| record.shard == shard && (record.epoch, record.partition) == partition);
    of_partition.fold(start, |end, record| match record.first_offset <= end {
        true => end.max(record.last_offset + 1),
        false => end,
    })
}
