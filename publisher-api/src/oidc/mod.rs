//! Signing in at an identity provider: the authorization code flow of OpenID Connect Core 1.0 with
//! PKCE (RFC 7636), as RFC 9700 recommends it.
//!
//! | module | noun |
//! |---|---|
//! | `attempt` | a sign-in in progress: its cookie, and what follows from it |
//! | `metadata` | the provider's addresses, by discovery |
//! | `provider` | both requests to the provider, and the ID token to a subject |
//!
//! Crates for this flow bring an HTTP client and a JWT library of their own. Requests go through
//! `outbound` here, which reaches public addresses only, and ID tokens are checked by `jwt`.

mod attempt;
mod metadata;
mod provider;

pub(crate) use attempt::{ATTEMPT_S_MAX, SignInAttempt};
pub use provider::IdentityProvider;
pub(crate) use provider::SignInError;
