//! What the verifier asks: whether a key counts for a client id, as of a version of the registry.

use std::collections::HashMap;

use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, Row, Transaction};
use uuid::Uuid;

use super::{ClientKey, Fingerprint};
use crate::{Accounts, AccountsError, ClientPolicy};

/// Clients asked for in one statement. It always has as many places, so that there is one such statement to prepare.
const CLIENTS_PER_QUESTION: usize = 128;

/// Whether a key counts for a client id. For a version that has been, the answer is always the same, but for keys that were only
/// looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStanding {
    /// It counts.
    Trusted,
    /// It counts for what was received before this instant, in milliseconds since the Unix epoch.
    RevokedFrom(i64),
    /// It doesn't.
    Untrusted,
}

/// What to do about a client without a key when keys are pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstSeen {
    /// Pin its first key of the question.
    Pin,
    /// Take its first key of the question as one that would be pinned.
    Look,
}

/// What is known of one client as of a version.
#[derive(Default)]
struct Known {
    /// Its keys in the registry, and since when each is revoked.
    registered: HashMap<Fingerprint, Option<i64>>,
    era: i64,
    pinned: Option<Fingerprint>,
}

impl Accounts {
    /// Whether each of `keys` counts by `policy` as of `version`, in their order. A client's first key is what comes first here, so
    /// they are to be in the order of the log.
    ///
    /// # Errors
    /// The store fails.
    pub async fn client_standings(
        &self,
        policy: ClientPolicy,
        version: i64,
        keys: &[ClientKey],
        first_seen: FirstSeen,
    ) -> Result<Vec<KeyStanding>, AccountsError> {
        if policy == ClientPolicy::Open {
            return Ok(vec![KeyStanding::Trusted; keys.len()]);
        }
        let mut known: HashMap<Uuid, Known> = HashMap::new();
        let mut clients = Vec::new();
        for key in keys {
            known.entry(key.client_id).or_insert_with(|| {
                clients.push(key.client_id);
                Known::default()
            });
        }
        // In order, so that two verifiers that pin the same clients never wait for each other in a circle.
        clients.sort_unstable();
        for clients in clients.chunks(CLIENTS_PER_QUESTION) {
            let work = async {
                let mut transaction = self.pool.begin().await?;
                registered(&mut transaction, clients, version, &mut known).await?;
                if policy == ClientPolicy::Pinned {
                    pinned(&mut transaction, clients, version, &mut known).await?;
                }
                Ok(())
            };
            self.timed("client_standings", work).await?;
        }
        if policy == ClientPolicy::Pinned {
            self.pin_first_seen(keys, &mut known, first_seen).await?;
        }
        let standing = |key: &ClientKey| {
            let known = known.get(&key.client_id)?;
            Some(match known.registered.get(&key.fingerprint) {
                Some(None) => KeyStanding::Trusted,
                Some(Some(from_ms)) => KeyStanding::RevokedFrom(*from_ms),
                None if policy == ClientPolicy::Pinned && known.pinned == Some(key.fingerprint) => KeyStanding::Trusted,
                None => KeyStanding::Untrusted,
            })
        };
        Ok(keys
            .iter()
            .map(|key| standing(key).unwrap_or(KeyStanding::Untrusted))
            .collect())
    }

    /// Pins the first key of each client that has none, in the registry or pinned, and reads what is pinned then: another verifier may
    /// have been first.
    async fn pin_first_seen(
        &self,
        keys: &[ClientKey],
        known: &mut HashMap<Uuid, Known>,
        first_seen: FirstSeen,
    ) -> Result<(), AccountsError> {
        let mut wanted = Vec::new();
        for key in keys {
            let Some(known) = known.get_mut(&key.client_id) else {
                continue;
            };
            if known.pinned.is_none() && known.registered.is_empty() {
                known.pinned = Some(key.fingerprint);
                wanted.push((key.client_id, known.era, key.fingerprint));
            }
        }
        if first_seen == FirstSeen::Look {
            return Ok(());
        }
        wanted.sort_unstable();
        for some in wanted.chunks(CLIENTS_PER_QUESTION) {
            let now_ms = self.now_ms();
            let work = async {
                let mut transaction = self.begin().await?;
                for (client_id, era, fingerprint) in some {
                    let insert = "INSERT INTO client_pins (client_id, era, fingerprint, origin, pinned_at_ms)
                        VALUES ($1, $2, $3, 'first_seen', $4) ON CONFLICT (client_id, era) DO NOTHING";
                    let insert = sqlx::query(insert).bind(client_id.to_string()).bind(*era);
                    let insert = insert.bind(fingerprint.to_string()).bind(now_ms);
                    insert.execute(&mut *transaction).await?;
                }
                let clients: Vec<Uuid> = some.iter().map(|(client_id, ..)| *client_id).collect();
                pins(&mut transaction, &clients, known).await?;
                transaction.commit().await?;
                Ok(())
            };
            self.timed("client_pin", work).await?;
        }
        Ok(())
    }
}

async fn registered(
    transaction: &mut Transaction<'static, Any>,
    clients: &[Uuid],
    version: i64,
    known: &mut HashMap<Uuid, Known>,
) -> Result<(), AccountsError> {
    let question = "SELECT client_id, fingerprint, revoked_from_ms FROM client_keys
        WHERE since_version <= $1 AND (until_version IS NULL OR until_version > $1) AND client_id IN ";
    let question = question.to_owned() + &places(2);
    let question = sqlx::query(sqlx::AssertSqlSafe(question)).bind(version);
    for row in bind(question, clients).fetch_all(&mut **transaction).await? {
        let known = known.entry(uuid(row.try_get(0)?)?).or_default();
        known.registered.insert(fingerprint(row.try_get(1)?)?, row.try_get(2)?);
    }
    Ok(())
}

async fn pinned(
    transaction: &mut Transaction<'static, Any>,
    clients: &[Uuid],
    version: i64,
    known: &mut HashMap<Uuid, Known>,
) -> Result<(), AccountsError> {
    let question = "SELECT client_id, MAX(since_version) FROM client_eras WHERE since_version <= $1 AND client_id IN ";
    let question = question.to_owned() + &places(2) + " GROUP BY client_id";
    let question = sqlx::query(sqlx::AssertSqlSafe(question)).bind(version);
    for row in bind(question, clients).fetch_all(&mut **transaction).await? {
        known.entry(uuid(row.try_get(0)?)?).or_default().era = row.try_get(1)?;
    }
    pins(transaction, clients, known).await
}

/// What is pinned for each client in its era.
async fn pins(
    transaction: &mut Transaction<'static, Any>,
    clients: &[Uuid],
    known: &mut HashMap<Uuid, Known>,
) -> Result<(), AccountsError> {
    let question = "SELECT client_id, era, fingerprint FROM client_pins WHERE client_id IN ".to_owned() + &places(1);
    let question = sqlx::query(sqlx::AssertSqlSafe(question));
    for row in bind(question, clients).fetch_all(&mut **transaction).await? {
        let known = known.entry(uuid(row.try_get(0)?)?).or_default();
        if row.try_get::<i64, _>(1)? == known.era {
            known.pinned = Some(fingerprint(row.try_get(2)?)?);
        }
    }
    Ok(())
}

/// `($first, ...)` for one question.
fn places(first: usize) -> String {
    let places: Vec<String> = (first..first + CLIENTS_PER_QUESTION)
        .map(|number| format!("${number}"))
        .collect();
    format!("({})", places.join(", "))
}

/// The clients in their places; the rest of the places repeat the last.
fn bind<'q>(mut question: Query<'q, Any, AnyArguments>, clients: &[Uuid]) -> Query<'q, Any, AnyArguments> {
    let last = clients.last().map(Uuid::to_string).unwrap_or_default();
    for number in 0..CLIENTS_PER_QUESTION {
        let client = clients.get(number).map_or_else(|| last.clone(), Uuid::to_string);
        question = question.bind(client);
    }
    question
}

pub(super) fn uuid(text: &str) -> Result<Uuid, AccountsError> {
    text.parse()
        .map_err(|_| AccountsError::Store(format!("`{text}` is no client id")))
}

pub(super) fn fingerprint(text: &str) -> Result<Fingerprint, AccountsError> {
    text.parse()
        .map_err(|error| AccountsError::Store(format!("`{text}`: {error}")))
}
