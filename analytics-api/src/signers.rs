//! Signers of receipts as one account sees them: whether it trusts their operators, and who claims
//! the client IDs of unproven ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountsError, ClientClaim};
use metrics::counter;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;
use warehouse::Trust;

use crate::state::AnalyticsState;

/// Time for the lookup. An answer without claims is worth more than one that comes late.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Operators that a row names.
const CLAIMANTS_MAX: usize = 10;

/// Signer: the key, and the operator whose key it was on arrival.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Signer {
    /// SHA-256 of the key's SPKI in hexadecimal; null if it was erased.
    #[schema(required = true)]
    pub(crate) key_fingerprint: Option<String>,
    /// The operator's domain; null if the key was no operator's, or none's that claims the client
    /// ID.
    #[schema(required = true)]
    pub(crate) operator: Option<String>,
    /// `proven` or `unproven`. Without an operator that the account trusts it is `unproven`.
    #[schema(pattern = "^(proven|unproven)$")]
    pub(crate) trust: &'static str,
    /// Operators that claim the client ID now, while this is unproven: the signer may be somebody
    /// else. Domains, ten at most, the oldest claim first; left out if there are none.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) client_id_claimed_by: Vec<String>,
}

/// Trust and claims as one account sees them.
#[derive(Debug, Default)]
pub(crate) struct Signers<'a> {
    trusted: &'a [String],
    claims: HashMap<Uuid, Arc<[ClientClaim]>>,
}

impl<'a> Signers<'a> {
    /// For rows with these client IDs and operators, as an account that trusts these operators, or
    /// all of them if there are none, sees them. A store that fails costs the claims, never the
    /// answer.
    pub(crate) async fn of<'r>(
        app: &AnalyticsState,
        trusted: &'a [String],
        rows: impl Iterator<Item = (Uuid, &'r str)>,
    ) -> Self {
        let unproven = rows.filter(|(_, operator)| Trust::of(operator, trusted) == Trust::Unproven);
        let mut ids: Vec<Uuid> = unproven.map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids.dedup();
        let claims = match ids.is_empty() {
            true => HashMap::new(),
            false => claims(app, ids).await,
        };
        Self { trusted, claims }
    }

    /// The signer of a row.
    pub(crate) fn signer(&self, client_id: Uuid, key_fingerprint: &[u8; 32], operator: String) -> Signer {
        let trust = Trust::of(&operator, self.trusted);
        let claims = self.claims.get(&client_id).filter(|claims| {
            // An operator that the account doesn't trust may claim the ID itself.
            trust == Trust::Unproven && !claims.iter().any(|claim| *claim.domain == *operator)
        });
        let claimants = claims.into_iter().flat_map(|claims| claims.iter());
        Signer {
            key_fingerprint: (*key_fingerprint != [0; 32]).then(|| hex::encode(key_fingerprint)),
            client_id_claimed_by: claimants
                .take(CLAIMANTS_MAX)
                .map(|claim| claim.domain.to_string())
                .collect(),
            trust: trust.as_str(),
            operator: Some(operator).filter(|operator| !operator.is_empty()),
        }
    }
}

async fn claims(app: &AnalyticsState, ids: Vec<Uuid>) -> HashMap<Uuid, Arc<[ClientClaim]>> {
    let work = async {
        let found = app.deps.accounts.client_claims(&ids).await?;
        Ok::<_, AccountsError>(ids.iter().copied().zip(found).collect())
    };
    let why = match tokio::time::timeout(WAIT_MAX, work).await {
        Ok(Ok(claims)) => return claims,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the account store didn't answer within {} ms", WAIT_MAX.as_millis()),
    };
    counter!("receipts_analytics_unlabelled_total").increment(1);
    tracing::warn!(why, "answered without the claims of client IDs");
    HashMap::new()
}
