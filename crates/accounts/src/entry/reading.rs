//! Reading entries: one, a page of them, and what others call them by.

use std::collections::HashMap;

use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Executor};
use uuid::Uuid;

use super::{Entry, Revision};
use crate::row::RowValues;
use crate::{Accounts, AccountsError, Cursor, KeyDomains, Page};

/// The most entries of a page.
pub const ENTRY_PAGE_MAX: u32 = 1_000;
/// The most ids of one question for labels.
pub const ENTRY_LABELS_MAX: usize = 1_000;
/// Ids in one statement.
pub(super) const IDS_PER_QUESTION: usize = 500;
/// Entries that are checked for one page. A rare word in a million entries costs many short
/// pages, never one long question.
const SCANNED_MAX: i64 = 20_000;

const COLUMNS: &str = "id, domain, url, title, authors, created_at_ms, updated_at_ms, revision";

/// Filter of an account's entries. Everything that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// With a URL on this domain or below it, in lower case.
    pub domain: Option<String>,
    /// With this in title or URL, in whatever case.
    pub text: Option<String>,
    /// Created at this instant or later, in milliseconds since the Unix epoch.
    pub created_from_ms: Option<i64>,
    /// Created before this instant.
    pub created_to_ms: Option<i64>,
    /// Created or rectified at this instant or later.
    pub updated_from_ms: Option<i64>,
    /// With a URL that a key of this limit may act on.
    pub key: Option<KeyDomains>,
}

/// Label of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryLabel {
    /// URL of the content.
    pub url: String,
    /// Title.
    pub title: String,
    /// The domain that it is listed for.
    pub domain: String,
}

impl Accounts {
    /// An entry of the account.
    pub async fn entry(&self, account_id: &str, id: Uuid) -> Result<Option<Entry>, AccountsError> {
        self.timed("entry", entry_of(&self.pool, account_id, id)).await
    }

    /// The entries of the account that `filter` lets through, the newest first, from behind `after`
    /// on, `limit` ([`ENTRY_PAGE_MAX`]) at most; there may be fewer, or none, and more behind them.
    /// Going from page to page shows no entry twice, and each one that is there all the while.
    pub async fn entry_page(
        &self,
        account_id: &str,
        filter: &EntryFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Entry>, AccountsError> {
        let limit = limit.clamp(1, ENTRY_PAGE_MAX);
        self.timed("entry_page", self.read_page(account_id, filter, after, limit))
            .await
    }

    async fn read_page(
        &self,
        account_id: &str,
        filter: &EntryFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Entry>, AccountsError> {
        let end = self.scanned_end(account_id, filter, after).await?;
        let mut matching = Conditions::new(account_id);
        matching.range(filter, after);
        if let Some(end) = &end {
            matching.add(
                "(created_at_ms, id) >= ($, $)",
                [end.created_at_ms.into(), end.id.clone().into()],
            );
        }
        matching.content(filter);
        let question = format!(
            "SELECT {COLUMNS} FROM entries WHERE {} ORDER BY created_at_ms DESC, id DESC LIMIT {}",
            matching.sql,
            i64::from(limit) + 1
        );
        let rows = matching.ask(&question).fetch_all(&self.pool).await?;
        let mut entries = rows.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        let full = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let last = entries.last().map(|entry| Cursor {
            created_at_ms: entry.created_at_ms,
            id: entry.id.to_string(),
        });
        Ok(Page {
            items: entries,
            next: if full { last } else { end },
        })
    }

    /// The end of what is checked for one page, found in the index alone; `None`: there is less,
    /// or whatever is checked is on the page.
    async fn scanned_end(
        &self,
        account_id: &str,
        filter: &EntryFilter,
        after: Option<&Cursor>,
    ) -> Result<Option<Cursor>, AccountsError> {
        if filter.text.is_none() && filter.domain.is_none() && filter.updated_from_ms.is_none() && filter.key.is_none()
        {
            return Ok(None);
        }
        let mut within = Conditions::new(account_id);
        within.range(filter, after);
        let question = format!(
            "SELECT created_at_ms, id FROM entries WHERE {} ORDER BY created_at_ms DESC, id DESC LIMIT 1 OFFSET {}",
            within.sql,
            SCANNED_MAX - 1
        );
        let row = within.ask(&question).fetch_optional(&self.pool).await?;
        row.as_ref().map(cursor).transpose()
    }

    /// Labels of those of `ids` that are entries of the account; [`ENTRY_LABELS_MAX`] IDs at
    /// most.
    ///
    /// # Errors
    /// The store fails, or there are too many ids.
    pub async fn entry_labels(
        &self,
        account_id: &str,
        ids: &[Uuid],
    ) -> Result<HashMap<Uuid, EntryLabel>, AccountsError> {
        if ids.len() > ENTRY_LABELS_MAX {
            let what = format!(
                "asked for {} entries, {ENTRY_LABELS_MAX} are answered at a time",
                ids.len()
            );
            return Err(AccountsError::Store(what));
        }
        let work = async {
            let mut connection = self.pool.acquire().await?;
            let entries = entries_of(&mut connection, account_id, ids).await?;
            let label = |(id, entry): (Uuid, Entry)| {
                let Entry { url, title, domain, .. } = entry;
                (id, EntryLabel { url, title, domain })
            };
            Ok(entries.into_iter().map(label).collect())
        };
        self.timed("entry_labels", work).await
    }
}

/// An entry of the account.
pub(super) async fn entry_of<'e>(
    executor: impl Executor<'e, Database = Any>,
    account_id: &str,
    id: Uuid,
) -> Result<Option<Entry>, AccountsError> {
    let question = format!("SELECT {COLUMNS} FROM entries WHERE account_id = $1 AND id = $2");
    let question = sqlx::query(AssertSqlSafe(question))
        .bind(account_id)
        .bind(id.to_string());
    question.fetch_optional(executor).await?.as_ref().map(entry).transpose()
}

/// Entries of the account among `ids`.
pub(super) async fn entries_of(
    connection: &mut AnyConnection,
    account_id: &str,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Entry>, AccountsError> {
    let mut entries = HashMap::new();
    for ids in ids.chunks(IDS_PER_QUESTION) {
        let numbers: Vec<String> = (2..ids.len() + 2).map(|number| format!("${number}")).collect();
        let numbers = numbers.join(", ");
        let question = format!("SELECT {COLUMNS} FROM entries WHERE account_id = $1 AND id IN ({numbers})");
        let mut question = sqlx::query(AssertSqlSafe(question)).bind(account_id);
        for id in ids {
            question = question.bind(id.to_string());
        }
        for row in question.fetch_all(&mut *connection).await? {
            let entry = entry(&row)?;
            entries.insert(entry.id, entry);
        }
    }
    Ok(entries)
}

/// The value of one parameter in a statement.
enum Value {
    Number(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

/// A condition with its values: nothing of a caller's is ever in the text.
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn new(account_id: &str) -> Self {
        Self {
            sql: "account_id = $1".to_owned(),
            values: vec![Value::Text(account_id.to_owned())],
        }
    }

    /// Adds a condition; each `$` in it is the parameter of one of `values`.
    fn add(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        let mut values = values.into_iter();
        for c in condition.chars() {
            self.sql.push(c);
            if c == '$' {
                self.values.extend(values.next());
                self.sql.push_str(&self.values.len().to_string());
            }
        }
    }

    /// Conditions that the index decides.
    fn range(&mut self, filter: &EntryFilter, after: Option<&Cursor>) {
        if let Some(after) = after {
            self.add(
                "(created_at_ms, id) < ($, $)",
                [after.created_at_ms.into(), after.id.clone().into()],
            );
        }
        if let Some(from) = filter.created_from_ms {
            self.add("created_at_ms >= $", [from.into()]);
        }
        if let Some(to) = filter.created_to_ms {
            self.add("created_at_ms < $", [to.into()]);
        }
    }

    /// Conditions that each entry decides.
    fn content(&mut self, filter: &EntryFilter) {
        if let Some(from) = filter.updated_from_ms {
            self.add("updated_at_ms >= $", [from.into()]);
        }
        if let Some(domain) = &filter.domain {
            let (condition, values) = within(domain);
            self.add(&condition, values);
        }
        if let Some(key) = &filter.key {
            self.of_key(key);
        }
        if let Some(text) = &filter.text {
            let anywhere = format!("%{}%", escaped(&text.to_lowercase()));
            self.add("search LIKE $ ESCAPE '\\'", [anywhere.into()]);
        }
    }

    /// Entries on which a limited key may act ([`KeyDomains::allow`]).
    fn of_key(&mut self, key: &KeyDomains) {
        let mut any = Vec::with_capacity(key.domains.len());
        let mut values = Vec::new();
        for domain in &key.domains {
            let (mut condition, own) = within(domain);
            values.extend(own);
            for other in key.except_below(domain) {
                let (excepted, others) = within(other);
                condition.push_str(&format!(" AND NOT {excepted}"));
                values.extend(others);
            }
            any.push(condition);
        }
        self.add(&format!("({})", any.join(" OR ")), values);
    }

    fn ask(self, question: &str) -> sqlx::query::Query<'static, Any, sqlx::any::AnyArguments> {
        let mut query = sqlx::query(AssertSqlSafe(question.to_owned()));
        for value in self.values {
            query = match value {
                Value::Number(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
            };
        }
        query
    }
}

/// A condition: on a domain or below it.
fn within(domain: &str) -> (String, [Value; 2]) {
    let condition = "(domain = $ OR domain LIKE $ ESCAPE '\\')".to_owned();
    let below = format!("%.{}", escaped(domain));
    (condition, [domain.to_owned().into(), below.into()])
}

/// A pattern that only `text` itself matches.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

pub(super) fn uuid(text: &str) -> Result<Uuid, AccountsError> {
    Uuid::try_parse(text).map_err(|error| AccountsError::Store(format!("entry {text}: {error}")))
}

fn cursor(row: &AnyRow) -> Result<Cursor, AccountsError> {
    Ok(Cursor {
        created_at_ms: row.value("created_at_ms")?,
        id: row.value("id")?,
    })
}

fn entry(row: &AnyRow) -> Result<Entry, AccountsError> {
    let id: &str = row.value("id")?;
    let authors = serde_json::from_str(row.value("authors")?);
    let created_at_ms = row.value("created_at_ms")?;
    Ok(Entry {
        id: uuid(id)?,
        domain: row.value("domain")?,
        url: row.value("url")?,
        title: row.value("title")?,
        authors: authors.map_err(|error| AccountsError::Store(format!("entry {id}: authors: {error}")))?,
        created_at_ms,
        updated_at_ms: row.value("updated_at_ms")?,
        revision: Revision {
            created_at_ms,
            number: row.value("revision")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_say() {
        assert_eq!(escaped("50%_off\\"), "50\\%\\_off\\\\");
    }

    #[test]
    fn conditions_number_their_parameters() {
        let mut conditions = Conditions::new("acc_1");
        conditions.content(&EntryFilter {
            domain: Some("a.example".to_owned()),
            text: Some("x".to_owned()),
            ..EntryFilter::default()
        });
        let sql = "account_id = $1 AND (domain = $2 OR domain LIKE $3 ESCAPE '\\') AND search LIKE $4 ESCAPE '\\'";
        assert_eq!((conditions.sql.as_str(), conditions.values.len()), (sql, 4));
    }
}
