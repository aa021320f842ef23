//! The first verification of a domain, which renewals and other owners leave as it is.

pub(super) const STATEMENTS: &[&str] = &[
    "ALTER TABLE domains ADD COLUMN first_verified_at_ms BIGINT NOT NULL DEFAULT 0",
    // The first verification of these isn't known; the last one is not before it.
    "UPDATE domains SET first_verified_at_ms = verified_at_ms",
];
