//! The life cycle of domains: published proofs that are checked again, claims by other accounts,
//! and keys for some domains.

pub(super) const STATEMENTS: &[&str] = &[
    // Of the token that proved the domain. NULL if the operator vouched for it, or it was proven
    // before this version.
    "ALTER TABLE domains ADD COLUMN token_hash TEXT",
    "ALTER TABLE domains ADD COLUMN proof_next_at_ms BIGINT",
    "ALTER TABLE domains ADD COLUMN proof_failures BIGINT NOT NULL DEFAULT 0",
    // While a domain is suspended, expires_at_ms is when that began, and this is the end that its
    // proof restores.
    "ALTER TABLE domains ADD COLUMN suspended_expires_at_ms BIGINT",
    "CREATE INDEX domains_by_proof ON domains (proof_next_at_ms)",
    "CREATE TABLE domain_claims (
        id TEXT NOT NULL PRIMARY KEY,
        domain TEXT NOT NULL,
        account_id TEXT NOT NULL REFERENCES accounts (id),
        method TEXT NOT NULL,
        include_subdomains BIGINT NOT NULL,
        token_hash TEXT NOT NULL,
        claimed_at_ms BIGINT NOT NULL,
        until_ms BIGINT NOT NULL,
        next_at_ms BIGINT NOT NULL,
        UNIQUE (domain, account_id)
    )",
    "CREATE INDEX domain_claims_due ON domain_claims (next_at_ms)",
    "CREATE INDEX domain_claims_of_account ON domain_claims (account_id)",
    // Words with commas; NULL speaks for all of the account's domains.
    "ALTER TABLE api_keys ADD COLUMN domains TEXT",
];
