//! An account's API keys: made, listed, checked, revoked.

use std::collections::BTreeSet;

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};

use crate::config::KeysMax;
use crate::limits::KEY_DOMAINS_MAX;
use crate::page::{Cursor, Page};
use crate::row::RowValues;
use crate::scope::{joined, ordered, parse_scopes};
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, ApiKey, Domain, Scope, Tier};

/// The most keys that the operator is shown.
pub const KEYS_LISTED_MAX: i64 = 1_000;
/// The longest label, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Request for a key of a known account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    /// A label, 1 to 100 characters.
    pub name: String,
    /// Permissions.
    pub scopes: Vec<Scope>,
    /// The verified domains of the account that it is limited to, 1 to [`KEY_DOMAINS_MAX`]; `None`
    /// speaks for all of them, later ones included.
    pub domains: Option<Vec<Domain>>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: i64,
}

/// A key just made.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedKey {
    /// The whole key, secret included. It can't be had again.
    pub api_key: String,
    /// Public ID of the key.
    pub key_id: String,
    /// The account it belongs to.
    pub account_id: String,
    /// Label of the key.
    pub name: String,
    /// Permissions, in order.
    pub scopes: Vec<Scope>,
    /// The domains that it is limited to, in order; `None` speaks for all of the account's.
    pub domains: Option<Vec<String>>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// When it expires.
    pub expires_at_ms: i64,
}

/// A key in a list: everything but the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Public ID of the key.
    pub key_id: String,
    /// The account it belongs to.
    pub account_id: String,
    /// Label of the key.
    pub name: String,
    /// Permissions, in order.
    pub scopes: Vec<Scope>,
    /// The domains that it is limited to, in order; `None` speaks for all of the account's.
    pub domains: Option<Vec<String>>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// When it expires.
    pub expires_at_ms: i64,
    /// When it was revoked, if it was.
    pub revoked_at_ms: Option<i64>,
    /// The key that a rotation made instead of it.
    pub replaced_by: Option<String>,
    /// Actor that made it, as in the trail.
    pub created_by: String,
    /// When it was last used, to the hour, in milliseconds since the Unix epoch.
    pub last_used_at_ms: Option<i64>,
}

/// Result of revoking a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// The key is revoked from now on.
    Done,
    /// The key was revoked before.
    Before,
    /// The account has no such key.
    Unknown,
}

/// The columns that [`read`] reads, of the keys that the rest of the statement names.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, account_id, name, scopes, created_at_ms, expires_at_ms, revoked_at_ms, replaced_by, domains,
                created_by, last_used_at_ms FROM api_keys ",
            $rest
        )
    };
}
pub(crate) use select;

impl Accounts {
    /// Makes a key for an account, on behalf of `actor` (see the trail).
    ///
    /// # Errors
    /// The request can't be met ([`AccountsError`] says why), or the store fails. Nothing is stored
    /// then.
    pub async fn create_key(
        &self,
        account_id: &str,
        request: KeyRequest,
        actor: &str,
    ) -> Result<IssuedKey, AccountsError> {
        let now_ms = self.now_ms();
        request.check(now_ms)?;
        let work = async {
            let mut transaction = self.begin().await?;
            check_room(&mut transaction, account_id, self.keys_max, now_ms).await?;
            let issued = make(&mut transaction, account_id, request, actor, now_ms).await?;
            transaction.commit().await?;
            Ok(issued)
        };
        self.timed("create_key", work).await
    }

    /// The keys of an account, newest first, at most `items_max`, from `after` on.
    pub async fn keys_page(
        &self,
        account_id: &str,
        after: Option<&Cursor>,
        items_max: usize,
    ) -> Result<Page<KeyInfo>, AccountsError> {
        let question = select!(
            "WHERE account_id = $1 AND (created_at_ms, id) < ($2, $3) ORDER BY created_at_ms DESC, id DESC LIMIT $4"
        );
        let (at_ms, id) = after.map_or((i64::MAX, ""), |cursor| (cursor.created_at_ms, cursor.id.as_str()));
        let items_asked = i64::try_from(items_max).unwrap_or(i64::MAX).saturating_add(1);
        let question = sqlx::query(question).bind(account_id).bind(at_ms);
        let question = question.bind(id).bind(items_asked);
        let rows = self
            .timed("keys_page", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        let keys: Result<Vec<KeyInfo>, _> = rows.iter().map(read).collect();
        Ok(Page::cut(keys?, items_max, |key| Cursor {
            created_at_ms: key.created_at_ms,
            id: key.key_id.clone(),
        }))
    }

    /// A key of an account; none if it has no such key.
    pub async fn key(&self, account_id: &str, key_id: &str) -> Result<Option<KeyInfo>, AccountsError> {
        let question = sqlx::query(select!("WHERE account_id = $1 AND id = $2"));
        let question = question.bind(account_id).bind(key_id);
        let row = self
            .timed("key", async { Ok(question.fetch_optional(&self.pool).await?) })
            .await?;
        row.as_ref().map(read).transpose()
    }

    /// The keys of all accounts, newest first, [`KEYS_LISTED_MAX`] at most: for the operator.
    pub async fn list_keys(&self) -> Result<Vec<KeyInfo>, AccountsError> {
        let question = sqlx::query(select!("ORDER BY created_at_ms DESC, id DESC LIMIT $1")).bind(KEYS_LISTED_MAX);
        let rows = self
            .timed("list_keys", async { Ok(question.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read).collect()
    }

    /// Takes a key back permanently: one of `account_id`'s, or whoever's where that is `None` (the
    /// operator). Holds at once in this process, and in others after their `cache_ms_max`.
    pub async fn revoke_key(
        &self,
        account_id: Option<&str>,
        key_id: &str,
        actor: &str,
    ) -> Result<Revocation, AccountsError> {
        let done = self.timed("revoke_key", self.revoke(account_id, key_id, actor)).await;
        self.cache.remove(key_id);
        done
    }

    async fn revoke(&self, account_id: Option<&str>, key_id: &str, actor: &str) -> Result<Revocation, AccountsError> {
        let now_ms = self.now_ms();
        let mut transaction = self.begin().await?;
        let question = sqlx::query_scalar("SELECT account_id FROM api_keys WHERE id = $1").bind(key_id);
        let owner: Option<String> = question.fetch_optional(&mut *transaction).await?;
        let Some(owner) = owner.filter(|owner| account_id.is_none_or(|wanted| wanted == owner)) else {
            return Ok(Revocation::Unknown);
        };
        if !end(&mut transaction, key_id, now_ms).await? {
            return Ok(Revocation::Before);
        }
        let change = TrailChange {
            account_id: &owner,
            actor,
            action: "key.revoke",
            subject: key_id,
            detail: "",
            at_ms: now_ms,
        };
        trail::note(&mut transaction, &change).await?;
        transaction.commit().await?;
        Ok(Revocation::Done)
    }
}

impl KeyRequest {
    pub(crate) fn check(&self, now_ms: i64) -> Result<(), AccountsError> {
        if self.scopes.is_empty() {
            return Err(AccountsError::NoScope);
        }
        if self.expires_at_ms <= now_ms {
            return Err(AccountsError::ExpiryInThePast);
        }
        let chars = self.name.chars().count();
        if self.name.trim().is_empty() || chars > NAME_CHARS_MAX || self.name.chars().any(char::is_control) {
            return Err(AccountsError::Name);
        }
        let count = self.domains.as_ref().map_or(1, Vec::len);
        if count == 0 || count > KEY_DOMAINS_MAX {
            return Err(AccountsError::KeyDomainCount);
        }
        Ok(())
    }
}

/// The account's tier, if there is room for one more active key: one that works and that no
/// rotation has replaced. Nobody else makes a key for the account until the transaction ends.
pub(crate) async fn check_room(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    keys_max: KeysMax,
    now_ms: i64,
) -> Result<Tier, AccountsError> {
    let (tier, active) = count_working(transaction, account_id, "replaced_by IS NULL", now_ms).await?;
    let max = keys_max.of(tier);
    if active >= max.into() {
        return Err(AccountsError::TooManyKeys { tier, max });
    }
    Ok(tier)
}

/// Refuses if as many replaced keys of the account work as its tier allows. A rotation leaves the
/// number of active keys as it is, and so needs no other room: it works at the limit, and in an
/// account whose tier was lowered.
pub(crate) async fn check_room_for_replaced(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    keys_max: KeysMax,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let (tier, replaced) = count_working(transaction, account_id, "replaced_by IS NOT NULL", now_ms).await?;
    let max = keys_max.of(tier);
    if replaced >= max.into() {
        return Err(AccountsError::TooManyReplacedKeys { tier, max });
    }
    Ok(())
}

/// The account's tier, and its keys that work and fulfil `condition`. The account's row stays
/// locked until the transaction ends, so that keys made at one time are counted one after the
/// other.
async fn count_working(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    condition: &'static str,
    now_ms: i64,
) -> Result<(Tier, i64), AccountsError> {
    let lock = sqlx::query("UPDATE accounts SET tier = tier WHERE id = $1").bind(account_id);
    lock.execute(&mut **transaction).await?;
    let query = format!(
        "SELECT id, tier, (SELECT COUNT(*) FROM api_keys WHERE account_id = $1 AND revoked_at_ms IS NULL
            AND expires_at_ms > $2 AND {condition}) AS active FROM accounts WHERE id = $1"
    );
    let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(account_id).bind(now_ms);
    let row = query.fetch_one(&mut **transaction).await?;
    Ok((row.parsed("tier")?, row.value("active")?))
}

/// Stores a new key of an account that exists, and notes it. The caller has checked that there is
/// room for it.
pub(crate) async fn make(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    request: KeyRequest,
    actor: &str,
    now_ms: i64,
) -> Result<IssuedKey, AccountsError> {
    let key = ApiKey::generate().map_err(|error| AccountsError::Randomness(error.to_string()))?;
    let scopes = ordered(request.scopes);
    let domains = match request.domains {
        None => None,
        Some(domains) => Some(own(transaction, account_id, domains, now_ms).await?),
    };
    let insert =
        "INSERT INTO api_keys (id, account_id, name, secret_hash, scopes, created_at_ms, expires_at_ms, domains, created_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let insert = sqlx::query(insert).bind(key.id()).bind(account_id).bind(&request.name);
    let insert = insert
        .bind(key.secret_hash().to_text())
        .bind(joined(&scopes))
        .bind(now_ms)
        .bind(request.expires_at_ms)
        .bind(domains.as_ref().map(|domains| domains.join(",")))
        .bind(actor);
    insert.execute(&mut **transaction).await?;
    let change = TrailChange {
        account_id,
        actor,
        action: "key.create",
        subject: key.id(),
        detail: &joined(&scopes),
        at_ms: now_ms,
    };
    trail::note(transaction, &change).await?;
    Ok(IssuedKey {
        api_key: key.reveal(),
        key_id: key.id().to_owned(),
        account_id: account_id.to_owned(),
        name: request.name,
        scopes,
        domains,
        created_at_ms: now_ms,
        expires_at_ms: request.expires_at_ms,
    })
}

/// `domains` in order, each once, if the account's verification of each holds.
async fn own(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    domains: Vec<Domain>,
    now_ms: i64,
) -> Result<Vec<String>, AccountsError> {
    for domain in &domains {
        let question = "SELECT domain FROM domains
            WHERE domain = $1 AND account_id = $2 AND revoked_at_ms IS NULL AND expires_at_ms > $3";
        let question = sqlx::query(question)
            .bind(domain.as_str())
            .bind(account_id)
            .bind(now_ms);
        if question.fetch_optional(&mut **transaction).await?.is_none() {
            return Err(AccountsError::KeyDomain(domain.clone()));
        }
    }
    let domains: BTreeSet<String> = domains.iter().map(Domain::to_string).collect();
    Ok(domains.into_iter().collect())
}

/// Revokes a key; `false` if it was before.
pub(crate) async fn end(
    transaction: &mut Transaction<'static, Any>,
    key_id: &str,
    now_ms: i64,
) -> Result<bool, AccountsError> {
    let change = "UPDATE api_keys SET revoked_at_ms = $1 WHERE id = $2 AND revoked_at_ms IS NULL";
    let change = sqlx::query(change).bind(now_ms).bind(key_id);
    Ok(change.execute(&mut **transaction).await?.rows_affected() > 0)
}

/// Scopes of a key's row.
pub(crate) fn read_scopes(row: &AnyRow) -> Result<Vec<Scope>, AccountsError> {
    parse_scopes(row.value("scopes")?).map_err(|error| AccountsError::Store(error.to_string()))
}

/// Reads a row of [`select`].
pub(crate) fn read(row: &AnyRow) -> Result<KeyInfo, AccountsError> {
    Ok(KeyInfo {
        key_id: row.value("id")?,
        account_id: row.value("account_id")?,
        name: row.value("name")?,
        scopes: read_scopes(row)?,
        created_at_ms: row.value("created_at_ms")?,
        expires_at_ms: row.value("expires_at_ms")?,
        revoked_at_ms: row.value("revoked_at_ms")?,
        replaced_by: row.value("replaced_by")?,
        created_by: row.value("created_by")?,
        last_used_at_ms: row.value("last_used_at_ms")?,
        domains: row
            .value::<Option<&str>>("domains")?
            .map(|words| words.split(',').map(str::to_owned).collect()),
    })
}

impl std::fmt::Debug for IssuedKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("IssuedKey")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}
