//! First verifications of publishers' domains, by whatever account.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::coverage::own_and_ancestors;
use crate::row::RowValues;
use crate::{Accounts, AccountsError};

/// A stored domain's first verification.
struct FirstVerification {
    at_ms: i64,
    include_subdomains: bool,
}

impl Accounts {
    /// Returns when each of these hosts was verified first, in their order: in milliseconds since
    /// the Unix epoch, or `None` if it never was. A verification of a parent domain with its
    /// subdomains is one of the host. Verifications that have expired, or were revoked, count.
    pub async fn first_verifications(&self, hosts: &[Arc<str>]) -> Result<Vec<Option<i64>>, AccountsError> {
        let domains = hosts.iter().flat_map(|host| own_and_ancestors(host));
        let domains: Vec<&str> = domains.collect::<BTreeSet<_>>().into_iter().collect();
        let statement = "SELECT domain, include_subdomains, first_verified_at_ms FROM domains WHERE domain IN ({keys})";
        let texts = |domain: &&str| [(*domain).to_owned()];
        let mut found: HashMap<String, FirstVerification> = HashMap::new();
        for row in self
            .keyed_rows("first_verifications", statement, &domains, texts)
            .await?
        {
            let first = FirstVerification {
                include_subdomains: row.flag("include_subdomains")?,
                at_ms: row.value("first_verified_at_ms")?,
            };
            found.insert(row.value("domain")?, first);
        }
        let first = |host: &Arc<str>| {
            let rows = own_and_ancestors(host).filter_map(|domain| Some((domain, found.get(domain)?)));
            let of_host = rows.filter(|(domain, first)| *domain == &**host || first.include_subdomains);
            of_host.map(|(_, first)| first.at_ms).min()
        };
        Ok(hosts.iter().map(first).collect())
    }
}
