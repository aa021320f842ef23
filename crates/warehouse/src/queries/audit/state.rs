//! State of the running check, saved across restarts.

use clickhouse::Row;
use serde::Deserialize;

use super::CommittedOffset;
use crate::{SqlStatement, Warehouse, WarehouseError};

/// Offsets of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectionOffsets {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub from: u64,
    /// The offset behind the last one.
    pub end: u64,
}

/// State of the running check: new offsets are checked as they come, and a pass checks all offsets
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditState {
    /// End of the new offsets that were checked.
    pub checked: Vec<CommittedOffset>,
    /// Position at which the pass continues. Partitions that it hasn't begun are missing.
    pub pass: Vec<CommittedOffset>,
    /// When the pass began, milliseconds since the Unix epoch.
    pub pass_began_ms: i64,
    /// Receipts that the pass has compared.
    pub pass_receipts: u64,
    /// Sections with differences. They are checked again until there are none.
    pub wrong: Vec<SectionOffsets>,
}

#[derive(Row, Deserialize)]
struct StoredAuditState {
    checked: Vec<(u32, u32, u64)>,
    pass: Vec<(u32, u32, u64)>,
    pass_began_ms: i64,
    pass_receipts: u64,
    wrong: Vec<(u32, u32, u64, u64)>,
}

impl Warehouse {
    /// Loads the state that was saved last, if any was.
    pub async fn audit_state(&self) -> Result<Option<AuditState>, WarehouseError> {
        let sql = "SELECT checked, pass, pass_began_ms, pass_receipts, wrong FROM audit FINAL";
        let stored: Vec<StoredAuditState> = self.rows("audit_state", SqlStatement::new(sql)).await?;
        let offset = |(epoch, partition, next_offset)| CommittedOffset {
            epoch,
            partition,
            next_offset,
        };
        let section = |(epoch, partition, from, end)| SectionOffsets {
            epoch,
            partition,
            from,
            end,
        };
        let state = |stored: StoredAuditState| AuditState {
            checked: stored.checked.into_iter().map(offset).collect(),
            pass: stored.pass.into_iter().map(offset).collect(),
            pass_began_ms: stored.pass_began_ms,
            pass_receipts: stored.pass_receipts,
            wrong: stored.wrong.into_iter().map(section).collect(),
        };
        Ok(stored.into_iter().map(state).next())
    }

    /// Saves the state. Of several services that check, the last one's is retained.
    pub async fn save_audit_state(&self, state: &AuditState) -> Result<(), WarehouseError> {
        let sql = "INSERT INTO audit (version, checked, pass, pass_began_ms, pass_receipts, wrong)
             SELECT toUInt64(toUnixTimestamp64Micro(now64(6))),
                arrayZip({checked_epochs:Array(UInt32)}, {checked_partitions:Array(UInt32)}, {checked:Array(UInt64)}),
                arrayZip({pass_epochs:Array(UInt32)}, {pass_partitions:Array(UInt32)}, {pass:Array(UInt64)}),
                {pass_began_ms:Int64}, {pass_receipts:UInt64},
                arrayZip({wrong_epochs:Array(UInt32)}, {wrong_partitions:Array(UInt32)}, {wrong_from:Array(UInt64)},
                    {wrong_end:Array(UInt64)})";
        let mut call = SqlStatement::new(sql).set("async_insert", "0");
        for (name, offsets) in [("checked", &state.checked), ("pass", &state.pass)] {
            let epochs: Vec<u32> = offsets.iter().map(|one| one.epoch).collect();
            let partitions: Vec<u32> = offsets.iter().map(|one| one.partition).collect();
            let next: Vec<u64> = offsets.iter().map(|one| one.next_offset).collect();
            call = call
                .with(format!("{name}_epochs"), epochs)
                .with(format!("{name}_partitions"), partitions)
                .with(name, next);
        }
        let wrong = &state.wrong;
        let call = call
            .with("pass_began_ms", state.pass_began_ms)
            .with("pass_receipts", state.pass_receipts)
            .with("wrong_epochs", wrong.iter().map(|one| one.epoch).collect::<Vec<_>>())
            .with(
                "wrong_partitions",
                wrong.iter().map(|one| one.partition).collect::<Vec<_>>(),
            )
            .with("wrong_from", wrong.iter().map(|one| one.from).collect::<Vec<_>>())
            .with("wrong_end", wrong.iter().map(|one| one.end).collect::<Vec<_>>());
        self.execute("audit_save", call).await
    }
}
