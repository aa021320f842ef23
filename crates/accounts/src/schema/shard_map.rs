//! The shard map. Rows are only appended.

pub(super) const STATEMENTS: &[&str] = &["CREATE TABLE shard_map (
        version BIGINT NOT NULL PRIMARY KEY,
        from_day BIGINT NOT NULL,
        shards BIGINT NOT NULL,
        splits TEXT NOT NULL,
        registered_at_ms BIGINT NOT NULL
    )"];
