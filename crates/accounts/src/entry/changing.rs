//! Rectifying and erasing an entry.

use sqlx::{Any, Transaction};
use uuid::Uuid;

use super::creating::{hold_count, set_count};
use super::{Entry, EntryAuthors, EntryTitle, EntryUrl, Revision, reading, search_text};
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, registry};

/// Members of an entry that are to be corrected; `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rectification {
    /// The right URL, which the account must be allowed to list.
    pub url: Option<EntryUrl>,
    /// The right title.
    pub title: Option<EntryTitle>,
    /// The right authors.
    pub authors: Option<EntryAuthors>,
}

/// Result of a rectification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rectified {
    /// The entry as it is now; also when nothing of it was wrong.
    Done(Entry),
    /// The entry is in none of the states that were named.
    Otherwise(Revision),
    /// The account has no such entry.
    Unknown,
}

/// Result of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erased {
    /// The entry is gone.
    Done,
    /// The entry is in none of the states that were named.
    Otherwise(Revision),
    /// The account has no such entry.
    Unknown,
}

impl Accounts {
    /// Puts an entry of the account right. With `if_match` only if it is in one of these states.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn rectify_entry(
        &self,
        account_id: &str,
        actor: &str,
        id: Uuid,
        right: Rectification,
        if_match: Option<&[Revision]>,
    ) -> Result<Rectified, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            hold_count(&mut transaction, account_id).await?;
            let Some(mut entry) = reading::entry_of(&mut *transaction, account_id, id).await? else {
                return Ok(Rectified::Unknown);
            };
            if if_match.is_some_and(|states| !states.contains(&entry.revision)) {
                return Ok(Rectified::Otherwise(entry.revision));
            }
            let url_id = right.url.as_ref().map(EntryUrl::id);
            let changed = apply(&mut entry, right);
            if changed.is_empty() {
                return Ok(Rectified::Done(entry));
            }
            // A clock that was set back doesn't make it older than it is.
            entry.updated_at_ms = entry.updated_at_ms.max(self.now_ms());
            entry.revision.number += 1;
            store(&mut transaction, account_id, &entry, url_id).await?;
            let change = TrailChange {
                account_id,
                actor,
                action: "entry.rectify",
                subject: &id.to_string(),
                detail: &changed.join(","),
                at_ms: self.now_ms(),
            };
            trail::note(&mut transaction, &change).await?;
            transaction.commit().await?;
            Ok(Rectified::Done(entry))
        };
        self.timed("rectify_entry", work).await
    }

    /// Erases an entry of the account: nothing of it is left but the id, in the trail and for
    /// blocks that are judged as of then. With `if_match` only if it is in one of these states.
    ///
    /// # Errors
    /// The store fails; nothing is erased then.
    pub async fn erase_entry(
        &self,
        account_id: &str,
        actor: &str,
        id: Uuid,
        if_match: Option<&[Revision]>,
    ) -> Result<Erased, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            let count = hold_count(&mut transaction, account_id).await?;
            let Some(entry) = reading::entry_of(&mut *transaction, account_id, id).await? else {
                return Ok(Erased::Unknown);
            };
            if if_match.is_some_and(|states| !states.contains(&entry.revision)) {
                return Ok(Erased::Otherwise(entry.revision));
            }
            let delete = sqlx::query("DELETE FROM entries WHERE account_id = $1 AND id = $2").bind(account_id);
            delete.bind(id.to_string()).execute(&mut *transaction).await?;
            set_count(&mut transaction, account_id, count - 1).await?;
            let change = TrailChange {
                account_id,
                actor,
                action: "entry.erase",
                subject: &id.to_string(),
                detail: "",
                at_ms: self.now_ms(),
            };
            trail::note(&mut transaction, &change).await?;
            registry::increment(&mut transaction, registry::RegistrySection::Entries).await?;
            transaction.commit().await?;
            Ok(Erased::Done)
        };
        self.timed("erase_entry", work).await
    }
}

/// Erases up to `rows_max` entries of an account, all or those of `ids`, and returns how many: 0
/// when none are left. The trail has one line for all of them. It holds up whoever else makes or
/// erases entries until the commit, so it belongs at the end of its transaction.
pub(crate) async fn erase_entries_of(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    actor: &str,
    at_ms: i64,
    ids: Option<&[Uuid]>,
    rows_max: i64,
) -> Result<u64, AccountsError> {
    let count = hold_count(transaction, account_id).await?;
    let wanted = match ids {
        Some(ids) => ids.to_vec(),
        None => {
            let question = "SELECT id FROM entries WHERE account_id = $1 ORDER BY created_at_ms, id LIMIT $2";
            let question = sqlx::query_scalar(question).bind(account_id).bind(rows_max);
            let rows: Vec<String> = question.fetch_all(&mut **transaction).await?;
            if rows.is_empty() {
                let forget = sqlx::query("DELETE FROM entry_counts WHERE account_id = $1").bind(account_id);
                forget.execute(&mut **transaction).await?;
            }
            let ids: Result<Vec<Uuid>, AccountsError> = rows.iter().map(|id| reading::uuid(id)).collect();
            ids?
        }
    };
    let mut erased = Vec::new();
    for id in wanted {
        let delete = sqlx::query("DELETE FROM entries WHERE id = $1 AND account_id = $2");
        let delete = delete.bind(id.to_string()).bind(account_id);
        if delete.execute(&mut **transaction).await?.rows_affected() > 0 {
            erased.push(id);
        }
    }
    if erased.is_empty() {
        return Ok(0);
    }
    set_count(
        transaction,
        account_id,
        count - i64::try_from(erased.len()).unwrap_or(count),
    )
    .await?;
    let change = TrailChange {
        account_id,
        actor,
        action: "entry.erase_all",
        subject: account_id,
        detail: &format!("{} entries", erased.len()),
        at_ms,
    };
    trail::note(transaction, &change).await?;
    registry::increment(transaction, registry::RegistrySection::Entries).await?;
    Ok(erased.len() as u64)
}

/// The names of the members that are others now.
fn apply(entry: &mut Entry, right: Rectification) -> Vec<&'static str> {
    let mut changed = Vec::new();
    if let Some(url) = right.url
        && entry.url != url.as_str()
    {
        (entry.domain, entry.url) = (url.host().to_owned(), url.as_str().to_owned());
        changed.push("url");
    }
    if let Some(EntryTitle(title)) = right.title
        && entry.title != title
    {
        entry.title = title;
        changed.push("title");
    }
    if let Some(EntryAuthors(authors)) = right.authors
        && entry.authors != authors
    {
        entry.authors = authors;
        changed.push("authors");
    }
    changed
}

/// Stores a changed entry. `url_id` is that of its URL, if the URL was given.
async fn store(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    entry: &Entry,
    url_id: Option<Uuid>,
) -> Result<(), AccountsError> {
    let statement = "UPDATE entries SET domain = $1, url = $2, title = $3, authors = $4, search = $5, updated_at_ms = $6, revision = $7,
            url_id = COALESCE($10, url_id)
        WHERE id = $8 AND account_id = $9";
    let authors = serde_json::Value::from(entry.authors.clone()).to_string();
    let change = sqlx::query(statement)
        .bind(&entry.domain)
        .bind(&entry.url)
        .bind(&entry.title);
    let change = change.bind(authors).bind(search_text(&entry.url, &entry.title));
    let change = change.bind(entry.updated_at_ms).bind(entry.revision.number);
    let change = change.bind(entry.id.to_string()).bind(account_id);
    let change = change.bind(url_id.map(|id| id.to_string()));
    change.execute(&mut **transaction).await?;
    Ok(())
}
