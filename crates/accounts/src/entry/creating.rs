//! Creating entries, many in one transaction.

use std::collections::BTreeSet;

use sqlx::{Any, Transaction};
use uuid::Uuid;

use super::{Entry, EntryContent, Revision, reading, search_text};
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, registry};

/// An entry to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// Identifier.
    pub id: Uuid,
    /// The rest.
    pub content: EntryContent,
}

/// Result of creating an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The entry is new.
    New(Entry),
    /// The entry existed with the same content: nothing was changed.
    Unchanged(Entry),
    /// The entry existed with other content, which stays.
    Differs,
    /// The account has as many entries as it may have.
    TooMany,
}

impl Accounts {
    /// Creates `entries` of one account, whose URLs it must be allowed to list, in one transaction,
    /// each for itself: the answer has one outcome for each, in order. Creating the same again
    /// changes nothing. `entries_max`: how many the account may have.
    ///
    /// # Errors
    /// The store fails; nothing is stored then.
    pub async fn create_entries(
        &self,
        account_id: &str,
        actor: &str,
        entries: Vec<NewEntry>,
        entries_max: u64,
    ) -> Result<Vec<Created>, AccountsError> {
        let work = Creation {
            account_id,
            actor,
            entries_max: i64::try_from(entries_max).unwrap_or(i64::MAX),
            at_ms: self.now_ms(),
        };
        self.timed("create_entries", work.run(self, entries)).await
    }
}

/// Work of one transaction.
struct Creation<'a> {
    account_id: &'a str,
    actor: &'a str,
    entries_max: i64,
    at_ms: i64,
}

impl Creation<'_> {
    async fn run(&self, accounts: &Accounts, entries: Vec<NewEntry>) -> Result<Vec<Created>, AccountsError> {
        let ids: BTreeSet<Uuid> = entries.iter().map(|entry| entry.id).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let mut transaction = accounts.begin().await?;
        let before = hold_count(&mut transaction, self.account_id).await?;
        let mut own = reading::entries_of(&mut transaction, self.account_id, &ids).await?;
        let mut made = Vec::new();
        let mut outcomes = Vec::with_capacity(entries.len());
        for new in entries {
            let room = before + i64::try_from(made.len()).unwrap_or(i64::MAX) < self.entries_max;
            let outcome = match own.get(&new.id) {
                Some(entry) if is_same(entry, &new.content) => Created::Unchanged(entry.clone()),
                Some(_) => Created::Differs,
                None if !room => Created::TooMany,
                None => {
                    let entry = self.insert(&mut transaction, new).await?;
                    own.insert(entry.id, entry.clone());
                    made.push(entry.id);
                    Created::New(entry)
                }
            };
            outcomes.push(outcome);
        }
        if !made.is_empty() {
            let count = before + i64::try_from(made.len()).unwrap_or(i64::MAX);
            set_count(&mut transaction, self.account_id, count).await?;
            // Last, because it holds up whoever else makes or erases entries until the commit.
            registry::increment(&mut transaction, registry::RegistrySection::Entries).await?;
            transaction.commit().await?;
        }
        Ok(outcomes)
    }

    /// The account's count is held, so nobody else inserts the same.
    async fn insert(&self, transaction: &mut Transaction<'static, Any>, new: NewEntry) -> Result<Entry, AccountsError> {
        let EntryContent { url, title, authors } = new.content;
        let id = new.id.to_string();
        let statement = "INSERT INTO entries (id, account_id, domain, url, url_id, title, authors, search, created_at_ms, updated_at_ms, revision)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, 1)";
        let insert = sqlx::query(statement).bind(&id).bind(self.account_id).bind(url.host());
        let insert = insert.bind(url.as_str()).bind(url.id().to_string());
        let insert = insert.bind(title.as_str()).bind(authors.to_json());
        let insert = insert.bind(search_text(url.as_str(), title.as_str())).bind(self.at_ms);
        insert.execute(&mut **transaction).await?;
        let change = TrailChange {
            account_id: self.account_id,
            actor: self.actor,
            action: "entry.create",
            subject: &id,
            detail: "",
            at_ms: self.at_ms,
        };
        trail::note(transaction, &change).await?;
        Ok(Entry {
            id: new.id,
            domain: url.host().to_owned(),
            url: url.as_str().to_owned(),
            title: title.0,
            authors: authors.0,
            created_at_ms: self.at_ms,
            updated_at_ms: self.at_ms,
            revision: Revision {
                created_at_ms: self.at_ms,
                number: 1,
            },
        })
    }
}

fn is_same(entry: &Entry, content: &EntryContent) -> bool {
    entry.url == content.url.as_str() && entry.title == content.title.0 && entry.authors == content.authors.0
}

/// Number of the account's entries. Whoever else makes or erases some of them waits for this
/// transaction's end.
pub(super) async fn hold_count(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
) -> Result<i64, AccountsError> {
    let insert = "INSERT INTO entry_counts (account_id, entries) VALUES ($1, 0) ON CONFLICT (account_id) DO NOTHING";
    sqlx::query(insert).bind(account_id).execute(&mut **transaction).await?;
    let hold = "UPDATE entry_counts SET entries = entries WHERE account_id = $1 RETURNING entries";
    let hold = sqlx::query_scalar(hold).bind(account_id);
    Ok(hold.fetch_one(&mut **transaction).await?)
}

pub(super) async fn set_count(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    count: i64,
) -> Result<(), AccountsError> {
    let change = sqlx::query("UPDATE entry_counts SET entries = $1 WHERE account_id = $2");
    change.bind(count).bind(account_id).execute(&mut **transaction).await?;
    Ok(())
}
