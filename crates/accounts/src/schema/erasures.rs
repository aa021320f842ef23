//! Erasures, requested and done.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE erasures (
        id TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL,
        actor TEXT NOT NULL,
        requested_at_ms BIGINT NOT NULL,
        entries TEXT NOT NULL,
        personal_data BIGINT NOT NULL,
        coverage TEXT,
        whole_account BIGINT NOT NULL,
        state TEXT NOT NULL,
        counts TEXT NOT NULL,
        problem TEXT,
        finished_at_ms BIGINT,
        certificate TEXT,
        certificate_sha256 TEXT,
        looked_at_ms BIGINT NOT NULL
    )",
    "CREATE INDEX erasures_of_account ON erasures (account_id, requested_at_ms, id)",
    "CREATE INDEX erasures_by_state ON erasures (state, looked_at_ms)",
];
