//! The API on a port of its own, and keys for it.

use std::net::SocketAddr;

use accounts::{Accounts, IssuedKey, NewKey, Scope, Tier};
use analytics_api::{AnalyticsConfig, Deps};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) running: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(config: AnalyticsConfig, deps: Deps) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(analytics_api::run(listener, config, deps, shutdown.clone()));
        Self {
            address,
            shutdown,
            running,
        }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap();
    }
}

/// A key of the account that has these domains, which are verified by it.
pub(crate) async fn new_key(
    accounts: &Accounts,
    domains: &[&str],
    tier: Tier,
    scope: Scope,
    expires_at_ms: i64,
) -> IssuedKey {
    let domains: Vec<accounts::Domain> = domains.iter().map(|domain| domain.parse().unwrap()).collect();
    let new = NewKey {
        account_id: accounts.account_of(&domains[0]).await.unwrap(),
        domains,
        tier: Some(tier),
        is_limited: false,
        name: "test".to_owned(),
        scopes: vec![scope],
        expires_at_ms,
    };
    accounts.create_publisher_key(new).await.unwrap().issued
}
