//! Rollups forgotten: by a person, with lost tables, or because parts of them were lost.

use super::tables::{BUCKETS, BY_CLIENT, BY_ENTRY, ERASURES, STATES};
use crate::client::Call;
use crate::schema::Table;
use crate::{Warehouse, WarehouseError};

/// What can't lose rows without its state's being wrong. Of marks only gaps matter, which are seen.
const TOLD: [&Table; 5] = [&STATES, &BUCKETS, &BY_CLIENT, &BY_ENTRY, &ERASURES];

/// How far above the last state the one stands that forgets it: further than rolls fail in a row.
const BEYOND: u32 = 1_000_000;

impl Warehouse {
    /// Forgets everything that is rolled: all answers come from `receipts FINAL` until it is rolled again.
    ///
    /// It is a state that can't be read, far above all others, so that a roll begins anew above it: what was rolled doesn't count any more, a
    /// roll under way builds on a state that isn't the greatest, and questions that still rest on the state before find its rows. They are
    /// deleted a day later, as all that is superseded.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn reset_rollups(&self) -> Result<(), WarehouseError> {
        let sql = format!(
            "INSERT INTO rollup_states (lineage, state)
             SELECT 0, (toUInt32(tupleElement(max(state), 1) + {BEYOND}), toUInt32(toUnixTimestamp(now())), '') FROM rollup_states"
        );
        self.execute("rollup_reset", Call::new(sql)).await
    }

    /// Forgets everything that is rolled if ClickHouse has set parts of it aside as damaged; whether it had.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn reset_broken_rollups(&self) -> Result<bool, WarehouseError> {
        let layout = self.layout();
        let call = Call::new(
            "SELECT table, name FROM system.detached_parts WHERE database = currentDatabase() AND table IN {tables:Array(String)}
                AND (startsWith(reason, 'broken') OR startsWith(reason, 'unexpected'))",
        );
        let names = TOLD.map(|table| layout.stored_name(table)).to_vec();
        let parts: Vec<(String, String)> = self.rows("broken_parts", call.with("tables", names)).await?;
        let Some((table, _)) = parts.first() else {
            return Ok(false);
        };
        tracing::warn!(
            table,
            "damaged parts of rollups were set aside; everything is rolled anew"
        );
        self.reset_rollups().await?;
        for (table, part) in &parts {
            let Some(told) = TOLD.iter().find(|told| layout.stored_name(told) == *table) else {
                continue;
            };
            let stored = layout.stored(told);
            // A part's name is letters, digits, hyphens and underscores.
            let sql = format!("ALTER TABLE {stored} DROP DETACHED PART '{part}' SETTINGS allow_drop_detached = 1");
            self.execute("rollup_reset", Call::new(sql)).await?;
        }
        Ok(true)
    }

    /// Forgets what is rolled before tables that were lost are made anew: a state that stands would take an empty table for the truth.
    pub(crate) async fn forget_rollup_states(&self, missing: &[String]) -> Result<(), WarehouseError> {
        if missing.iter().any(|table| table == STATES.name) {
            return Ok(());
        }
        self.reset_rollups().await
    }
}
