//! With `[policy] clients = "registered"`, other keys are refused before anything is acknowledged.

use std::path::Path;
use std::time::Duration;

use accounts::{Accounts, AccountsConfig, ClientKey, Fingerprint, NewClientKey, RegistryCache, RegistryConfig};
use gateway::GatewayConfig;
use receipt::{Limits, PublicKey, sign_batch};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::client::Answer;
use crate::running::Running;
use crate::sample::{BATCH, FIELDS, JSON, KEY, RECEIPTS, batch, plain, receipt};

const CLIENT: &str = "0b8f5a52-68a7-4c43-8a0c-6f3f6a0e6a11";
const OTHER_CLIENT: &str = "0b8f5a52-68a7-4c43-8a0c-6f3f6a0e6a12";

fn key(client: &str) -> ClientKey {
    let key = PublicKey::from_pem(KEY.public_key_pem()).unwrap();
    ClientKey {
        client_id: client.parse().unwrap(),
        fingerprint: Fingerprint(*key.fingerprint()),
    }
}

async fn register(accounts: &Accounts, client: &str) {
    let new = NewClientKey {
        key: key(client),
        pem: KEY.public_key_pem().to_owned(),
        name: String::new(),
    };
    assert!(accounts.register_client_key(&new).await.unwrap());
}

/// An account store in `data`, and a gateway on it.
async fn start(data: &Path, config: AccountsConfig) -> (Accounts, Running, DropGuard) {
    let accounts = Accounts::open(&config, data).await.unwrap();
    let refreshing = CancellationToken::new();
    let config = RegistryConfig {
        refresh_ms: 10,
        ..RegistryConfig::default()
    };
    let registry = RegistryCache::start(accounts.clone(), config, refreshing.clone());
    let gateway = Running::registered(registry, GatewayConfig::default()).await;
    (accounts, gateway, refreshing.drop_guard())
}

/// A batch with a receipt of each client.
fn batch_of(clients: &[&str]) -> Vec<u8> {
    let receipts = clients.iter().map(|client| {
        let mut receipt = plain();
        receipt["client"]["id"] = json!(client);
        receipt
    });
    let batch = json!({"version": "1.0.0", "batchId": "mixed", "receipts": receipts.collect::<Vec<_>>()});
    sign_batch(&serde_json::to_vec(&batch).unwrap(), &KEY, &Limits::default()).unwrap()
}

/// Sends the same until it is answered with `status`: a change is seen within `refresh_ms`.
async fn answered(gateway: &Running, path: &str, body: &[u8], status: u16) -> Answer {
    let fields = if path == RECEIPTS { FIELDS } else { JSON };
    for _ in 0..6_000 {
        let answer = gateway.post(path, fields, body).await;
        if answer.status == status {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} was never answered with {status}");
}

#[tokio::test]
async fn other_keys_are_refused_and_nothing_is_stored() {
    let data = tempfile::tempdir().unwrap();
    let (accounts, gateway, _refreshing) = start(data.path(), AccountsConfig::default()).await;
    let (single, _) = receipt();
    let both = batch_of(&[CLIENT, OTHER_CLIENT, CLIENT]);
    for (path, fields, body) in [
        (RECEIPTS, FIELDS, &single),
        (BATCH, JSON, &batch(3)),
        (BATCH, JSON, &both),
    ] {
        let answer = gateway.post(path, fields, body).await;
        assert!(
            answer.json()["detail"].as_str().unwrap().contains(CLIENT),
            "{:?}",
            answer.json()
        );
        answer.refused(403, "client_key_unknown");
    }
    // What is no receipt is refused for that, whoever sent it.
    gateway
        .post(RECEIPTS, FIELDS, b"{}")
        .await
        .refused(400, "missing_member");
    assert_eq!(gateway.records().len(), 0);

    register(&accounts, CLIENT).await;
    answered(&gateway, RECEIPTS, &single, 202).await;
    answered(&gateway, BATCH, &batch(3), 202).await;
    let answer = gateway.post(BATCH, JSON, &both).await;
    assert!(answer.json()["detail"].as_str().unwrap().contains(OTHER_CLIENT));
    answer.refused(403, "client_key_unknown");
    register(&accounts, OTHER_CLIENT).await;
    answered(&gateway, BATCH, &both, 202).await;

    // Revoked from a later time on, the key still holds.
    let now_ms = service::instant::now_ms();
    accounts
        .revoke_client_key(&key(OTHER_CLIENT), now_ms + 3_600_000)
        .await
        .unwrap();
    accounts.revoke_client_key(&key(CLIENT), now_ms).await.unwrap();
    answered(&gateway, RECEIPTS, &single, 403)
        .await
        .refused(403, "client_key_revoked");
    // Until the cache is refreshed, the revoked key is still accepted.
    let stored = gateway.records().len();
    assert!(stored >= 3, "{stored}");
    answered(&gateway, BATCH, &batch_of(&[OTHER_CLIENT]), 202).await;
    gateway
        .post(BATCH, JSON, &both)
        .await
        .refused(403, "client_key_revoked");
    assert_eq!(gateway.records().len(), stored + 1);
    gateway.stop().await;
    accounts.close().await;
}

#[tokio::test]
async fn without_the_account_store_a_key_that_is_not_cached_is_503() {
    let data = tempfile::tempdir().unwrap();
    let nowhere = AccountsConfig {
        url: Some("postgres://nobody@127.0.0.1:1/none".into()),
        wait_ms_max: 1_000,
        ..AccountsConfig::default()
    };
    let (_accounts, gateway, _refreshing) = start(data.path(), nowhere).await;
    for (path, fields, body) in [(RECEIPTS, FIELDS, receipt().0), (BATCH, JSON, batch(2))] {
        let answer = gateway.post(path, fields, &body).await;
        assert_eq!(answer.field("retry-after"), "5");
        answer.refused(503, "accounts_unavailable");
    }
    for _ in 0..6_000 {
        let snapshot = gateway.health.snapshot();
        let keys = snapshot.components.get("client keys");
        let reason = keys.and_then(|keys| keys.reason.clone()).unwrap_or_default();
        if reason.contains("can't be read") {
            assert!(
                !gateway.health.is_ready(),
                "a gateway that never had its keys isn't ready"
            );
            assert_eq!(gateway.records().len(), 0);
            return gateway.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("readiness never named the account store");
}

/// Without the policy no key is checked.
#[tokio::test]
async fn any_key_may_sign_where_the_policy_is_open() {
    let gateway = Running::start().await;
    let stranger = batch_of(&[&Uuid::new_v4().to_string()]);
    assert_eq!(gateway.post(BATCH, JSON, &stranger).await.status, 202);
    assert!(!gateway.health.snapshot().components.contains_key("client keys"));
    gateway.stop().await;
}
