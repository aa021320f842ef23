//! Parts that the engine holds for sound and that are not: a changed bit shows only where it is
//! read.

use clickhouse::Row;
use serde::Deserialize;

use super::part::{DataPart, TABLES};
use crate::schema::USAGE;
use crate::{SqlStatement, Warehouse, WarehouseError};

#[derive(Debug, Row, Deserialize)]
struct ActivePart {
    name: String,
    rows: u64,
}

#[derive(Debug, Row, Deserialize)]
struct CheckedPart {
    #[allow(dead_code)] // The statement's columns are fixed.
    part_path: String,
    is_passed: bool,
    message: String,
}

/// Number of a part's rows that come from records that the log no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Irreplaceable {
    /// So many.
    Rows(u64),
    /// The damage is where this is read from: up to so many.
    UpTo(u64),
}

impl Irreplaceable {
    /// Whether every row can be written again.
    #[must_use]
    pub fn is_none(self) -> bool {
        matches!(self, Self::Rows(0) | Self::UpTo(0))
    }
}

impl std::fmt::Display for Irreplaceable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::UpTo(rows) => write!(f, "up to {rows}"),
        }
    }
}

/// Begin of a partition's log: earlier records can't be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBegin {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The oldest offset still stored.
    pub offset: u64,
}

impl Warehouse {
    /// Every active part of our tables.
    pub async fn parts(&self) -> Result<Vec<DataPart>, WarehouseError> {
        let mut parts = Vec::new();
        for table in TABLES {
            let call = SqlStatement::new(
                "SELECT name, rows FROM system.parts
                 WHERE active AND database = currentDatabase() AND table = {table:String} ORDER BY partition_id, min_block_number",
            )
            .with("table", table);
            let active: Vec<ActivePart> = self.rows("parts", call).await?;
            parts.extend(
                active
                    .into_iter()
                    .map(|ActivePart { name, rows }| DataPart { table, name, rows }),
            );
        }
        Ok(parts)
    }

    /// Reads all files of a part and holds them against their checksums; what is wrong with it, if
    /// anything. A part that a merge has replaced meanwhile is sound.
    pub async fn check_part(&self, part: &DataPart) -> Result<Option<String>, WarehouseError> {
        let sql = format!(
            "CHECK TABLE {} PART {} SETTINGS check_query_single_value_result = 0",
            part.table,
            literal(&part.name)
        );
        let checked: Result<Vec<CheckedPart>, _> = self.rows("check_part", SqlStatement::new(sql).slow()).await;
        match checked {
            Ok(rows) => Ok(rows.into_iter().find(|row| !row.is_passed).map(|row| row.message)),
            Err(WarehouseError::Refused { code, .. }) if NOT_ACTIVE.contains(&code) => Ok(None),
            Err(WarehouseError::Damaged(message)) => Ok(Some(message)),
            Err(error) => Err(error),
        }
    }

    /// Number of a part's rows that can't be written again from a log that begins so. Of a receipt
    /// that was seen at several positions, one that is gone makes it count.
    pub async fn irreplaceable(&self, part: &DataPart, log: &[LogBegin]) -> Result<Irreplaceable, WarehouseError> {
        // `usage` is rebuilt from `receipts`. First, because a damaged part may also read as what
        // it isn't.
        if part.table == USAGE.name || self.all_in(log).await? {
            return Ok(Irreplaceable::Rows(0));
        }
        let key = |epoch: u32, partition: u32| (u64::from(epoch) << 32) | u64::from(partition);
        // `transform` takes no empty arrays; this key stands nowhere.
        let keys: Vec<u64> = log
            .iter()
            .map(|b| key(b.epoch, b.partition))
            .chain([u64::MAX])
            .collect();
        let begins: Vec<u64> = log.iter().map(|begin| begin.offset).chain([0]).collect();
        // An epoch that isn't given is an earlier life of the log: all of it is gone.
        let gone = |position: &str| {
            format!(
                "toUInt64(bitAnd(bitShiftRight({position}, 16), toUInt128(281474976710655))) < transform(
                    toUInt64(bitShiftRight({position}, 64)), {{keys:Array(UInt64)}}, {{begins:Array(UInt64)}},
                    toUInt64(281474976710656))"
            )
        };
        let condition = match part.table {
            "receipts" => format!("arrayExists(position -> {}, positions)", gone("position")),
            "rejected" => gone("position"),
            // The positions of its receipts are in `receipts`.
            "evidence" => format!(
                "(publisher, receipt_id, payload_hash) IN (SELECT publisher, receipt_id, payload_hash FROM receipts
                    WHERE arrayExists(position -> {}, positions))",
                gone("position")
            ),
            _ => "first_offset < transform(bitOr(bitShiftLeft(toUInt64(epoch), 32), toUInt64(partition)),
                    {keys:Array(UInt64)}, {begins:Array(UInt64)}, toUInt64(281474976710656))"
                .to_owned(),
        };
        let sql = format!(
            "SELECT countIf({condition}) FROM {} WHERE _part = {{part:String}}",
            part.table
        );
        let call = SqlStatement::new(sql).slow().with("keys", keys).with("begins", begins);
        match self
            .one::<u64>("irreplaceable", call.with("part", part.name.clone()))
            .await
        {
            Ok(rows) => Ok(Irreplaceable::Rows(rows)),
            Err(WarehouseError::Damaged(_)) => Ok(Irreplaceable::UpTo(part.rows)),
            Err(error) => Err(error),
        }
    }

    /// Whether a log that begins so holds every record that the ledger knows of.
    async fn all_in(&self, log: &[LogBegin]) -> Result<bool, WarehouseError> {
        let call = SqlStatement::new("SELECT DISTINCT epoch, partition FROM ledger");
        let partitions: Vec<(u32, u32)> = match self.rows("ledger_partitions", call.slow()).await {
            Ok(partitions) => partitions,
            Err(WarehouseError::Damaged(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        for (epoch, partition) in partitions {
            let mut begins = log.iter();
            let begin = begins.find(|begin| (begin.epoch, begin.partition) == (epoch, partition));
            let first = self.first_offset(epoch, partition).await?;
            if begin.is_none_or(|begin| begin.offset > first) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes a part out of its table. Its files stay in the table's directory `detached`.
    pub async fn detach_part(&self, part: &DataPart) -> Result<(), WarehouseError> {
        let sql = format!("ALTER TABLE {} DETACH PART {}", part.table, literal(&part.name));
        self.execute("detach_part", SqlStatement::new(sql).slow()).await
    }
}

/// ClickHouse's NO_SUCH_DATA_PART: a merge has replaced it.
const NOT_ACTIVE: [u32; 1] = [232];

/// A part's name as SQL; such names are letters, digits and underscores.
fn literal(name: &str) -> String {
    format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"))
}
