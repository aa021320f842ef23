//! Sessions of people in browsers: begun by a sign-in, found by their token, ended.
//!
//! A session isn't cached: its end holds in every process from the next request on.

use sqlx::any::AnyRow;

use uuid::Uuid;

use crate::member::{choose, chosen_account};
use crate::row::RowValues;
use crate::trail::{self, TrailChange, note_action};
use crate::user::lock_user;
use crate::{AccountRole, Accounts, AccountsError, Principal, SecretToken, Tier, TrailActor, User};

/// The most sessions of a user; a further one ends the oldest.
pub const SESSIONS_PER_USER_MAX: i64 = 20;
/// The most sessions of a list.
pub const SESSIONS_LISTED_MAX: i64 = 200;
/// Age of the last recorded use at which a use is recorded again.
const SEEN_STEP_MS: i64 = 60_000;

/// A session that holds.
#[derive(Debug, Clone)]
pub struct UserSession {
    /// `ses_` and 32 digits.
    pub id: String,
    /// The user.
    pub user_id: String,
    /// Account that the user acts for; `None`: they are in none yet.
    pub account_id: Option<String>,
    /// The user's role there, from which the principal's permissions are. Who is in no account
    /// becomes the owner of the one that [`Accounts::own_account`] makes.
    pub role: AccountRole,
    /// The user as a caller. While they are in no account, its ID is theirs: nothing is stored
    /// under it.
    pub principal: Principal,
    /// When the user last proved who they are, in milliseconds since the Unix epoch.
    pub signed_in_at_ms: i64,
    /// When it was last used, to the minute.
    pub seen_at_ms: i64,
    /// When it ends at the latest.
    pub ends_at_ms: i64,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// `ses_` and 32 digits.
    pub id: String,
    /// The user.
    pub user_id: String,
    /// When the user last proved who they are, in milliseconds since the Unix epoch.
    pub signed_in_at_ms: i64,
    /// When it was last used, to the minute.
    pub seen_at_ms: i64,
    /// When it ends at the latest.
    pub ends_at_ms: i64,
}

/// Way in which a person signed in, for the trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInMethod {
    /// At the identity provider.
    Provider,
    /// By a login link.
    Link,
}

impl Accounts {
    /// Begins a session of `user`, who has proven who they are at `signed_in_at_ms`, in the account
    /// that they chose last. Ends the one that the same browser had before.
    ///
    /// # Errors
    /// The store fails, or the system has no randomness.
    pub async fn start_session(
        &self,
        user: &User,
        method: SignInMethod,
        signed_in_at_ms: i64,
        before: Option<&SecretToken>,
    ) -> Result<SecretToken, AccountsError> {
        let now_ms = self.now_ms();
        let token = SecretToken::generate()?;
        let work = async {
            let mut transaction = self.begin().await?;
            // Sign-ins of one user at one time count each other.
            lock_user(&mut transaction, &user.id).await?;
            let account_id = chosen_account(&mut transaction, &user.id).await?;
            if let Some(before) = before {
                let end = sqlx::query("DELETE FROM sessions WHERE token_hash = $1").bind(before.stored_hash());
                end.execute(&mut *transaction).await?;
            }
            let ended = "DELETE FROM sessions WHERE user_id = $1 AND (ends_at_ms <= $2 OR seen_at_ms <= $3)";
            let ended = sqlx::query(ended).bind(&user.id).bind(now_ms);
            let ended = ended.bind(now_ms.saturating_sub(self.sessions_max.idle_ms));
            ended.execute(&mut *transaction).await?;
            let oldest = "DELETE FROM sessions WHERE user_id = $1 AND id NOT IN (
                SELECT id FROM sessions WHERE user_id = $1 ORDER BY ends_at_ms DESC, id DESC LIMIT $2)";
            let oldest = sqlx::query(oldest).bind(&user.id).bind(SESSIONS_PER_USER_MAX - 1);
            oldest.execute(&mut *transaction).await?;
            let id = format!("ses_{}", Uuid::now_v7().simple());
            let insert = "INSERT INTO sessions (id, token_hash, account_id, user_id, signed_in_at_ms, seen_at_ms,
                    created_at_ms, ends_at_ms)
                VALUES ($1, $2, $3, $4, $5, $6, $6, $7)";
            let insert = sqlx::query(insert).bind(&id).bind(token.stored_hash());
            let insert = insert
                .bind(&account_id)
                .bind(&user.id)
                .bind(signed_in_at_ms.min(now_ms))
                .bind(now_ms)
                .bind(now_ms.saturating_add(self.sessions_max.whole_ms));
            insert.execute(&mut *transaction).await?;
            if let Some(account_id) = &account_id {
                let change = TrailChange {
                    account_id,
                    actor: &TrailActor::User(user.id.clone()).to_string(),
                    action: "session.start",
                    subject: &id,
                    detail: match method {
                        SignInMethod::Provider => "identity provider",
                        SignInMethod::Link => "login link",
                    },
                    at_ms: now_ms,
                };
                trail::note(&mut transaction, &change).await?;
            }
            transaction.commit().await?;
            Ok(())
        };
        self.timed("start_session", work).await?;
        Ok(token)
    }

    /// The longest time of a session, in seconds.
    #[must_use]
    pub fn session_s_max(&self) -> u32 {
        u32::try_from(self.sessions_max.whole_ms / 1_000).unwrap_or(u32::MAX)
    }

    /// The session of this token, if it holds. Nothing is recorded: see
    /// [`Accounts::touch_session`].
    pub async fn session(&self, token: &SecretToken) -> Result<Option<UserSession>, AccountsError> {
        let now_ms = self.now_ms();
        // Who isn't a member any more has no session in the account.
        let query = "SELECT s.id, s.user_id, m.account_id AS member_of, COALESCE(m.account_id, s.user_id) AS account_id,
                s.signed_in_at_ms, s.seen_at_ms, s.ends_at_ms, COALESCE(m.role, $4) AS role, COALESCE(a.tier, $5) AS tier,
                a.requests_per_minute, a.requests_per_day, a.trusted_operators
            FROM sessions s LEFT JOIN members m ON m.account_id = s.account_id AND m.user_id = s.user_id
            LEFT JOIN accounts a ON a.id = m.account_id
            WHERE s.token_hash = $1 AND s.ends_at_ms > $2 AND s.seen_at_ms > $3
                AND (s.account_id IS NULL OR m.account_id IS NOT NULL)";
        let query = sqlx::query(query).bind(token.stored_hash()).bind(now_ms);
        let query = query.bind(now_ms.saturating_sub(self.sessions_max.idle_ms));
        let query = query.bind(AccountRole::Owner.as_str()).bind(Tier::Free.as_str());
        let work = async {
            let Some(row) = query.fetch_optional(&self.pool).await? else {
                return Ok(None);
            };
            let account = self.read_account(&row, None, now_ms).await?;
            let (user_id, role): (String, AccountRole) = (row.value("user_id")?, row.parsed("role")?);
            Ok(Some(UserSession {
                id: row.value("id")?,
                principal: account.principal(TrailActor::User(user_id.clone()), role.scopes().to_vec(), now_ms),
                account_id: row.value("member_of")?,
                user_id,
                role,
                signed_in_at_ms: row.value("signed_in_at_ms")?,
                seen_at_ms: row.value("seen_at_ms")?,
                ends_at_ms: row.value("ends_at_ms")?,
            }))
        };
        self.timed("session", work).await
    }

    /// Records that a session is used now, unless that was recorded a moment ago.
    pub async fn touch_session(&self, session: &UserSession) -> Result<(), AccountsError> {
        let now_ms = self.now_ms();
        if now_ms.saturating_sub(session.seen_at_ms) < SEEN_STEP_MS {
            return Ok(());
        }
        let update = "UPDATE sessions SET seen_at_ms = $1 WHERE id = $2 AND seen_at_ms < $1";
        let update = sqlx::query(update).bind(now_ms).bind(&session.id);
        self.timed("touch_session", async {
            Ok(update.execute(&self.pool).await.map(drop)?)
        })
        .await
    }

    /// Lets a session act for another account of its person, who must be in it. The session has
    /// another secret then: requests that were made for the account before, in another window of
    /// the browser, are refused. `None` if the person isn't in the account, or the session has
    /// ended.
    ///
    /// # Errors
    /// The store fails, or the system has no randomness.
    pub async fn switch_account(
        &self,
        session: &UserSession,
        account_id: &str,
    ) -> Result<Option<SecretToken>, AccountsError> {
        let now_ms = self.now_ms();
        let token = SecretToken::generate()?;
        let work = async {
            let mut transaction = self.begin().await?;
            lock_user(&mut transaction, &session.user_id).await?;
            if !choose(&mut transaction, account_id, &session.user_id, now_ms).await? {
                return Ok(None);
            }
            let update = "UPDATE sessions SET account_id = $1, token_hash = $2 WHERE id = $3 AND user_id = $4";
            let update = sqlx::query(update).bind(account_id).bind(token.stored_hash());
            let update = update.bind(&session.id).bind(&session.user_id);
            if update.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(None);
            }
            let actor = TrailActor::User(session.user_id.clone()).to_string();
            note_action(
                &mut transaction,
                account_id,
                &actor,
                "session.switch",
                &session.id,
                now_ms,
            )
            .await?;
            transaction.commit().await?;
            Ok(Some(token))
        };
        self.timed("switch_account", work).await
    }

    /// Sessions of a user that hold, in whichever account, and those of everybody in the account
    /// that they own, if it is given. Newest first, [`SESSIONS_LISTED_MAX`] at most.
    pub async fn sessions(&self, user_id: &str, owned: Option<&str>) -> Result<Vec<SessionInfo>, AccountsError> {
        let now_ms = self.now_ms();
        let query = "SELECT id, user_id, signed_in_at_ms, seen_at_ms, ends_at_ms FROM sessions
            WHERE (user_id = $1 OR account_id = $2) AND ends_at_ms > $3 AND seen_at_ms > $4
            ORDER BY created_at_ms DESC, id DESC LIMIT $5";
        let query = sqlx::query(query).bind(user_id).bind(owned);
        let query = query
            .bind(now_ms)
            .bind(now_ms.saturating_sub(self.sessions_max.idle_ms))
            .bind(SESSIONS_LISTED_MAX);
        let rows = self
            .timed("sessions", async { Ok(query.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read).collect()
    }

    /// Ends one of the sessions that [`Accounts::sessions`] lists, on behalf of that user. Returns
    /// whether there was one.
    pub async fn end_session(&self, user_id: &str, owned: Option<&str>, id: &str) -> Result<bool, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            let end = "DELETE FROM sessions WHERE id = $1 AND (user_id = $2 OR account_id = $3) RETURNING account_id";
            let end = sqlx::query(end).bind(id).bind(user_id).bind(owned);
            let Some(ended) = end.fetch_optional(&mut *transaction).await? else {
                return Ok(false);
            };
            if let Some(account_id) = ended.value::<Option<String>>("account_id")? {
                let (actor, now_ms) = (TrailActor::User(user_id.to_owned()).to_string(), self.now_ms());
                note_action(&mut transaction, &account_id, &actor, "session.end", id, now_ms).await?;
            }
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("end_session", work).await
    }
}

fn read(row: &AnyRow) -> Result<SessionInfo, AccountsError> {
    Ok(SessionInfo {
        id: row.value("id")?,
        user_id: row.value("user_id")?,
        signed_in_at_ms: row.value("signed_in_at_ms")?,
        seen_at_ms: row.value("seen_at_ms")?,
        ends_at_ms: row.value("ends_at_ms")?,
    })
}
