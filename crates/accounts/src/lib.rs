//! Accounts, verified domains and API keys in SQL.
//!
//! | module | noun |
//! |---|---|
//! | [`Accounts`] | the store: SQLite in the data directory, or PostgreSQL, by the same SQL |
//! | [`AccountsConfig`] | the section `[accounts]` |
//! | [`Domain`], [`Tier`], [`Scope`], [`Lifetime`] | the words of the interface, checked |
//! | [`ApiKey`] | the text of a key; only its hash is stored |
//! | [`Principal`] | whom an API key speaks for |
//! | [`User`] | who acts for an account by the word of an identity provider |
//! | [`Page`], [`Cursor`] | lists in parts |
//! | [`ClientKey`], [`KeyStanding`] | which keys count for a client |
//! | [`Policy`], [`Terms`], [`Mark`] | what is demanded of a receipt, and what was when it was judged |
//!
//! No other crate knows SQL, and nothing here is seen in a function's type: errors carry text.
#![forbid(unsafe_code)]

mod api_key;
mod authentication;
mod challenge;
mod client;
mod config;
mod coverage;
mod deletion;
mod domain;
mod engine;
mod error;
mod job;
mod key;
mod lifetime;
mod page;
mod policy;
mod preparation;
mod publisher_key;
mod rotation;
mod schema;
mod scope;
mod store;
mod tier;
mod trail;
mod user;
mod verification;

pub use api_key::ApiKey;
pub use authentication::{AuthError, Principal};
pub use challenge::{
    CHALLENGE_MS, CHALLENGES_MAX, CHALLENGES_PER_DOMAIN_MAX, Challenge, ChallengeWish, IssuedChallenge, TOKEN_PREFIX,
    VerificationMethod, VerificationMethodError,
};
pub use client::{
    CLIENTS_LISTED_MAX, ClientInfo, ClientKey, ClientKeyState, Fingerprint, FingerprintError, FirstSeen,
    KEYS_PER_CLIENT_MAX, KeyStanding, NewClientKey, Revoked,
};
pub use config::AccountsConfig;
pub use coverage::Inherited;
pub use deletion::Cancellation;
pub use domain::{Domain, DomainError};
pub use error::AccountsError;
pub use key::{IssuedKey, KEYS_MAX, KeyInfo, KeyWish, Revocation};
pub use lifetime::{Lifetime, LifetimeError, Overlap, OverlapError};
pub use page::{Cursor, CursorError, Page};
pub use policy::{ClientPolicy, EntryPolicy, Mark, Policy, Stretch, Terms};
pub use publisher_key::{DOMAINS_MAX, NewKey, PublisherKey};
pub use rotation::{EndedKey, Rotation};
pub use scope::{Scope, ScopeError, parse_scopes};
pub use store::Accounts;
pub use tier::{Tier, TierError};
pub use user::{Deletion, Email, EmailError, PersonName, PersonNameError, Subject, User, UserChange};
pub use verification::{VERIFICATION_MS, Verification, VerifyError};
