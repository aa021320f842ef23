//! Users, the rotation of keys, and accounts that are to be deleted.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE users (
        id TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL REFERENCES accounts (id),
        issuer TEXT NOT NULL,
        subject TEXT NOT NULL,
        email TEXT,
        name TEXT,
        created_at_ms BIGINT NOT NULL,
        UNIQUE (issuer, subject)
    )",
    "CREATE INDEX users_of_account ON users (account_id)",
    "ALTER TABLE api_keys ADD COLUMN replaced_by TEXT",
    "DROP INDEX api_keys_of_account",
    "CREATE INDEX api_keys_in_order ON api_keys (account_id, created_at_ms, id)",
    "ALTER TABLE accounts ADD COLUMN deletion_requested_at_ms BIGINT",
    "ALTER TABLE accounts ADD COLUMN erase_after_ms BIGINT",
    "CREATE INDEX accounts_to_erase ON accounts (erase_after_ms)",
];
