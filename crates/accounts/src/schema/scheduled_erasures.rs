//! Erasures that begin later and can be cancelled until then, and mails about erasures.

pub(super) const STATEMENTS: &[&str] = &[
    "ALTER TABLE erasures ADD COLUMN execute_at_ms BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE erasures ADD COLUMN cancelled_at_ms BIGINT",
    "UPDATE erasures SET execute_at_ms = requested_at_ms",
    "ALTER TABLE mails ADD COLUMN erasure_id TEXT",
];
