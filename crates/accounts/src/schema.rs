//! The tables, as the migrations in `migrations/` make them.

use std::sync::LazyLock;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AnyConnection, Connection, SqlSafeStr};

use crate::AccountsError;
use crate::engine::DatabaseEngine;

/// Every file of `migrations/`. `sqlx::migrate!` would find them by itself, but its macros compile
/// sqlx, SQLite and TLS a second time, for the compiler's own use.
const MIGRATIONS: [(i64, &str, &str); 1] = [(1, "accounts", include_str!("../migrations/0001_accounts.sql"))];

static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |(version, name, sql): (i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(MIGRATIONS.map(migration).into())
});

/// Brings the tables to this program's version. Several processes may do so at one time.
pub(crate) async fn migrate(engine: DatabaseEngine, connection: &mut AnyConnection) -> Result<(), AccountsError> {
    match engine {
        // SQLite has no lock for the migrator: the write lock of a transaction serves as one.
        DatabaseEngine::Sqlite => {
            let mut transaction = connection.begin_with(engine.begin()).await?;
            MIGRATOR
                .run_direct(None, &mut *transaction, false)
                .await
                .map_err(refused)?;
            transaction.commit().await?;
        }
        DatabaseEngine::Postgres => MIGRATOR.run_direct(None, connection, false).await.map_err(refused)?,
    }
    Ok(())
}

fn refused(error: MigrateError) -> AccountsError {
    match error {
        MigrateError::VersionMissing(version) => AccountsError::Schema(format!(
            "a newer program has prepared them (version {version}); run that one"
        )),
        MigrateError::VersionMismatch(version) => AccountsError::Schema(format!(
            "another program has made version {version} of them; run that one, or name an empty database"
        )),
        MigrateError::ExecuteMigration(error, _) if is_already_there(&error) => AccountsError::Schema(format!(
            "{error}, made by another program or an earlier version of this one; name an empty database"
        )),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        other => AccountsError::Store(other.to_string()),
    }
}

/// Whether a table or index exists already. PostgreSQL's message may be in another language, so its
/// SQLSTATE decides (`duplicate_table`, which indexes have too); SQLite has only the message.
fn is_already_there(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "42P07") || error.to_string().contains("already exists")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;

    #[test]
    fn the_migrations_are_the_files_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed = MIGRATIONS.map(|(version, name, _)| format!("{version:04}_{name}.sql"));
        assert_eq!(files, listed);
        for (file, (_, _, sql)) in files.iter().zip(MIGRATIONS) {
            assert_eq!(std::fs::read_to_string(folder.join(file)).unwrap(), sql, "{file}");
        }
    }
}
