//! Accounts, verified domains and API keys in SQL.
//!
//! | module | noun |
//! |---|---|
//! | [`Accounts`] | the store: SQLite in the data directory, or PostgreSQL, by the same SQL |
//! | [`AccountsConfig`] | the section `[accounts]` |
//! | [`Domain`], [`Tier`], [`Scope`], [`Lifetime`] | the words of the interface, checked |
//! | [`ApiKey`] | the text of a key; only its hash is stored |
//! | [`Principal`] | whom an API key speaks for |
//!
//! No other crate knows SQL, and nothing here is seen in a function's type: errors carry text.
#![forbid(unsafe_code)]

mod api_key;
mod authentication;
mod config;
mod coverage;
mod domain;
mod engine;
mod error;
mod job;
mod lifetime;
mod preparation;
mod publisher_key;
mod schema;
mod scope;
mod store;
mod tier;
mod trail;
mod verification;

pub use api_key::ApiKey;
pub use authentication::{AuthError, Principal};
pub use config::AccountsConfig;
pub use coverage::Inherited;
pub use domain::{Domain, DomainError};
pub use error::AccountsError;
pub use lifetime::{Lifetime, LifetimeError};
pub use publisher_key::{DOMAINS_MAX, IssuedKey, KEYS_MAX, KeyInfo, NewKey};
pub use scope::{Scope, ScopeError, parse_scopes};
pub use store::Accounts;
pub use tier::{Tier, TierError};
