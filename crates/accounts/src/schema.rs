//! The tables, as versions that are applied once and in order. The SQL is of both databases: TEXT
//! and BIGINT, `$1`.

mod domains;
mod entries;
mod erasures;
mod first_verifications;
mod jobs;
mod keys;
mod mail;
mod operators;
mod registry;
mod scheduled_erasures;
mod shard_map;
mod trail;
mod users;
mod verification;

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use sqlx::{AnyConnection, Connection, Row};

use crate::AccountsError;
use crate::engine::Engine;

/// A step of the schema. Never changed once released: its checksum is stored beside it.
struct Version {
    number: i64,
    name: &'static str,
    statements: &'static [&'static str],
}

/// In the order in which they are applied; each one's statements are in the file of its noun.
const VERSIONS: &[Version] = &[
    Version {
        number: 1,
        name: "accounts, domains, API keys",
        statements: keys::STATEMENTS,
    },
    Version {
        number: 2,
        name: "audit trail",
        statements: trail::STATEMENTS,
    },
    Version {
        number: 3,
        name: "verifications, challenges",
        statements: verification::STATEMENTS,
    },
    Version {
        number: 4,
        name: "jobs",
        statements: jobs::STATEMENTS,
    },
    Version {
        number: 5,
        name: "users, rotation of keys, deletion of accounts",
        statements: users::STATEMENTS,
    },
    Version {
        number: 6,
        name: "registry of client keys",
        statements: registry::STATEMENTS,
    },
    Version {
        number: 7,
        name: "entries",
        statements: entries::STATEMENTS,
    },
    Version {
        number: 8,
        name: "erasures",
        statements: erasures::STATEMENTS,
    },
    Version {
        number: 9,
        name: "mails",
        statements: mail::STATEMENTS,
    },
    Version {
        number: 10,
        name: "shard map",
        statements: shard_map::STATEMENTS,
    },
    Version {
        number: 11,
        name: "operators",
        statements: operators::STATEMENTS,
    },
    Version {
        number: 12,
        name: "life cycle of domains",
        statements: domains::STATEMENTS,
    },
    Version {
        number: 13,
        name: "scheduled erasures",
        statements: scheduled_erasures::STATEMENTS,
    },
    Version {
        number: 14,
        name: "first verifications of domains",
        statements: first_verifications::STATEMENTS,
    },
];

/// Brings the tables to this program's version, in one transaction.
pub(crate) async fn migrate(engine: Engine, connection: &mut AnyConnection, now_ms: i64) -> Result<(), AccountsError> {
    let mut transaction = connection.begin_with(engine.begin()).await?;
    if let Some(lock) = engine.schema_lock() {
        sqlx::query(lock).execute(&mut *transaction).await?;
    }
    let table = "CREATE TABLE IF NOT EXISTS accounts_schema (
        version BIGINT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        checksum TEXT NOT NULL,
        applied_at_ms BIGINT NOT NULL
    )";
    sqlx::query(table).execute(&mut *transaction).await?;
    let rows = sqlx::query("SELECT version, checksum FROM accounts_schema")
        .fetch_all(&mut *transaction)
        .await?;
    let mut applied = HashMap::new();
    for row in rows {
        applied.insert(row.try_get::<i64, _>(0)?, row.try_get::<String, _>(1)?);
    }
    check(&applied)?;
    for version in VERSIONS.iter().filter(|version| !applied.contains_key(&version.number)) {
        tracing::info!(
            version = version.number,
            name = version.name,
            "preparing the account store"
        );
        for statement in version.statements {
            sqlx::query(*statement).execute(&mut *transaction).await?;
        }
        let note = "INSERT INTO accounts_schema (version, name, checksum, applied_at_ms) VALUES ($1, $2, $3, $4)";
        let note = sqlx::query(note)
            .bind(version.number)
            .bind(version.name)
            .bind(checksum(version))
            .bind(now_ms);
        note.execute(&mut *transaction).await?;
    }
    Ok(transaction.commit().await?)
}

fn check(applied: &HashMap<i64, String>) -> Result<(), AccountsError> {
    let newest = VERSIONS.last().map_or(0, |version| version.number);
    if let Some(newer) = applied.keys().find(|number| **number > newest) {
        let what = format!("they are of version {newer}, this program knows {newest}; run a newer one");
        return Err(AccountsError::Schema(what));
    }
    let changed = |version: &&Version| {
        applied
            .get(&version.number)
            .is_some_and(|sum| *sum != checksum(version))
    };
    match VERSIONS.iter().find(changed) {
        None => Ok(()),
        Some(version) => Err(AccountsError::Schema(format!(
            "version {} ({}) was made by other statements than this program's",
            version.number, version.name
        ))),
    }
}

fn checksum(version: &Version) -> String {
    let mut sum = Sha256::new();
    for statement in version.statements {
        // Words only, so that indenting a statement again doesn't make it another.
        for word in statement.split_whitespace() {
            sum.update(word.as_bytes());
            sum.update([b' ']);
        }
        sum.update([0]);
    }
    hex::encode(sum.finalize())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn versions_are_numbered_from_one_without_gaps() {
        for (number, version) in (1..).zip(VERSIONS) {
            assert_eq!(version.number, number);
        }
    }

    /// A released version must not change: whoever has it applied could not start any more.
    #[test]
    fn released_versions_keep_their_checksum() {
        let sums: Vec<String> = VERSIONS.iter().map(checksum).collect();
        assert_eq!(
            sums,
            [
                "18c20e89f219d33dea6407510fb3c45e15a03e331a8568ee2642ab5a00c9dc05",
                "d430c8c868e25e32d4287b27b30cd88096da91697e0c317d3f927108a35c3179",
                "8a4ace40f044533484430a401d7e035a9183bc79620802b56dec8dd4bbf97d2a",
                "0bef8f8b3221ca143c5229f93943318cafdbfaac63a26dfa5f863883583aa729",
                "2efac2e2a13b7d277303955e27b25e1e51cd519daa92b6e9d6aba46b466b18dd",
                "017165209e3a6313c80336590b5fff835a3a79de0a3a4778d648fc522783a47b",
                "947eec38a0b701dc7aba3aa44fd12916a8b20a2dcf453f73b342ff90f45e9192",
                "c2dafaec12a1296b7c65942d0bcc8101d37bc835722411016ec49dfe663c5f7b",
                "d093cfaf7474a0bd86e38e6f19b47d418edde4aac7178693da27263ed30bca95",
                "5819819b264fc041b90f0fd38bae8302b8ad9e43d7bb19bcb3d7b54afb93a169",
                "31d4cd1996b85b962408d540fa1d59f860997880d487868f73f40b6859758c0a",
                "f3b17e725c36316b7bc4d7f88f383000a1a1ea2038439be6836ab8d376e7519e",
                "bbb7a2fbfe44e53e6cfa0e4b70c013c6939c9614a33b570a0eba02eed4949b8c",
                "e66f87fc650237b66a6fdefd53d76a3d630456ae760d59447793309bcde1d84d",
            ]
        );
    }

    #[test]
    fn newer_and_changed_tables_are_refused() {
        let newer = HashMap::from([(1, checksum(&VERSIONS[0])), (99, String::new())]);
        assert!(check(&newer).unwrap_err().to_string().contains("version 99"));
        let changed = HashMap::from([(1, "other".to_owned())]);
        assert!(check(&changed).unwrap_err().to_string().contains("other statements"));
        assert!(check(&HashMap::from([(1, checksum(&VERSIONS[0]))])).is_ok());
    }
}
