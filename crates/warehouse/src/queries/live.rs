//! What came since: the receipts whose first place in the log lies between two moments of its commits.
//!
//! Places are offsets, never times: a receipt that comes late, or long after its access, is told when its record is committed, and a
//! receipt that stands in the log twice is told once, however the moments are chosen. For a chain of moments, each receipt is new in
//! exactly one link: it has a position in that link, and none before.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use clickhouse::Row;
use serde::Deserialize;

use super::export::{KEY, REST, ReceiptRow};
use super::{CommittedOffset, ExportedReceipt, FINAL_SETTINGS, Scope};
use crate::client::Call;
use crate::{Warehouse, WarehouseError};

/// Receipts that one question may find.
pub const ARRIVALS_MAX: usize = 1_000;

/// Blocks whose marks one question reads; a block is some hundred milliseconds of a partition.
const MARKS_MAX: usize = 20_000;

const HOUR_S: i64 = 3_600;

/// A moment of the log: how far each partition is committed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LogPlace {
    /// The log's epoch; 0 while nothing is committed.
    pub epoch: u32,
    /// By partition: the first offset that isn't committed; 0 for none.
    pub next: Vec<u64>,
}

impl LogPlace {
    /// That of these commits. All partitions of a log have one epoch; where they don't, the newest counts.
    #[must_use]
    pub fn of(committed: &[CommittedOffset]) -> Self {
        let epoch = committed.iter().map(|made| made.epoch).max().unwrap_or(0);
        let mut next = Vec::new();
        for made in committed.iter().filter(|made| made.epoch == epoch) {
            let Ok(partition) = usize::try_from(made.partition) else {
                continue;
            };
            if next.len() <= partition {
                next.resize(partition + 1, 0);
            }
            next[partition] = made.next_offset;
        }
        Self { epoch, next }
    }

    /// The first offset of `partition` that isn't committed.
    #[must_use]
    pub fn next_of(&self, partition: usize) -> u64 {
        self.next.get(partition).copied().unwrap_or(0)
    }

    /// Whether nothing is committed.
    #[must_use]
    pub fn is_begin(&self) -> bool {
        self.next.iter().all(|next| *next == 0)
    }

    /// Whether everything committed at `earlier` is committed here, in the same life of the log.
    #[must_use]
    pub fn reaches(&self, earlier: &Self) -> bool {
        let same_life = self.epoch == earlier.epoch || earlier.is_begin();
        same_life
            && (0..)
                .zip(&earlier.next)
                .all(|(partition, next)| self.next_of(partition) >= *next)
    }

    /// The offsets of `self` and then of `later`, for all partitions of both.
    fn until(&self, later: &Self) -> (Vec<u64>, Vec<u64>) {
        let all = 0..self.next.len().max(later.next.len());
        all.map(|partition| (self.next_of(partition), later.next_of(partition)))
            .unzip()
    }
}

/// Which hours of access have receipts of a link, by publisher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TouchedHours {
    by_publisher: HashMap<String, BTreeSet<u32>>,
    /// Of publishers that aren't named.
    of_any: BTreeSet<u32>,
}

impl TouchedHours {
    /// The hours, since the epoch, that may have some of `scope`'s.
    #[must_use]
    pub fn hours(&self, scope: &Scope) -> BTreeSet<u32> {
        let mut hours = self.of_any.clone();
        for publisher in &scope.publishers {
            hours.extend(self.by_publisher.get(publisher).into_iter().flatten());
        }
        for below in &scope.below {
            let is_below = |name: &str| {
                let rest = name.strip_suffix(below.parent.as_str());
                rest.is_some_and(|rest| rest.ends_with('.'))
            };
            let theirs = self.by_publisher.iter().filter(|(name, _)| is_below(name));
            hours.extend(theirs.flat_map(|(_, hours)| hours));
        }
        hours
    }

    fn add(&mut self, hour: u32, publisher: String) {
        if publisher.is_empty() {
            self.of_any.insert(hour);
        } else {
            self.by_publisher.entry(publisher).or_default().insert(hour);
        }
    }
}

#[derive(Row, Deserialize)]
struct MarkRow {
    partition: u32,
    first_offset: u64,
    last_offset: u64,
    hours_of: Vec<(u32, String)>,
}

/// Whether an occurrence lies in the link.
const WITHIN: &str = "arrayExists(p -> bitShiftRight(p, 96) = {epoch:UInt32} AND
    toUInt64(bitAnd(bitShiftRight(p, 16), toUInt128(281474976710655))) >=
        {low:Array(UInt64)}[toUInt32(bitAnd(bitShiftRight(p, 64), toUInt128(4294967295))) + 1] AND
    toUInt64(bitAnd(bitShiftRight(p, 16), toUInt128(281474976710655))) <
        {high:Array(UInt64)}[toUInt32(bitAnd(bitShiftRight(p, 64), toUInt128(4294967295))) + 1], positions)";

/// Whether the place `p` lies below what `epoch` and `low`, offsets by partition, say.
pub(crate) const EARLIER: &str = "bitShiftRight(p, 96) < {epoch:UInt32} OR bitShiftRight(p, 96) = {epoch:UInt32} AND
    toUInt64(bitAnd(bitShiftRight(p, 16), toUInt128(281474976710655))) <
        {low:Array(UInt64)}[toUInt32(bitAnd(bitShiftRight(p, 64), toUInt128(4294967295))) + 1]";

/// The primary key's hours, and the months they lie in.
const HOURS: &str = "toStartOfHour(timestamp) IN {hours:Array(DateTime('UTC'))}
    AND timestamp >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND timestamp < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')";

impl Warehouse {
    /// Which hours the records between `from` and `to` touched, which must reach it. `None` if that can't be told: marks of some are
    /// missing (a verifier of before wrote them, or they are older than marks are kept), or there are too many.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn touched(&self, from: &LogPlace, to: &LogPlace) -> Result<Option<TouchedHours>, WarehouseError> {
        let mut moved = Vec::new();
        let (low, high) = from.until(to);
        let mut condition = String::new();
        for (partition, (low, high)) in (0_u32..)
            .zip(low.into_iter().zip(high))
            .filter(|(_, (low, high))| low < high)
        {
            // Numbers; so many parameters would be slower to bind than the question to answer.
            let or = if moved.is_empty() { "" } else { " OR " };
            let _ = write!(
                condition,
                "{or}(partition = {partition} AND last_offset >= {low} AND first_offset < {high})"
            );
            moved.push((partition, low, high));
        }
        if moved.is_empty() {
            return Ok(Some(TouchedHours::default()));
        }
        let sql = format!(
            "SELECT partition, first_offset, last_offset, touched AS hours_of FROM rollup_marks
             WHERE epoch = {{epoch:UInt32}} AND ({condition})
             ORDER BY partition, first_offset, last_offset LIMIT {}",
            MARKS_MAX + 1
        );
        let marks: Vec<MarkRow> = self.rows("live_marks", Call::new(sql).with("epoch", to.epoch)).await?;
        if marks.len() > MARKS_MAX {
            return Ok(None);
        }
        let mut touched = TouchedHours::default();
        let mut covered: HashMap<u32, u64> = moved.iter().map(|(partition, low, _)| (*partition, *low)).collect();
        for mark in marks {
            if let Some(end) = covered.get_mut(&mark.partition)
                && mark.first_offset <= *end
            {
                *end = (*end).max(mark.last_offset + 1);
            }
            mark.hours_of
                .into_iter()
                .for_each(|(hour, name)| touched.add(hour, name));
        }
        let whole = moved
            .iter()
            .all(|(partition, _, high)| covered.get(partition).is_some_and(|end| end >= high));
        Ok(whole.then_some(touched))
    }

    /// The receipts of `scope` that were committed after `from` and up to `to`, which must reach it; newest first as they were
    /// received. `hours` (since the epoch) must name every hour of access that has such receipts: no others are looked at. `None`
    /// if they are more than [`ARRIVALS_MAX`].
    ///
    /// It costs one column of those hours, and then what was found.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn arrivals(
        &self,
        scope: &Scope,
        from: &LogPlace,
        to: &LogPlace,
        hours: &BTreeSet<u32>,
    ) -> Result<Option<Vec<ExportedReceipt>>, WarehouseError> {
        let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
            return Ok(Some(Vec::new()));
        };
        if scope.is_empty() || from == to {
            return Ok(Some(Vec::new()));
        }
        let start_ms = |hour: u32| i64::from(hour) * HOUR_S * 1_000;
        let (low, high) = from.until(to);
        let bound = |sql: String| {
            scope
                .bind(Call::new(sql))
                .with("epoch", to.epoch)
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
        // Unmerged rows: a receipt's other occurrences are looked at below.
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
             WHERE {condition} AND receipt_id IN {{ids:Array(UUID)}} AND {WITHIN}
                AND NOT arrayExists(p -> {EARLIER}, positions)
             ORDER BY received_at DESC, receipt_id, payload_hash LIMIT {} {FINAL_SETTINGS}",
            ARRIVALS_MAX + 1
        );
        let rows: Vec<ReceiptRow> = self.rows("arrivals", bound(sql).with("ids", ids)).await?;
        let found = rows.len() <= ARRIVALS_MAX;
        Ok(found.then(|| rows.into_iter().map(ExportedReceipt::from).collect()))
    }
}
