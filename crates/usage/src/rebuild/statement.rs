//! SQL of the differences between `usage` and `receipts`: rows of `usage` to insert.

use warehouse::{FINAL_SETTINGS, OPERATOR, VERIFIED};

use crate::Grain;

/// Columns of a key, but the revision.
const KEY_COLUMNS: &str = "grain, publisher, time, entry_id, half_hour, key, client_id, purpose, model_id, \
    client_name, organization, client_version, url, operator, key_fingerprint, verified";
const NO_KEY: &str = "toFixedString('', 32)";
const NIL: &str = "toUUID('00000000-0000-0000-0000-000000000000')";
const RECEIPTS_OF_DAY: &str =
    "timestamp >= toDateTime64({day:UInt32}, 3, 'UTC') AND timestamp < toDateTime64({end:UInt32}, 3, 'UTC')";
const COUNTED_OF_DAY: &str =
    "grain = 'counted' AND reverse(publisher) = '' AND time >= {day:UInt32} AND time < {end:UInt32}";
const KEY: &str = "toUnixTimestamp(timestamp), toFixedString(substring(payload_hash, 1, 16), 16)";

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
    let columns = format!("{KEY_COLUMNS}, revision, receipts, first_ms, last_ms");
    format!("INSERT INTO usage ({columns}) SELECT {columns} FROM ({changes}) WHERE {{fence}}\n{FINAL_SETTINGS}")
}

/// Rows that replace those of keys whose sum or times differ: the stored ones are compensated, and
/// the right one has the next revision. So replaced times take no part in any minimum or maximum.
fn contributions() -> String {
    let (first, last) = (i64::MAX, i64::MIN + 1);
    let keys = KEY_COLUMNS;
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
                SELECT toString(grain), publisher, time, entry_id, half_hour, key, client_id, toString(purpose),
                    model_id, toString(client_name), toString(organization), toString(client_version), url,
                    toString(operator), CAST(key_fingerprint AS FixedString(32)), verified, toInt64(0), toInt64({first}), toInt64({last}), revision, sum(receipts), min(first_ms),
                    max(last_ms), true
                FROM usage
                WHERE grain IN ({aggregates}) AND reverse(publisher) = reverse({{publisher:String}})
                    AND time >= {{day:UInt32}} AND time < {{end:UInt32}}
                GROUP BY grain, {keys}, revision)
            GROUP BY {keys}
            HAVING wanted_sum != arraySum(one -> one.2, counting) OR wanted_sum != 0
                AND (first, last) != (arrayMin(one -> one.3, counting), arrayMax(one -> one.4, counting)))
        ARRAY JOIN arrayConcat(compensating, replacing) AS change",
        of_receipts = contributions_of_receipts(),
        aggregates = aggregates(),
    )
}

/// Contributions of a publisher's receipts of a day: a row of each receipt and grain.
fn contributions_of_receipts() -> String {
    format!(
        "SELECT grain, {{publisher:String}} AS publisher,
            if(grain = 'purpose', second - second % 1800, {{day:UInt32}}) AS time,
            if(grain IN ('all', 'entry'), of_entry, {NIL}) AS entry_id,
            toUInt8(if(grain = 'all', intDiv(second - {{day:UInt32}}, 1800), 0)) AS half_hour,
            toFixedString('', 16) AS key,
            if(grain IN ('all', 'client'), of_client, {NIL}) AS client_id,
            if(grain = 'entry', '', for_purpose) AS purpose,
            if(grain IN ('all', 'client'), for_model, '') AS model_id,
            if(grain = 'client', of_name, '') AS client_name,
            if(grain = 'client', of_organization, '') AS organization,
            if(grain = 'client', of_version, '') AS client_version,
            if(grain = 'entry', of_url, '') AS url, of_operator AS operator,
            if(grain IN ('all', 'client'), of_key, {NO_KEY}) AS key_fingerprint, of_verified AS verified, at_ms
        FROM (
            SELECT toUnixTimestamp(timestamp) AS second, toUnixTimestamp64Milli(timestamp) AS at_ms,
                entry_id AS of_entry, client_id AS of_client, toString(purpose) AS for_purpose,
                model_id AS for_model, toString(client_name) AS of_name,
                toString(organization) AS of_organization, toString(client_version) AS of_version, url AS of_url,
                {OPERATOR} AS of_operator, CAST(key_fingerprint AS FixedString(32)) AS of_key, {VERIFIED} AS of_verified
            FROM receipts FINAL WHERE reverse(publisher) = reverse({{publisher:String}}) AND {RECEIPTS_OF_DAY})
        ARRAY JOIN [{aggregates}] AS grain",
        aggregates = aggregates(),
    )
}

/// Counted rows of receipts that aren't counted, or are counted more than once.
fn counted_keys() -> String {
    let of_receipts =
        format!("FROM receipts WHERE reverse(publisher) = reverse({{publisher:String}}) AND {RECEIPTS_OF_DAY}");
    format!(
        "SELECT 'counted', '', time, {NIL}, toUInt8(0), key, {NIL}, '', '', '', '', '', '', '', {NO_KEY}, false, toUInt32(0),
            max(expected) - sum(stored) AS receipts, toInt64(0), toInt64(0)
        FROM (
            SELECT toUnixTimestamp(timestamp) AS time, toFixedString(substring(payload_hash, 1, 16), 16) AS key,
                toInt64(1) AS expected, toInt64(0) AS stored {of_receipts}
            UNION ALL
            SELECT time, key, toInt64(0), receipts FROM usage
            WHERE {COUNTED_OF_DAY} AND (time, key) IN (SELECT {KEY} {of_receipts}))
        GROUP BY time, key HAVING receipts != 0"
    )
}

/// Counted keys of a day without a receipt, as rows that remove them.
pub(super) fn orphaned_keys() -> String {
    format!(
        "SELECT 'counted' AS grain, '' AS publisher, time, {NIL} AS entry_id, toUInt8(0) AS half_hour, key,
            {NIL} AS client_id, '' AS purpose, '' AS model_id, '' AS client_name, '' AS organization,
            '' AS client_version, '' AS url, '' AS operator, {NO_KEY} AS key_fingerprint, false AS verified,
            toUInt32(0) AS revision, -sum(stored) AS receipts,
            toInt64(0) AS first_ms, toInt64(0) AS last_ms
        FROM (
            SELECT time, key, receipts AS stored FROM usage
            WHERE {COUNTED_OF_DAY} AND (time, key) NOT IN (SELECT {KEY} FROM receipts WHERE {RECEIPTS_OF_DAY}))
        GROUP BY time, key HAVING receipts != 0"
    )
}
