//! Refusal of keys that aren't registered, where `[policy] clients` is `registered`.

use accounts::{ClientKey, Fingerprint, KeyStatus};
use receipt::Signer;
use service::instant::rfc3339_ms;
use service::problem::{Kind, Problem};

use crate::call::Call;
use crate::refusal::Refusal;

/// Seconds until the account store may be available again.
const RETRY_S: u32 = 5;

/// Refuses a signer whose key isn't registered for every client ID that it states.
///
/// # Errors
/// 403 with `client_key_unknown` or `client_key_revoked`; 503 while keys can't be read.
pub(crate) async fn require_registered(call: &Call<'_>, signer: Signer) -> Result<(), Refusal> {
    let Some(registry) = &call.shared.registry else {
        return Ok(());
    };
    let fingerprint = Fingerprint(signer.key_fingerprint);
    let key = |client_id| ClientKey { client_id, fingerprint };
    let keys: Vec<ClientKey> = signer.client_ids.into_iter().map(key).collect();
    let statuses = registry.client_keys(&keys).await.map_err(|error| {
        tracing::debug!(%error, request_id = %call.id, "not stored");
        let detail = "client keys can't be read now; send the same bytes again later";
        Problem::new(Kind::AccountsUnavailable, detail).retry_after_s(RETRY_S)
    })?;
    let problem = keys
        .iter()
        .zip(statuses)
        .find_map(|(key, status)| refused(key, status, call.arrived_ms));
    problem.map_or(Ok(()), |problem| Err(problem.into()))
}

/// The problem with a key for what arrived at `arrived_ms`.
fn refused(key: &ClientKey, status: KeyStatus, arrived_ms: i64) -> Option<Problem> {
    let ClientKey { client_id, fingerprint } = key;
    status.rejection(arrived_ms)?;
    match status {
        KeyStatus::Registered => None,
        KeyStatus::RevokedFrom(from_ms) => {
            let from = rfc3339_ms(from_ms);
            let detail = format!(
                "the key {fingerprint} of client {client_id} is revoked from {from} on; sign with a key that is \
                 registered with this service"
            );
            Some(Problem::new(Kind::ClientKeyRevoked, detail))
        }
        KeyStatus::Unregistered => {
            let detail = format!(
                "the key {fingerprint} isn't registered for client {client_id}; ask the service's operator to register \
                 it, then send the same bytes again"
            );
            Some(Problem::new(Kind::ClientKeyUnknown, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_revoked_key_is_refused_from_that_time_on() {
        let key = ClientKey {
            client_id: Uuid::nil(),
            fingerprint: Fingerprint([1; 32]),
        };
        let kind = |status, arrived_ms| refused(&key, status, arrived_ms).map(|problem| problem.kind);
        assert_eq!(kind(KeyStatus::Registered, i64::MAX), None);
        assert_eq!(kind(KeyStatus::RevokedFrom(1_000), 999), None);
        assert_eq!(kind(KeyStatus::RevokedFrom(1_000), 1_000), Some(Kind::ClientKeyRevoked));
        assert_eq!(kind(KeyStatus::Unregistered, 0), Some(Kind::ClientKeyUnknown));
    }
}
