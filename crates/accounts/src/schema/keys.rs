//! Accounts, their domains, their API keys.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE accounts (
        id TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        tier TEXT NOT NULL,
        created_at_ms BIGINT NOT NULL
    )",
    "CREATE TABLE domains (
        domain TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL REFERENCES accounts (id),
        method TEXT NOT NULL,
        verified_at_ms BIGINT NOT NULL,
        expires_at_ms BIGINT NOT NULL
    )",
    "CREATE INDEX domains_of_account ON domains (account_id)",
    "CREATE TABLE api_keys (
        id TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL REFERENCES accounts (id),
        name TEXT NOT NULL,
        secret_hash TEXT NOT NULL,
        scopes TEXT NOT NULL,
        created_at_ms BIGINT NOT NULL,
        expires_at_ms BIGINT NOT NULL,
        revoked_at_ms BIGINT
    )",
    "CREATE INDEX api_keys_of_account ON api_keys (account_id)",
];
