//! JSON Web Tokens (RFC 7519) of an identity provider: who someone is by its word.
//!
//! | module | noun |
//! |---|---|
//! | `config` | the section `[auth]` |
//! | `token` | a token's text taken apart: its header, what is signed, the signature |
//! | `claims` | what a token says, and whether that holds here and now |
//! | `key_set` | the keys of a JWKS (RFC 7517), each with the one algorithm it is for |
//! | `key_ring` | the set as it was fetched last, and when it is fetched again |
//! | `authority` | all of them: a token's text to a subject |
//! | `dev` | the issuer of `receipts dev-token` |
//!
//! The rules are those of RFC 8725: a key is for one algorithm, which its own kind decides and
//! never the token; nothing in a token says where its key is to be had; issuer and audience must be
//! ours. `jsonwebtoken` checks signatures. Its check of claims isn't used: it reads the system's
//! clock and takes several issuers for one.

mod authority;
mod claims;
mod config;
pub mod dev;
mod key_ring;
mod key_set;
mod token;
mod token_error;

pub use authority::{Authority, AuthoritySetupError};
pub use config::AuthConfig;
pub(crate) use token_error::TokenError;
