//! Receipts of a key that belonged to no verified domain when they arrived.

use clickhouse::Row;
use serde::Deserialize;
use warehouse::{SqlStatement, WarehouseError};

use crate::Usage;
use crate::calendar::day_of;

/// A host and a key's receipts that are unattributed.
#[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
pub struct UnattributedHost {
    /// Host of the receipts' URLs.
    pub host: String,
    /// The host's receipts.
    pub receipts: u64,
    /// Receipts of all hosts.
    pub total: u64,
}

impl Usage {
    /// The hosts with most unattributed receipts of a key, SHA-256 of its SPKI, with timestamps on
    /// the UTC day of `from_ms` or later.
    pub async fn unattributed(
        &self,
        key: &[u8; 32],
        from_ms: i64,
        hosts_max: u32,
    ) -> Result<Vec<UnattributedHost>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT host, receipts, sum(receipts) OVER () AS total
             FROM (
                SELECT publisher AS host, toUInt64(sum(stored.receipts)) AS receipts FROM usage AS stored
                WHERE grain = 'client' AND time >= {day:UInt32} AND NOT verified
                    AND key_fingerprint = toFixedString(unhex({key:String}), 32)
                GROUP BY publisher HAVING sum(stored.receipts) > 0)
             ORDER BY receipts DESC, host LIMIT {hosts_max:UInt32}",
        )
        .with("day", u32::try_from(from_ms / 1_000).map_or(0, day_of))
        .with("key", hex::encode(key))
        .with("hosts_max", hosts_max);
        self.warehouse.rows("usage_unattributed", call).await
    }
}
