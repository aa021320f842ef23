//! The registry: client keys, and the versions that invalidate what was cached of it.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE registry_versions (
        subject TEXT NOT NULL PRIMARY KEY,
        number BIGINT NOT NULL
    )",
    "INSERT INTO registry_versions (subject, number) VALUES ('clients', 0), ('entries', 0)",
    "CREATE TABLE client_keys (
        client_id TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        revoked_from_ms BIGINT,
        pem TEXT NOT NULL,
        name TEXT NOT NULL,
        changed_at_ms BIGINT NOT NULL,
        PRIMARY KEY (client_id, fingerprint)
    )",
];
