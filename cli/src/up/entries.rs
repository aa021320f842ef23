//! The account store's entries, for the gateway's webhook.

use std::collections::HashSet;

use accounts::Accounts;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gateway::EntryBook;
use uuid::Uuid;

/// Asks the account store which entries there are now, of whatever account.
pub(super) struct StoredEntries(pub(super) Accounts);

impl EntryBook for StoredEntries {
    fn existing<'a>(&'a self, asked: &'a [Uuid]) -> BoxFuture<'a, Result<HashSet<Uuid>, String>> {
        let existing = self.0.existing_entries(asked);
        existing.map(|found| found.map_err(|error| error.to_string())).boxed()
    }
}
