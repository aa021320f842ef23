//! The account store's entries, for the gateway's webhook.

use std::collections::HashSet;

use accounts::Accounts;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gateway::EntryBook;
use uuid::Uuid;

/// Asks the account store which entries there are now, of whatever account.
pub(super) struct StoredEntries(pub(super) Accounts);

/// Later than every version there will be.
const NOW: i64 = i64::MAX;

impl EntryBook for StoredEntries {
    fn existing<'a>(&'a self, asked: &'a [Uuid]) -> BoxFuture<'a, Result<HashSet<Uuid>, String>> {
        let existing = self.0.entries_existing(NOW, asked);
        existing.map(|found| found.map_err(|error| error.to_string())).boxed()
    }
}
