CREATE DATABASE IF NOT EXISTS `receipts`;

CREATE TABLE IF NOT EXISTS `receipts`.schema_versions
(
    version UInt32,
    name String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree
ORDER BY version
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.receipts
(
    publisher String CODEC(ZSTD(1)),
    timestamp DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    entry_id UUID CODEC(ZSTD(1)),
    receipt_id UUID CODEC(LZ4),
    payload_hash FixedString(32) CODEC(NONE),
    positions SimpleAggregateFunction(groupUniqArrayArray, Array(UInt128)) CODEC(ZSTD(1)),
    received_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    url SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    content_hash SimpleAggregateFunction(any, FixedString(32)) CODEC(ZSTD(1)),
    client_id SimpleAggregateFunction(any, UUID) CODEC(ZSTD(1)),
    client_name SimpleAggregateFunction(any, LowCardinality(String)),
    client_version SimpleAggregateFunction(any, LowCardinality(String)),
    organization SimpleAggregateFunction(any, LowCardinality(String)),
    key_fingerprint SimpleAggregateFunction(any, FixedString(32)) CODEC(ZSTD(1)),
    algorithm SimpleAggregateFunction(any, LowCardinality(String)),
    purpose SimpleAggregateFunction(any, LowCardinality(String)),
    context SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    dataset_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    model_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    query_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    session_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    study_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    researcher_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    INDEX receipt_id_bloom receipt_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(timestamp)
PRIMARY KEY (publisher, toStartOfHour(timestamp), entry_id, receipt_id)
ORDER BY (publisher, toStartOfHour(timestamp), entry_id, receipt_id, payload_hash, timestamp)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.rejected
(
    position UInt128 CODEC(ZSTD(1)),
    reason LowCardinality(String),
    detail String CODEC(ZSTD(1)),
    publisher String CODEC(ZSTD(1)),
    receipt_id Nullable(UUID) CODEC(LZ4),
    client_id Nullable(UUID) CODEC(ZSTD(1)),
    entry_id Nullable(UUID) CODEC(ZSTD(1)),
    payload_hash Nullable(FixedString(32)) CODEC(LZ4),
    received_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    request_id String CODEC(ZSTD(1)),
    client_address String CODEC(ZSTD(1)),
    kind LowCardinality(String),
    raw String CODEC(ZSTD(3)),
    INDEX receipt_id_bloom receipt_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(received_at)
ORDER BY (publisher, received_at, position)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.ledger
(
    epoch UInt32 CODEC(Delta(4), ZSTD(1)),
    partition UInt32 CODEC(Delta(4), ZSTD(1)),
    first_offset UInt64 CODEC(Delta(8), ZSTD(1)),
    last_offset UInt64 CODEC(Delta(8), ZSTD(1)),
    records UInt64 CODEC(ZSTD(1)),
    receipts_in UInt64 CODEC(ZSTD(1)),
    accepted UInt64 CODEC(ZSTD(1)),
    rejected UInt64 CODEC(ZSTD(1)),
    verifier LowCardinality(String),
    committed_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    shard UInt32 CODEC(ZSTD(1)),
    verdicts_epoch UInt32 CODEC(ZSTD(1)),
    verdicts_offset UInt64 CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (epoch, partition, first_offset)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.writers
(
    shard UInt32,
    number UInt64,
    token UInt128,
    taken_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree
ORDER BY (shard, number, token)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.progress
(
    shard UInt32,
    version UInt64,
    verdicts_epoch UInt32,
    verdicts_offset UInt64,
    source_partitions UInt32,
    partitions Array(Tuple(UInt32, UInt32, UInt64, Int64)),
    published_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY shard
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

ALTER TABLE `receipts`.rejected 
    ADD COLUMN IF NOT EXISTS request_signature Nullable(String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS origin LowCardinality(String);

CREATE TABLE IF NOT EXISTS `receipts`.replays
(
    position UInt128 CODEC(ZSTD(1)),
    replayed_as UInt128 CODEC(ZSTD(1)),
    appended Bool,
    replayed_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    replayed_by LowCardinality(String)
)
ENGINE = ReplacingMergeTree
ORDER BY position
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

ALTER TABLE `receipts`.receipts 
    MODIFY COLUMN client_id SimpleAggregateFunction(min, UUID) CODEC(ZSTD(1)),
    MODIFY COLUMN client_name SimpleAggregateFunction(min, LowCardinality(String)),
    MODIFY COLUMN client_version SimpleAggregateFunction(min, LowCardinality(String)),
    MODIFY COLUMN organization SimpleAggregateFunction(min, LowCardinality(String)),
    MODIFY COLUMN key_fingerprint SimpleAggregateFunction(min, FixedString(32)) CODEC(ZSTD(1)),
    MODIFY COLUMN context SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN query_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN session_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN study_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    MODIFY COLUMN researcher_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1));

ALTER TABLE `receipts`.receipts MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts`.receipts MODIFY TTL toDateTime(timestamp) + toIntervalDay(2557);

ALTER TABLE `receipts`.rejected MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts`.rejected MODIFY TTL toDateTime(received_at) + toIntervalDay(2557);

CREATE TABLE IF NOT EXISTS `receipts`.rollup_marks
(
    epoch UInt32 CODEC(Delta(4), ZSTD(1)),
    partition UInt32 CODEC(Delta(4), ZSTD(1)),
    first_offset UInt64 CODEC(Delta(8), ZSTD(1)),
    last_offset UInt64 CODEC(Delta(8), ZSTD(1)),
    touched Array(Tuple(UInt32, String)) CODEC(ZSTD(1)),
    written_at DateTime('UTC') DEFAULT now() CODEC(Delta(4), ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(written_at)
ORDER BY (epoch, partition, last_offset, first_offset)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.rollup_erasures
(
    erasure UUID,
    ended Bool,
    publishers Array(String) CODEC(ZSTD(1)),
    parents Array(String) CODEC(ZSTD(1)),
    written_at DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(written_at)
ORDER BY (erasure, ended)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.rollup_states
(
    lineage UInt8,
    state SimpleAggregateFunction(max, Tuple(UInt32, UInt32, String))
)
ENGINE = AggregatingMergeTree
ORDER BY lineage
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.rollup_buckets
(
    publisher String CODEC(ZSTD(1)),
    hour UInt32 CODEC(Delta(4), ZSTD(1)),
    version UInt32 CODEC(Delta(4), ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(hour * 3600, 'UTC'))
ORDER BY (publisher, hour, version)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.usage_by_client
(
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
    client_version LowCardinality(String)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(toDateTime(hour * 3600, 'UTC'))
PRIMARY KEY (publisher, hour)
ORDER BY (publisher, hour, version, client_id, purpose, model_id, slot, name, organization, client_version)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

CREATE TABLE IF NOT EXISTS `receipts`.usage_by_entry
(
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
        GROUP BY publisher, hour, version, entry_id, purpose)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(toDateTime(hour * 3600, 'UTC'))
PRIMARY KEY (publisher, intDiv(hour, 24), entry_id)
ORDER BY (publisher, intDiv(hour, 24), entry_id, hour, version, client_id, purpose, model_id, url)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1;

ALTER TABLE `receipts`.rollup_marks MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts`.rollup_marks MODIFY TTL written_at + toIntervalDay(3);

ALTER TABLE `receipts`.rollup_erasures MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts`.rollup_erasures MODIFY TTL written_at + toIntervalDay(3);

ALTER TABLE `receipts`.rollup_buckets MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts`.rollup_buckets MODIFY TTL toDateTime(hour * 3600) + toIntervalDay(2557);

ALTER TABLE `receipts`.usage_by_client MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts`.usage_by_client MODIFY TTL toDateTime(hour * 3600) + toIntervalDay(2557);

ALTER TABLE `receipts`.usage_by_entry MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts`.usage_by_entry MODIFY TTL toDateTime(hour * 3600) + toIntervalDay(2557);

ALTER TABLE `receipts`.usage_by_client 
    ADD PROJECTION IF NOT EXISTS by_slot (SELECT publisher, hour, version, slot, purpose, sum(receipts)
        GROUP BY publisher, hour, version, slot, purpose),
    ADD PROJECTION IF NOT EXISTS by_day (SELECT publisher, intDiv(hour, 24), version, client_id, purpose, name, organization,
        sum(receipts), max(last_ms) GROUP BY publisher, intDiv(hour, 24), version, client_id, purpose, name, organization),
    ADD PROJECTION IF NOT EXISTS by_model (SELECT publisher, intDiv(hour, 24), version, model_id, client_id, sum(receipts)
        GROUP BY publisher, intDiv(hour, 24), version, model_id, client_id);

ALTER TABLE `receipts`.usage_by_entry 
    ADD PROJECTION IF NOT EXISTS by_day (SELECT publisher, intDiv(hour, 24), version, entry_id, sum(receipts), max(last_ms)
        GROUP BY publisher, intDiv(hour, 24), version, entry_id);

