//! Checked keys.

use crate::api_key::SecretHash;
use crate::{AccountQuota, KeyDomains, Scope, Tier};

/// A key whose secret was right when it was read.
pub(crate) struct CheckedKey {
    pub(crate) hash: SecretHash,
    pub(crate) read_at_ms: i64,
    pub(crate) expires_at_ms: i64,
    pub(crate) revoked: bool,
    pub(crate) account_id: String,
    pub(crate) tier: Tier,
    pub(crate) quota: Option<AccountQuota>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) domains: Vec<HeldDomain>,
    pub(crate) limit: Option<KeyDomains>,
    pub(crate) trusted_operators: Vec<String>,
}

/// A verified domain that wasn't revoked when it was read.
pub(crate) struct HeldDomain {
    pub(crate) domain: String,
    pub(crate) expires_at_ms: i64,
    /// If it includes its subdomains: those that others had verified then, with the end of each
    /// one's verification.
    pub(crate) others: Option<Vec<(String, i64)>>,
}
