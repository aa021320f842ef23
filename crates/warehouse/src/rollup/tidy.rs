//! Rows that don't count any more, and never will again.

use super::state::State;
use super::tables::{BUCKETS, BY_CLIENT, BY_ENTRY};
use crate::client::Call;
use crate::{Warehouse, WarehouseError};

/// What a day-old state had passed over: no roll that builds on an earlier one is still under way.
#[derive(Debug)]
pub(super) struct Garbage {
    since: u32,
    /// The version of that state.
    until: u32,
    skipped: Vec<(u32, u32)>,
}

impl Garbage {
    pub(super) fn of(state: &State) -> Self {
        let until = state.tidied.0.max(state.since);
        Self {
            since: state.since,
            until,
            skipped: state.skipped.iter().copied().filter(|run| run.1 < until).collect(),
        }
    }

    /// Whether a run of versions that don't count goes for good.
    pub(super) fn holds(&self, run: (u32, u32)) -> bool {
        self.skipped.contains(&run)
    }

    /// A condition over `version`: no state will ever say that it counts.
    fn never(&self) -> String {
        let skipped = self.skipped.iter();
        let skipped = skipped.map(|(first, last)| format!(" OR version BETWEEN {first} AND {last}"));
        format!("(version < {}{})", self.since, skipped.collect::<String>())
    }

    /// A condition over `publisher`, `hour` and `version` that asks the table of buckets: it doesn't count, or a later one
    /// counts in its place.
    fn condition(&self, buckets: &str) -> String {
        let never = self.never();
        format!(
            "{never} OR (publisher, hour, version) IN
             (
                SELECT publisher, hour, arrayJoin(arrayFilter(one -> one < newest, versions)) AS version FROM
                (
                    SELECT publisher, hour, maxIf(version, version <= {} AND NOT {never}) AS newest,
                        groupUniqArray(version) AS versions
                    FROM {buckets} GROUP BY publisher, hour HAVING length(versions) > 1
                )
             )",
            self.until
        )
    }
}

impl Warehouse {
    /// Removes them. The buckets' rows last: they say what is to be removed.
    pub(super) async fn tidy_rollups(&self, garbage: &Garbage) -> Result<(), WarehouseError> {
        let layout = self.layout();
        let condition = garbage.condition(&layout.stored(&BUCKETS));
        let call = Call::new(format!("SELECT count() FROM rollup_buckets WHERE {condition}")).slow();
        if self.one::<u64>("rollup_tidy", call).await? == 0 && garbage.skipped.is_empty() {
            return Ok(());
        }
        for table in [&BY_CLIENT, &BY_ENTRY, &BUCKETS] {
            let sql = format!(
                "ALTER TABLE {}{} DELETE WHERE {condition} SETTINGS mutations_sync = 2",
                layout.stored(table),
                layout.on_cluster(),
            );
            // The subquery is over what a shard's replicas have in common.
            let call = Call::new(sql).set("allow_nondeterministic_mutations", "1").slow();
            self.execute("rollup_tidy", call).await?;
        }
        Ok(())
    }
}
