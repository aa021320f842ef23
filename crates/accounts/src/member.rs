//! Members: people in accounts, with a role in each.
//!
//! Whoever changes the members of an account first locks the account's row, and is an owner under
//! that lock. So of two owners who remove each other at one time, one does, and an account never
//! loses its last owner.

pub(crate) mod changing;

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::row::RowValues;
use crate::trail::note_action;
use crate::user::{self, lock_user};
use crate::{AccountQuota, AccountRole, Accounts, AccountsError, Deletion, Email, PersonName, Tier, TrailActor};

/// The most members of an account.
pub const MEMBERS_MAX: i64 = 100;
/// The most accounts of a person.
pub const ACCOUNTS_PER_USER_MAX: i64 = 20;

/// An account that a person is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountMembership {
    /// `acc_` and 32 digits.
    pub account_id: String,
    /// The account's first domain, or what it was named when it was made.
    pub account_name: String,
    /// The person's role there.
    pub role: AccountRole,
    /// Tier of the account.
    pub tier: Tier,
    /// The account's own quota; `None`: that of its tier.
    pub quota: Option<AccountQuota>,
    /// Whether the account is to be deleted.
    pub deletion: Option<Deletion>,
}

/// A person in an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// `usr_` and 32 digits.
    pub user_id: String,
    /// The address.
    pub email: Option<Email>,
    /// The name.
    pub name: Option<PersonName>,
    /// Role in the account.
    pub role: AccountRole,
    /// Whether it is whoever signs in by a login link for this account and role.
    pub is_login_link: bool,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: i64,
}

/// The membership that an invitation offers to whoever has its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedMembership {
    /// The account.
    pub account_id: String,
    /// The account's name.
    pub account_name: String,
    /// Role of whoever accepts it.
    pub role: AccountRole,
    /// Address of the owner who made it, if they have one.
    pub invited_by: Option<Email>,
}

/// Reason why the members of an account can't be changed so.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// Whoever requests it isn't an owner any more.
    #[error("only an owner of the account may do this")]
    NotOwner,
    /// No such member.
    #[error("the account has no such member")]
    Unknown,
    /// The account would be without an owner.
    #[error("this is the account's last owner: make somebody else an owner first, or delete the account")]
    LastOwner,
    /// The account has as many members, open invitations or mails of them as it may have.
    #[error("{0}")]
    Limit(String),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] AccountsError),
}

impl From<sqlx::Error> for MemberError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// An account's name for people, of the account `a`.
macro_rules! account_name {
    () => {
        "COALESCE((SELECT d.domain FROM domains d WHERE d.account_id = a.id AND d.revoked_at_ms IS NULL
            ORDER BY d.first_verified_at_ms, d.domain LIMIT 1), a.name)"
    };
}
pub(crate) use account_name;

impl Accounts {
    /// The accounts of a person, the one chosen last first, [`ACCOUNTS_PER_USER_MAX`] at most.
    pub async fn memberships(&self, user_id: &str) -> Result<Vec<AccountMembership>, AccountsError> {
        let query = concat!(
            "SELECT m.account_id, ",
            account_name!(),
            " AS account_name, m.role, a.tier, a.requests_per_minute, a.requests_per_day,
                a.deletion_requested_at_ms, a.erase_after_ms
            FROM members m JOIN accounts a ON a.id = m.account_id WHERE m.user_id = $1
            ORDER BY m.chosen_at_ms DESC, m.account_id LIMIT $2"
        );
        let query = sqlx::query(query).bind(user_id).bind(ACCOUNTS_PER_USER_MAX);
        let rows = self
            .timed("memberships", async { Ok(query.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read_membership).collect()
    }

    /// The members of an account, those who came first first.
    pub async fn members(&self, account_id: &str) -> Result<Vec<Member>, AccountsError> {
        let query = "SELECT m.user_id, u.email, u.name, u.issuer, m.role, m.created_at_ms
            FROM members m JOIN users u ON u.id = m.user_id WHERE m.account_id = $1
            ORDER BY m.created_at_ms, m.user_id LIMIT $2";
        let query = sqlx::query(query).bind(account_id).bind(MEMBERS_MAX);
        let rows = self
            .timed("members", async { Ok(query.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read_member).collect()
    }

    /// The account of a person who needs one: the one they chose last or, if they are in none, a
    /// new one that they own. Sessions of theirs that had none act for it from now on. `None` if
    /// there is no such person any more. Of many requests at one time one makes the account.
    pub async fn own_account(&self, user_id: &str) -> Result<Option<String>, AccountsError> {
        let now_ms = self.now_ms();
        let work = async {
            let mut transaction = self.begin().await?;
            if !lock_user(&mut transaction, user_id).await? {
                return Ok(None);
            }
            let account_id = match chosen_account(&mut transaction, user_id).await? {
                Some(account_id) => account_id,
                None => make_account(&mut transaction, user_id, now_ms).await?,
            };
            give_sessions(&mut transaction, user_id, &account_id).await?;
            transaction.commit().await?;
            Ok(Some(account_id))
        };
        self.timed("own_account", work).await
    }

    /// `work` on members within its time. A request that can't be done is no failure of the store.
    pub(crate) async fn change_members<T>(
        &self,
        query: &'static str,
        work: impl Future<Output = Result<T, MemberError>>,
    ) -> Result<T, MemberError> {
        let answered = async {
            match work.await {
                Err(MemberError::Store(error)) => Err(error),
                answer => Ok(answer),
            }
        };
        self.timed(query, answered).await?
    }
}

/// Makes an account that a person owns.
async fn make_account(
    transaction: &mut Transaction<'static, Any>,
    user_id: &str,
    now_ms: i64,
) -> Result<String, AccountsError> {
    let account_id = format!("acc_{}", Uuid::now_v7().simple());
    let insert = "INSERT INTO accounts (id, name, tier, created_at_ms) VALUES ($1, $2, $3, $4)";
    let insert = sqlx::query(insert).bind(&account_id).bind(user_id);
    let insert = insert.bind(Tier::Free.as_str()).bind(now_ms);
    insert.execute(&mut **transaction).await?;
    let actor = TrailActor::User(user_id.to_owned()).to_string();
    note_action(transaction, &account_id, &actor, "account.create", &account_id, now_ms).await?;
    join(transaction, &account_id, user_id, AccountRole::Owner, now_ms).await?;
    Ok(account_id)
}

/// Makes a person a member; the role of one who is stays. Returns whether they weren't.
pub(crate) async fn join(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
    role: AccountRole,
    now_ms: i64,
) -> Result<bool, AccountsError> {
    let insert = "INSERT INTO members (account_id, user_id, role, created_at_ms, chosen_at_ms)
        VALUES ($1, $2, $3, $4, $4) ON CONFLICT (account_id, user_id) DO NOTHING";
    let insert = sqlx::query(insert).bind(account_id).bind(user_id);
    let insert = insert.bind(role.as_str()).bind(now_ms);
    Ok(insert.execute(&mut **transaction).await?.rows_affected() > 0)
}

/// Notes that a person comes to an account of theirs, and lets their sessions without one act for
/// it. `false` if they aren't in it.
pub(crate) async fn choose(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
    now_ms: i64,
) -> Result<bool, AccountsError> {
    let update = sqlx::query("UPDATE members SET chosen_at_ms = $1 WHERE account_id = $2 AND user_id = $3");
    let update = update.bind(now_ms).bind(account_id).bind(user_id);
    if update.execute(&mut **transaction).await?.rows_affected() == 0 {
        return Ok(false);
    }
    give_sessions(transaction, user_id, account_id).await?;
    Ok(true)
}

/// Locks the members of an account for a change by an owner.
pub(crate) async fn lock_members(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    owner: &str,
) -> Result<(), MemberError> {
    lock_account(transaction, account_id).await?;
    match role_of(transaction, account_id, owner).await? {
        Some(AccountRole::Owner) => Ok(()),
        _ => Err(MemberError::NotOwner),
    }
}

/// Locks an account until the transaction ends.
pub(crate) async fn lock_account(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
) -> Result<(), AccountsError> {
    let lock = sqlx::query("UPDATE accounts SET tier = tier WHERE id = $1").bind(account_id);
    lock.execute(&mut **transaction).await?;
    Ok(())
}

/// Role of a person in an account; `None` if they aren't in it.
async fn role_of(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
) -> Result<Option<AccountRole>, AccountsError> {
    let query = sqlx::query("SELECT user_id, role FROM members WHERE account_id = $1 AND user_id = $2");
    let row = query
        .bind(account_id)
        .bind(user_id)
        .fetch_optional(&mut **transaction)
        .await?;
    row.map(|row| row.parsed("role")).transpose()
}

/// The account that a person chose last; `None` if they are in none.
pub(crate) async fn chosen_account(
    transaction: &mut Transaction<'static, Any>,
    user_id: &str,
) -> Result<Option<String>, AccountsError> {
    let query = "SELECT account_id FROM members WHERE user_id = $1 ORDER BY chosen_at_ms DESC, account_id LIMIT 1";
    let query = sqlx::query_scalar(query).bind(user_id);
    Ok(query.fetch_optional(&mut **transaction).await?)
}

/// Lets sessions of a person that have no account act for this one.
pub(crate) async fn give_sessions(
    transaction: &mut Transaction<'static, Any>,
    user_id: &str,
    account_id: &str,
) -> Result<(), AccountsError> {
    let update = "UPDATE sessions SET account_id = $1 WHERE user_id = $2 AND account_id IS NULL";
    let update = sqlx::query(update).bind(account_id).bind(user_id);
    update.execute(&mut **transaction).await?;
    Ok(())
}

fn read_membership(row: &AnyRow) -> Result<AccountMembership, AccountsError> {
    Ok(AccountMembership {
        account_id: row.value("account_id")?,
        account_name: row.value("account_name")?,
        role: row.parsed("role")?,
        tier: row.parsed("tier")?,
        quota: AccountQuota::read(row)?,
        deletion: Deletion::read(row)?,
    })
}

fn read_member(row: &AnyRow) -> Result<Member, AccountsError> {
    Ok(Member {
        user_id: row.value("user_id")?,
        email: user::email(row)?,
        name: user::name(row)?,
        role: row.parsed("role")?,
        is_login_link: row.value::<&str>("issuer")? == user::LOGIN_LINK_ISSUER,
        since_ms: row.value("created_at_ms")?,
    })
}
