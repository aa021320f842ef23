//! Changes of members by an owner.

use sqlx::{Any, Transaction};

use super::MemberError;
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::user::{erase_unattached, lock_user};
use crate::{AccountRole, Accounts, AccountsError, TrailActor};

impl Accounts {
    /// Gives a member of an account another role, on behalf of the owner `by`. In force from the
    /// member's next request on.
    ///
    /// # Errors
    /// [`MemberError`]; nothing is changed then.
    pub async fn set_role(
        &self,
        account_id: &str,
        by: &str,
        user_id: &str,
        role: AccountRole,
    ) -> Result<(), MemberError> {
        self.change_members("set_role", async {
            let mut transaction = self.begin().await?;
            lock_members(&mut transaction, account_id, by).await?;
            let before = role_of(&mut transaction, account_id, user_id).await?;
            let before = before.ok_or(MemberError::Unknown)?;
            if before == role {
                return Ok(());
            }
            check_owner_stays(&mut transaction, account_id, before).await?;
            let update = sqlx::query("UPDATE members SET role = $1 WHERE account_id = $2 AND user_id = $3");
            let update = update.bind(role.as_str()).bind(account_id).bind(user_id);
            update.execute(&mut *transaction).await?;
            let change = TrailChange {
                account_id,
                actor: &TrailActor::User(by.to_owned()).to_string(),
                action: "member.set-role",
                subject: user_id,
                detail: &format!("{before} to {role}"),
                at_ms: self.now_ms(),
            };
            trail::note(&mut transaction, &change).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Removes a member of an account, on behalf of the owner `by`. Their sessions in the account
    /// end with it. Who is in no other account is erased.
    ///
    /// # Errors
    /// [`MemberError`]; nothing is changed then.
    pub async fn remove_member(&self, account_id: &str, by: &str, user_id: &str) -> Result<(), MemberError> {
        self.change_members("remove_member", async {
            let mut transaction = self.begin().await?;
            lock_members(&mut transaction, account_id, by).await?;
            let role = role_of(&mut transaction, account_id, user_id).await?;
            let role = role.ok_or(MemberError::Unknown)?;
            check_owner_stays(&mut transaction, account_id, role).await?;
            let change = TrailChange {
                account_id,
                actor: &TrailActor::User(by.to_owned()).to_string(),
                action: "member.remove",
                subject: user_id,
                detail: role.as_str(),
                at_ms: self.now_ms(),
            };
            trail::note(&mut transaction, &change).await?;
            remove(&mut transaction, account_id, user_id).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }
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

/// Checks that the account still has an owner without one who has the role `leaving`.
async fn check_owner_stays(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    leaving: AccountRole,
) -> Result<(), MemberError> {
    if leaving != AccountRole::Owner {
        return Ok(());
    }
    let owners = sqlx::query_scalar("SELECT COUNT(*) FROM members WHERE account_id = $1 AND role = $2");
    let owners = owners.bind(account_id).bind(AccountRole::Owner.as_str());
    let owners: i64 = owners.fetch_one(&mut **transaction).await?;
    if owners > 1 {
        Ok(())
    } else {
        Err(MemberError::LastOwner)
    }
}

/// Takes a person out of an account, and erases them if they are in no other.
pub(crate) async fn remove(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
) -> Result<bool, AccountsError> {
    lock_user(transaction, user_id).await?;
    for table in ["sessions", "members"] {
        let delete = format!("DELETE FROM {table} WHERE account_id = $1 AND user_id = $2");
        // Of this file's own words.
        let delete = sqlx::query(sqlx::AssertSqlSafe(delete)).bind(account_id).bind(user_id);
        delete.execute(&mut **transaction).await?;
    }
    erase_unattached(transaction, user_id).await
}
