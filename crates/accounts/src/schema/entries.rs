//! Entries, and how many each account has.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE entries (
        id TEXT NOT NULL,
        account_id TEXT NOT NULL REFERENCES accounts (id),
        domain TEXT NOT NULL,
        url TEXT NOT NULL,
        title TEXT NOT NULL,
        authors TEXT NOT NULL,
        search TEXT NOT NULL,
        created_at_ms BIGINT NOT NULL,
        updated_at_ms BIGINT NOT NULL,
        revision BIGINT NOT NULL,
        PRIMARY KEY (account_id, id)
    )",
    "CREATE INDEX entries_by_id ON entries (id)",
    "CREATE INDEX entries_in_order ON entries (account_id, created_at_ms, id)",
    "CREATE TABLE entry_counts (
        account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
        entries BIGINT NOT NULL
    )",
];
