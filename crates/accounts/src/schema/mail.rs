//! Mails that wait to be sent. Their identifier is what they are about, so that none is queued
//! twice.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE mails (
        id TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL REFERENCES accounts (id),
        kind TEXT NOT NULL,
        domain TEXT NOT NULL,
        verification_id TEXT NOT NULL,
        created_at_ms BIGINT NOT NULL,
        state TEXT NOT NULL,
        attempts BIGINT NOT NULL,
        next_at_ms BIGINT NOT NULL,
        holder TEXT,
        ended_at_ms BIGINT,
        problem TEXT
    )",
    "CREATE INDEX mails_due ON mails (state, next_at_ms)",
    "CREATE INDEX mails_of_account ON mails (account_id)",
];
