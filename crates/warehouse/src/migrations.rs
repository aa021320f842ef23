//! The schema: its tables, created in one version.
//!
//! Every statement can be run again, and the version is recorded only after all its statements: a
//! crash in between, or several processes at once, ends in the same schema. So there is no lock.
//! Until the first release a change of a table raises [`VERSION`], and databases of older versions
//! are refused: the writer fills new tables from the log `verdicts`.

use std::collections::BTreeMap;

use crate::schema::{EVIDENCE, RECEIPTS, REJECTED, Retention, SchemaStep, TABLES, USAGE, VERSION, VERSIONS};
use crate::{SqlStatement, Warehouse, WarehouseError};

/// By which column rows get old.
const RETENTION: [SchemaStep; 4] = [
    SchemaStep::Retain(&RECEIPTS, "timestamp", Retention::Receipts),
    SchemaStep::Retain(&EVIDENCE, "timestamp", Retention::Receipts),
    SchemaStep::Retain(&REJECTED, "received_at", Retention::Rejected),
    SchemaStep::Retain(&USAGE, "time", Retention::Receipts),
];

/// All steps of the schema, in order.
fn steps() -> impl Iterator<Item = SchemaStep> {
    TABLES.iter().map(|table| SchemaStep::Create(table)).chain(RETENTION)
}

/// ClickHouse's UNKNOWN_DATABASE and UNKNOWN_TABLE.
const NOT_THERE: [u32; 2] = [81, 60];

impl Warehouse {
    /// Creates the database and brings the schema up to date, of all shards. Safe to repeat, also
    /// after a crash in the middle, and from several processes at once.
    ///
    /// # Errors
    /// [`WarehouseError`]: [`Denied`](WarehouseError::Denied) names a missing right; also if the
    /// schema is newer than this program knows.
    pub async fn migrate(&self) -> Result<(), WarehouseError> {
        for shard in self.shards() {
            shard.bring_up().await?;
        }
        let Some(cluster) = self.cluster() else {
            return Ok(());
        };
        self.check_cluster(cluster).await?;
        self.bring_up_distributed(cluster).await
    }

    /// Creates the tables over all shards.
    async fn bring_up_distributed(&self, cluster: &str) -> Result<(), WarehouseError> {
        let layout = self.layout();
        self.outside()
            .execute("migrate", SqlStatement::new(layout.database()).slow())
            .await?;
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        let own = SqlStatement::new(
            "SELECT count() FROM system.tables
             WHERE database = currentDatabase() AND name IN {names:Array(String)} AND engine != 'Distributed'",
        );
        let own: u64 = self.one("migrate", own.with("names", names)).await?;
        if own > 0 {
            return Err(WarehouseError::Config(format!(
                "the database `{}` has tables of its own, and with warehouse.shards it must have none: name another one \
                 with warehouse.database (the old one can be the first of warehouse.shards)",
                self.database()
            )));
        }
        let (wanted, found) = (self.shard(0)?.columns().await?, self.columns().await?);
        for table in TABLES {
            let columns = wanted.get(table.name).map(String::as_str).unwrap_or_default();
            if found.get(table.name).map(String::as_str) != Some(columns) {
                let statement = layout.distributed(table, columns, cluster);
                self.execute("migrate", SqlStatement::new(statement).slow()).await?;
            }
        }
        Ok(())
    }

    /// Columns of each table with their types, as SQL.
    async fn columns(&self) -> Result<BTreeMap<String, String>, WarehouseError> {
        let call = SqlStatement::new(
            "SELECT table, arrayStringConcat(groupArray(concat('`', name, '` ', type)), ', ') FROM
                (SELECT table, name, type FROM system.columns WHERE database = currentDatabase()
                 ORDER BY table, position)
             GROUP BY table",
        );
        let columns: Vec<(String, String)> = self.rows("migrate", call).await?;
        Ok(columns.into_iter().collect())
    }

    async fn bring_up(&self) -> Result<(), WarehouseError> {
        let found = match self.schema_version().await {
            Err(WarehouseError::Refused { code, .. }) if NOT_THERE.contains(&code) => 0,
            other => other?,
        };
        if found > VERSION {
            return Err(WarehouseError::Config(format!(
                "the warehouse's schema has version {found}, newer than this program's {VERSION}: run a newer program"
            )));
        }
        if found != 0 && found < VERSION {
            return Err(WarehouseError::Config(format!(
                "the database `{database}` has tables of a development version (schema version {found}), which this \
                 program can't read (it has version {VERSION}): drop the database, or name another one with \
                 warehouse.database. With the embedded engine, remove the data directory's `warehouse`. The writer \
                 fills the new tables from the log `verdicts`",
                database = self.database()
            )));
        }
        if found == VERSION {
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
        self.outside()
            .execute("migrate", SqlStatement::new(layout.database()).slow())
            .await?;
        for statement in layout.statements(&SchemaStep::Create(&VERSIONS)) {
            self.execute("migrate", SqlStatement::new(statement).slow()).await?;
        }
        for statement in steps().flat_map(|step| layout.statements(&step)) {
            self.execute("migrate", SqlStatement::new(statement).slow()).await?;
        }
        let record =
            SqlStatement::new("INSERT INTO schema_versions (version, name) SELECT {version:UInt32}, {name:String}")
                .with("version", VERSION)
                .with("name", "the log verdicts, and usage");
        self.execute("migrate", record).await?;
        tracing::info!(version = VERSION, "the warehouse's tables were created");
        Ok(())
    }

    /// Sets the retention that the configuration requests, where the tables have another one.
    async fn keep_retention(&self) -> Result<(), WarehouseError> {
        let layout = self.layout();
        for step in &RETENTION {
            let SchemaStep::Retain(table, column, retention) = *step else {
                continue;
            };
            let call = SqlStatement::new(
                "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {name:String}",
            )
            .with("name", table.name);
            let found: Vec<String> = self.rows("migrate", call).await?;
            let expiry = format!("TTL {} ", layout.expiry(table, column, retention));
            if found.iter().all(|engine| format!("{engine} ").contains(&expiry)) {
                continue;
            }
            for statement in layout.statements(step) {
                self.execute("migrate", SqlStatement::new(statement).slow()).await?;
            }
            tracing::info!(
                table = table.name,
                days = layout.days_max(retention),
                "rows are retained so long from now on"
            );
        }
        Ok(())
    }

    /// Recreates tables, empty, that were lost from a schema that is up to date; returns which.
    /// The writer inserts their rows again from the log.
    pub async fn restore_tables(&self) -> Result<Vec<String>, WarehouseError> {
        let mut missing = Vec::new();
        for shard in self.shards() {
            missing.extend(shard.restore_missing().await?);
        }
        self.migrate().await?;
        Ok(missing)
    }

    async fn restore_missing(&self) -> Result<Vec<String>, WarehouseError> {
        let missing = match self.schema_version().await {
            Ok(VERSION) => self.missing_tables().await?,
            // Created, refused or reported by the migration.
            _ => Vec::new(),
        };
        if !missing.is_empty() {
            let layout = self.layout();
            for statement in steps().flat_map(|step| layout.statements(&step)) {
                self.execute("migrate", SqlStatement::new(statement).slow()).await?;
            }
        }
        Ok(missing)
    }

    async fn missing_tables(&self) -> Result<Vec<String>, WarehouseError> {
        let call = SqlStatement::new("SELECT name FROM system.tables WHERE database = currentDatabase()");
        let there: Vec<String> = self.rows("migrate", call).await?;
        let missing = TABLES
            .iter()
            .map(|table| table.name)
            .filter(|table| !there.iter().any(|name| name == table));
        Ok(missing.map(ToOwned::to_owned).collect())
    }

    async fn schema_version(&self) -> Result<u32, WarehouseError> {
        self.one::<u32>("migrate", SqlStatement::new("SELECT max(version) FROM schema_versions"))
            .await
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::steps;
    use crate::schema::{Layout, SchemaStep, VERSION, VERSIONS};

    /// Every statement of a layout, as it would be sent.
    pub(crate) fn ddl(layout: Layout<'_>) -> String {
        let mut statements = vec![layout.database()];
        statements.extend(layout.statements(&SchemaStep::Create(&VERSIONS)));
        statements.extend(steps().flat_map(|step| layout.statements(&step)));
        let statements = statements.iter().map(|statement| format!("{statement};\n\n"));
        std::iter::once(first_line()).chain(statements).collect()
    }

    fn first_line() -> String {
        format!("-- schema version {VERSION}\n")
    }

    /// Compares with the file, or writes it with `UPDATE_EXPECT=1`.
    fn assert_snapshot(name: &str, found: &str) {
        let path = format!("{}/tests/ddl/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected || !expected.starts_with(&first_line()),
            "the tables differ from {path}, so databases of this version would be read wrongly: raise VERSION (if no \
             commit has this version yet, remove the file); what is generated:\n{found}"
        );
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            assert!(std::fs::write(&path, found).is_ok(), "{path}");
            return;
        }
        assert!(
            found == expected,
            "{name} differs from {path}; what is generated:\n{found}"
        );
    }

    #[test]
    fn the_tables_of_a_single_server_are_those_written_down() {
        let layout = Layout {
            database: "receipts",
            is_replicated: false,
            fsync: true,
            receipts_days_max: 2_557,
            rejected_days_max: 90,
            storage_policy: None,
            evidence_cold_days: 30,
            receipts_cold_days: 365,
        };
        assert_snapshot("single", &ddl(layout));
    }

    #[test]
    fn replicated_tables_are_those_written_down() {
        let layout = Layout {
            database: "receipts_1",
            is_replicated: true,
            fsync: false,
            receipts_days_max: 2_557,
            rejected_days_max: 90,
            storage_policy: None,
            evidence_cold_days: 30,
            receipts_cold_days: 365,
        };
        assert_snapshot("replicated", &ddl(layout));
    }
}
