//! Trusted clients, and the terms under which the log's records are judged.

pub(super) const STATEMENTS: &[&str] = &[
    "CREATE TABLE policy_versions (
        subject TEXT NOT NULL PRIMARY KEY,
        number BIGINT NOT NULL
    )",
    "INSERT INTO policy_versions (subject, number) VALUES ('clients', 0), ('entries', 0)",
    "CREATE TABLE client_keys (
        client_id TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        since_version BIGINT NOT NULL,
        until_version BIGINT,
        revoked_from_ms BIGINT,
        pem TEXT NOT NULL,
        name TEXT NOT NULL,
        changed_at_ms BIGINT NOT NULL,
        PRIMARY KEY (client_id, fingerprint, since_version)
    )",
    "CREATE TABLE entry_presence (
        entry_id TEXT NOT NULL,
        account_id TEXT NOT NULL,
        since_version BIGINT NOT NULL,
        until_version BIGINT,
        PRIMARY KEY (entry_id, account_id, since_version)
    )",
    "CREATE TABLE policy_partitions (
        epoch BIGINT NOT NULL,
        log_partition BIGINT NOT NULL,
        PRIMARY KEY (epoch, log_partition)
    )",
    "CREATE TABLE policy_marks (
        epoch BIGINT NOT NULL,
        log_partition BIGINT NOT NULL,
        first_offset BIGINT NOT NULL,
        end_offset BIGINT NOT NULL,
        clients TEXT NOT NULL,
        entries TEXT NOT NULL,
        client_version BIGINT NOT NULL,
        entry_version BIGINT NOT NULL,
        PRIMARY KEY (epoch, log_partition, first_offset)
    )",
];
