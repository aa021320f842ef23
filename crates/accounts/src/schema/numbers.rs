//! Numbers that are given out once.

pub(super) const STATEMENTS: &[&str] = &["CREATE TABLE numbers (
        name TEXT NOT NULL PRIMARY KEY,
        last BIGINT NOT NULL
    )"];
