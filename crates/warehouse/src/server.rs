//! What is asked of a ClickHouse server before it is relied on.

use clickhouse::Row;
use serde::Deserialize;

use crate::client::{Call, SERVER_SETTINGS};
use crate::{Warehouse, WarehouseError};

/// The oldest ClickHouse that our tables and statements work on.
const VERSION_MIN: (u32, u32) = (24, 8);

#[derive(Row, Deserialize)]
struct Macro {
    name: String,
    value: String,
}

impl Warehouse {
    /// Checks the server's version, that it has the settings that we send, and the cluster with its keeper. Needs no
    /// database and no table of ours.
    ///
    /// # Errors
    /// [`WarehouseError::Config`] says what the server lacks.
    pub async fn check_server(&self) -> Result<(), WarehouseError> {
        let version: String = self.one_outside("check", Call::new("SELECT version()")).await?;
        check_version(&version)?;
        let names: Vec<&str> = SERVER_SETTINGS.iter().map(|(name, _)| *name).collect();
        let call =
            Call::new("SELECT name FROM system.settings WHERE name IN {names:Array(String)}").with("names", names);
        let known: Vec<String> = self.rows_outside("check", call).await?;
        let lacks = |&(name, _): &(&str, bool)| !known.iter().any(|known| known == name);
        if let Some((name, _)) = SERVER_SETTINGS.iter().find(|setting| lacks(setting)) {
            return Err(WarehouseError::Config(format!(
                "the warehouse's server (ClickHouse {version}) has no setting `{name}`, which exactness needs"
            )));
        }
        match self.cluster() {
            Some(cluster) => self.check_cluster(cluster.to_owned()).await,
            None => Ok(()),
        }
    }

    async fn check_cluster(&self, cluster: String) -> Result<(), WarehouseError> {
        let known: Vec<String> = self
            .rows_outside(
                "check",
                Call::new("SELECT DISTINCT cluster FROM system.clusters ORDER BY cluster"),
            )
            .await?;
        if !known.contains(&cluster) {
            return Err(WarehouseError::Config(format!(
                "the warehouse's server knows no cluster `{cluster}` (warehouse.cluster); it knows: {}",
                known.join(", ")
            )));
        }
        let macros = Call::new("SELECT macro AS name, substitution AS value FROM system.macros");
        let macros: Vec<Macro> = self.rows_outside("check", macros).await?;
        for wanted in ["shard", "replica"] {
            if !macros
                .iter()
                .any(|found| found.name == wanted && !found.value.is_empty())
            {
                return Err(WarehouseError::Config(format!(
                    "the warehouse's server has no macro `{wanted}`: replicated tables need `shard` and `replica`, \
                     different on every node"
                )));
            }
        }
        let keeper = Call::new("SELECT count() FROM system.zookeeper WHERE path = '/'");
        let keeper: Result<u64, WarehouseError> = self.one_outside("check", keeper).await;
        keeper.map(drop).map_err(|error| match error {
            // 60: without a keeper in the configuration there isn't even the table.
            WarehouseError::Refused { code: 60, .. } => {
                WarehouseError::Config("the warehouse's server has no keeper: replicated tables need one".to_owned())
            }
            other => other,
        })
    }

    /// Whether a table of ours takes inserts as such: it is there, with the columns and the rights. Inserts nothing.
    ///
    /// # Errors
    /// What is wrong with it, and what would keep any insert from succeeding.
    pub async fn takes_inserts(&self, table: &str, columns: &str) -> Result<(), WarehouseError> {
        let nothing = format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} LIMIT 0");
        let taken = self.execute("takes_inserts", Call::new(nothing)).await;
        taken.map_err(|error| error.naming(self.user()))
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
    fn old_servers_are_told_apart() {
        for good in ["24.8.1.2684", "24.12.3.47", "25.3.1", "26.7.2.1"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["24.7.9.9", "23.8.16.16", "18.16.1", "", "latest"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
        assert!(check_version("18.16.1").is_err_and(|error| error.to_string().contains("24.8")));
    }
}
