//! Requirements of a ClickHouse server before it is relied on.

use receipt_clickhouse::SERVER_SETTINGS;

use crate::{SqlStatement, Warehouse, WarehouseError};

/// The oldest ClickHouse that our tables and statements work on.
const VERSION_MIN: (u32, u32) = (24, 8);

impl Warehouse {
    /// Checks the server's version, that it has the settings that we send, and the keeper of
    /// replicated tables. Needs no database and no table of ours.
    ///
    /// # Errors
    /// [`WarehouseError::Config`] says what the server lacks.
    pub async fn check_server(&self) -> Result<(), WarehouseError> {
        let version: String = self
            .outside()
            .one("check", SqlStatement::new("SELECT version()"))
            .await?;
        check_version(&version)?;
        let call = SqlStatement::new("SELECT name FROM system.settings WHERE name IN {names:Array(String)}")
            .with("names", SERVER_SETTINGS.to_vec());
        let existing: Vec<String> = self.outside().rows("check", call).await?;
        if let Some(name) = SERVER_SETTINGS
            .iter()
            .find(|name| !existing.iter().any(|existing| existing == *name))
        {
            return Err(WarehouseError::Config(format!(
                "the warehouse's server (ClickHouse {version}) has no setting `{name}`, which exactness needs"
            )));
        }
        if self.is_replicated() {
            self.check_keeper().await?;
        }
        Ok(())
    }

    /// Checks that the cluster has the shards, in their order.
    pub(crate) async fn check_cluster(&self, cluster: &str) -> Result<(), WarehouseError> {
        let call = SqlStatement::new(
            "SELECT default_database FROM system.clusters WHERE cluster = {cluster:String} AND replica_num = 1
             ORDER BY shard_num",
        );
        let found: Vec<String> = self
            .outside()
            .rows("check", call.with("cluster", cluster.to_owned()))
            .await?;
        let wanted: Vec<&str> = self.shards().iter().map(|shard| shard.database()).collect();
        if found == wanted {
            return Ok(());
        }
        Err(WarehouseError::Config(format!(
            "the cluster `{cluster}` (warehouse.cluster) of the warehouse's server must have a shard for each of \
             warehouse.shards, in their order, with `<default_database>` and `<internal_replication>`; wanted: {}; \
             found: {}",
            wanted.join(", "),
            if found.is_empty() {
                "no such cluster".to_owned()
            } else {
                found.join(", ")
            }
        )))
    }

    async fn check_keeper(&self) -> Result<(), WarehouseError> {
        let macros =
            SqlStatement::new("SELECT count() FROM system.macros WHERE macro = 'replica' AND substitution != ''");
        let macros: u64 = self.outside().one("check", macros).await?;
        if macros == 0 {
            return Err(WarehouseError::Config(
                "the warehouse's server has no macro `replica`: replicated tables need it, different on every replica"
                    .to_owned(),
            ));
        }
        let keeper = SqlStatement::new("SELECT count() FROM system.zookeeper WHERE path = '/'");
        let keeper: Result<u64, WarehouseError> = self.outside().one("check", keeper).await;
        keeper.map(drop).map_err(|error| match error {
            // 60: without a keeper in the configuration there isn't even the table.
            WarehouseError::Refused { code: 60, .. } => {
                WarehouseError::Config("the warehouse's server has no keeper: replicated tables need one".to_owned())
            }
            other => other,
        })
    }

    /// Whether a table of ours takes inserts as such: it is there, with the columns and the rights.
    /// Inserts nothing.
    ///
    /// # Errors
    /// A fault of the table that would keep any insert from succeeding.
    pub async fn takes_inserts(&self, table: &str, columns: &str) -> Result<(), WarehouseError> {
        let nothing = format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} LIMIT 0");
        self.execute("takes_inserts", SqlStatement::new(nothing)).await
    }
}

fn check_version(version: &str) -> Result<(), WarehouseError> {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= VERSION_MIN => Ok(()),
        (Some(Ok(_)), Some(Ok(_))) => Err(WarehouseError::Config(format!(
            "the warehouse's server is ClickHouse {version}; it must be {}.{} or newer",
            VERSION_MIN.0, VERSION_MIN.1
        ))),
        _ => Err(WarehouseError::BadAnswer(format!(
            "`{version}` is no version of ClickHouse"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::check_version;

    #[test]
    fn old_servers_are_distinguished() {
        for good in ["24.8.1.2684", "24.12.3.47", "25.3.1", "26.7.2.1"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["24.7.9.9", "23.8.16.16", "18.16.1", "", "latest"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
        assert!(check_version("18.16.1").is_err_and(|error| error.to_string().contains("24.8")));
    }
}
