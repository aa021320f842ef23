//! The account store's contract, on SQLite and on PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod outage;
mod postgres;
mod sqlite;
mod suite;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use accounts::{Accounts, AccountsConfig, AccountsError, Domain, IssuedKey, NewKey, Scope, User};

/// The instant the tests begin at.
pub(crate) const START_MS: i64 = 1_800_000_000_000;
pub(crate) const HOUR_MS: i64 = 3_600_000;
pub(crate) const YEAR_MS: i64 = 365 * 24 * HOUR_MS;

/// An empty fixture for a store, and a clock that only the test moves.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) data: PathBuf,
    pub(crate) url: Option<String>,
    pub(crate) clock: Arc<AtomicI64>,
}

impl Fixture {
    pub(crate) fn new(data: &Path, url: Option<String>) -> Self {
        Self {
            data: data.to_path_buf(),
            url,
            clock: Arc::new(AtomicI64::new(START_MS)),
        }
    }

    pub(crate) fn config(&self) -> AccountsConfig {
        AccountsConfig {
            url: self.url.clone().map(Into::into),
            wait_ms_max: 60_000,
            ..AccountsConfig::default()
        }
    }

    pub(crate) async fn try_open(&self) -> Result<Accounts, AccountsError> {
        let clock = Arc::clone(&self.clock);
        Accounts::open_with_clock(&self.config(), &self.data, move || clock.load(Ordering::Relaxed)).await
    }

    pub(crate) async fn open(&self) -> Accounts {
        self.try_open().await.unwrap()
    }

    /// A store in which an account may have so many active keys.
    pub(crate) async fn open_with_keys(&self, free_keys_max: u32) -> Accounts {
        let clock = Arc::clone(&self.clock);
        let config = AccountsConfig {
            free_keys_max,
            ..self.config()
        };
        let accounts = Accounts::open_with_clock(&config, &self.data, move || clock.load(Ordering::Relaxed));
        accounts.await.unwrap()
    }

    pub(crate) fn pass_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    /// The database itself, past the store.
    pub(crate) async fn raw(&self) -> sqlx::AnyPool {
        sqlx::any::install_default_drivers();
        let sqlite = || format!("sqlite://{}?mode=rwc", self.data.join("accounts.sqlite").display());
        sqlx::AnyPool::connect(&self.url.clone().unwrap_or_else(sqlite))
            .await
            .unwrap()
    }
}

/// The account of a person, made if they are in none.
pub(crate) async fn account_of(accounts: &Accounts, user: &User) -> String {
    accounts.own_account(&user.id).await.unwrap().unwrap()
}

pub(crate) fn domains(names: &str) -> Vec<Domain> {
    names.split(',').map(|name| name.parse().unwrap()).collect()
}

/// A request for a key that reads, for a year.
pub(crate) fn new_key(names: &str) -> NewKey {
    NewKey {
        domains: domains(names),
        account_id: None,
        tier: None,
        is_limited: false,
        name: "test".to_owned(),
        scopes: vec![Scope::Read],
        expires_at_ms: START_MS + YEAR_MS,
    }
}

/// `new` for the account that owns one of its domains, if any does.
pub(crate) async fn owned(accounts: &Accounts, new: NewKey) -> NewKey {
    let mut account_id = None;
    for domain in &new.domains {
        account_id = account_id.or(accounts.account_of(domain).await.unwrap());
    }
    NewKey { account_id, ..new }
}

/// A key for the account that owns one of the domains, or for a new one.
pub(crate) async fn issue(accounts: &Accounts, names: &str) -> IssuedKey {
    let new = owned(accounts, new_key(names)).await;
    accounts.create_publisher_key(new).await.unwrap().issued
}
