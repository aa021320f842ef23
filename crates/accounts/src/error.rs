//! What the store can't do.

/// What the store can't do, and why.
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
    /// The database didn't answer in time.
    #[error("the account store didn't answer within {0} ms")]
    TimedOut(u64),
    /// A key without a domain, or with too many.
    #[error("a publisher key needs 1 to {max} domains", max = crate::DOMAINS_MAX)]
    DomainCount,
    /// A key without a scope.
    #[error("a key needs a scope: read, write or read,write")]
    NoScope,
    /// A key that is expired before it is made.
    #[error("the key would be expired already")]
    ExpiryInThePast,
    /// A label that can't be stored.
    #[error("a key's name has 1 to 100 characters, none of them control characters")]
    Name,
    /// The domains aren't one account's.
    #[error("the domains belong to different accounts: {0}")]
    DifferentAccounts(String),
    /// The account has as many keys as it may have.
    #[error("the account has {max} keys that aren't revoked: revoke one first", max = crate::KEYS_MAX)]
    TooManyKeys,
    /// The account has as many open challenges as it may have.
    #[error("the account has {max} tokens that wait to be found: check or let expire some first", max = crate::CHALLENGES_MAX)]
    TooManyChallenges,
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
        if crate::engine::is_damage(&error) {
            return AccountsError::Damaged(error.to_string());
        }
        AccountsError::Store(error.to_string())
    }
}
