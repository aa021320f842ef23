//! Accounts of the last round, and until when each needs no query. A restart loses them, which
//! costs queries only.

use std::collections::HashMap;

use accounts::SubscribedAccount;

/// Accounts in memory; the others are queried in each round.
const ACCOUNTS_MAX: usize = 10_000;

/// Values of `completeThrough` from which an account is checked again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NextChecks {
    /// For silence: when it can be due, or in an hour while it lasts.
    pub(super) silence_ms: i64,
    /// For everything else: in an hour, because late receipts change numbers of the day before and
    /// bring new operators, or when the day ends.
    pub(super) hourly_ms: i64,
}

/// Accounts by ID, as they were.
#[derive(Default)]
pub(super) struct CheckedAccounts(HashMap<String, (SubscribedAccount, NextChecks)>);

impl CheckedAccounts {
    /// Takes an account out. Everything is due if its domains, operators or mails have changed.
    pub(super) fn take(&mut self, account: &SubscribedAccount) -> NextChecks {
        let found = self.0.remove(&account.principal.account_id);
        let same = found.filter(|(before, _)| before == account);
        same.map(|(_, next)| next).unwrap_or_default()
    }

    /// Stores an account whose mails are queued.
    pub(super) fn insert(&mut self, account: SubscribedAccount, next: NextChecks) {
        if self.0.len() < ACCOUNTS_MAX {
            self.0.insert(account.principal.account_id.clone(), (account, next));
        }
    }
}
