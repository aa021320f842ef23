//! What an operator does: register a client's key, revoke it, pin and unpin one, and see them all.

use sqlx::{Any, Row, Transaction};
use uuid::Uuid;

use super::standing::{fingerprint, uuid};
use super::{ClientKey, Fingerprint};
use crate::policy::versions::{Subject, next};
use crate::trail::{self, Change};
use crate::{Accounts, AccountsError};

/// The most keys of one client in the registry, revoked ones included.
pub const KEYS_PER_CLIENT_MAX: i64 = 100;
/// The most keys that are listed.
pub const CLIENTS_LISTED_MAX: i64 = 10_000;
/// The longest label, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The longest PEM, in bytes.
const PEM_BYTES_MAX: usize = 4_096;
/// Whose trail the changes stand in: they are of no account.
const TRAIL: &str = "deployment";
/// Who makes them, and who pinned a key that wasn't just seen first.
const OPERATOR: &str = "operator";

/// A key to be registered for a client. Whoever asks has read the PEM and knows that the fingerprint is its key's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClientKey {
    /// Whose, and which.
    pub key: ClientKey,
    /// The public key, kept for people.
    pub pem: String,
    /// A label, at most 100 characters; may be empty.
    pub name: String,
}

/// What became of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// It holds.
    Done,
    /// The key was revoked before, from this instant on, in milliseconds since the Unix epoch.
    Before(i64),
    /// The client has no such key, registered or pinned.
    Unknown,
}

/// How a key counts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKeyState {
    /// Registered.
    Registered,
    /// Revoked for what is received from this instant on, in milliseconds since the Unix epoch.
    RevokedFrom(i64),
    /// Pinned when it was seen first.
    PinnedFirstSeen,
    /// Pinned by an operator.
    PinnedByOperator,
}

/// A key in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// Whose, and which.
    pub key: ClientKey,
    /// How it counts.
    pub state: ClientKeyState,
    /// Its label.
    pub name: String,
    /// When it got into this state, in milliseconds since the Unix epoch.
    pub changed_at_ms: i64,
}

/// A key's row in the registry as it is now.
struct Present {
    revoked_from_ms: Option<i64>,
    pem: String,
    name: String,
}

/// What is pinned for a client now.
struct Pin {
    fingerprint: Fingerprint,
    origin: String,
    pinned_at_ms: i64,
}

impl Accounts {
    /// Registers a key for a client, also one that was revoked. `false` if it is registered already.
    ///
    /// # Errors
    /// The label or the PEM is too long, the client has too many keys, or the store fails. Nothing is stored then.
    pub async fn register_client_key(&self, new: &NewClientKey) -> Result<bool, AccountsError> {
        if new.name.chars().count() > NAME_CHARS_MAX || new.name.chars().any(char::is_control) {
            return Err(AccountsError::Name);
        }
        if new.pem.len() > PEM_BYTES_MAX {
            return Err(AccountsError::ClientKeyTooLong);
        }
        let work = async {
            let mut transaction = self.begin().await?;
            let version = next(&mut transaction, Subject::Clients).await?;
            let present = present(&mut transaction, &new.key).await?;
            if present.is_some_and(|present| present.revoked_from_ms.is_none()) {
                return Ok(false);
            }
            self.replace(&mut transaction, &new.key, version, None, &new.pem, &new.name)
                .await?;
            let count = "SELECT COUNT(*) FROM client_keys WHERE client_id = $1 AND until_version IS NULL";
            let count = sqlx::query(count).bind(new.key.client_id.to_string());
            if count.fetch_one(&mut *transaction).await?.try_get::<i64, _>(0)? > KEYS_PER_CLIENT_MAX {
                return Err(AccountsError::TooManyClientKeys);
            }
            let detail = new.key.fingerprint.to_string();
            self.note(&mut transaction, "client.register", new.key.client_id, &detail)
                .await?;
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("client_register", work).await
    }

    /// Takes a client's registered or pinned key back for everything received from `from_ms` on, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn revoke_client_key(&self, key: &ClientKey, from_ms: i64) -> Result<Revoked, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            let version = next(&mut transaction, Subject::Clients).await?;
            let (pem, name) = match present(&mut transaction, key).await? {
                Some(Present {
                    revoked_from_ms: Some(from_ms),
                    ..
                }) => return Ok(Revoked::Before(from_ms)),
                Some(Present { pem, name, .. }) => (pem, name),
                None => match pinned(&mut transaction, key.client_id).await? {
                    Some(pin) if pin.fingerprint == key.fingerprint => Default::default(),
                    _ => return Ok(Revoked::Unknown),
                },
            };
            self.replace(&mut transaction, key, version, Some(from_ms), &pem, &name)
                .await?;
            let detail = format!("{} from {from_ms}", key.fingerprint);
            self.note(&mut transaction, "client.revoke", key.client_id, &detail)
                .await?;
            transaction.commit().await?;
            Ok(Revoked::Done)
        };
        self.timed("client_revoke", work).await
    }

    /// Pins a key for a client in place of what is pinned. `false` if it is pinned already.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn pin_client_key(&self, key: &ClientKey) -> Result<bool, AccountsError> {
        self.change_pin(key.client_id, Some(key.fingerprint)).await
    }

    /// Forgets what is pinned for a client: the next key seen is pinned then. `false` if nothing is.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn unpin_client(&self, client_id: Uuid) -> Result<bool, AccountsError> {
        self.change_pin(client_id, None).await
    }

    async fn change_pin(&self, client_id: Uuid, wanted: Option<Fingerprint>) -> Result<bool, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            let version = next(&mut transaction, Subject::Clients).await?;
            let now = pinned(&mut transaction, client_id).await?.map(|pin| pin.fingerprint);
            if now == wanted {
                return Ok(false);
            }
            let pin = wanted.map(|fingerprint| Pin {
                fingerprint,
                origin: OPERATOR.to_owned(),
                pinned_at_ms: self.now_ms(),
            });
            begin_era(&mut transaction, client_id, version, pin).await?;
            let detail = wanted.or(now).map(|fingerprint| fingerprint.to_string());
            let action = if wanted.is_some() { "client.pin" } else { "client.unpin" };
            self.note(&mut transaction, action, client_id, &detail.unwrap_or_default())
                .await?;
            transaction.commit().await?;
            Ok(true)
        };
        self.timed("client_pin_change", work).await
    }

    /// The keys in the registry and the pinned ones, of one client or of all, by client and fingerprint, at most [`CLIENTS_LISTED_MAX`] of each
    /// kind.
    ///
    /// # Errors
    /// The store fails.
    pub async fn client_keys(&self, client_id: Option<Uuid>) -> Result<Vec<ClientInfo>, AccountsError> {
        let registry = "SELECT client_id, fingerprint, name, changed_at_ms, revoked_from_ms FROM client_keys
            WHERE until_version IS NULL AND (client_id = $1 OR $1 = '') ORDER BY client_id, fingerprint LIMIT $2";
        let pins = "SELECT p.client_id, p.fingerprint, p.origin, p.pinned_at_ms FROM client_pins p
            WHERE (p.client_id = $1 OR $1 = '') AND NOT EXISTS
                (SELECT 1 FROM client_eras e WHERE e.client_id = p.client_id AND e.since_version > p.era)
            ORDER BY p.client_id LIMIT $2";
        let client_id = client_id.map(|id| id.to_string()).unwrap_or_default();
        let work = async {
            let mut keys = Vec::new();
            let registry = sqlx::query(registry).bind(&client_id).bind(CLIENTS_LISTED_MAX);
            for row in registry.fetch_all(&self.pool).await? {
                keys.push(ClientInfo {
                    key: ClientKey {
                        client_id: uuid(row.try_get(0)?)?,
                        fingerprint: fingerprint(row.try_get(1)?)?,
                    },
                    state: match row.try_get::<Option<i64>, _>(4)? {
                        None => ClientKeyState::Registered,
                        Some(from_ms) => ClientKeyState::RevokedFrom(from_ms),
                    },
                    name: row.try_get(2)?,
                    changed_at_ms: row.try_get(3)?,
                });
            }
            let pins = sqlx::query(pins).bind(&client_id).bind(CLIENTS_LISTED_MAX);
            for row in pins.fetch_all(&self.pool).await? {
                let by_operator = row.try_get::<&str, _>(2)? == OPERATOR;
                keys.push(ClientInfo {
                    key: ClientKey {
                        client_id: uuid(row.try_get(0)?)?,
                        fingerprint: fingerprint(row.try_get(1)?)?,
                    },
                    state: if by_operator {
                        ClientKeyState::PinnedByOperator
                    } else {
                        ClientKeyState::PinnedFirstSeen
                    },
                    name: String::new(),
                    changed_at_ms: row.try_get(3)?,
                });
            }
            keys.sort_by_key(|info| info.key);
            Ok(keys)
        };
        self.timed("client_keys", work).await
    }

    /// Ends the key's row of before at `version`, and begins another.
    ///
    /// The client gets an era of its own with what is pinned now: a block that is judged as of an earlier version may still pin a key,
    /// and that mustn't change what is judged as of this one.
    async fn replace(
        &self,
        transaction: &mut Transaction<'static, Any>,
        key: &ClientKey,
        version: i64,
        revoked_from_ms: Option<i64>,
        pem: &str,
        name: &str,
    ) -> Result<(), AccountsError> {
        let pin = pinned(transaction, key.client_id).await?;
        begin_era(transaction, key.client_id, version, pin).await?;
        let end = "UPDATE client_keys SET until_version = $1
            WHERE client_id = $2 AND fingerprint = $3 AND until_version IS NULL";
        let end = sqlx::query(end).bind(version).bind(key.client_id.to_string());
        end.bind(key.fingerprint.to_string())
            .execute(&mut **transaction)
            .await?;
        let insert = "INSERT INTO client_keys
            (client_id, fingerprint, since_version, revoked_from_ms, pem, name, changed_at_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let insert = sqlx::query(insert).bind(key.client_id.to_string());
        let insert = insert
            .bind(key.fingerprint.to_string())
            .bind(version)
            .bind(revoked_from_ms);
        let insert = insert.bind(pem).bind(name).bind(self.now_ms());
        insert.execute(&mut **transaction).await?;
        Ok(())
    }

    async fn note(
        &self,
        transaction: &mut Transaction<'static, Any>,
        action: &str,
        client_id: Uuid,
        detail: &str,
    ) -> Result<(), AccountsError> {
        let change = Change {
            account_id: TRAIL,
            actor: OPERATOR,
            action,
            subject: &client_id.to_string(),
            detail,
            at_ms: self.now_ms(),
        };
        trail::note(transaction, &change).await
    }
}

async fn present(
    transaction: &mut Transaction<'static, Any>,
    key: &ClientKey,
) -> Result<Option<Present>, AccountsError> {
    let question = "SELECT revoked_from_ms, pem, name FROM client_keys
        WHERE client_id = $1 AND fingerprint = $2 AND until_version IS NULL";
    let question = sqlx::query(question).bind(key.client_id.to_string());
    let row = question
        .bind(key.fingerprint.to_string())
        .fetch_optional(&mut **transaction)
        .await?;
    row.map(|row| {
        Ok(Present {
            revoked_from_ms: row.try_get(0)?,
            pem: row.try_get(1)?,
            name: row.try_get(2)?,
        })
    })
    .transpose()
}

/// What is pinned for the client in its present era.
async fn pinned(transaction: &mut Transaction<'static, Any>, client_id: Uuid) -> Result<Option<Pin>, AccountsError> {
    let question = "SELECT fingerprint, origin, pinned_at_ms FROM client_pins WHERE client_id = $1
        AND era = (SELECT COALESCE(MAX(since_version), 0) FROM client_eras WHERE client_id = $1)";
    let question = sqlx::query(question).bind(client_id.to_string());
    let row = question.fetch_optional(&mut **transaction).await?;
    row.map(|row| {
        Ok(Pin {
            fingerprint: fingerprint(row.try_get(0)?)?,
            origin: row.try_get(1)?,
            pinned_at_ms: row.try_get(2)?,
        })
    })
    .transpose()
}

/// From `version` on this is pinned for the client, or what is seen first.
async fn begin_era(
    transaction: &mut Transaction<'static, Any>,
    client_id: Uuid,
    version: i64,
    pin: Option<Pin>,
) -> Result<(), AccountsError> {
    let era = sqlx::query("INSERT INTO client_eras (client_id, since_version) VALUES ($1, $2)");
    let era = era.bind(client_id.to_string()).bind(version);
    era.execute(&mut **transaction).await?;
    if let Some(pin) = pin {
        let insert = "INSERT INTO client_pins (client_id, era, fingerprint, origin, pinned_at_ms)
            VALUES ($1, $2, $3, $4, $5)";
        let insert = sqlx::query(insert).bind(client_id.to_string()).bind(version);
        let insert = insert
            .bind(pin.fingerprint.to_string())
            .bind(pin.origin)
            .bind(pin.pinned_at_ms);
        insert.execute(&mut **transaction).await?;
    }
    Ok(())
}
