//! Users: people and programs, as an identity provider names them. Their accounts: `member.rs`.

use sqlx::any::AnyRow;
use sqlx::{Any, Transaction};
use uuid::Uuid;

use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError, Domain};

/// The longest e-mail address, in bytes (RFC 5321, 4.5.3.1.3, without its brackets).
const EMAIL_BYTES_MAX: usize = 254;
/// The longest part before the `@`, in bytes (RFC 5321, 4.5.3.1.1).
const LOCAL_PART_BYTES_MAX: usize = 64;
/// The longest name of a person, in characters.
const NAME_CHARS_MAX: usize = 200;

/// `issuer` of the users that login links make: no identity provider's.
pub(crate) const LOGIN_LINK_ISSUER: &str = "receipts-login-link";

/// Identity of a person by the word of an identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The provider.
    pub issuer: String,
    /// Whom it means; never given to another.
    pub subject: String,
    /// Address that the provider states, for a new user.
    pub email: Option<Email>,
    /// Name that the provider states, for a new user.
    pub name: Option<PersonName>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// `usr_` and 32 digits.
    pub id: String,
    /// The provider that vouches for the user.
    pub issuer: String,
    /// The user's name at the provider.
    pub subject: String,
    /// The address.
    pub email: Option<Email>,
    /// The name.
    pub name: Option<PersonName>,
    /// When the user came first, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

/// Corrections by a user: `None` leaves a member, `Some(None)` removes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserChange {
    /// The address.
    pub email: Option<Option<Email>>,
    /// The name.
    pub name: Option<Option<PersonName>>,
}

/// An e-mail address that mail can be sent to: of the ordinary form, without quotes, comments or
/// control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email(String);

/// A person's name: 1 to 200 characters, no control characters, no blanks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonName(String);

/// Text that is no e-mail address. It isn't repeated: it's somebody's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an e-mail address of the form name@example.com, of at most 254 bytes")]
pub struct EmailError;

/// Text that is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 200 characters, none of them control characters, and no blanks around it")]
pub struct PersonNameError;

impl Email {
    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PersonName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Email {
    type Err = EmailError;

    /// RFC 5321's Dot-string at a domain name; what else that standard allows before the `@` is in
    /// no one's use and in many attacks.
    fn from_str(text: &str) -> Result<Self, EmailError> {
        let (local, domain) = text.rsplit_once('@').ok_or(EmailError)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
        let dots = local.starts_with('.') || local.ends_with('.') || local.contains("..");
        let local_fits = (1..=LOCAL_PART_BYTES_MAX).contains(&local.len()) && local.bytes().all(plain) && !dots;
        // Not trimmed or without its last dot: what is there is what mail goes to.
        let domain_fits = domain
            .parse::<Domain>()
            .is_ok_and(|name| name.as_str().eq_ignore_ascii_case(domain));
        if text.len() > EMAIL_BYTES_MAX || !local_fits || !domain_fits {
            return Err(EmailError);
        }
        Ok(Self(text.to_owned()))
    }
}

impl std::str::FromStr for PersonName {
    type Err = PersonNameError;

    fn from_str(text: &str) -> Result<Self, PersonNameError> {
        let fits = (1..=NAME_CHARS_MAX).contains(&text.chars().count());
        if !fits || text.trim() != text || text.chars().any(char::is_control) {
            return Err(PersonNameError);
        }
        Ok(Self(text.to_owned()))
    }
}

/// The columns that [`read`] reads, of the users that the rest of the statement names.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, issuer, subject, email, name, created_at_ms FROM users ",
            $rest
        )
    };
}

impl Accounts {
    /// The user that `subject` is, who is made at the first time, without an account; of many at
    /// one time, in however many processes, one makes them.
    pub async fn sign_in(&self, subject: &Subject) -> Result<User, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            let user = find_or_make(&mut transaction, subject, self.now_ms()).await?;
            transaction.commit().await?;
            Ok(user)
        };
        let find = sqlx::query(select!("WHERE issuer = $1 AND subject = $2"));
        let find = find.bind(&subject.issuer).bind(&subject.subject);
        // Nearly always there is one, and nothing to write.
        let found = async {
            match find.fetch_optional(&self.pool).await? {
                Some(row) => read(&row),
                None => work.await,
            }
        };
        self.timed("sign_in", found).await
    }

    /// A user by ID; `None` if there is none any more.
    pub async fn user(&self, user_id: &str) -> Result<Option<User>, AccountsError> {
        let query = sqlx::query(select!("WHERE id = $1")).bind(user_id);
        let row = self
            .timed("user", async { Ok(query.fetch_optional(&self.pool).await?) })
            .await?;
        row.as_ref().map(read).transpose()
    }

    /// Corrects what is known of a user, on behalf of `actor`; each of their accounts has it in its
    /// trail. `None` if there is no such user any more.
    pub async fn change_user(
        &self,
        user_id: &str,
        change: &UserChange,
        actor: &str,
    ) -> Result<Option<User>, AccountsError> {
        self.timed("change_user", self.correct(user_id, change, actor)).await
    }

    async fn correct(&self, user_id: &str, wanted: &UserChange, actor: &str) -> Result<Option<User>, AccountsError> {
        let mut transaction = self.begin().await?;
        let email = wanted.email.as_ref().map(|email| email.as_ref().map(Email::as_str));
        let name = wanted.name.as_ref().map(|name| name.as_ref().map(PersonName::as_str));
        let mut fields = Vec::new();
        if let Some(email) = email {
            let update = sqlx::query("UPDATE users SET email = $1 WHERE id = $2").bind(email);
            update.bind(user_id).execute(&mut *transaction).await?;
            fields.push("email");
        }
        if let Some(name) = name {
            let update = sqlx::query("UPDATE users SET name = $1 WHERE id = $2").bind(name);
            update.bind(user_id).execute(&mut *transaction).await?;
            fields.push("name");
        }
        let question = sqlx::query(select!("WHERE id = $1")).bind(user_id);
        let row = question.fetch_optional(&mut *transaction).await?;
        let Some(user) = row.as_ref().map(read).transpose()? else {
            return Ok(None);
        };
        let accounts = sqlx::query_scalar("SELECT account_id FROM members WHERE user_id = $1 ORDER BY account_id");
        let accounts: Vec<String> = accounts.bind(user_id).fetch_all(&mut *transaction).await?;
        for account_id in accounts.iter().filter(|_| !fields.is_empty()) {
            let change = TrailChange {
                account_id,
                actor,
                action: "user.change",
                subject: user_id,
                // Which fields, never what was in them.
                detail: &fields.join(","),
                at_ms: self.now_ms(),
            };
            trail::note(&mut transaction, &change).await?;
        }
        transaction.commit().await?;
        Ok(Some(user))
    }
}

/// The user that `subject` is, made if there is none.
pub(crate) async fn find_or_make(
    transaction: &mut Transaction<'static, Any>,
    subject: &Subject,
    now_ms: i64,
) -> Result<User, AccountsError> {
    // Whoever comes second waits here for the first, and then adds nothing.
    let insert = "INSERT INTO users (id, issuer, subject, email, name, created_at_ms)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (issuer, subject) DO NOTHING";
    let insert = sqlx::query(insert)
        .bind(format!("usr_{}", Uuid::now_v7().simple()))
        .bind(&subject.issuer)
        .bind(&subject.subject)
        .bind(subject.email.as_ref().map(Email::as_str))
        .bind(subject.name.as_ref().map(PersonName::as_str))
        .bind(now_ms);
    insert.execute(&mut **transaction).await?;
    let find = sqlx::query(select!("WHERE issuer = $1 AND subject = $2"));
    let find = find.bind(&subject.issuer).bind(&subject.subject);
    read(&find.fetch_one(&mut **transaction).await?)
}

/// Locks a user until the transaction ends: nobody else changes their accounts or sessions. `false`
/// if there is no such user any more.
pub(crate) async fn lock_user(
    transaction: &mut Transaction<'static, Any>,
    user_id: &str,
) -> Result<bool, AccountsError> {
    let lock = sqlx::query("UPDATE users SET name = name WHERE id = $1").bind(user_id);
    Ok(lock.execute(&mut **transaction).await?.rows_affected() > 0)
}

/// Erases a user who is locked, with their sessions, unless they are in an account. Returns whether
/// they were erased.
pub(crate) async fn erase_unattached(
    transaction: &mut Transaction<'static, Any>,
    user_id: &str,
) -> Result<bool, AccountsError> {
    let member = sqlx::query("SELECT account_id FROM members WHERE user_id = $1 LIMIT 1").bind(user_id);
    if member.fetch_optional(&mut **transaction).await?.is_some() {
        return Ok(false);
    }
    let sessions = sqlx::query("DELETE FROM sessions WHERE user_id = $1").bind(user_id);
    sessions.execute(&mut **transaction).await?;
    let erase = sqlx::query("DELETE FROM users WHERE id = $1").bind(user_id);
    Ok(erase.execute(&mut **transaction).await?.rows_affected() > 0)
}

fn read(row: &AnyRow) -> Result<User, AccountsError> {
    Ok(User {
        id: row.value("id")?,
        issuer: row.value("issuer")?,
        subject: row.value("subject")?,
        email: email(row)?,
        name: name(row)?,
        created_at_ms: row.value("created_at_ms")?,
    })
}

/// The address in a row.
pub(crate) fn email(row: &AnyRow) -> Result<Option<Email>, AccountsError> {
    Ok(row.value::<Option<String>>("email")?.map(Email))
}

/// The person's name in a row.
pub(crate) fn name(row: &AnyRow) -> Result<Option<PersonName>, AccountsError> {
    Ok(row.value::<Option<String>>("name")?.map(PersonName))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_of_the_ordinary_form_are_taken() {
        for text in [
            "a@example.com",
            "First.Last+tag@News.Example.org",
            "o'neil@xn--bcher-kva.example",
            "a_b-c@a.b",
        ] {
            assert_eq!(text.parse::<Email>().unwrap().as_str(), text);
        }
        let (local, host) = ("a".repeat(64), format!("{0}.{0}.{0}", "b".repeat(61)));
        assert_eq!(format!("{local}@{host}abc").len(), 253);
        assert!(format!("{local}@{host}abc").parse::<Email>().is_err(), "a label of 64");
        assert!(format!("{local}@{host}.cde").parse::<Email>().is_ok(), "254 bytes");
        assert!(format!("{local}@{host}.cdef").parse::<Email>().is_err(), "255 bytes");
    }

    #[test]
    fn anything_else_isnt_an_address() {
        for text in [
            "",
            "a",
            "@example.com",
            "a@",
            "a@localhost",
            "a@b@example.com",
            "a b@example.com",
            "a@example.com ",
            ".a@example.com",
            "a.@example.com",
            "a..b@example.com",
            "\"a\"@example.com",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "a@example.com\r\nBcc: b@example.com",
            "<a@example.com>",
            "a@example.com.",
            "\u{e9}@example.com",
            "a,b@example.com",
        ] {
            assert_eq!(text.parse::<Email>(), Err(EmailError), "{text:?}");
        }
        assert!(format!("{}@example.com", "a".repeat(65)).parse::<Email>().is_err());
    }

    #[test]
    fn names() {
        for text in ["A", "Zo\u{eb} Example", &"\u{e9}".repeat(200)] {
            assert_eq!(text.parse::<PersonName>().unwrap().as_str(), text);
        }
        for text in ["", " ", " a", "a ", "a\nb", "a\u{0}", &"\u{e9}".repeat(201)] {
            assert_eq!(text.parse::<PersonName>(), Err(PersonNameError), "{text:?}");
        }
    }
}
