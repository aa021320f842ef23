//! What the verifier asks: whether a key counts for a client id, as of a version of the registry.

use std::collections::HashMap;

use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, Row};
use uuid::Uuid;

use super::{ClientKey, Fingerprint};
use crate::{Accounts, AccountsError};

/// Clients asked for in one statement. It always has as many places, so that there is one such statement to prepare.
const CLIENTS_PER_QUESTION: usize = 128;

/// Status of a key for a client id. For a past version, it is always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStanding {
    /// It counts.
    Trusted,
    /// It counts for what was received before this instant, in milliseconds since the Unix epoch.
    RevokedFrom(i64),
    /// It doesn't.
    Untrusted,
}

impl Accounts {
    /// Whether each of `keys` counted as of `version`, in their order.
    ///
    /// # Errors
    /// The store fails.
    pub async fn client_standings(&self, version: i64, keys: &[ClientKey]) -> Result<Vec<KeyStanding>, AccountsError> {
        let mut clients: Vec<Uuid> = keys.iter().map(|key| key.client_id).collect();
        clients.sort_unstable();
        clients.dedup();
        let mut registered = HashMap::new();
        for clients in clients.chunks(CLIENTS_PER_QUESTION) {
            let question = "SELECT client_id, fingerprint, revoked_from_ms FROM client_keys
                WHERE since_version <= $1 AND (until_version IS NULL OR until_version > $1) AND client_id IN ";
            let question = question.to_owned() + &places(2);
            let question = sqlx::query(sqlx::AssertSqlSafe(question)).bind(version);
            let work = async { Ok(bind(question, clients).fetch_all(&self.pool).await?) };
            for row in self.timed("client_standings", work).await? {
                let key = ClientKey {
                    client_id: uuid(row.try_get(0)?)?,
                    fingerprint: fingerprint(row.try_get(1)?)?,
                };
                registered.insert(key, row.try_get::<Option<i64>, _>(2)?);
            }
        }
        let standing = |key| match registered.get(key) {
            Some(None) => KeyStanding::Trusted,
            Some(Some(from_ms)) => KeyStanding::RevokedFrom(*from_ms),
            None => KeyStanding::Untrusted,
        };
        Ok(keys.iter().map(standing).collect())
    }
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
