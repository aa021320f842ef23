//! Domains beyond their dates: the owners of subdomains, and challenges that wait to
//! be proven.

pub(super) const STATEMENTS: &[&str] = &[
    "ALTER TABLE domains ADD COLUMN verification_id TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE domains ADD COLUMN include_subdomains BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE domains ADD COLUMN revoked_at_ms BIGINT",
    "ALTER TABLE domains ADD COLUMN expiry_noted_at_ms BIGINT",
    "UPDATE domains SET verification_id = 'ver_' || domain || '_' || CAST(verified_at_ms AS TEXT)",
    "CREATE INDEX domains_by_expiry ON domains (expires_at_ms)",
    "CREATE TABLE domain_ancestors (
        ancestor TEXT NOT NULL,
        domain TEXT NOT NULL REFERENCES domains (domain),
        PRIMARY KEY (ancestor, domain)
    )",
    "CREATE INDEX ancestors_of_domain ON domain_ancestors (domain)",
    // Every rest of a name that begins behind a dot and has another one.
    "INSERT INTO domain_ancestors (ancestor, domain)
        WITH RECURSIVE walk (domain, rest) AS (
            SELECT domain, domain FROM domains
            UNION ALL
            SELECT domain, substr(rest, 2) FROM walk WHERE length(rest) > 1
        )
        SELECT substr(rest, 2), domain FROM walk WHERE rest LIKE '.%.%'",
    "CREATE TABLE challenges (
        id TEXT NOT NULL PRIMARY KEY,
        account_id TEXT NOT NULL REFERENCES accounts (id),
        domain TEXT NOT NULL,
        method TEXT NOT NULL,
        include_subdomains BIGINT NOT NULL,
        token_hash TEXT NOT NULL,
        created_at_ms BIGINT NOT NULL,
        expires_at_ms BIGINT NOT NULL
    )",
    "CREATE INDEX challenges_of_account ON challenges (account_id, domain, created_at_ms)",
];
