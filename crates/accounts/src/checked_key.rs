//! Checked keys, and the accounts that keys and sessions speak for.

use crate::api_key::SecretHash;
use crate::coverage::is_below;
use crate::{AccountQuota, Inherited, KeyDomains, Principal, Scope, Tier, TrailActor};

/// A key whose secret was right when it was read.
pub(crate) struct CheckedKey {
    pub(crate) hash: SecretHash,
    pub(crate) read_at_ms: i64,
    pub(crate) expires_at_ms: i64,
    pub(crate) revoked: bool,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) account: CheckedAccount,
}

/// An account as it was read, for one of its keys or sessions.
pub(crate) struct CheckedAccount {
    pub(crate) account_id: String,
    pub(crate) tier: Tier,
    pub(crate) quota: Option<AccountQuota>,
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

impl CheckedAccount {
    /// Principal of an actor with `scopes`, as of `now_ms`.
    pub(crate) fn principal(&self, actor: TrailActor, scopes: Vec<Scope>, now_ms: i64) -> Principal {
        let holding = |expires_at_ms: i64| expires_at_ms > now_ms;
        let (mut domains, mut inherited) = (Vec::new(), Vec::new());
        for held in self.domains.iter().filter(|held| holding(held.expires_at_ms)) {
            domains.push(held.domain.clone());
            if let Some(others) = &held.others {
                let others = others.iter().filter(|(_, expires_at_ms)| holding(*expires_at_ms));
                let others = others.map(|(domain, _)| domain.clone());
                let own = self.limit.iter().flat_map(|limit| limit.except.iter().cloned());
                let own = own.filter(|other| is_below(other, &held.domain));
                inherited.push(Inherited {
                    parent: held.domain.clone(),
                    except: others.chain(own).collect(),
                });
            }
        }
        Principal {
            account_id: self.account_id.clone(),
            actor,
            tier: self.tier,
            quota: self.quota,
            scopes,
            domains,
            inherited,
            limit: self.limit.clone(),
            trusted_operators: self.trusted_operators.clone(),
        }
    }
}
