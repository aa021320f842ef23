//! Changes of members by an owner.

use sqlx::{Any, Transaction};

use super::{MemberError, lock_account, lock_members, role_of};
use crate::invitation::withdraw_invitations_of;
use crate::trail::{self, TrailChange, note_action};
use crate::user::{erase_unattached, lock_user};
use crate::{AccountRole, Accounts, AccountsError, TrailActor};

impl Accounts {
    /// Gives a member of an account another role, on behalf of the owner `by`. In force from the
    /// member's next request on. Invitations that a former owner made are withdrawn.
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
            if before == AccountRole::Owner {
                withdraw_invitations_of(&mut transaction, account_id, user_id, by, self.now_ms()).await?;
            }
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
    /// end with it, and the invitations that they made. Who is in no other account is erased.
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
            withdraw_invitations_of(&mut transaction, account_id, user_id, by, self.now_ms()).await?;
            remove(&mut transaction, account_id, user_id).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// Erases a person, on their own behalf: they leave all their accounts. Their ID in trails is
    /// all that is left of them.
    ///
    /// # Errors
    /// [`MemberError::LastOwner`] of one of the accounts, [`MemberError::Store`]; then nothing is
    /// changed.
    pub async fn erase_user(&self, user_id: &str) -> Result<(), MemberError> {
        let (me, now_ms) = (TrailActor::User(user_id.to_owned()).to_string(), self.now_ms());
        self.change_members("erase_user", async {
            let mut transaction = self.begin().await?;
            // In one order, so that no two erasures wait for each other.
            let accounts = sqlx::query_scalar("SELECT account_id FROM members WHERE user_id = $1 ORDER BY account_id");
            let accounts: Vec<String> = accounts.bind(user_id).fetch_all(&mut *transaction).await?;
            for account_id in &accounts {
                lock_account(&mut transaction, account_id).await?;
                let Some(role) = role_of(&mut transaction, account_id, user_id).await? else {
                    continue;
                };
                check_owner_stays(&mut transaction, account_id, role).await?;
                withdraw_invitations_of(&mut transaction, account_id, user_id, user_id, now_ms).await?;
                note_action(&mut transaction, account_id, &me, "member.leave", user_id, now_ms).await?;
                remove(&mut transaction, account_id, user_id).await?;
            }
            lock_user(&mut transaction, user_id).await?;
            erase_unattached(&mut transaction, user_id).await?;
            let left = sqlx::query("SELECT id FROM users WHERE id = $1").bind(user_id);
            if left.fetch_optional(&mut *transaction).await?.is_some() {
                let what = "the person has just joined another account";
                return Err(AccountsError::Store(what.to_owned()).into());
            }
            Ok(transaction.commit().await?)
        })
        .await
    }
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

/// Takes a person out of an account, with the mails about its numbers to them, and erases them if
/// they are in no other.
pub(crate) async fn remove(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
) -> Result<bool, AccountsError> {
    lock_user(transaction, user_id).await?;
    for table in ["sessions", "report_subscriptions", "mails", "members"] {
        let delete = format!("DELETE FROM {table} WHERE account_id = $1 AND user_id = $2");
        // Of this file's own words.
        let delete = sqlx::query(sqlx::AssertSqlSafe(delete)).bind(account_id).bind(user_id);
        delete.execute(&mut **transaction).await?;
    }
    erase_unattached(transaction, user_id).await
}
