//! Rollups forgotten: by a person, with lost tables, or because parts of them were lost.

use super::tables::{BUCKETS, BY_CLIENT, BY_ENTRY, ERASURES, STATES};
use crate::client::Call;
use crate::schema::Table;
use crate::{Warehouse, WarehouseError};

/// What can't lose rows without its state's being wrong. Of marks only gaps matter, which are seen.
const TOLD: [&Table; 5] = [&STATES, &BUCKETS, &BY_CLIENT, &BY_ENTRY, &ERASURES];

impl Warehouse {
    /// Forgets everything that is rolled: all answers come from `receipts FINAL` until it is rolled again.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn reset_rollups(&self) -> Result<(), WarehouseError> {
        // The states first: without one nothing else counts.
        for table in [&STATES, &BUCKETS, &BY_CLIENT, &BY_ENTRY] {
            self.empty(table).await?;
        }
        Ok(())
    }

    /// Forgets everything that is rolled if ClickHouse has set parts of it aside as damaged; whether it had.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn reset_broken_rollups(&self) -> Result<bool, WarehouseError> {
        let layout = self.layout();
        let mut broken = false;
        for table in TOLD {
            let stored = layout.stored(table);
            let name = stored.rsplit('.').next().unwrap_or_default().to_owned();
            let call = Call::new(
                "SELECT name FROM system.detached_parts WHERE database = currentDatabase() AND table = {table:String}
                    AND (startsWith(reason, 'broken') OR startsWith(reason, 'unexpected'))",
            );
            let parts: Vec<String> = self.rows("broken_parts", call.with("table", name)).await?;
            if parts.is_empty() {
                continue;
            }
            if !broken {
                tracing::warn!(
                    table = table.name,
                    "damaged parts of rollups were set aside; everything is rolled anew"
                );
                self.reset_rollups().await?;
            }
            broken = true;
            for part in parts {
                // A part's name is letters, digits, hyphens and underscores.
                let sql = format!("ALTER TABLE {stored} DROP DETACHED PART '{part}' SETTINGS allow_drop_detached = 1");
                self.execute("rollup_reset", Call::new(sql)).await?;
            }
        }
        Ok(broken)
    }

    /// Forgets the states before tables that were lost are made anew: one that stands would take an empty table for the truth.
    pub(crate) async fn forget_rollup_states(&self, missing: &[String]) -> Result<(), WarehouseError> {
        if missing.iter().any(|table| table == STATES.name) {
            return Ok(());
        }
        self.empty(&STATES).await
    }

    async fn empty(&self, table: &Table) -> Result<(), WarehouseError> {
        let layout = self.layout();
        let sql = format!("TRUNCATE TABLE {}{}", layout.stored(table), layout.on_cluster());
        self.execute("rollup_reset", Call::new(sql).slow()).await
    }
}
