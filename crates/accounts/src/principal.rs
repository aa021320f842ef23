//! Principals.

use std::fmt;

use crate::{AccountQuota, Inherited, KeyDomains, Scope, Tier};

/// Key or person that acts for an account. Its text is that of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TrailActor {
    /// An API key, by its public half.
    Key(String),
    /// A person with a session, by the user's ID.
    User(String),
}

impl fmt::Display for TrailActor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(out, "key:{id}"),
            Self::User(id) => write!(out, "user:{id}"),
        }
    }
}

/// Account that an API key or a session speaks for, and the permissions of that key or session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The account.
    pub account_id: String,
    /// Actor for the audit trail.
    pub actor: TrailActor,
    /// Tier of the account.
    pub tier: Tier,
    /// The account's own quota; `None`: that of its tier.
    pub quota: Option<AccountQuota>,
    /// Permissions, in order.
    pub scopes: Vec<Scope>,
    /// The account's domains whose verification holds now, lower-case, in order.
    pub domains: Vec<String>,
    /// Domains of the account whose subdomains are covered with them, in order.
    pub inherited: Vec<Inherited>,
    /// The key's limit, of which `domains` and `inherited` are the verified part; `None`
    /// speaks for the whole account.
    pub limit: Option<KeyDomains>,
    /// Operators whose receipts count as proven, in order; empty if all do.
    pub trusted_operators: Vec<String>,
}

impl Principal {
    /// Whether the actor may do this.
    #[must_use]
    pub fn can(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether the key may act on `name`: any key but one that is limited to other domains. Whether
    /// the account speaks for `name` is another question ([`Principal::covers`]).
    #[must_use]
    pub fn may_act_on(&self, name: &str) -> bool {
        let allows = |limit: &KeyDomains| limit.allow(&name.to_ascii_lowercase());
        self.limit.as_ref().is_none_or(allows)
    }

    /// Whether the account speaks for `name` now: a verified domain of its own, or a subdomain of
    /// one that includes them and that no other account has verified.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.domains.contains(&name) || self.inherits(&name).is_some()
    }

    /// The nearest verified domain through which the account speaks for `name`, one of its
    /// subdomains.
    #[must_use]
    pub fn inherits(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        let covering = self.inherited.iter().filter(|inherited| inherited.covers(&name));
        covering
            .map(|inherited| inherited.parent.as_str())
            .max_by_key(|parent| parent.len())
    }
}
