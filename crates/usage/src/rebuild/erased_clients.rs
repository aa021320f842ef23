//! Clients whose names were erased from `receipts`: what of them is left in `usage`.
//!
//! A rebuild compensates rows with their names. Sums are then 0, so no answer has them; a merge and
//! a deletion remove the bytes.

use warehouse::{FINAL_SETTINGS, OPERATOR, QueryScope, SqlStatement, WarehouseError};

use super::requests::end_of_days;
use crate::Usage;
use crate::calendar::{DAY_S, day_of};
use crate::key_column::names;

/// Columns that identify a client, and that some of them aren't blank.
const NAMES: &str = "client_id, client_name, organization, client_version, operator, key_fingerprint";
const NAMED: &str = "(client_id != toUUID('00000000-0000-0000-0000-000000000000') OR client_name != ''
    OR organization != '' OR client_version != '' OR operator != ''
    OR key_fingerprint != toFixedString('', 32))";

/// Columns of an aggregate's key, but the revision.
fn keys() -> String {
    format!("grain, {}", names("", |column| column.name != "key"))
}

impl Usage {
    /// Number of aggregates of a scope that still have clients whose receipts of accesses before
    /// `before_ms` were erased. Earlier days must have none; on the day itself and later, they are
    /// compared with `receipts`.
    pub async fn clients_left(&self, scope: &QueryScope, before_ms: i64) -> Result<u64, WarehouseError> {
        let (keys, condition) = (keys(), scope.condition());
        let earlier = format!(
            "SELECT count() FROM (
                SELECT {keys} FROM usage
                WHERE grain != 'counted' AND time < {{day:UInt32}} AND {condition} AND {NAMED}
                GROUP BY {keys} HAVING sum(receipts) > 0)"
        );
        // Receipts are inserted first, so what is being counted has none too many.
        let later = format!(
            "SELECT count() FROM (
                SELECT publisher, day, {NAMES} FROM (
                    SELECT publisher, time AS day, client_id, toString(client_name) AS client_name,
                        toString(organization) AS organization, toString(client_version) AS client_version,
                        toString(operator) AS operator, CAST(key_fingerprint AS FixedString(32)) AS key_fingerprint,
                        receipts AS more
                    FROM usage
                    WHERE grain = 'client' AND time >= {{day:UInt32}} AND time < {{end:UInt32}} AND {condition}
                    UNION ALL
                    SELECT publisher, toUInt32(toUnixTimestamp(timestamp) - toUnixTimestamp(timestamp) % {DAY_S}),
                        client_id, toString(client_name), toString(organization), toString(client_version),
                        {OPERATOR}, CAST(key_fingerprint AS FixedString(32)), toInt64(-1)
                    FROM receipts FINAL
                    WHERE timestamp >= toDateTime64({{day:UInt32}}, 3, 'UTC')
                        AND timestamp < toDateTime64({{end:UInt32}}, 3, 'UTC') AND {condition})
                WHERE {NAMED} GROUP BY publisher, day, {NAMES} HAVING sum(more) > 0)
             {FINAL_SETTINGS}"
        );
        let end = end_of_days(before_ms);
        let before_s = u32::try_from(before_ms.div_euclid(1_000).clamp(0, i64::from(end) - 1)).unwrap_or(0);
        let mut left = 0;
        for sql in [earlier, later] {
            let call = SqlStatement::new(sql).slow().with("day", day_of(before_s));
            let call = scope.bind(call).with("end", end);
            let count: u64 = self.warehouse.one("usage_clients_left", call).await?;
            left += count;
        }
        Ok(left)
    }

    /// Number of compensated aggregates of a scope with names of clients in the table's files.
    pub async fn compensated_left(&self, scope: &QueryScope) -> Result<u64, WarehouseError> {
        let sql = format!("SELECT count() FROM ({})", compensated(scope));
        let call = scope.bind(SqlStatement::new(sql).slow());
        self.warehouse.one("usage_compensated_left", call).await
    }

    /// Removes compensated aggregates of a scope from the table's files: merges the months that
    /// have some and deletes rows without receipts. Slow: each of these months is written twice.
    /// The old files are gone some minutes later.
    pub async fn remove_compensated(&self, scope: &QueryScope) -> Result<(), WarehouseError> {
        let sql = format!(
            "SELECT DISTINCT toYYYYMM(toDateTime(time, 'UTC')) AS month FROM ({}) ORDER BY month",
            compensated(scope)
        );
        // A shard without the month has no partition to merge.
        for shard in self.warehouse.shards() {
            let call = scope.bind(SqlStatement::new(sql.clone()).slow());
            let months: Vec<u32> = shard.rows("usage_compensated_months", call).await?;
            for month in months {
                shard.delete_compensated(month).await?;
            }
        }
        Ok(())
    }
}

/// Keys with names whose sums are 0.
fn compensated(scope: &QueryScope) -> String {
    let keys = keys();
    format!(
        "SELECT {keys} FROM usage WHERE grain != 'counted' AND {} AND {NAMED}
         GROUP BY {keys}, revision HAVING sum(receipts) = 0",
        scope.condition()
    )
}
