//! AI operators: who they are, the keys that were theirs, and the client IDs that they claim.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE operators (
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
    )",
    "CREATE INDEX operators_directory ON operators (directory_next_at_ms)",
    "CREATE TABLE operator_keys (
        operator_id TEXT NOT NULL REFERENCES operators (operator_id),
        fingerprint TEXT NOT NULL,
        from_ms BIGINT NOT NULL,
        until_ms BIGINT,
        thumbprint TEXT NOT NULL,
        pem TEXT NOT NULL,
        algorithm TEXT NOT NULL,
        source TEXT NOT NULL,
        PRIMARY KEY (fingerprint, from_ms)
    )",
    "CREATE UNIQUE INDEX operator_keys_open ON operator_keys (fingerprint) WHERE until_ms IS NULL",
    "CREATE INDEX operator_keys_of ON operator_keys (operator_id)",
    "CREATE TABLE operator_clients (
        client_id TEXT NOT NULL,
        operator_id TEXT NOT NULL REFERENCES operators (operator_id),
        claimed_at_ms BIGINT NOT NULL,
        PRIMARY KEY (client_id, operator_id)
    )",
    "CREATE INDEX operator_clients_of ON operator_clients (operator_id)",
    "INSERT INTO registry_versions (subject, number) VALUES ('operators', 0)",
];
