//! The schema, version by version.
//!
//! Every statement can be run again, and a version is recorded only after all its statements: a crash in between, or
//! several processes at once, ends in the same schema. So there is no lock; on a cluster, each node runs the `ON CLUSTER`
//! statements of all of them one after another from the keeper's queue. A version that was ever released is never
//! changed; the next one is added below it.

use crate::client::Call;
use crate::rollup::tables as rollup;
use crate::schema::{LEDGER, PROGRESS, RECEIPTS, REJECTED, REPLAYS, Step, VERSIONS, WRITERS};
use crate::{Warehouse, WarehouseError};

/// One version of the schema.
struct Migration {
    version: u32,
    name: &'static str,
    steps: &'static [Step],
}

static MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "receipts, rejected, ledger, writers",
        steps: &[
            Step::Create(&RECEIPTS),
            Step::Create(&REJECTED),
            Step::Create(&LEDGER),
            Step::Create(&WRITERS),
            Step::Create(&PROGRESS),
        ],
    },
    Migration {
        version: 2,
        name: "replays",
        steps: &[Step::Alter(&REJECTED, REJECTED_CONTEXT), Step::Create(&REPLAYS)],
    },
    Migration {
        version: 3,
        name: "retention, and erasures that last",
        steps: &[Step::Alter(&RECEIPTS, BLANK_WINS), RETENTION[0], RETENTION[1]],
    },
    Migration {
        version: 4,
        name: "rollups",
        steps: &[
            Step::Create(&rollup::MARKS),
            Step::Create(&rollup::ERASURES),
            Step::Create(&rollup::STATES),
            Step::Create(&rollup::BUCKETS),
            Step::Create(&rollup::BY_CLIENT),
            Step::Create(&rollup::BY_ENTRY),
            Step::Forget(&rollup::MARKS, "written_at", MARKS_DAYS),
            Step::Forget(&rollup::ERASURES, "written_at", MARKS_DAYS),
            RETENTION[2],
            RETENTION[3],
            RETENTION[4],
        ],
    },
    Migration {
        version: 5,
        name: "sums of rollups",
        steps: &[
            Step::Store(&rollup::BY_CLIENT, rollup::SUMS_BY_CLIENT),
            Step::Store(&rollup::BY_ENTRY, rollup::SUMS_BY_ENTRY),
        ],
    },
];

/// Days that marks are kept: longer than a state without a successor is believed.
const MARKS_DAYS: u64 = 3;

/// By which column rows get old.
const RETENTION: [Step; 5] = [
    Step::Retain(&RECEIPTS, "timestamp"),
    Step::Retain(&REJECTED, "received_at"),
    Step::Retain(&rollup::BUCKETS, "hour * 3600"),
    Step::Retain(&rollup::BY_CLIENT, "hour * 3600"),
    Step::Retain(&rollup::BY_ENTRY, "hour * 3600"),
];

/// What tells who used content, in columns whose least value is the blank one: equal payloads have equal values, so `min`
/// is the same as `any`, but for a row that an erasure has blanked. That one wins over a duplicate which comes later.
const BLANK_WINS: &str = "
    MODIFY COLUMN client_id SimpleAggregateFunction(min, UUID) CODEC(ZSTD(1)),
    MODIFY COLUMN client_name SimpleAggregateFunction(min, LowCardinality(String)),
    MODIFY COLUMN client_version SimpleAggregateFunction(min, LowCardinality(String)),
    MODIFY COLUMN organization SimpleAggregateFunction(min, LowCardinality(String)),
    MODIFY COLUMN key_fingerprint SimpleAggregateFunction(min, FixedString(32)) CODEC(ZSTD(1)),
    MODIFY COLUMN context SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN query_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN session_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN study_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN researcher_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1))";

/// ClickHouse's UNKNOWN_DATABASE and UNKNOWN_TABLE.
const NOT_THERE: [u32; 2] = [81, 60];

/// What a rejected receipt is judged again by. Rows of before have neither: `receipts repair` fills them from the log.
const REJECTED_CONTEXT: &str = "
    ADD COLUMN IF NOT EXISTS request_signature Nullable(String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS origin LowCardinality(String)";

impl Warehouse {
    /// Creates the database and brings the schema up to date. Safe to repeat, also after a crash in the middle, and from
    /// several processes at once.
    ///
    /// # Errors
    /// [`WarehouseError`]: [`Denied`](WarehouseError::Denied) names a missing right; also if the schema is newer than this
    /// program knows.
    pub async fn migrate(&self) -> Result<(), WarehouseError> {
        self.bring_up().await.map_err(|error| error.naming(self.user()))
    }

    async fn bring_up(&self) -> Result<(), WarehouseError> {
        let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
        let found = match self.schema_version().await {
            Err(WarehouseError::Refused { code, .. }) if NOT_THERE.contains(&code) => 0,
            other => other?,
        };
        if found > known {
            return Err(WarehouseError::Config(format!(
                "the warehouse's schema has version {found}, newer than this program's {known}: run a newer program"
            )));
        }
        if found == known {
            return match self.missing_tables().await?.as_slice() {
                [] => self.keep_retention().await,
                missing => Err(WarehouseError::Damaged(format!(
                    "of the database `{}` the tables are gone: {}",
                    self.database(),
                    missing.join(", ")
                ))),
            };
        }
        let layout = self.layout();
        self.outside("migrate", Call::new(layout.database()).slow()).await?;
        for statement in layout.statements(&Step::Create(&VERSIONS)) {
            self.execute("migrate", Call::new(statement).slow()).await?;
        }
        for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
            for statement in migration.steps.iter().flat_map(|step| layout.statements(step)) {
                self.execute("migrate", Call::new(statement).slow()).await?;
            }
            let record =
                Call::new("INSERT INTO schema_versions (version, name) SELECT {version:UInt32}, {name:String}")
                    .with("version", migration.version)
                    .with("name", migration.name);
            self.execute("migrate", record).await?;
            tracing::info!(
                version = migration.version,
                name = migration.name,
                "the warehouse's schema was brought up"
            );
        }
        Ok(())
    }

    /// Sets the retention that the configuration asks for, where the tables have another one.
    async fn keep_retention(&self) -> Result<(), WarehouseError> {
        let layout = self.layout();
        for step in &RETENTION {
            let Step::Retain(table, column) = step else { continue };
            let call = Call::new(
                "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {name:String}",
            )
            .with("name", layout.stored_name(table));
            let found: Vec<String> = self.rows("migrate", call).await?;
            let expiry = format!("TTL {} ", layout.expiry(column));
            if found.iter().all(|engine| format!("{engine} ").contains(&expiry)) {
                continue;
            }
            for statement in layout.statements(step) {
                self.execute("migrate", Call::new(statement).slow()).await?;
            }
            tracing::info!(
                table = table.name,
                days = layout.receipts_days_max,
                "receipts are kept so long from now on"
            );
        }
        Ok(())
    }

    /// Makes tables anew, empty, that were lost from a schema that is up to date; returns which. Their rows are to be
    /// written again from the log.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn restore_tables(&self) -> Result<Vec<String>, WarehouseError> {
        let missing = match self.schema_version().await {
            Err(WarehouseError::Refused { code, .. }) if NOT_THERE.contains(&code) => Vec::new(),
            version => {
                version?;
                self.missing_tables().await?
            }
        };
        if !missing.is_empty() {
            self.forget_rollup_states(&missing).await?;
            let layout = self.layout();
            let steps = MIGRATIONS.iter().flat_map(|migration| migration.steps);
            for statement in steps.flat_map(|step| layout.statements(step)) {
                self.execute("migrate", Call::new(statement).slow()).await?;
            }
        }
        self.migrate().await?;
        Ok(missing)
    }

    async fn missing_tables(&self) -> Result<Vec<String>, WarehouseError> {
        let call = Call::new("SELECT name FROM system.tables WHERE database = currentDatabase()");
        let there: Vec<String> = self.rows("migrate", call).await?;
        let tables = [&RECEIPTS, &REJECTED, &LEDGER, &REPLAYS, &WRITERS, &PROGRESS]
            .into_iter()
            .chain(rollup::ALL);
        let missing = tables
            .map(|table| table.name)
            .filter(|table| !there.iter().any(|name| name == table));
        Ok(missing.map(ToOwned::to_owned).collect())
    }

    async fn schema_version(&self) -> Result<u32, WarehouseError> {
        self.one::<u32>("migrate", Call::new("SELECT max(version) FROM schema_versions"))
            .await
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::MIGRATIONS;
    use crate::schema::{Layout, Step, VERSIONS};

    /// Every statement of a layout, as it would be sent.
    pub(crate) fn ddl(layout: Layout<'_>) -> String {
        let mut statements = vec![layout.database()];
        statements.extend(layout.statements(&Step::Create(&VERSIONS)));
        let steps = MIGRATIONS.iter().flat_map(|migration| migration.steps);
        statements.extend(steps.flat_map(|step| layout.statements(step)));
        statements.iter().map(|statement| format!("{statement};\n\n")).collect()
    }

    /// Compares with the file, or writes it with `RECEIPTS_TEST_UPDATE=1`.
    fn assert_snapshot(name: &str, found: &str) {
        let path = format!("{}/tests/ddl/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("RECEIPTS_TEST_UPDATE").is_some() {
            assert!(std::fs::write(&path, found).is_ok(), "{path}");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "{name} differs from {path}; what is generated:\n{found}"
        );
    }

    #[test]
    fn the_tables_of_a_single_server_are_those_written_down() {
        let layout = Layout {
            database: "receipts",
            cluster: None,
            fsync: true,
            receipts_days_max: 2_557,
        };
        assert_snapshot("single", &ddl(layout));
    }

    #[test]
    fn the_tables_of_a_cluster_are_those_written_down() {
        let layout = Layout {
            database: "receipts",
            cluster: Some("main"),
            fsync: false,
            receipts_days_max: 2_557,
        };
        assert_snapshot("cluster", &ddl(layout));
    }
}
