//! Login links: what whoever runs the deployment hands to a person who has no identity provider.

use sqlx::{Any, Transaction};

use crate::member::join;
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::user::{LOGIN_LINK_ISSUER, find_or_make};
use crate::{AccountRole, Accounts, AccountsError, SecretToken, Subject, User};

/// Life of a login link, in milliseconds.
pub const LOGIN_LINK_MS: i64 = 15 * 60_000;
/// `subject` of the user for whom a link makes an account.
const FIRST: &str = "first";

/// A login link that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginLink {
    /// The account and its name; `None`: using the link makes an account.
    pub account: Option<(String, String)>,
    /// Role of whoever uses it.
    pub role: AccountRole,
}

impl Accounts {
    /// Makes a login link, for an account that exists or for a new one, on behalf of the operator.
    ///
    /// # Errors
    /// [`AccountsError::UnknownAccount`]; the store fails; the system has no randomness.
    pub async fn create_login_link(
        &self,
        account_id: Option<&str>,
        role: AccountRole,
    ) -> Result<SecretToken, AccountsError> {
        let now_ms = self.now_ms();
        let token = SecretToken::generate()?;
        let work = async {
            let mut transaction = self.begin().await?;
            let expired = sqlx::query("DELETE FROM login_links WHERE expires_at_ms <= $1").bind(now_ms);
            expired.execute(&mut *transaction).await?;
            if let Some(account_id) = account_id {
                let query = sqlx::query("SELECT id FROM accounts WHERE id = $1").bind(account_id);
                if query.fetch_optional(&mut *transaction).await?.is_none() {
                    return Err(AccountsError::UnknownAccount(account_id.to_owned()));
                }
                let change = TrailChange {
                    account_id,
                    actor: "operator",
                    action: "login-link.create",
                    subject: account_id,
                    detail: role.as_str(),
                    at_ms: now_ms,
                };
                trail::note(&mut transaction, &change).await?;
            }
            let insert =
                "INSERT INTO login_links (token_hash, account_id, role, expires_at_ms) VALUES ($1, $2, $3, $4)";
            let insert = sqlx::query(insert).bind(token.stored_hash()).bind(account_id);
            let insert = insert.bind(role.as_str()).bind(now_ms.saturating_add(LOGIN_LINK_MS));
            insert.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(())
        };
        self.timed("create_login_link", work).await?;
        Ok(token)
    }

    /// The login link of this token, if it can be used. It isn't used by that.
    pub async fn login_link(&self, token: &SecretToken) -> Result<Option<LoginLink>, AccountsError> {
        let query = "SELECT l.account_id, l.role, a.name FROM login_links l LEFT JOIN accounts a ON a.id = l.account_id
            WHERE l.token_hash = $1 AND l.expires_at_ms > $2";
        let query = sqlx::query(query).bind(token.stored_hash()).bind(self.now_ms());
        let row = self
            .timed("login_link", async { Ok(query.fetch_optional(&self.pool).await?) })
            .await?;
        let Some(row) = row else { return Ok(None) };
        let (id, name): (Option<String>, Option<String>) = (row.value("account_id")?, row.value("name")?);
        Ok(Some(LoginLink {
            account: id.zip(name),
            role: row.parsed("role")?,
        }))
    }

    /// Uses a login link: returns its user, who is made at the first time. `None` if it was used
    /// before or has expired: of many who use it at one time, one succeeds.
    pub async fn use_login_link(&self, token: &SecretToken) -> Result<Option<User>, AccountsError> {
        let Some(link) = self.login_link(token).await? else {
            return Ok(None);
        };
        let account_id = link.account.map(|(id, _)| id);
        let work = async {
            let mut transaction = self.begin().await?;
            let take = "DELETE FROM login_links WHERE token_hash = $1 AND expires_at_ms > $2";
            let take = sqlx::query(take).bind(token.stored_hash()).bind(self.now_ms());
            if take.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Ok(None);
            }
            let user = match &account_id {
                Some(account_id) => {
                    link_user(&mut transaction, account_id, link.role, "operator", self.now_ms()).await?
                }
                None => find_or_make(&mut transaction, &subject(FIRST), self.now_ms()).await?,
            };
            transaction.commit().await?;
            Ok(Some(user))
        };
        let user = self.timed("use_login_link", work).await?;
        if let Some(user) = user.as_ref().filter(|_| account_id.is_none()) {
            self.own_account(&user.id).await?;
        }
        Ok(user)
    }
}

/// Subject of a user whom login links make.
fn subject(name: &str) -> Subject {
    Subject {
        issuer: LOGIN_LINK_ISSUER.to_owned(),
        subject: name.to_owned(),
        email: None,
        name: None,
    }
}

/// The user that login links of this account and role have, made on behalf of `actor` if there is
/// none.
pub(crate) async fn link_user(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    role: AccountRole,
    actor: &str,
    now_ms: i64,
) -> Result<User, AccountsError> {
    let query = "SELECT u.subject FROM users u JOIN members m ON m.user_id = u.id
        WHERE m.account_id = $1 AND u.issuer = $2 AND m.role = $3 ORDER BY m.created_at_ms, u.id LIMIT 1";
    let query = sqlx::query(query)
        .bind(account_id)
        .bind(LOGIN_LINK_ISSUER)
        .bind(role.as_str());
    if let Some(row) = query.fetch_optional(&mut **transaction).await? {
        return find_or_make(transaction, &subject(row.value("subject")?), now_ms).await;
    }
    let user = find_or_make(transaction, &subject(&format!("{account_id}:{role}")), now_ms).await?;
    // An owner may have given who came by such a link another role since.
    if !join(transaction, account_id, &user.id, role, now_ms).await? {
        let update = sqlx::query("UPDATE members SET role = $1 WHERE account_id = $2 AND user_id = $3");
        let update = update.bind(role.as_str()).bind(account_id).bind(&user.id);
        update.execute(&mut **transaction).await?;
    }
    let change = TrailChange {
        account_id,
        actor,
        action: "member.add",
        subject: &user.id,
        detail: role.as_str(),
        at_ms: now_ms,
    };
    trail::note(transaction, &change).await?;
    Ok(user)
}
