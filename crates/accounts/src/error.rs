//! Errors of the store.

/// Errors of the store, with their reason.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The database can't be opened or prepared.
    #[error("can't open the account store: {0}")]
    Open(String),
    /// SQLite's file isn't a database any more.
    #[error(
        "the account store is damaged: {0}; restore the file from a copy, or move it and its -wal and -shm files away to begin \
         with an empty store (its API keys are gone then)"
    )]
    Damaged(String),
    /// Another version of this program made the tables.
    #[error("the account store's tables don't fit this version: {0}")]
    Schema(String),
    /// The database didn't do what it was asked.
    #[error("the account store failed: {0}")]
    Store(String),
    /// The server couldn't be reached a moment ago: the query wasn't sent, or was given up.
    #[error("the account store can't be reached: {0}")]
    Unreachable(String),
    /// The database didn't answer in time.
    #[error("the account store didn't answer within {0} ms")]
    TimedOut(u64),
    /// A key without a domain, or with too many.
    #[error("a publisher key needs 1 to {max} domains", max = crate::DOMAINS_MAX)]
    DomainCount,
    /// A key without a scope.
    #[error("a key needs a scope: read, write or erase, or several of them with commas")]
    NoScope,
    /// A key that is expired before it is made.
    #[error("the key would be expired already")]
    ExpiryInThePast,
    /// A label that can't be stored.
    #[error("a key's name has 1 to 100 characters, none of them control characters")]
    Name,
    /// A key that is limited to no domain, or to too many.
    #[error("a key is limited to 1 to {max} domains: name some, or leave the list out", max = crate::KEY_DOMAINS_MAX)]
    KeyDomainCount,
    /// A key that is to be limited to a domain that isn't its account's.
    #[error("{0} is not a verified domain of the account: verify it first, or leave it out of the key's domains")]
    KeyDomain(crate::Domain),
    /// The domains aren't one account's.
    #[error("the domains belong to different accounts: {0}")]
    DifferentAccounts(String),
    /// The account has as many active keys as its tier allows.
    #[error(
        "the tier {tier} allows an account {max} active API keys, and this account has them: revoke or rotate one, or have \
         the account moved to a higher tier"
    )]
    TooManyKeys {
        /// The account's tier.
        tier: crate::Tier,
        /// Active keys that it allows.
        max: u32,
    },
    /// As many replaced keys of the account as its tier allows work until their overlap ends.
    #[error(
        "{max} replaced API keys of the account work until their overlap ends, as many as the tier {tier} allows: rotate \
         with an overlap of 0h, or revoke a replaced key first"
    )]
    TooManyReplacedKeys {
        /// The account's tier.
        tier: crate::Tier,
        /// Replaced keys that it allows.
        max: u32,
    },
    /// A domain that an account owns, without naming that account.
    #[error(
        "{domain} belongs to the account {account_id}: to make a key for that account, name it (--account {account_id})"
    )]
    DomainOwned {
        /// The domain.
        domain: String,
        /// The account that owns it.
        account_id: String,
    },
    /// No such account.
    #[error("there is no account {0}: `receipts domains list` shows the accounts of all domains")]
    UnknownAccount(String),
    /// The account has as many open challenges as it may have.
    #[error("the account has {max} tokens that wait to be found: check or let expire some first", max = crate::CHALLENGES_MAX)]
    TooManyChallenges,
    /// Subdomains of a public suffix, which belong to different people.
    #[error(
        "{0} is a public suffix: names below it belong to different people. Leave includeSubdomains out or set it to false, and \
         verify each of your domains below {0}"
    )]
    PublicSuffix(String),
    /// A client's public key that is no key of ours.
    #[error("a public key in PEM has at most 4096 bytes")]
    ClientKeyTooLong,
    /// The client has as many keys as it may have.
    #[error("the client has {max} keys, revoked ones included", max = crate::KEYS_PER_CLIENT_MAX)]
    TooManyClientKeys,
    /// The shard map, or an entry for it, isn't usable.
    #[error("{0}")]
    ShardMap(String),
    /// The system gives no randomness.
    #[error("no randomness for a key: {0}")]
    Randomness(String),
}

impl From<sqlx::Error> for AccountsError {
    fn from(error: sqlx::Error) -> Self {
        if is_damage(&error) {
            return AccountsError::Damaged(error.to_string());
        }
        AccountsError::Store(error.to_string())
    }
}

/// SQLite's words for a file that can't be read as a database: SQLITE_CORRUPT and SQLITE_NOTADB,
/// with their extended codes. PostgreSQL's codes have five characters.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.filter(|code| code.len() < 5)
        .and_then(|code| code.parse::<u32>().ok())
        .is_some_and(|code| matches!(code & 0xff, 11 | 26))
}
