//! SQL of the differences between `usage` and `receipts`: rows of `usage` to insert.

use warehouse::FINAL_SETTINGS;

use crate::Grain;
use crate::key_column::{KEY, KeyColumn, columns, names};

const RECEIPTS_OF_DAY: &str =
    "timestamp >= toDateTime64({day:UInt32}, 3, 'UTC') AND timestamp < toDateTime64({end:UInt32}, 3, 'UTC')";
const COUNTED_OF_DAY: &str =
    "grain = 'counted' AND reverse(publisher) = '' AND time >= {day:UInt32} AND time < {end:UInt32}";
const COUNTED_KEY: &str = "toUnixTimestamp(timestamp), toFixedString(substring(payload_hash, 1, 16), 16)";

/// The grains that add up receipts, as a list of SQL texts.
fn aggregates() -> String {
    Grain::AGGREGATES.map(|grain| format!("'{}'", grain.name())).join(", ")
}

/// Rows that make a publisher's day equal to `receipts`.
pub(super) fn changes() -> String {
    format!("{}\nUNION ALL\n{}", contributions(), counted_keys())
}

/// The number of rows of a difference.
pub(super) fn counting(changes: &str) -> String {
    format!("SELECT count() FROM ({changes})\n{FINAL_SETTINGS}")
}

/// The insert of a difference.
pub(super) fn inserting(changes: &str) -> String {
    let columns = format!("grain, {}, revision, receipts, first_ms, last_ms", names("", |_| true));
    format!("INSERT INTO usage ({columns}) SELECT {columns} FROM ({changes}) WHERE {{fence}}\n{FINAL_SETTINGS}")
}

/// Rows that replace those of keys whose sum or times differ: the stored ones are compensated, and
/// the right one has the next revision. So replaced times take no part in any minimum or maximum.
fn contributions() -> String {
    let (first, last) = (i64::MAX, i64::MIN + 1);
    let keys = format!("grain, {}", names("", |_| true));
    let stored: Vec<String> = KEY.iter().map(KeyColumn::stored).collect();
    format!(
        "SELECT {keys}, change.1 AS revision, change.2 AS receipts, change.3 AS first_ms, change.4 AS last_ms
        FROM (
            SELECT {keys}, sum(wanted) AS wanted_sum, min(wanted_first) AS first, max(wanted_last) AS last,
                groupArrayIf((of_revision, stored, stored_first, stored_last), is_stored) AS all_stored,
                arrayFilter(one -> one.2 != 0, all_stored) AS counting,
                arrayMap(one -> (one.1, -one.2, toInt64({first}), toInt64({last})), counting) AS compensating,
                if(wanted_sum > 0, [(toUInt32(if(empty(all_stored), 0, 1 + arrayMax(one -> one.1, all_stored))),
                    wanted_sum, first, last)], []) AS replacing
            FROM (
                SELECT {keys}, toInt64(count()) AS wanted, min(at_ms) AS wanted_first, max(at_ms) AS wanted_last,
                    toUInt32(0) AS of_revision, toInt64(0) AS stored, toInt64(0) AS stored_first,
                    toInt64(0) AS stored_last, false AS is_stored
                FROM ({of_receipts}) GROUP BY {keys}
                UNION ALL
                SELECT toString(grain), {stored}, toInt64(0), toInt64({first}), toInt64({last}), revision,
                    sum(receipts), min(first_ms), max(last_ms), true
                FROM usage
                WHERE grain IN ({aggregates}) AND reverse(publisher) = reverse({{publisher:String}})
                    AND time >= {{day:UInt32}} AND time < {{end:UInt32}}
                GROUP BY grain, {keys}, revision)
            GROUP BY {keys}
            HAVING wanted_sum != arraySum(one -> one.2, counting) OR wanted_sum != 0
                AND (first, last) != (arrayMin(one -> one.3, counting), arrayMax(one -> one.4, counting)))
        ARRAY JOIN arrayConcat(compensating, replacing) AS change",
        of_receipts = contributions_of_receipts(),
        stored = stored.join(", "),
        aggregates = aggregates(),
    )
}

/// Contributions of a publisher's receipts of a day: a row of each receipt and grain.
fn contributions_of_receipts() -> String {
    let of_receipt: Vec<String> = KEY
        .iter()
        .map(|column| format!("{} AS of_{}", column.of_receipt, column.name))
        .collect();
    format!(
        "SELECT grain, {}, at_ms
        FROM (
            SELECT {}, toUnixTimestamp64Milli(timestamp) AS at_ms
            FROM receipts FINAL WHERE reverse(publisher) = reverse({{publisher:String}}) AND {RECEIPTS_OF_DAY})
        ARRAY JOIN [{}] AS grain",
        columns(KeyColumn::contributed),
        of_receipt.join(", "),
        aggregates(),
    )
}

/// The columns of a counted row.
fn counted() -> String {
    columns(|column| match column.is_in(Grain::Counted) {
        true => column.name.to_owned(),
        false => column.blank.to_owned(),
    })
}

/// Counted rows of receipts that aren't counted, or are counted more than once.
fn counted_keys() -> String {
    let of_receipts =
        format!("FROM receipts WHERE reverse(publisher) = reverse({{publisher:String}}) AND {RECEIPTS_OF_DAY}");
    format!(
        "SELECT 'counted' AS grain, {counted}, toUInt32(0) AS revision,
            max(expected) - sum(stored) AS receipts, toInt64(0) AS first_ms, toInt64(0) AS last_ms
        FROM (
            SELECT toUnixTimestamp(timestamp) AS time, toFixedString(substring(payload_hash, 1, 16), 16) AS key,
                toInt64(1) AS expected, toInt64(0) AS stored {of_receipts}
            UNION ALL
            SELECT time, key, toInt64(0), receipts FROM usage
            WHERE {COUNTED_OF_DAY} AND (time, key) IN (SELECT {COUNTED_KEY} {of_receipts}))
        GROUP BY time, key HAVING receipts != 0",
        counted = counted(),
    )
}

/// Counted keys of a day without a receipt, as rows that remove them.
pub(super) fn orphaned_keys() -> String {
    format!(
        "SELECT 'counted' AS grain, {}, toUInt32(0) AS revision, -sum(stored) AS receipts,
            toInt64(0) AS first_ms, toInt64(0) AS last_ms
        FROM (
            SELECT time, key, receipts AS stored FROM usage
            WHERE {COUNTED_OF_DAY} AND (time, key) NOT IN (SELECT {COUNTED_KEY} FROM receipts WHERE {RECEIPTS_OF_DAY}))
        GROUP BY time, key HAVING receipts != 0",
        counted(),
    )
}
