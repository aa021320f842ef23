//! Entries by URL, as anybody may see them.

use std::collections::{BTreeSet, HashMap};

use receipt::CanonicalUrl;
use uuid::Uuid;

use crate::coverage::own_and_ancestors;
use crate::domain::is_public_suffix;
use crate::row::RowValues;
use crate::{Accounts, AccountsError};

/// A URL's entry, or the publisher that lists none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// The verified domain that the URL belongs to: of the URL's host, or of the nearest parent
    /// that includes its subdomains. `None`: nobody has verified any.
    pub publisher: Option<String>,
    /// The entry that this domain's account lists, the oldest one of several.
    pub entry: Option<PublicEntry>,
}

/// Members of an entry that anybody may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicEntry {
    /// Identifier.
    pub id: Uuid,
    /// Title.
    pub title: String,
}

/// A verified domain.
struct Verified {
    account_id: String,
    includes_subdomains: bool,
}

/// The account that speaks for a host, and the domain by which it does.
struct Owner<'a> {
    domain: &'a str,
    account_id: &'a str,
}

impl Accounts {
    /// Looks up the entries of URLs, in their order. An entry is found only if its account speaks
    /// for the host of its URL now, so at most one account's entry is found for a URL: that of the
    /// nearest verified domain.
    pub async fn entries_by_url(&self, urls: &[CanonicalUrl]) -> Result<Vec<ListedEntry>, AccountsError> {
        let verified = self.verified_domains(urls).await?;
        let owners: Vec<Option<Owner<'_>>> = urls.iter().map(|url| owner(&verified, url.host())).collect();
        let wanted: BTreeSet<(String, &str)> = urls
            .iter()
            .zip(&owners)
            .filter_map(|(url, owner)| Some((url.entry_id().to_string(), owner.as_ref()?.account_id)))
            .collect();
        let wanted: Vec<(String, &str)> = wanted.into_iter().collect();
        let entries = self.oldest_entries(&wanted).await?;
        let listed = |(url, owner): (&CanonicalUrl, Option<Owner<'_>>)| {
            let entry = owner.as_ref().and_then(|_| entries.get(url.as_str()).cloned());
            ListedEntry {
                publisher: owner.map(|owner| owner.domain.to_owned()),
                entry,
            }
        };
        Ok(urls.iter().zip(owners).map(listed).collect())
    }

    /// Verified domains among the hosts of `urls` and their parents.
    async fn verified_domains(&self, urls: &[CanonicalUrl]) -> Result<HashMap<String, Verified>, AccountsError> {
        let names = urls.iter().flat_map(|url| own_and_ancestors(url.host()));
        let names: Vec<&str> = names.collect::<BTreeSet<_>>().into_iter().collect();
        let statement = "SELECT domain, account_id, include_subdomains, expires_at_ms FROM domains
             WHERE domain IN ({keys}) AND revoked_at_ms IS NULL";
        let texts = |name: &&str| [(*name).to_owned()];
        let mut verified = HashMap::new();
        for row in self.keyed_rows("verified_domains", statement, &names, texts).await? {
            if row.value::<i64>("expires_at_ms")? <= self.now_ms() {
                continue;
            }
            let domain: String = row.value("domain")?;
            let one = Verified {
                account_id: row.value("account_id")?,
                includes_subdomains: row.flag("include_subdomains")? && !is_public_suffix(&domain),
            };
            verified.insert(domain, one);
        }
        Ok(verified)
    }

    /// The oldest entry of each account and URL ID in `wanted`, by its canonical URL.
    async fn oldest_entries(&self, wanted: &[(String, &str)]) -> Result<HashMap<String, PublicEntry>, AccountsError> {
        // Two steps in the index for each URL, however many entries an account lists for it.
        let statement = "WITH wanted (url_id, account_id) AS (VALUES {keys})
             SELECT e.id, e.url, e.title FROM wanted w JOIN entries e ON e.account_id = w.account_id AND e.id =
                (SELECT o.id FROM entries o WHERE o.url_id = w.url_id AND o.account_id = w.account_id
                 ORDER BY o.created_at_ms, o.id LIMIT 1)";
        let texts = |(url_id, account_id): &(String, &str)| [url_id.clone(), (*account_id).to_owned()];
        let mut entries = HashMap::new();
        for row in self.keyed_rows("entries_by_url", statement, wanted, texts).await? {
            let entry = PublicEntry {
                id: row.parsed("id")?,
                title: row.value("title")?,
            };
            // The URL decides, not its hash.
            entries.insert(row.value("url")?, entry);
        }
        Ok(entries)
    }
}

/// The account that speaks for `host` as `Principal::covers` decides, by its nearest domain: of
/// that account's domains, those behind another account's don't count.
fn owner<'a>(verified: &'a HashMap<String, Verified>, host: &str) -> Option<Owner<'a>> {
    let mut chain = own_and_ancestors(host).filter_map(|name| verified.get_key_value(name));
    let (nearest, first) = chain.next()?;
    let is_owner = |domain: &str, one: &Verified| domain == host || one.includes_subdomains;
    std::iter::once((nearest, first))
        .chain(chain)
        .take_while(|(_, one)| one.account_id == first.account_id)
        .find(|(domain, one)| is_owner(domain, one))
        .map(|(domain, one)| Owner {
            domain,
            account_id: &one.account_id,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_of<'a>(domains: &'a HashMap<String, Verified>, host: &str) -> Option<(&'a str, &'a str)> {
        owner(domains, host).map(|owner| (owner.account_id, owner.domain))
    }

    #[test]
    fn the_nearest_verified_domain_owns_a_host() {
        let domains: HashMap<String, Verified> = [
            ("example.com", "a", true),
            ("plain.example.com", "a", false),
            ("b.example.com", "b", false),
            ("c.b.example.com", "a", true),
            ("alone.example", "c", false),
        ]
        .into_iter()
        .map(|(domain, account_id, includes_subdomains)| {
            let one = Verified {
                account_id: account_id.to_owned(),
                includes_subdomains,
            };
            (domain.to_owned(), one)
        })
        .collect();
        for (host, expected) in [
            ("example.com", Some(("a", "example.com"))),
            ("x.y.example.com", Some(("a", "example.com"))),
            ("plain.example.com", Some(("a", "plain.example.com"))),
            // Its own domain there doesn't include subdomains, the one above does.
            ("x.plain.example.com", Some(("a", "example.com"))),
            ("b.example.com", Some(("b", "b.example.com"))),
            ("x.b.example.com", None),
            ("c.b.example.com", Some(("a", "c.b.example.com"))),
            ("x.c.b.example.com", Some(("a", "c.b.example.com"))),
            ("alone.example", Some(("c", "alone.example"))),
            ("x.alone.example", None),
            ("badexample.com", None),
            ("com", None),
        ] {
            assert_eq!(owner_of(&domains, host), expected, "{host}");
        }
    }
}
