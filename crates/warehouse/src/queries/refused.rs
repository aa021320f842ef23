//! Receipts that passed every check and were rejected all the same: by the warehouse, or by a
//! policy of the deployment.
//!
//! The warehouse's rejection isn't a function of the record: it depends on what the tables accept
//! at the time. A policy's is decided once, by the verifier.

use uuid::Uuid;

use super::CommittedOffset;
use crate::{SqlStatement, Warehouse, WarehouseError};

/// The reason of these rejected rows.
pub const REFUSED_BY_WAREHOUSE: &str = "refused_by_warehouse";

/// The reasons of rejected rows whose receipts a policy of the deployment refused.
pub const REFUSED_BY_POLICY: [&str; 3] = ["client_key_unknown", "client_key_revoked", "entry_unknown"];

/// Positions of one question.
const POSITIONS_MAX: usize = 1_000;

impl Warehouse {
    /// Positions at or above the given ends that are in `rejected` with one of these `reasons`:
    /// verdicts of blocks that were written and not committed. At most `positions_max`.
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
        let call = SqlStatement::new(
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

    /// Returns those of these occurrences (`receiptId` and position) that are in `receipts`.
    pub async fn standing_positions(&self, occurrences: &[(Uuid, u128)]) -> Result<Vec<u128>, WarehouseError> {
        let mut found = Vec::new();
        for some in occurrences.chunks(POSITIONS_MAX) {
            let call = SqlStatement::new(
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
}

#[cfg(test)]
mod tests {
    use receipt::RejectReason;

    use super::*;

    #[test]
    fn these_are_the_reasons_of_policies_and_of_the_warehouse() {
        let of_policy = RejectReason::ALL.iter().filter(|reason| reason.is_of_policy());
        let of_policy: Vec<&str> = of_policy.map(|reason| reason.as_str()).collect();
        assert_eq!(of_policy, REFUSED_BY_POLICY);
        assert_eq!(REFUSED_BY_WAREHOUSE, RejectReason::RefusedByWarehouse.as_str());
    }
}
