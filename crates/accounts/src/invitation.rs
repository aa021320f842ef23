//! Invitations: how other people get into an account.
//!
//! Whoever signs in through the link of an invitation becomes a member, once. Only hashes of the
//! links' secrets are stored. A mail's secret is made when the mail is sent, so that the outbox has
//! none; an attempt that is repeated has another one, and each of them works.

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::lifetime::DAY_MS;
use crate::login_link::link_user;
use crate::member::{account_name, choose, join, lock_account, lock_members};
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::user::{self, find_or_make, lock_user};
use crate::{
    ACCOUNTS_PER_USER_MAX, AccountRole, Accounts, AccountsError, Email, MEMBERS_MAX, MailKind, MailSubject,
    MemberError, OfferedMembership, SecretToken, Subject, TrailActor, User,
};

/// Life of an invitation, in milliseconds.
pub const INVITATION_MS: i64 = 7 * DAY_MS;
/// The most open invitations of an account.
pub const INVITATIONS_OPEN_MAX: i64 = 20;
/// The most invitations that an account sends by mail in a day, so that nobody is flooded.
pub const INVITATION_MAILS_PER_DAY_MAX: i64 = 20;

/// An open invitation, as the account sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// `inv_` and 32 digits.
    pub id: String,
    /// Role of whoever accepts it.
    pub role: AccountRole,
    /// Address that it was sent to; `None`: somebody hands over its link.
    pub email: Option<Email>,
    /// ID of the owner who made it.
    pub invited_by: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// When it ends.
    pub expires_at_ms: i64,
}

/// The columns that [`read`] reads, of the invitations that the rest of the statement names.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, role, email, invited_by, created_at_ms, expires_at_ms FROM invitations ",
            $rest
        )
    };
}

/// The columns that [`read_offer`] reads, of the invitations that the rest of the statement names.
macro_rules! select_offer {
    ($rest:literal) => {
        concat!(
            "SELECT i.id, i.account_id, ",
            account_name!(),
            " AS account_name, i.role, u.email, i.email AS recipient, i.expires_at_ms
            FROM invitations i JOIN accounts a ON a.id = i.account_id LEFT JOIN users u ON u.id = i.invited_by ",
            $rest
        )
    };
}

impl Accounts {
    /// Invites whoever gets the link, or the reader of this address, into an account, on behalf of
    /// the owner `by`. The link's secret is returned if no mail brings it.
    ///
    /// # Errors
    /// [`MemberError`]; nothing is changed then.
    pub async fn invite(
        &self,
        account_id: &str,
        by: &str,
        role: AccountRole,
        email: Option<&Email>,
    ) -> Result<(Invitation, Option<SecretToken>), MemberError> {
        let now_ms = self.now_ms();
        let token = SecretToken::generate()?;
        let invitation = Invitation {
            id: format!("inv_{}", Uuid::now_v7().simple()),
            role,
            email: email.cloned(),
            invited_by: by.to_owned(),
            created_at_ms: now_ms,
            expires_at_ms: now_ms.saturating_add(INVITATION_MS),
        };
        self.change_members("invite", async {
            let mut transaction = self.begin().await?;
            lock_members(&mut transaction, account_id, by).await?;
            check_room(&mut transaction, account_id, email.is_some(), now_ms).await?;
            let insert =
                "INSERT INTO invitations (id, account_id, role, email, invited_by, created_at_ms, expires_at_ms)
                VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let insert = sqlx::query(insert).bind(&invitation.id).bind(account_id);
            let insert = insert
                .bind(role.as_str())
                .bind(email.map(Email::as_str))
                .bind(by)
                .bind(now_ms)
                .bind(invitation.expires_at_ms);
            insert.execute(&mut *transaction).await?;
            match email {
                Some(_) => queue_mail(&mut transaction, account_id, &invitation.id, now_ms).await?,
                None => add_token(&mut *transaction, &invitation.id, &token).await?,
            }
            note(
                &mut transaction,
                account_id,
                by,
                "invitation.create",
                &invitation,
                now_ms,
            )
            .await?;
            Ok(transaction.commit().await?)
        })
        .await?;
        let token = email.is_none().then_some(token);
        Ok((invitation, token))
    }

    /// The open invitations of an account, newest first, [`INVITATIONS_OPEN_MAX`] at most.
    pub async fn invitations(&self, account_id: &str) -> Result<Vec<Invitation>, AccountsError> {
        let query =
            select!("WHERE account_id = $1 AND expires_at_ms > $2 ORDER BY created_at_ms DESC, id DESC LIMIT $3");
        let query = sqlx::query(query).bind(account_id).bind(self.now_ms());
        let query = query.bind(INVITATIONS_OPEN_MAX);
        let rows = self
            .timed("invitations", async { Ok(query.fetch_all(&self.pool).await?) })
            .await?;
        rows.iter().map(read).collect()
    }

    /// Withdraws an invitation of an account, on behalf of the owner `by`: its links end.
    ///
    /// # Errors
    /// [`MemberError`]; nothing is changed then.
    pub async fn withdraw_invitation(&self, account_id: &str, by: &str, id: &str) -> Result<(), MemberError> {
        self.change_members("withdraw_invitation", async {
            let mut transaction = self.begin().await?;
            lock_members(&mut transaction, account_id, by).await?;
            let find = sqlx::query(select!("WHERE account_id = $1 AND id = $2"))
                .bind(account_id)
                .bind(id);
            let found = find.fetch_optional(&mut *transaction).await?;
            let invitation = read(&found.ok_or(MemberError::Unknown)?)?;
            withdraw(&mut transaction, account_id, by, &invitation, self.now_ms()).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    /// The open invitation of this secret. It isn't used up by that.
    pub async fn invitation(&self, token: &SecretToken) -> Result<Option<OfferedMembership>, AccountsError> {
        let query = select_offer!(
            "JOIN invitation_tokens t ON t.invitation_id = i.id WHERE t.token_hash = $1 AND i.expires_at_ms > $2"
        );
        let query = sqlx::query(query).bind(token.stored_hash()).bind(self.now_ms());
        let row = self
            .timed("invitation", async { Ok(query.fetch_optional(&self.pool).await?) })
            .await?;
        row.as_ref().map(read_offer).transpose()
    }

    /// Makes whoever signs in through this secret a member, and returns them: `subject` or, where
    /// there is no identity provider, the user of the account's login links. `None` if the
    /// invitation was used, was withdrawn or has expired: of many who use it at one time, one
    /// succeeds. Who is a member already keeps their role, and the invitation stays open.
    ///
    /// # Errors
    /// [`MemberError::Limit`], [`MemberError::Store`]; nothing is changed then.
    pub async fn accept_invitation(
        &self,
        token: &SecretToken,
        subject: Option<&Subject>,
    ) -> Result<Option<User>, MemberError> {
        let now_ms = self.now_ms();
        self.change_members("accept_invitation", async {
            let mut transaction = self.begin().await?;
            let find = "SELECT i.id, i.account_id, i.role, i.email, i.invited_by, i.created_at_ms, i.expires_at_ms
                FROM invitation_tokens t JOIN invitations i ON i.id = t.invitation_id
                WHERE t.token_hash = $1 AND i.expires_at_ms > $2";
            let find = sqlx::query(find).bind(token.stored_hash()).bind(now_ms);
            let Some(found) = find.fetch_optional(&mut *transaction).await? else {
                return Ok(None);
            };
            let (account_id, invitation): (String, _) = (found.value("account_id")?, read(&found)?);
            lock_account(&mut transaction, &account_id).await?;
            let user = match subject {
                Some(subject) => find_or_make(&mut transaction, subject, now_ms).await?,
                None => {
                    let by = TrailActor::User(invitation.invited_by.clone()).to_string();
                    link_user(&mut transaction, &account_id, invitation.role, &by, now_ms).await?
                }
            };
            lock_user(&mut transaction, &user.id).await?;
            let is_new =
                subject.is_some() && join(&mut transaction, &account_id, &user.id, invitation.role, now_ms).await?;
            if is_new {
                check_limits(&mut transaction, &account_id, &user.id).await?;
                note(
                    &mut transaction,
                    &account_id,
                    &user.id,
                    "member.join",
                    &invitation,
                    now_ms,
                )
                .await?;
            }
            if (is_new || subject.is_none()) && !delete(&mut transaction, &invitation.id).await? {
                return Ok(None);
            }
            choose(&mut transaction, &account_id, &user.id, now_ms).await?;
            transaction.commit().await?;
            Ok(Some(user))
        })
        .await
    }

    /// Removes invitations that have expired, with the addresses in them.
    pub async fn tidy_invitations(&self) -> Result<(), AccountsError> {
        let expired = sqlx::query_scalar("SELECT id FROM invitations WHERE expires_at_ms <= $1 ORDER BY id LIMIT 100");
        let expired = expired.bind(self.now_ms());
        self.timed("tidy_invitations", async {
            let expired: Vec<String> = expired.fetch_all(&self.pool).await?;
            for id in expired {
                let mut transaction = self.begin().await?;
                delete(&mut transaction, &id).await?;
                transaction.commit().await?;
            }
            Ok(())
        })
        .await
    }

    /// Recipient and contents of the mail of an open invitation, with a secret of its own.
    pub(crate) async fn invitation_mail(
        &self,
        id: &str,
        now_ms: i64,
    ) -> Result<Option<(String, MailSubject)>, AccountsError> {
        let query = sqlx::query(select_offer!("WHERE i.id = $1 AND i.expires_at_ms > $2"));
        let Some(row) = query.bind(id).bind(now_ms).fetch_optional(&self.pool).await? else {
            return Ok(None);
        };
        let Some(to) = row.value::<Option<String>>("recipient")? else {
            return Ok(None);
        };
        let token = SecretToken::generate()?;
        add_token(&self.pool, id, &token).await?;
        let about = MailSubject::Invitation {
            offer: read_offer(&row)?,
            token,
            expires_at_ms: row.value("expires_at_ms")?,
        };
        Ok(Some((to, about)))
    }
}

/// Withdraws the open invitations that a person made, who isn't an owner any more: a link that they
/// have would bring them back.
pub(crate) async fn withdraw_invitations_of(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
    by: &str,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let made = sqlx::query(select!("WHERE account_id = $1 AND invited_by = $2 ORDER BY id"));
    let made = made
        .bind(account_id)
        .bind(user_id)
        .fetch_all(&mut **transaction)
        .await?;
    for row in &made {
        withdraw(transaction, account_id, by, &read(row)?, now_ms).await?;
    }
    Ok(())
}

async fn withdraw(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    by: &str,
    invitation: &Invitation,
    now_ms: i64,
) -> Result<(), AccountsError> {
    delete(transaction, &invitation.id).await?;
    note(transaction, account_id, by, "invitation.withdraw", invitation, now_ms).await
}

/// Deletes an invitation with its secrets; returns whether it was there.
async fn delete(transaction: &mut Transaction<'static, Any>, id: &str) -> Result<bool, AccountsError> {
    let tokens = sqlx::query("DELETE FROM invitation_tokens WHERE invitation_id = $1").bind(id);
    tokens.execute(&mut **transaction).await?;
    let invitation = sqlx::query("DELETE FROM invitations WHERE id = $1").bind(id);
    Ok(invitation.execute(&mut **transaction).await?.rows_affected() > 0)
}

async fn add_token(
    executor: impl sqlx::Executor<'_, Database = Any>,
    id: &str,
    token: &SecretToken,
) -> Result<(), AccountsError> {
    let insert =
        "INSERT INTO invitation_tokens (token_hash, invitation_id) SELECT $1, id FROM invitations WHERE id = $2";
    let insert = sqlx::query(insert).bind(token.stored_hash()).bind(id);
    insert.execute(executor).await?;
    Ok(())
}

async fn queue_mail(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    id: &str,
    now_ms: i64,
) -> Result<(), AccountsError> {
    let kind = MailKind::Invitation;
    let queue = "INSERT INTO mails
            (id, account_id, kind, domain, verification_id, created_at_ms, state, attempts, next_at_ms, invitation_id)
        VALUES ($1, $2, $3, '', '', $4, 'queued', 0, $4, $5)";
    let queue = sqlx::query(queue).bind(format!("{id}.{kind}")).bind(account_id);
    let queue = queue.bind(kind.as_str()).bind(now_ms).bind(id);
    queue.execute(&mut **transaction).await?;
    Ok(())
}

/// Checks that the account may have one more invitation.
async fn check_room(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    by_mail: bool,
    now_ms: i64,
) -> Result<(), MemberError> {
    let open = sqlx::query_scalar("SELECT COUNT(*) FROM invitations WHERE account_id = $1 AND expires_at_ms > $2");
    let open: i64 = open.bind(account_id).bind(now_ms).fetch_one(&mut **transaction).await?;
    if open >= INVITATIONS_OPEN_MAX {
        let what = format!("the account has {open} open invitations, as many as it may have: withdraw one first");
        return Err(MemberError::Limit(what));
    }
    let sent = "SELECT COUNT(*) FROM mails WHERE account_id = $1 AND kind = $2 AND created_at_ms > $3";
    let sent = sqlx::query_scalar(sent)
        .bind(account_id)
        .bind(MailKind::Invitation.as_str());
    let sent: i64 = sent
        .bind(now_ms.saturating_sub(DAY_MS))
        .fetch_one(&mut **transaction)
        .await?;
    if by_mail && sent >= INVITATION_MAILS_PER_DAY_MAX {
        let what =
            format!("the account has sent {sent} invitations by mail in a day, as many as it may: hand over a link");
        return Err(MemberError::Limit(what));
    }
    Ok(())
}

/// Checks what a new membership makes of the account and of the person.
async fn check_limits(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
) -> Result<(), MemberError> {
    let members = sqlx::query_scalar("SELECT COUNT(*) FROM members WHERE account_id = $1").bind(account_id);
    let members: i64 = members.fetch_one(&mut **transaction).await?;
    if members > MEMBERS_MAX {
        let what = format!("the account has {MEMBERS_MAX} members, as many as it may have");
        return Err(MemberError::Limit(what));
    }
    let accounts = sqlx::query_scalar("SELECT COUNT(*) FROM members WHERE user_id = $1").bind(user_id);
    let accounts: i64 = accounts.fetch_one(&mut **transaction).await?;
    if accounts > ACCOUNTS_PER_USER_MAX {
        let what = format!("you are in {ACCOUNTS_PER_USER_MAX} accounts, as many as a person may be");
        return Err(MemberError::Limit(what));
    }
    Ok(())
}

async fn note(
    transaction: &mut Transaction<'static, Any>,
    account_id: &str,
    user_id: &str,
    action: &str,
    invitation: &Invitation,
    at_ms: i64,
) -> Result<(), AccountsError> {
    let change = TrailChange {
        account_id,
        actor: &TrailActor::User(user_id.to_owned()).to_string(),
        action,
        subject: &invitation.id,
        detail: invitation.role.as_str(),
        at_ms,
    };
    trail::note(transaction, &change).await
}

fn read(row: &AnyRow) -> Result<Invitation, AccountsError> {
    Ok(Invitation {
        id: row.value("id")?,
        role: row.parsed("role")?,
        email: user::email(row)?,
        invited_by: row.value("invited_by")?,
        created_at_ms: row.value("created_at_ms")?,
        expires_at_ms: row.value("expires_at_ms")?,
    })
}

fn read_offer(row: &AnyRow) -> Result<OfferedMembership, AccountsError> {
    Ok(OfferedMembership {
        account_id: row.value("account_id")?,
        account_name: row.value("account_name")?,
        role: row.parsed("role")?,
        invited_by: user::email(row)?,
    })
}
