//! The steps of an erasure within this store. Each is one transaction with its counts, so that
//! doing it again counts nothing twice.

use std::collections::BTreeMap;

use sqlx::{Any, Transaction};

use super::{ErasedEntries, Erasure, ErasureState, counts_text, read, read_counts, select};
use crate::entry::erase_entries_of;
use crate::member::changing::remove;
use crate::registry::{RegistrySection, increment};
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, MailKind, mail};

/// Rows that one step takes out of a table that has many.
const ROWS_MAX: i64 = 1_000;
/// The longest text of what keeps an erasure up, in characters.
const PROBLEM_CHARS_MAX: usize = 500;

type ErasedCounts = BTreeMap<String, u64>;

/// A table whose rows are an account's: its name, its key, and whose they are by which column.
struct OwnedTable {
    table: &'static str,
    key: &'static str,
    of_account: &'static str,
}

const fn owned(table: &'static str, key: &'static str) -> OwnedTable {
    let of_account = "account_id = $1";
    OwnedTable { table, key, of_account }
}

const OF_OPERATOR: &str = "operator_id IN (SELECT operator_id FROM operators WHERE account_id = $1)";

/// Tables that can have many rows of an account, besides entries.
const MANY: [OwnedTable; 2] = [owned("trail", "id"), owned("mails", "id")];
/// Tables that lose an account's rows at once, those that others refer to last.
const FEW: [OwnedTable; 12] = [
    owned("challenges", "id"),
    owned("sessions", "id"),
    owned("login_links", "token_hash"),
    OwnedTable {
        table: "invitation_tokens",
        key: "token_hash",
        of_account: "invitation_id IN (SELECT id FROM invitations WHERE account_id = $1)",
    },
    owned("invitations", "id"),
    OwnedTable {
        table: "operator_clients",
        key: "client_id",
        of_account: OF_OPERATOR,
    },
    OwnedTable {
        table: "operator_keys",
        key: "fingerprint",
        of_account: OF_OPERATOR,
    },
    owned("operators", "operator_id"),
    OwnedTable {
        table: "domain_ancestors",
        key: "domain",
        of_account: "domain IN (SELECT domain FROM domains WHERE account_id = $1)",
    },
    owned("domains", "domain"),
    owned("api_keys", "id"),
    OwnedTable {
        table: "accounts",
        key: "id",
        of_account: "id = $1",
    },
];

impl Accounts {
    /// Takes a bounded number of rows out of this store. `true` if there is more to do here.
    ///
    /// # Errors
    /// The store fails; nothing of this step is done then.
    pub async fn erase_some(&self, id: &str) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            let hold = sqlx::query("UPDATE erasures SET checked_at_ms = $1 WHERE id = $2 AND state = 'store'");
            let hold = hold.bind(now_ms).bind(id).execute(&mut *transaction).await?;
            if hold.rows_affected() == 0 {
                return Ok(false);
            }
            let row = sqlx::query(select!("WHERE id = $1")).bind(id);
            let mut erasure = read(&row.fetch_one(&mut *transaction).await?)?;
            let more = step(&mut transaction, &mut erasure, now_ms).await?;
            if !more {
                erasure.state = ErasureState::Warehouse;
            }
            let note = "UPDATE erasures SET counts = $1, state = $2, problem = NULL WHERE id = $3";
            let note = sqlx::query(note)
                .bind(counts_text(&erasure.counts))
                .bind(erasure.state.as_str())
                .bind(id);
            note.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(more)
        };
        let more = self.timed("erase_some", work).await?;
        if !more {
            // Keys of an erased account must not be taken from memory for the rest of their time
            // there.
            self.cache.clear();
        }
        Ok(more)
    }

    /// Notes how many rows of the warehouse an erasure is about to change, unless that was noted
    /// before: what comes after a crash finds fewer.
    pub async fn note_erased_rows(&self, id: &str, rows: &[(&str, u64)]) -> Result<(), AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            let hold = "UPDATE erasures SET checked_at_ms = $1 WHERE id = $2 AND state = 'warehouse'";
            let hold = sqlx::query(hold).bind(self.now_ms()).bind(id);
            if hold.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(());
            }
            let counts = sqlx::query_scalar("SELECT counts FROM erasures WHERE id = $1").bind(id);
            let counts: String = counts.fetch_one(&mut *transaction).await?;
            let mut counts = read_counts(&counts)?;
            for (table, count) in rows {
                counts.entry((*table).to_owned()).or_insert(*count);
            }
            let note = sqlx::query("UPDATE erasures SET counts = $1 WHERE id = $2");
            let note = note.bind(counts_text(&counts)).bind(id);
            note.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(())
        };
        self.timed("note_erased_rows", work).await
    }

    /// Ends an erasure, once: `false` if it was ended before, or isn't as far. The account gets a
    /// mail, if it still has an address.
    pub async fn finish_erasure(&self, id: &str) -> Result<bool, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            let hold = "UPDATE erasures SET finished_at_ms = $1 WHERE id = $2 AND state = 'warehouse'";
            let hold = sqlx::query(hold).bind(now_ms).bind(id);
            if hold.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(false);
            }
            let row = sqlx::query(select!("WHERE id = $1")).bind(id);
            let erasure = read(&row.fetch_one(&mut *transaction).await?)?;
            // Where no receipts were touched, nothing can come back.
            let state = match erasure.request.receipt_metadata {
                Some(_) => ErasureState::Done,
                None => ErasureState::Settled,
            };
            let end = "UPDATE erasures SET state = $1, checked_at_ms = $2, problem = NULL WHERE id = $3";
            let end = sqlx::query(end).bind(state.as_str()).bind(now_ms).bind(id);
            end.execute(&mut *transaction).await?;
            let change = TrailChange {
                account_id: &erasure.account_id,
                actor: "service",
                action: if erasure.whole_account {
                    "account.erase"
                } else {
                    "erasure.finish"
                },
                subject: id,
                detail: "",
                at_ms: now_ms,
            };
            trail::note(&mut transaction, &change).await?;
            mail::queue_for_erasure(&mut transaction, MailKind::ErasureDone, &erasure, now_ms).await?;
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("finish_erasure", work).await
    }

    /// Notes what keeps an erasure up, for whoever requests it.
    pub async fn note_erasure_problem(&self, id: &str, problem: &str) -> Result<(), AccountsError> {
        let problem: String = problem.chars().take(PROBLEM_CHARS_MAX).collect();
        let note =
            "UPDATE erasures SET problem = $1, checked_at_ms = $2 WHERE id = $3 AND state IN ('store', 'warehouse')";
        let note = sqlx::query(note).bind(problem).bind(self.now_ms()).bind(id);
        self.timed("note_erasure_problem", async { Ok(note.execute(&self.pool).await?) })
            .await?;
        Ok(())
    }

    /// Notes that an erasure that is done was checked; with `settled` for the last time, and
    /// the domains and the person it was about are forgotten.
    pub async fn note_erasure_check(&self, id: &str, settled: bool) -> Result<(), AccountsError> {
        let note = if settled {
            "UPDATE erasures SET checked_at_ms = $1, state = 'settled', coverage = '{\"domains\":[],\"inherited\":[]}',
                    person_id = CASE WHEN person_kind IS NULL THEN NULL ELSE '' END
                WHERE id = $2 AND state = 'done'"
        } else {
            "UPDATE erasures SET checked_at_ms = $1 WHERE id = $2 AND state = 'done'"
        };
        let note = sqlx::query(note).bind(self.now_ms()).bind(id);
        self.timed("note_erasure_check", async { Ok(note.execute(&self.pool).await?) })
            .await?;
        Ok(())
    }
}

async fn step(
    transaction: &mut Transaction<'static, Any>,
    erasure: &mut Erasure,
    now_ms: i64,
) -> Result<bool, AccountsError> {
    let Erasure {
        account_id,
        actor,
        request,
        whole_account,
        counts,
        ..
    } = erasure;
    if *whole_account {
        for many in &MANY {
            let erased = delete(transaction, many, account_id, Some(ROWS_MAX)).await?;
            if add(counts, many.table, erased) {
                return Ok(true);
            }
        }
    } else if request.personal_data {
        blank_people(transaction, account_id, counts).await?;
    }
    let some = match &request.entries {
        ErasedEntries::None => None,
        ErasedEntries::All => Some(None),
        ErasedEntries::These(ids) => Some(Some(ids.as_slice())),
    };
    // What was requested before the account went whole has gone with it.
    if let Some(ids) = some
        && exists(transaction, account_id).await?
    {
        let erased = erase_entries_of(transaction, account_id, actor, now_ms, ids, ROWS_MAX).await?;
        if add(counts, "entries", erased) {
            return Ok(true);
        }
    }
    if *whole_account {
        let contests = sqlx::query("UPDATE domains SET contested_by = NULL WHERE contested_by = $1");
        contests.bind(&*account_id).execute(&mut **transaction).await?;
        erase_members(transaction, account_id, counts).await?;
        // What the entries' erasure wrote into it.
        for owned in MANY.iter().chain(&FEW) {
            let erased = delete(transaction, owned, account_id, None).await?;
            add(counts, owned.table, erased);
        }
        // Its keys prove nothing from now on, and verifiers know them.
        increment(transaction, RegistrySection::Operators).await?;
    }
    Ok(false)
}

async fn exists(transaction: &mut Transaction<'static, Any>, account_id: &str) -> Result<bool, AccountsError> {
    let question = sqlx::query("SELECT id FROM accounts WHERE id = $1").bind(account_id);
    Ok(question.fetch_optional(&mut **transaction).await?.is_some())
}

/// `true` if there were any.
fn add(counts: &mut ErasedCounts, table: &str, rows: u64) -> bool {
    *counts.entry(table.to_owned()).or_default() += rows;
    rows > 0
}

async fn delete(
    transaction: &mut Transaction<'static, Any>,
    owned: &OwnedTable,
    account_id: &str,
    rows_max: Option<i64>,
) -> Result<u64, AccountsError> {
    let OwnedTable { table, key, of_account } = owned;
    let text = match rows_max {
        None => format!("DELETE FROM {table} WHERE {of_account}"),
        Some(rows) => format!(
            "DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {of_account} ORDER BY {key} LIMIT {rows})"
        ),
    };
    // Of this file's own words and a number.
    let delete = sqlx::query(sqlx::AssertSqlSafe(text)).bind(account_id);
    Ok(delete.execute(&mut **transaction).await?.rows_affected())
}

/// Takes all members out of the account. Those who are in no other are erased.
async fn erase_members(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    counts: &mut ErasedCounts,
) -> Result<(), AccountsError> {
    let members = sqlx::query_scalar("SELECT user_id FROM members WHERE account_id = $1 ORDER BY user_id");
    let members: Vec<String> = members.bind(account_id).fetch_all(&mut **transaction).await?;
    for user_id in members {
        add(counts, "members", 1);
        let is_erased = remove(transaction, account_id, &user_id).await?;
        add(counts, "users", u64::from(is_erased));
    }
    Ok(())
}

/// Blanks personal data in rows that stay: the account works without them. Who is in another
/// account too keeps theirs, which that account needs. Invitations to addresses end.
async fn blank_people(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    counts: &mut ErasedCounts,
) -> Result<(), AccountsError> {
    for (table, statement) in [
        (
            "users",
            "UPDATE users SET email = NULL, name = NULL WHERE (email IS NOT NULL OR name IS NOT NULL)
                AND id IN (SELECT m.user_id FROM members m WHERE m.account_id = $1)
                AND NOT EXISTS (SELECT 1 FROM members o WHERE o.user_id = users.id AND o.account_id <> $1)",
        ),
        (
            "api_keys",
            "UPDATE api_keys SET name = 'erased' WHERE account_id = $1 AND name <> 'erased'",
        ),
        (
            "invitation_tokens",
            "DELETE FROM invitation_tokens WHERE invitation_id IN
                (SELECT id FROM invitations WHERE account_id = $1 AND email IS NOT NULL)",
        ),
        (
            "invitations",
            "DELETE FROM invitations WHERE account_id = $1 AND email IS NOT NULL",
        ),
        (
            // What a mail server answered may name whom it was for.
            "mails",
            "UPDATE mails SET problem = NULL WHERE account_id = $1 AND problem IS NOT NULL",
        ),
    ] {
        let change = sqlx::query(statement).bind(account_id);
        let rows = change.execute(&mut **transaction).await?.rows_affected();
        add(counts, table, rows);
    }
    Ok(())
}
