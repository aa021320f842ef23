//! The publisher API over HTTP, on real stores.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod authorisation;
mod browser;
mod data;
mod engine;
mod entries;
mod erasures;
mod examples;
mod interop;
mod invitations;
mod jwks_url;
mod key_domains;
mod keys;
mod lookup;
mod members;
mod operators;
mod provider;
mod reports;
mod sessions;
mod sign_in;
#[allow(dead_code)]
mod signer;
mod stack;
mod tokens;
mod user;
