-- The account store, in the SQL that SQLite and PostgreSQL share: TEXT and BIGINT. Times are in
-- milliseconds since the Unix epoch. Booleans are 0 and 1.

CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    tier TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    deletion_requested_at_ms BIGINT,
    erase_after_ms BIGINT,
    -- The account's own quota: the first is NULL if it has its tier's, the second without a limit.
    requests_per_minute BIGINT,
    requests_per_day BIGINT,
    -- Domains with commas; NULL if all operators' receipts count as proven.
    trusted_operators TEXT
);
CREATE INDEX accounts_to_erase ON accounts (erase_after_ms);

-- People and programs, as an identity provider names them. Who is in no account yet, or none any
-- more, has a row here alone.
CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    email TEXT,
    name TEXT,
    created_at_ms BIGINT NOT NULL,
    UNIQUE (issuer, subject)
);

-- Who is in which account.
CREATE TABLE members (
    account_id TEXT NOT NULL REFERENCES accounts (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    -- When the person last came to the account: a sign-in leads to the one that was chosen last.
    chosen_at_ms BIGINT NOT NULL,
    PRIMARY KEY (account_id, user_id)
);
CREATE INDEX members_of_user ON members (user_id, chosen_at_ms);

-- Mails about the account's numbers that a member wants. An instant is when they asked for it, and
-- NULL is off.
CREATE TABLE report_subscriptions (
    account_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    weekly_since_ms BIGINT,
    monthly_since_ms BIGINT,
    new_operator_since_ms BIGINT,
    -- Alert where a greater part of a day's receipts is unproven.
    unproven_percent BIGINT,
    -- Alert where so many hours are without receipts.
    silent_hours BIGINT,
    PRIMARY KEY (account_id, user_id),
    FOREIGN KEY (account_id, user_id) REFERENCES members (account_id, user_id)
);

-- Sessions of people in browsers. Those that were ended are deleted.
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    token_hash TEXT NOT NULL UNIQUE,
    -- The account that the person acts for. NULL: they are in none.
    account_id TEXT REFERENCES accounts (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    -- When the person proved who they are, which may be before the session began.
    signed_in_at_ms BIGINT NOT NULL,
    seen_at_ms BIGINT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    ends_at_ms BIGINT NOT NULL
);
CREATE INDEX sessions_of_account ON sessions (account_id, created_at_ms, id);
CREATE INDEX sessions_of_user ON sessions (user_id);

-- Links that sign a person in, once. Those that were used are deleted.
CREATE TABLE login_links (
    token_hash TEXT NOT NULL PRIMARY KEY,
    -- NULL: using the link makes an account.
    account_id TEXT REFERENCES accounts (id),
    role TEXT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX login_links_of_account ON login_links (account_id);

-- Invitations into accounts. Those that were accepted or withdrawn are deleted.
CREATE TABLE invitations (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    role TEXT NOT NULL,
    -- NULL: somebody hands over the link.
    email TEXT,
    -- The user, who may be gone.
    invited_by TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX invitations_of_account ON invitations (account_id, created_at_ms, id);
CREATE INDEX invitations_by_end ON invitations (expires_at_ms);

-- Secrets of their links: one for each attempt to send a mail.
CREATE TABLE invitation_tokens (
    token_hash TEXT NOT NULL PRIMARY KEY,
    invitation_id TEXT NOT NULL REFERENCES invitations (id)
);
CREATE INDEX invitation_tokens_of ON invitation_tokens (invitation_id);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL,
    revoked_at_ms BIGINT,
    replaced_by TEXT,
    -- Names with commas. NULL: all of the account's domains.
    domains TEXT,
    -- As the trail names who made it.
    created_by TEXT NOT NULL,
    -- To the hour: most requests write nothing.
    last_used_at_ms BIGINT
);
CREATE INDEX api_keys_in_order ON api_keys (account_id, created_at_ms, id);

CREATE TABLE domains (
    domain TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    method TEXT NOT NULL,
    verified_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL,
    verification_id TEXT NOT NULL,
    include_subdomains BIGINT NOT NULL DEFAULT 0,
    revoked_at_ms BIGINT,
    expiry_noted_at_ms BIGINT,
    -- Of the token that proved the domain. NULL if the operator vouched for it.
    token_hash TEXT,
    proof_next_at_ms BIGINT,
    proof_failures BIGINT NOT NULL DEFAULT 0,
    -- While a domain is suspended, expires_at_ms is when that began, and this is the end that its
    -- proof restores.
    suspended_expires_at_ms BIGINT,
    -- Unchanged by renewals, revocations and other owners.
    first_verified_at_ms BIGINT NOT NULL,
    -- Another account that has proven the domain while this verification holds.
    contested_by TEXT REFERENCES accounts (id)
);
CREATE INDEX domains_of_account ON domains (account_id);
CREATE INDEX domains_by_expiry ON domains (expires_at_ms);
CREATE INDEX domains_by_proof ON domains (proof_next_at_ms);
CREATE INDEX domains_contested ON domains (contested_by);

-- Every parent of a domain that has a dot.
CREATE TABLE domain_ancestors (
    ancestor TEXT NOT NULL,
    domain TEXT NOT NULL REFERENCES domains (domain),
    PRIMARY KEY (ancestor, domain)
);
CREATE INDEX ancestors_of_domain ON domain_ancestors (domain);

-- Tokens that wait to be published.
CREATE TABLE challenges (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    domain TEXT NOT NULL,
    method TEXT NOT NULL,
    include_subdomains BIGINT NOT NULL,
    token_hash TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX challenges_of_account ON challenges (account_id, domain, created_at_ms);

-- The audit trail.
CREATE TABLE trail (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX trail_of_account ON trail (account_id, at_ms, id);

-- Leases of work that one replica does for all.
CREATE TABLE jobs (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    until_ms BIGINT NOT NULL
);

-- Versions that invalidate what was cached of the registry.
CREATE TABLE registry_versions (
    subject TEXT NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL
);
INSERT INTO registry_versions (subject, number) VALUES ('clients', 0), ('entries', 0), ('operators', 0);

CREATE TABLE client_keys (
    client_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    revoked_from_ms BIGINT,
    pem TEXT NOT NULL,
    name TEXT NOT NULL,
    changed_at_ms BIGINT NOT NULL,
    PRIMARY KEY (client_id, fingerprint)
);

CREATE TABLE entries (
    id TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    domain TEXT NOT NULL,
    url TEXT NOT NULL,
    -- The UUIDv5 of the canonical URL.
    url_id TEXT NOT NULL,
    title TEXT NOT NULL,
    authors TEXT NOT NULL,
    search TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);
CREATE INDEX entries_by_id ON entries (id);
CREATE INDEX entries_by_url ON entries (url_id, account_id, created_at_ms, id);
CREATE INDEX entries_in_order ON entries (account_id, created_at_ms, id);

CREATE TABLE entry_counts (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    entries BIGINT NOT NULL
);

CREATE TABLE erasures (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    requested_at_ms BIGINT NOT NULL,
    -- Until then it can be cancelled.
    execute_at_ms BIGINT NOT NULL,
    cancelled_at_ms BIGINT,
    entries TEXT NOT NULL,
    personal_data BIGINT NOT NULL,
    coverage TEXT,
    -- Only receipts of this person: by which member, and its value until nothing can come back.
    person_kind TEXT,
    person_id TEXT,
    whole_account BIGINT NOT NULL,
    state TEXT NOT NULL,
    counts TEXT NOT NULL,
    problem TEXT,
    finished_at_ms BIGINT,
    checked_at_ms BIGINT NOT NULL
);
CREATE INDEX erasures_of_account ON erasures (account_id, requested_at_ms, id);
CREATE INDEX erasures_by_state ON erasures (state, checked_at_ms);

-- Mails that wait to be sent. The identifier is the subject of the mail, so that none is queued
-- twice.
CREATE TABLE mails (
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
    problem TEXT,
    erasure_id TEXT,
    invitation_id TEXT,
    -- Of mails about numbers: for whom, and the numbers as JSON.
    user_id TEXT REFERENCES users (id),
    report TEXT
);
CREATE INDEX mails_due ON mails (state, next_at_ms);
CREATE INDEX mails_of_account ON mails (account_id);

-- Rows are only appended.
CREATE TABLE shard_map (
    version BIGINT NOT NULL PRIMARY KEY,
    from_day BIGINT NOT NULL,
    shards BIGINT NOT NULL,
    splits TEXT NOT NULL,
    registered_at_ms BIGINT NOT NULL
);

-- AI operators, the keys that were theirs, and the client IDs that they claim.
CREATE TABLE operators (
    operator_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    domain TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    directory_at_ms BIGINT NOT NULL,
    directory_next_at_ms BIGINT NOT NULL,
    directory_etag TEXT NOT NULL,
    directory_failures BIGINT NOT NULL,
    directory_failure TEXT NOT NULL,
    UNIQUE (account_id, domain)
);
CREATE INDEX operators_directory ON operators (directory_next_at_ms);

CREATE TABLE operator_keys (
    operator_id TEXT NOT NULL REFERENCES operators (operator_id),
    fingerprint TEXT NOT NULL,
    from_ms BIGINT NOT NULL,
    until_ms BIGINT,
    thumbprint TEXT NOT NULL,
    pem TEXT NOT NULL,
    algorithm TEXT NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (fingerprint, from_ms)
);
CREATE UNIQUE INDEX operator_keys_open ON operator_keys (fingerprint) WHERE until_ms IS NULL;
CREATE INDEX operator_keys_of ON operator_keys (operator_id);

CREATE TABLE operator_clients (
    client_id TEXT NOT NULL,
    operator_id TEXT NOT NULL REFERENCES operators (operator_id),
    claimed_at_ms BIGINT NOT NULL,
    PRIMARY KEY (client_id, operator_id)
);
CREATE INDEX operator_clients_of ON operator_clients (operator_id);
