//! Stamps that turned out to be wrong: receipts of a key are another operator's, or nobody's, from
//! an arrival on.
//!
//! The first arrival's stamp is a receipt's. A change leaves arrivals as they are, so an occurrence
//! that arrived before the range still decides, and a later duplicate changes nothing.

use clickhouse::Row;
use serde::Deserialize;

use super::erasure::literal;
use super::{OPERATOR, TIME_MS_MAX, TIME_MS_MIN, VERIFIED};
use crate::schema::RECEIPTS;
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Publishers of one answer.
const PUBLISHERS_MAX: usize = 200;
/// The longest time by which a timestamp may be before its arrival, with a day to spare.
const TIMESTAMP_BEFORE_MS: i64 = 31 * 86_400_000;
/// The longest time by which a timestamp may be after its arrival, with an hour to spare.
const TIMESTAMP_AFTER_MS: i64 = 3_900_000;

/// A change of the operator of receipts that one key signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reattribution {
    /// SHA-256 of the key's SPKI DER.
    pub key_fingerprint: [u8; 32],
    /// Receipts that arrived at this instant or later, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// Receipts that arrived before this instant.
    pub until_ms: i64,
    /// The operator in the stamps that are changed; empty for none.
    pub from_operator: String,
    /// The right operator; empty for none.
    pub to_operator: String,
}

/// A publisher with receipts of a key.
#[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
pub struct ReattributedPublisher {
    /// The domain.
    pub publisher: String,
    /// The newest timestamp of these receipts, milliseconds since the Unix epoch.
    pub newest_ms: i64,
}

impl Warehouse {
    /// Returns publishers with receipts of the key that arrived in the range, whatever operator
    /// they have, behind the publisher `after` in their order, and not more than fit into an
    /// answer. A repeated reattribution finds them again.
    pub async fn reattributed_publishers(
        &self,
        reattribution: &Reattribution,
        after: &str,
    ) -> Result<Vec<ReattributedPublisher>, WarehouseError> {
        let sql = format!(
            "SELECT publisher, max(toUnixTimestamp64Milli(timestamp)) AS newest_ms FROM receipts
             WHERE {} AND publisher > {{after:String}}
             GROUP BY publisher ORDER BY publisher LIMIT {PUBLISHERS_MAX}",
            reattribution.of_key()
        );
        let call = SqlStatement::new(sql).slow().with("after", after.to_owned());
        self.rows("reattributed_publishers", call).await
    }

    /// Returns how many rows have the wrong operator. A receipt that isn't merged with its
    /// duplicates yet is several rows.
    pub async fn reattribution_left(&self, reattribution: &Reattribution) -> Result<u64, WarehouseError> {
        let sql = format!("SELECT count() FROM receipts WHERE {}", reattribution.of_stamp());
        self.one("reattribution_left", SqlStatement::new(sql).slow()).await
    }

    /// Changes the stamps, on every shard and replica, and returns when that is done. Can be
    /// repeated.
    pub async fn reattribute(&self, reattribution: &Reattribution) -> Result<(), WarehouseError> {
        let (to, rows) = (literal(&reattribution.to_operator), reattribution.of_stamp());
        for shard in self.shards() {
            let table = shard.layout().name(&RECEIPTS);
            let sql = format!(
                "ALTER TABLE {table} UPDATE stamp = (tupleElement(stamp, 1), {to}, {VERIFIED}) WHERE {rows}
                 SETTINGS mutations_sync = 2"
            );
            shard.execute("reattribute", SqlStatement::new(sql).slow()).await?;
        }
        Ok(())
    }
}

impl Reattribution {
    /// Rows of the key that arrived in the range. A mutation takes no parameters, so everything is
    /// spelled out. The timestamps only choose partitions.
    fn of_key(&self) -> String {
        let instant = |at_ms: i64| {
            let at_ms = at_ms.clamp(TIME_MS_MIN, TIME_MS_MAX);
            format!("fromUnixTimestamp64Milli(toInt64({at_ms}), 'UTC')")
        };
        let key = hex::encode(self.key_fingerprint);
        format!(
            "key_fingerprint = toFixedString(unhex('{key}'), 32)
             AND tupleElement(stamp, 1) >= {} AND tupleElement(stamp, 1) < {}
             AND timestamp >= {} AND timestamp < {}",
            instant(self.from_ms),
            instant(self.until_ms),
            instant(self.from_ms.saturating_sub(TIMESTAMP_BEFORE_MS)),
            instant(self.until_ms.saturating_add(TIMESTAMP_AFTER_MS)),
        )
    }

    /// Rows whose stamp is changed.
    fn of_stamp(&self) -> String {
        format!("{} AND {OPERATOR} = {}", self.of_key(), literal(&self.from_operator))
    }
}
