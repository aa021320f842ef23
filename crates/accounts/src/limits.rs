//! Limits that errors name.

/// The most domains that one account holds.
pub const DOMAINS_MAX: i64 = 1_000;
/// The most domains that one key is limited to.
pub const KEY_DOMAINS_MAX: usize = 100;
/// The most open challenges of one account.
pub const CHALLENGES_MAX: i64 = 1_000;
/// The most keys of one client in the registry, revoked ones included.
pub const KEYS_PER_CLIENT_MAX: i64 = 100;
