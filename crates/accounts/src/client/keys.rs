//! Changes and lists of clients' keys: an operator registers a key, revokes it, lists all.

use sqlx::{Any, Transaction};
use uuid::Uuid;

use super::ClientKey;
use crate::limits::KEYS_PER_CLIENT_MAX;
use crate::registry::{RegistrySection, increment};
use crate::row::RowValues;
use crate::trail::{self, TrailChange};
use crate::{Accounts, AccountsError};

/// The most keys that are listed.
pub const CLIENTS_LISTED_MAX: i64 = 10_000;
/// The longest label, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The longest PEM, in bytes.
const PEM_BYTES_MAX: usize = 4_096;

/// A key to be registered for a client. Whoever asks has read the PEM and knows that the
/// fingerprint is its key's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewClientKey {
    /// The client and the key's fingerprint.
    pub key: ClientKey,
    /// The public key, retained for people.
    pub pem: String,
    /// A label, at most 100 characters; may be empty.
    pub name: String,
}

/// Result of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// The key is revoked.
    Done,
    /// The key was revoked before, from this instant on, in milliseconds since the Unix epoch.
    Before(i64),
    /// The client has no such key.
    Unknown,
}

/// Present state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKeyState {
    /// Registered.
    Registered,
    /// Revoked for what is received from this instant on, in milliseconds since the Unix epoch.
    RevokedFrom(i64),
}

/// A key in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// The client and the key's fingerprint.
    pub key: ClientKey,
    /// Present state.
    pub state: ClientKeyState,
    /// Label of the key.
    pub name: String,
    /// When it got into this state, in milliseconds since the Unix epoch.
    pub changed_at_ms: i64,
}

impl Accounts {
    /// Registers a key for a client, also one that was revoked. `false` if it is registered
    /// already.
    ///
    /// # Errors
    /// The label or the PEM is too long, the client has too many keys, or the store fails. Nothing
    /// is stored then.
    pub async fn register_client_key(&self, new: &NewClientKey) -> Result<bool, AccountsError> {
        if new.name.chars().count() > NAME_CHARS_MAX || new.name.chars().any(char::is_control) {
            return Err(AccountsError::Name);
        }
        if new.pem.len() > PEM_BYTES_MAX {
            return Err(AccountsError::ClientKeyTooLong);
        }
        let work = async {
            let mut transaction = self.begin().await?;
            increment(&mut transaction, RegistrySection::Clients).await?;
            if state(&mut transaction, &new.key).await? == Some(ClientKeyState::Registered) {
                return Ok(false);
            }
            let store = "INSERT INTO client_keys (client_id, fingerprint, pem, name, changed_at_ms)
                VALUES ($1, $2, $3, $4, $5) ON CONFLICT (client_id, fingerprint) DO UPDATE
                SET revoked_from_ms = NULL, pem = excluded.pem, name = excluded.name,
                    changed_at_ms = excluded.changed_at_ms";
            let store = sqlx::query(store)
                .bind(new.key.client_id.to_string())
                .bind(new.key.fingerprint.to_string());
            let store = store.bind(&new.pem).bind(&new.name).bind(self.now_ms());
            store.execute(&mut *transaction).await?;
            let count = "SELECT COUNT(*) FROM client_keys WHERE client_id = $1";
            let count = sqlx::query_scalar::<_, i64>(count).bind(new.key.client_id.to_string());
            if count.fetch_one(&mut *transaction).await? > KEYS_PER_CLIENT_MAX {
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

    /// Revokes a client's registered key for everything received from `from_ms` on, in
    /// milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The store fails; nothing is changed then.
    pub async fn revoke_client_key(&self, key: &ClientKey, from_ms: i64) -> Result<Revoked, AccountsError> {
        let work = async {
            let mut transaction = self.begin().await?;
            increment(&mut transaction, RegistrySection::Clients).await?;
            match state(&mut transaction, key).await? {
                None => return Ok(Revoked::Unknown),
                Some(ClientKeyState::RevokedFrom(from_ms)) => return Ok(Revoked::Before(from_ms)),
                Some(ClientKeyState::Registered) => {}
            }
            let revoke = "UPDATE client_keys SET revoked_from_ms = $1, changed_at_ms = $2
                WHERE client_id = $3 AND fingerprint = $4";
            let revoke = sqlx::query(revoke).bind(from_ms).bind(self.now_ms());
            let revoke = revoke.bind(key.client_id.to_string()).bind(key.fingerprint.to_string());
            revoke.execute(&mut *transaction).await?;
            let detail = format!("{} from {from_ms}", key.fingerprint);
            self.note(&mut transaction, "client.revoke", key.client_id, &detail)
                .await?;
            transaction.commit().await?;
            Ok(Revoked::Done)
        };
        self.timed("client_revoke", work).await
    }

    /// The keys in the registry, of one client or of all, by client and fingerprint, at most
    /// [`CLIENTS_LISTED_MAX`].
    pub async fn client_keys(&self, client_id: Option<Uuid>) -> Result<Vec<ClientInfo>, AccountsError> {
        let registry = "SELECT client_id, fingerprint, name, changed_at_ms, revoked_from_ms FROM client_keys
            WHERE client_id = $1 OR $1 = '' ORDER BY client_id, fingerprint LIMIT $2";
        let client_id = client_id.map(|id| id.to_string()).unwrap_or_default();
        let work = async {
            let mut keys = Vec::new();
            let registry = sqlx::query(registry).bind(&client_id).bind(CLIENTS_LISTED_MAX);
            for row in registry.fetch_all(&self.pool).await? {
                keys.push(ClientInfo {
                    key: ClientKey {
                        client_id: row.parsed("client_id")?,
                        fingerprint: row.parsed("fingerprint")?,
                    },
                    state: stored_state(row.value("revoked_from_ms")?),
                    name: row.value("name")?,
                    changed_at_ms: row.value("changed_at_ms")?,
                });
            }
            Ok(keys)
        };
        self.timed("client_keys", work).await
    }

    async fn note(
        &self,
        transaction: &mut Transaction<'static, Any>,
        action: &str,
        client_id: Uuid,
        detail: &str,
    ) -> Result<(), AccountsError> {
        let subject = client_id.to_string();
        let change = TrailChange::of_deployment(action, &subject, detail, self.now_ms());
        trail::note(transaction, &change).await
    }
}

/// State of the key, `None` if the client has no such key.
async fn state(
    transaction: &mut Transaction<'static, Any>,
    key: &ClientKey,
) -> Result<Option<ClientKeyState>, AccountsError> {
    let query = "SELECT revoked_from_ms FROM client_keys WHERE client_id = $1 AND fingerprint = $2";
    let query = sqlx::query_scalar(query).bind(key.client_id.to_string());
    let query = query.bind(key.fingerprint.to_string());
    let revoked_from_ms = query.fetch_optional(&mut **transaction).await?;
    Ok(revoked_from_ms.map(stored_state))
}

fn stored_state(revoked_from_ms: Option<i64>) -> ClientKeyState {
    revoked_from_ms.map_or(ClientKeyState::Registered, ClientKeyState::RevokedFrom)
}
