//! The tables of the rollups. What they mean together stands in [`super`].
//!
//! `hour` is always hours since the Unix epoch in UTC (`intDiv(timestamp in ms, 3600000)`), `slot` half hours.

use crate::schema::Table;

/// One row is one ledger line's run of records: which hours of which publishers its accepted receipts touch. Written with
/// the block's rows, before its commit; writing it again changes nothing.
///
/// `touched` holds (hour, publisher); a pair with an empty publisher stands for all publishers in that hour.
pub(crate) static MARKS: Table = Table {
    name: "rollup_marks",
    columns: "
    epoch UInt32 CODEC(Delta(4), ZSTD(1)),
    partition UInt32 CODEC(Delta(4), ZSTD(1)),
    first_offset UInt64 CODEC(Delta(8), ZSTD(1)),
    last_offset UInt64 CODEC(Delta(8), ZSTD(1)),
    touched Array(Tuple(UInt32, String)) CODEC(ZSTD(1)),
    written_at DateTime('UTC') DEFAULT now() CODEC(Delta(4), ZSTD(1))",
    engine: "ReplacingMergeTree",
    keys: "
PARTITION BY toYYYYMMDD(written_at)
ORDER BY (epoch, partition, last_offset, first_offset)",
    shard_by: Some("cityHash64(epoch, partition)"),
};

/// One row says that an erasure begins or has ended, which changes receipts of these publishers, and of all subdomains of
/// these parents, without a record of the log.
pub(crate) static ERASURES: Table = Table {
    name: "rollup_erasures",
    columns: "
    erasure UUID,
    ended Bool,
    publishers Array(String) CODEC(ZSTD(1)),
    parents Array(String) CODEC(ZSTD(1)),
    written_at DateTime('UTC') DEFAULT now()",
    engine: "ReplacingMergeTree",
    keys: "
PARTITION BY toYYYYMMDD(written_at)
ORDER BY (erasure, ended)",
    shard_by: Some("cityHash64(erasure)"),
};

/// One row: the state of greatest version, as (version, when it was written in Unix seconds by the warehouse's clock, JSON of
/// [`super::state::State`]). Merges keep the greatest.
pub(crate) static STATES: Table = Table {
    name: "rollup_states",
    columns: "
    lineage UInt8,
    state SimpleAggregateFunction(max, Tuple(UInt32, UInt32, String))",
    engine: "AggregatingMergeTree",
    keys: "
ORDER BY lineage",
    shard_by: Some("cityHash64(lineage)"),
};

/// One row says that roll `version` has made the rows of this publisher's hour. Of several, the greatest version
/// that [counts](super::RollupView::versions_condition) is the one whose rows are meant. An hour without any row was
/// empty.
pub(crate) static BUCKETS: Table = Table {
    name: "rollup_buckets",
    columns: "
    publisher String CODEC(ZSTD(1)),
    hour UInt32 CODEC(Delta(4), ZSTD(1)),
    version UInt32 CODEC(Delta(4), ZSTD(1))",
    engine: "ReplacingMergeTree",
    keys: "
PARTITION BY toYYYYMM(toDateTime(hour * 3600, 'UTC'))
ORDER BY (publisher, hour, version)",
    shard_by: Some("cityHash64(publisher)"),
};

/// One row: what one client did in a half hour for one purpose with one model, under one name, organization and version of its own, as
/// `receipts FINAL` said at roll `version`.
///
/// - `receipts`: distinct receipts; sum them
/// - `first_ms`, `last_ms`: least and greatest timestamp, milliseconds since the Unix epoch
/// - `name`, `organization`, `client_version` are of the key: they hardly ever differ, and as aggregates they would cost more than all else.
///   `argMax(name, (last_ms, name))` over rows is `argMax(client_name, (timestamp, client_name))` over receipts
pub(crate) static BY_CLIENT: Table = Table {
    name: "usage_by_client",
    columns: "
    publisher String CODEC(ZSTD(1)),
    hour UInt32 CODEC(Delta(4), ZSTD(1)),
    slot UInt32 CODEC(Delta(4), ZSTD(1)),
    version UInt32 CODEC(Delta(4), ZSTD(1)),
    client_id UUID CODEC(ZSTD(1)),
    purpose LowCardinality(String),
    model_id String CODEC(ZSTD(1)),
    receipts UInt64 CODEC(T64, ZSTD(1)),
    first_ms Int64 CODEC(Delta(8), ZSTD(1)),
    last_ms Int64 CODEC(Delta(8), ZSTD(1)),
    name LowCardinality(String),
    organization LowCardinality(String),
    client_version LowCardinality(String)",
    engine: "MergeTree",
    keys: "
PARTITION BY toYYYYMM(toDateTime(hour * 3600, 'UTC'))
PRIMARY KEY (publisher, hour)
ORDER BY (publisher, hour, version, client_id, purpose, model_id, slot, name, organization, client_version)",
    shard_by: Some("cityHash64(publisher)"),
};

/// One row: how one client used one entry in an hour under one URL for one purpose with one model, as `receipts FINAL` said at roll
/// `version`.
/// The key goes by days of 24 hours first, so that neither a short range of all entries nor one entry's long range reads much
/// besides.
///
/// - `receipts`, `first_ms`, `last_ms`: as in `usage_by_client`
///
/// The projection is what the most used entries are counted from: without clients and models a third of the rows is left.
pub(crate) static BY_ENTRY: Table = Table {
    name: "usage_by_entry",
    columns: "
    publisher String CODEC(ZSTD(1)),
    entry_id UUID CODEC(ZSTD(1)),
    hour UInt32 CODEC(Delta(4), ZSTD(1)),
    version UInt32 CODEC(Delta(4), ZSTD(1)),
    client_id UUID CODEC(ZSTD(1)),
    purpose LowCardinality(String),
    model_id String CODEC(ZSTD(1)),
    receipts UInt64 CODEC(T64, ZSTD(1)),
    first_ms Int64 CODEC(Delta(8), ZSTD(1)),
    last_ms Int64 CODEC(Delta(8), ZSTD(1)),
    url String CODEC(ZSTD(1)),
    PROJECTION by_hour (SELECT publisher, hour, version, entry_id, purpose, sum(receipts), max(last_ms)
        GROUP BY publisher, hour, version, entry_id, purpose)",
    engine: "MergeTree",
    keys: "
PARTITION BY toYYYYMM(toDateTime(hour * 3600, 'UTC'))
PRIMARY KEY (publisher, intDiv(hour, 24), entry_id)
ORDER BY (publisher, intDiv(hour, 24), entry_id, hour, version, client_id, purpose, model_id, url)",
    shard_by: Some("cityHash64(publisher)"),
};

/// What long ranges are answered from, a hundredth of the rows where there are many receipts: half hours by purpose, and days by client and
/// by model, for days all of whose hours one roll made (see [`super::buckets`]).
pub(crate) const SUMS_BY_CLIENT: &str = "
    ADD PROJECTION IF NOT EXISTS by_slot (SELECT publisher, hour, version, slot, purpose, sum(receipts)
        GROUP BY publisher, hour, version, slot, purpose),
    ADD PROJECTION IF NOT EXISTS by_day (SELECT publisher, intDiv(hour, 24), version, client_id, purpose, name, organization,
        sum(receipts), max(last_ms) GROUP BY publisher, intDiv(hour, 24), version, client_id, purpose, name, organization),
    ADD PROJECTION IF NOT EXISTS by_model (SELECT publisher, intDiv(hour, 24), version, model_id, client_id, sum(receipts)
        GROUP BY publisher, intDiv(hour, 24), version, model_id, client_id)";

/// The same of entries: days.
pub(crate) const SUMS_BY_ENTRY: &str = "
    ADD PROJECTION IF NOT EXISTS by_day (SELECT publisher, intDiv(hour, 24), version, entry_id, sum(receipts), max(last_ms)
        GROUP BY publisher, intDiv(hour, 24), version, entry_id)";

/// All of them.
pub(crate) static ALL: [&Table; 6] = [&MARKS, &ERASURES, &STATES, &BUCKETS, &BY_CLIENT, &BY_ENTRY];
