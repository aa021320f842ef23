//! Asking for an erasure, looking at it, and finding those that are in progress.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{ErasedEntries, Erasure, ErasureState, NewErasure, counts_text, read, select};
use crate::page::{Cursor, Page};
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, MailKind, mail};

/// The most entries that one erasure names.
pub const ERASURE_ENTRIES_MAX: usize = 1_000;
/// The most erasures of one account that aren't done, or were requested within 24 hours. Each one
/// sends mails, also if it's cancelled.
pub const ERASURES_OPEN_MAX: i64 = 100;
const DAY_MS: i64 = 86_400_000;
/// Erasures that are searched for at a time.
const FOUND_MAX: i64 = 100;

/// Result of the request for an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedErasure {
    /// Stored: it will be done, unless it is cancelled.
    Taken(Box<Erasure>),
    /// The account has [`ERASURES_OPEN_MAX`].
    TooMany,
    /// The account has been erased; a key of it may be in a process's memory yet.
    Gone,
}

impl Accounts {
    /// Takes the request of an account, on behalf of `actor`. The erasure is stored, begins
    /// `delay_ms` milliseconds from now, and can be cancelled until then. The account gets a mail.
    pub async fn request_erasure(
        &self,
        account_id: &str,
        actor: &str,
        request: NewErasure,
        delay_ms: i64,
    ) -> Result<RequestedErasure, AccountsError> {
        let now_ms = self.now_ms();
        let erasure = Erasure {
            id: format!("era_{}", Uuid::now_v7().simple()),
            account_id: account_id.to_owned(),
            actor: actor.to_owned(),
            requested_at_ms: now_ms,
            execute_at_ms: now_ms.saturating_add(delay_ms.max(0)),
            cancelled_at_ms: None,
            request,
            whole_account: false,
            state: ErasureState::Scheduled,
            counts: BTreeMap::new(),
            problem: None,
            finished_at_ms: None,
        };
        let work = async {
            let mut transaction = self.begin().await?;
            // Held, so that two at once don't both find room for one.
            let hold = sqlx::query("UPDATE accounts SET name = name WHERE id = $1").bind(account_id);
            if hold.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(RequestedErasure::Gone);
            }
            let open = "SELECT COUNT(*) FROM erasures
                WHERE account_id = $1 AND (state IN ('scheduled', 'store', 'warehouse') OR requested_at_ms > $2)";
            let open = sqlx::query_scalar::<_, i64>(open)
                .bind(account_id)
                .bind(now_ms.saturating_sub(DAY_MS));
            if open.fetch_one(&mut *transaction).await? >= ERASURES_OPEN_MAX {
                return Ok(RequestedErasure::TooMany);
            }
            insert(&mut transaction, &erasure).await?;
            let change = TrailChange {
                account_id,
                actor,
                action: "erasure.request",
                subject: &erasure.id,
                detail: &erasure.request.summary(),
                at_ms: erasure.requested_at_ms,
            };
            trail::note(&mut transaction, &change).await?;
            mail::queue_for_erasure(&mut transaction, MailKind::ErasureRequested, &erasure, now_ms).await?;
            transaction.commit().await?;
            Ok(RequestedErasure::Taken(Box::new(erasure)))
        };
        self.timed("request_erasure", work).await
    }

    /// Begins the erasure of an account whose time to be retained after all is over, once; `false`
    /// if it isn't due (any more).
    pub async fn begin_account_erasure(&self, account_id: &str) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            // 0, so that a replica whose clock is behind doesn't let it be taken back any more.
            let due = "UPDATE accounts SET erase_after_ms = 0 WHERE id = $1 AND erase_after_ms <= $2";
            let due = sqlx::query(due).bind(account_id).bind(now_ms);
            if due.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let erasure = Erasure {
                // Of the account's own identifier: there can be one.
                id: format!("era_{}", account_id.trim_start_matches("acc_")),
                account_id: account_id.to_owned(),
                actor: "service".to_owned(),
                requested_at_ms: now_ms,
                execute_at_ms: now_ms,
                cancelled_at_ms: None,
                request: NewErasure {
                    entries: ErasedEntries::All,
                    personal_data: true,
                    receipt_metadata: None,
                    person: None,
                },
                whole_account: true,
                state: ErasureState::Store,
                counts: BTreeMap::new(),
                problem: None,
                finished_at_ms: None,
            };
            insert(&mut transaction, &erasure).await?;
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("begin_account_erasure", work).await
    }

    /// An erasure of an account; none if it has no such.
    pub async fn erasure(&self, account_id: &str, id: &str) -> Result<Option<Erasure>, AccountsError> {
        let question = sqlx::query(select!("WHERE account_id = $1 AND id = $2"));
        let question = question.bind(account_id).bind(id);
        let row = self
            .timed("erasure", async { Ok(question.fetch_optional(&self.pool).await?) })
            .await?;
        row.as_ref().map(read).transpose()
    }

    /// Erasures of an account, newest first, at most `items_max`, from `after` on; of one actor, if
    /// one is given.
    pub async fn erasures_page(
        &self,
        account_id: &str,
        actor: Option<&str>,
        after: Option<&Cursor>,
        items_max: usize,
    ) -> Result<Page<Erasure>, AccountsError> {
        let query = select!(
            "WHERE account_id = $1 AND ($2 = '' OR actor = $2) AND (requested_at_ms, id) < ($3, $4)
            ORDER BY requested_at_ms DESC, id DESC LIMIT $5"
        );
        let (at_ms, id) = after.map_or((i64::MAX, ""), |cursor| (cursor.created_at_ms, cursor.id.as_str()));
        let items_asked = i64::try_from(items_max).unwrap_or(i64::MAX).saturating_add(1);
        let query = sqlx::query(query).bind(account_id).bind(actor.unwrap_or_default());
        let query = query.bind(at_ms).bind(id).bind(items_asked);
        let rows = self
            .timed("erasures_page", async { Ok(query.fetch_all(&self.pool).await?) })
            .await?;
        let erasures: Result<Vec<Erasure>, _> = rows.iter().map(read).collect();
        Ok(Page::cut(erasures?, items_max, |erasure| Cursor {
            created_at_ms: erasure.requested_at_ms,
            id: erasure.id.clone(),
        }))
    }

    /// Erasures that have begun and aren't done, those first that were checked least recently; at
    /// most 100.
    pub async fn open_erasures(&self) -> Result<Vec<Erasure>, AccountsError> {
        let question = select!("WHERE state IN ('store', 'warehouse') ORDER BY checked_at_ms, id LIMIT $1");
        let question = sqlx::query(question).bind(FOUND_MAX);
        let rows = self
            .timed("open_erasures", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read).collect()
    }

    /// Erasures of clients' metadata that are done and that nobody has checked since `before_ms`;
    /// at most 100. What was in the log when they were done may still come into the warehouse.
    pub async fn erasures_to_look_after(&self, before_ms: i64) -> Result<Vec<Erasure>, AccountsError> {
        let question = select!("WHERE state = 'done' AND checked_at_ms < $1 ORDER BY checked_at_ms, id LIMIT $2");
        let question = sqlx::query(question).bind(before_ms).bind(FOUND_MAX);
        let rows = self
            .timed("erasures_to_look_after", async {
                Ok(question.fetch_all(&self.pool).await?)
            })
            .await?;
        rows.iter().map(read).collect()
    }
}

async fn insert(
    transaction: &mut sqlx::Transaction<'static, sqlx::Any>,
    erasure: &Erasure,
) -> Result<(), AccountsError> {
    let insert = "INSERT INTO erasures (id, account_id, actor, requested_at_ms, entries, personal_data, coverage, whole_account, state,
            counts, checked_at_ms, execute_at_ms, person_kind, person_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $4, $11, $12, $13) ON CONFLICT (id) DO NOTHING";
    let coverage = erasure.request.receipt_metadata.as_ref();
    let person = erasure.request.person.as_ref();
    let insert = sqlx::query(insert)
        .bind(&erasure.id)
        .bind(&erasure.account_id)
        .bind(&erasure.actor)
        .bind(erasure.requested_at_ms)
        .bind(erasure.request.entries.to_text())
        .bind(i64::from(erasure.request.personal_data))
        .bind(coverage.map(|coverage| serde_json::json!(coverage).to_string()))
        .bind(i64::from(erasure.whole_account))
        .bind(erasure.state.as_str())
        .bind(counts_text(&erasure.counts))
        .bind(erasure.execute_at_ms)
        .bind(person.map(|person| person.kind.as_str()))
        .bind(person.map(|person| person.id.as_str()));
    insert.execute(&mut **transaction).await?;
    Ok(())
}
