//! The audit trail.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE trail (
        id TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL,
        at_ms BIGINT NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        detail TEXT NOT NULL
    )",
    "CREATE INDEX trail_of_account ON trail (account_id, at_ms, id)",
];
