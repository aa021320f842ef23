//! The tables, as the migrations in `migrations/` make them.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{AnyConnection, Connection};

use crate::AccountsError;
use crate::engine::Engine;

static MIGRATOR: Migrator = sqlx::migrate!();

/// Brings the tables to this program's version. Several processes may do so at one time.
pub(crate) async fn migrate(engine: Engine, connection: &mut AnyConnection) -> Result<(), AccountsError> {
    match engine {
        // SQLite has no lock for the migrator: the write lock of a transaction serves as one.
        Engine::Sqlite => {
            let mut transaction = connection.begin_with(engine.begin()).await?;
            MIGRATOR
                .run_direct(None, &mut *transaction, false)
                .await
                .map_err(refused)?;
            transaction.commit().await?;
        }
        Engine::Postgres => MIGRATOR.run_direct(None, connection, false).await.map_err(refused)?,
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
