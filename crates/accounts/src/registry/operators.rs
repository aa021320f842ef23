//! Lookups of the verifier about operators: owners of keys, and owners of client IDs.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use uuid::Uuid;

use crate::row::RowValues;
use crate::{Accounts, AccountsError, Fingerprint};

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
        let statement =
            "SELECT operator_keys.fingerprint, operators.domain, operator_keys.from_ms, operator_keys.until_ms,
                domains.expires_at_ms, domains.revoked_at_ms
             FROM operator_keys JOIN operators ON operators.operator_id = operator_keys.operator_id
             JOIN domains ON domains.domain = operators.domain AND domains.account_id = operators.account_id
             WHERE operator_keys.fingerprint IN ({keys}) ORDER BY operator_keys.from_ms";
        let texts = |key: &Fingerprint| [key.to_string()];
        let mut found: HashMap<Fingerprint, Vec<OperatorPeriod>> = HashMap::new();
        for row in self.keyed_rows("operator_periods", statement, keys, texts).await? {
            let expires_at_ms: i64 = row.value("expires_at_ms")?;
            let ends = [row.value("until_ms")?, Some(expires_at_ms), row.value("revoked_at_ms")?];
            let period = OperatorPeriod {
                domain: row.value::<&str>("domain")?.into(),
                from_ms: row.value("from_ms")?,
                until_ms: ends.into_iter().flatten().min(),
            };
            found.entry(row.parsed("fingerprint")?).or_default().push(period);
        }
        Ok(in_order(keys, &found))
    }

    /// Returns the claims on each of these client IDs by operators whose domain is proven, in the
    /// order of `ids`, each ID's oldest first.
    pub async fn client_claims(&self, ids: &[Uuid]) -> Result<Vec<Arc<[ClientClaim]>>, AccountsError> {
        let statement = "SELECT operator_clients.client_id, operator_clients.claimed_at_ms, operators.domain,
                domains.expires_at_ms
             FROM operator_clients
             JOIN operators ON operators.operator_id = operator_clients.operator_id
             JOIN domains ON domains.domain = operators.domain AND domains.account_id = operators.account_id
             WHERE domains.revoked_at_ms IS NULL AND client_id IN ({keys})
             ORDER BY operator_clients.claimed_at_ms, operators.domain";
        let texts = |id: &Uuid| [id.to_string()];
        let mut found: HashMap<Uuid, Vec<ClientClaim>> = HashMap::new();
        for row in self
            .keyed_rows("operator_clients_claimed", statement, ids, texts)
            .await?
        {
            if row.value::<i64>("expires_at_ms")? <= self.now_ms() {
                continue;
            }
            let claim = ClientClaim {
                domain: row.value::<&str>("domain")?.into(),
                from_ms: row.value("claimed_at_ms")?,
            };
            found.entry(row.parsed("client_id")?).or_default().push(claim);
        }
        Ok(in_order(ids, &found))
    }
}
