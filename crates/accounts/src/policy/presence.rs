//! Which entries there were at each version. Of an erased entry its id stays, until no record can be judged as of then.

use std::collections::HashSet;

use sqlx::{Any, Row, Transaction};
use uuid::Uuid;

use super::versions::{Subject, next};
use crate::{Accounts, AccountsError};

/// Entries asked for in one statement. It always has as many places, so that there is one such statement to prepare.
const IDS_PER_QUESTION: usize = 256;

impl Accounts {
    /// Which of `ids` were entries, of whatever account, as of `version`. For a version that has been the answer is always the same.
    ///
    /// # Errors
    /// The store fails.
    pub async fn entries_existing(&self, version: i64, ids: &[Uuid]) -> Result<HashSet<Uuid>, AccountsError> {
        let mut existing = HashSet::new();
        for ids in ids.chunks(IDS_PER_QUESTION) {
            let work = async { Ok(question(version, ids).fetch_all(&self.pool).await?) };
            for row in self.timed("entries_existing", work).await? {
                let id: &str = row.try_get(0)?;
                existing.insert(
                    id.parse()
                        .map_err(|_| AccountsError::Store(format!("`{id}` is no entry id")))?,
                );
            }
        }
        Ok(existing)
    }

    /// Forgets erased entries that no mark asks for any more. The first version that a mark may ask for is the least of all marks, or
    /// the present one.
    ///
    /// # Errors
    /// The store fails.
    pub async fn forget_entries(&self) -> Result<u64, AccountsError> {
        let delete = "DELETE FROM entry_presence WHERE until_version <=
            (SELECT COALESCE(MIN(m.entry_version), MAX(v.number)) FROM policy_versions v
                LEFT JOIN policy_marks m ON m.entries = 'required' WHERE v.subject = 'entries')";
        let work = async { Ok(sqlx::query(delete).execute(&self.pool).await?) };
        Ok(self.timed("entries_forget", work).await?.rows_affected())
    }
}

fn question(version: i64, ids: &[Uuid]) -> sqlx::query::Query<'static, Any, sqlx::any::AnyArguments> {
    let places: Vec<String> = (2..2 + IDS_PER_QUESTION).map(|number| format!("${number}")).collect();
    let question = format!(
        "SELECT DISTINCT entry_id FROM entry_presence
         WHERE since_version <= $1 AND (until_version IS NULL OR until_version > $1) AND entry_id IN ({})",
        places.join(", ")
    );
    let mut question = sqlx::query(sqlx::AssertSqlSafe(question)).bind(version);
    // The rest of the places repeat the last.
    let last = ids.last().map(Uuid::to_string).unwrap_or_default();
    for number in 0..IDS_PER_QUESTION {
        question = question.bind(ids.get(number).map_or_else(|| last.clone(), Uuid::to_string));
    }
    question
}

/// These are entries of the account from the next version on. One that was already stays as it was. Call it last in a transaction: it
/// keeps others from changing entries until the end.
pub(crate) async fn entries_created(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    ids: &[Uuid],
) -> Result<(), AccountsError> {
    if ids.is_empty() {
        return Ok(());
    }
    let version = next(transaction, Subject::Entries).await?;
    for id in ids {
        let id = id.to_string();
        let question = "SELECT 1 FROM entry_presence WHERE entry_id = $1 AND account_id = $2 AND until_version IS NULL";
        let question = sqlx::query(question).bind(&id).bind(account_id);
        if question.fetch_optional(&mut **transaction).await?.is_none() {
            let insert = "INSERT INTO entry_presence (entry_id, account_id, since_version) VALUES ($1, $2, $3)";
            let insert = sqlx::query(insert).bind(&id).bind(account_id).bind(version);
            insert.execute(&mut **transaction).await?;
        }
    }
    Ok(())
}

/// These are no entries of the account any more from the next version on. Call it last in a transaction, as [`entries_created`].
pub(crate) async fn entries_deleted(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    ids: &[Uuid],
) -> Result<(), AccountsError> {
    if ids.is_empty() {
        return Ok(());
    }
    let version = next(transaction, Subject::Entries).await?;
    for id in ids {
        let end = "UPDATE entry_presence SET until_version = $1
            WHERE entry_id = $2 AND account_id = $3 AND until_version IS NULL";
        let end = sqlx::query(end).bind(version).bind(id.to_string()).bind(account_id);
        end.execute(&mut **transaction).await?;
    }
    Ok(())
}
