//! Leases of work that one replica does for all.

pub(super) const STATEMENTS: &[&str] = &["CREATE TABLE jobs (
        name TEXT NOT NULL PRIMARY KEY,
        holder TEXT NOT NULL,
        until_ms BIGINT NOT NULL
    )"];
