//! Receipts that passed every check and were refused all the same: by the warehouse, or by the deployment's policy.
//!
//! The warehouse's verdict isn't a function of the record, as all others are: it depends on what the tables took at the time.
//! So it can come out otherwise when a block that was never committed is written again, and then the row of before must go. A
//! policy's is one of the record and the terms it was judged under, which are kept beside.

use uuid::Uuid;

use super::CommittedOffset;
use crate::client::Call;
use crate::schema::REJECTED;
use crate::{Warehouse, WarehouseError};

/// The reason of these rejected rows.
pub const REFUSED_BY_WAREHOUSE: &str = "refused_by_warehouse";

/// The reasons of rejected rows whose receipts a policy of the deployment refused.
pub const REFUSED_BY_POLICY: [&str; 3] = ["client_key_unknown", "client_key_revoked", "entry_unknown"];

/// Positions of one question.
const POSITIONS_MAX: usize = 1_000;

impl Warehouse {
    /// Positions at or above the given ends that stand in `rejected` with one of these `reasons`: verdicts of blocks that
    /// were written and not committed. At most `positions_max`.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn refused_above(
        &self,
        ends: &[CommittedOffset],
        reasons: &[&str],
        positions_max: u64,
    ) -> Result<Vec<u128>, WarehouseError> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let partition = |end: &CommittedOffset| (u128::from(end.epoch) << 96) | (u128::from(end.partition) << 64);
        let lows = ends
            .iter()
            .map(|end| partition(end) | (u128::from(end.next_offset) << 16));
        // The last position of a partition, so that the highest one has an end too.
        let highs = ends.iter().map(|end| partition(end) | u128::from(u64::MAX));
        let call = Call::new(
            "SELECT DISTINCT position FROM rejected
             WHERE reason IN {reasons:Array(String)} AND arrayExists((low, high) -> position >= low AND position <= high,
                {lows:Array(UInt128)}, {highs:Array(UInt128)})
             ORDER BY position LIMIT {positions_max:UInt64}",
        )
        .slow()
        .with("reasons", reasons.iter().map(ToString::to_string).collect::<Vec<_>>())
        .with("lows", lows.collect::<Vec<_>>())
        .with("highs", highs.collect::<Vec<_>>())
        .with("positions_max", positions_max);
        self.rows("refused_above", call).await
    }

    /// Which of these occurrences (`receiptId` and position) stand in `receipts`.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn standing_positions(&self, occurrences: &[(Uuid, u128)]) -> Result<Vec<u128>, WarehouseError> {
        let mut found = Vec::new();
        for some in occurrences.chunks(POSITIONS_MAX) {
            let call = Call::new(
                "SELECT DISTINCT position FROM
                    (SELECT arrayJoin(positions) AS position FROM receipts WHERE receipt_id IN {ids:Array(UUID)})
                 WHERE position IN {positions:Array(UInt128)}",
            )
            .with("ids", some.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>())
            .with(
                "positions",
                some.iter().map(|(_, position)| *position).collect::<Vec<_>>(),
            );
            found.extend(self.rows::<u128>("standing_positions", call).await?);
        }
        Ok(found)
    }

    /// Removes the rows of [`REFUSED_BY_WAREHOUSE`] at these positions: the warehouse has taken the receipts since. `Ok`
    /// means that no query sees them any more.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn take_back_refused(&self, positions: &[u128]) -> Result<(), WarehouseError> {
        let layout = self.layout();
        for some in positions.chunks(POSITIONS_MAX) {
            // Numbers only: a statement for all nodes is kept in the keeper as text.
            let list: Vec<String> = some.iter().map(|position| format!("toUInt128('{position}')")).collect();
            let sql = format!(
                "DELETE FROM {}{} WHERE reason = '{REFUSED_BY_WAREHOUSE}' AND position IN ({})",
                layout.stored(&REJECTED),
                layout.on_cluster(),
                list.join(", ")
            );
            // Waits for the node that runs it; the others follow, and one that is away mustn't hold it up.
            self.execute(
                "take_back_refused",
                Call::new(sql).slow().set("lightweight_deletes_sync", "1"),
            )
            .await?;
        }
        Ok(())
    }
}
