//! The account store's entries, for the gateway's webhook.

use std::collections::HashSet;

use accounts::Accounts;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gateway::{EntryBook, NamedEntry};
use uuid::Uuid;

/// Asks the account store which entries there are now, of whatever account. An entry is the
/// publisher's if it is on the publisher's domain or below it: an account needs a verified domain
/// to list one.
pub(super) struct StoredEntries(pub(super) Accounts);

impl EntryBook for StoredEntries {
    fn existing<'a>(&'a self, asked: &'a [NamedEntry]) -> BoxFuture<'a, Result<HashSet<NamedEntry>, String>> {
        async move {
            let ids: HashSet<Uuid> = asked.iter().map(|entry| entry.id).collect();
            let ids: Vec<Uuid> = ids.into_iter().collect();
            let domains = self.0.existing_entries(&ids).await.map_err(|error| error.to_string())?;
            let exists = |entry: &&NamedEntry| {
                let domains = domains.get(&entry.id).into_iter().flatten();
                domains.into_iter().any(|domain| is_within(domain, &entry.publisher))
            };
            Ok(asked.iter().filter(exists).cloned().collect())
        }
        .boxed()
    }
}

fn is_within(domain: &str, publisher: &str) -> bool {
    let above = domain.strip_suffix(publisher);
    above.is_some_and(|labels| labels.is_empty() || labels.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_on_the_publishers_domain_or_below() {
        for (domain, publisher, is) in [
            ("example.com", "example.com", true),
            ("news.example.com", "example.com", true),
            ("example.com", "news.example.com", false),
            ("notexample.com", "example.com", false),
            ("example.org", "example.com", false),
        ] {
            assert_eq!(is_within(domain, publisher), is, "{domain} {publisher}");
        }
    }
}
