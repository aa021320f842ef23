//! Lookups of the verifier about operators: owners of keys, and owners of client IDs.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use uuid::Uuid;

use super::key_status::padded;
use super::placeholders;
use crate::row::RowValues;
use crate::{Accounts, AccountsError, Fingerprint};

/// Keys or IDs in one statement. Every statement has this many placeholders.
const PER_STATEMENT: usize = 128;

/// A half-open period in which a key was an operator's, by the time of arrival at the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPeriod {
    /// The operator's proven domain.
    pub domain: Arc<str>,
    /// Milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// The end; `None` while it is open.
    pub until_ms: Option<i64>,
}

impl OperatorPeriod {
    /// Whether something that arrived at this time, in milliseconds since the Unix epoch, is in the
    /// period.
    #[must_use]
    pub fn contains(&self, at_ms: i64) -> bool {
        self.from_ms <= at_ms && self.until_ms.is_none_or(|until_ms| at_ms < until_ms)
    }
}

/// A claim of a client ID by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientClaim {
    /// The operator's proven domain.
    pub domain: Arc<str>,
    /// The instant of the claim, milliseconds since the Unix epoch.
    pub from_ms: i64,
}

/// Puts the rows of each of these into their order.
fn in_order<K: Eq + Hash, V: Clone>(wanted: &[K], found: &HashMap<K, Vec<V>>) -> Vec<Arc<[V]>> {
    let one = |key| {
        found
            .get(key)
            .map_or_else(|| Arc::new([]) as _, |found| found.as_slice().into())
    };
    wanted.iter().map(one).collect()
}

impl Accounts {
    /// Returns each key's periods, in the order of `keys`. A period ends with the verification of
    /// the operator's domain.
    pub async fn operator_periods(&self, keys: &[Fingerprint]) -> Result<Vec<Arc<[OperatorPeriod]>>, AccountsError> {
        let mut found: HashMap<Fingerprint, Vec<OperatorPeriod>> = HashMap::new();
        for chunk in keys.chunks(PER_STATEMENT) {
            let statement = format!(
                "SELECT operator_keys.fingerprint, operators.domain, operator_keys.from_ms, operator_keys.until_ms,
                    domains.expires_at_ms, domains.revoked_at_ms
                 FROM operator_keys JOIN operators ON operators.operator_id = operator_keys.operator_id
                 JOIN domains ON domains.domain = operators.domain AND domains.account_id = operators.account_id
                 WHERE operator_keys.fingerprint IN ({}) ORDER BY operator_keys.from_ms",
                placeholders(PER_STATEMENT, 1)
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for key in padded(chunk, PER_STATEMENT) {
                query = query.bind(key.to_string());
            }
            let work = async { Ok(query.fetch_all(&self.pool).await?) };
            for row in self.timed("operator_periods", work).await? {
                let expires_at_ms: i64 = row.value("expires_at_ms")?;
                let ends = [row.value("until_ms")?, Some(expires_at_ms), row.value("revoked_at_ms")?];
                let period = OperatorPeriod {
                    domain: row.value::<&str>("domain")?.into(),
                    from_ms: row.value("from_ms")?,
                    until_ms: ends.into_iter().flatten().min(),
                };
                found.entry(row.parsed("fingerprint")?).or_default().push(period);
            }
        }
        Ok(in_order(keys, &found))
    }

    /// Returns the claims on each of these client IDs by operators whose domain is proven, in the
    /// order of `ids`, each ID's oldest first.
    pub async fn client_claims(&self, ids: &[Uuid]) -> Result<Vec<Arc<[ClientClaim]>>, AccountsError> {
        let mut found: HashMap<Uuid, Vec<ClientClaim>> = HashMap::new();
        for chunk in ids.chunks(PER_STATEMENT) {
            let statement = format!(
                "SELECT operator_clients.client_id, operator_clients.claimed_at_ms, operators.domain
                 FROM operator_clients
                 JOIN operators ON operators.operator_id = operator_clients.operator_id
                 JOIN domains ON domains.domain = operators.domain AND domains.account_id = operators.account_id
                 WHERE domains.revoked_at_ms IS NULL AND domains.expires_at_ms > ${} AND client_id IN ({})
                 ORDER BY operator_clients.claimed_at_ms, operators.domain",
                PER_STATEMENT + 1,
                placeholders(PER_STATEMENT, 1)
            );
            let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
            for id in padded(chunk, PER_STATEMENT) {
                query = query.bind(id.to_string());
            }
            let query = query.bind(self.now_ms());
            let work = async { Ok(query.fetch_all(&self.pool).await?) };
            for row in self.timed("operator_clients_claimed", work).await? {
                let claim = ClientClaim {
                    domain: row.value::<&str>("domain")?.into(),
                    from_ms: row.value("claimed_at_ms")?,
                };
                found.entry(row.parsed("client_id")?).or_default().push(claim);
            }
        }
        Ok(in_order(ids, &found))
    }
}
