-- schema version 16
CREATE DATABASE IF NOT EXISTS `receipts_1`;

CREATE TABLE IF NOT EXISTS `receipts_1`.schema_versions
(
    version UInt32,
    name String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/schema_versions', '{replica}')
ORDER BY version;

CREATE TABLE IF NOT EXISTS `receipts_1`.receipts
(
    publisher String CODEC(ZSTD(1)),
    timestamp DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    entry_id UUID CODEC(ZSTD(1)),
    receipt_id UUID CODEC(LZ4),
    payload_hash FixedString(32) CODEC(NONE),
    positions SimpleAggregateFunction(groupUniqArrayArray, Array(UInt128)) CODEC(ZSTD(1)),
    unsigned_positions SimpleAggregateFunction(groupUniqArrayArray, Array(UInt128)) CODEC(ZSTD(1)),
    received_at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    url SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    content_hash SimpleAggregateFunction(any, FixedString(32)) CODEC(ZSTD(1)),
    client_id SimpleAggregateFunction(min, UUID) CODEC(ZSTD(1)),
    client_name SimpleAggregateFunction(min, LowCardinality(String)),
    client_version SimpleAggregateFunction(min, LowCardinality(String)),
    organization SimpleAggregateFunction(min, LowCardinality(String)),
    key_fingerprint SimpleAggregateFunction(min, FixedString(32)) CODEC(ZSTD(1)),
    stamp SimpleAggregateFunction(min, Tuple(DateTime64(3, 'UTC'), String, Bool)) CODEC(ZSTD(1)),
    algorithm SimpleAggregateFunction(any, LowCardinality(String)),
    purpose SimpleAggregateFunction(any, LowCardinality(String)),
    context SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    dataset_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    model_id SimpleAggregateFunction(any, String) CODEC(ZSTD(1)),
    query_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    session_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    study_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    researcher_id SimpleAggregateFunction(min, String) CODEC(ZSTD(1)),
    INDEX receipt_id_bloom receipt_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX positions_minmax (arrayMin(positions), arrayMax(positions),
        arrayMin(CAST(positions, 'Array(UInt64)')), arrayMax(CAST(positions, 'Array(UInt64)')))
        TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/receipts_1/receipts', '{replica}')
PARTITION BY toYYYYMM(timestamp)
PRIMARY KEY (reverse(publisher), toStartOfHour(timestamp), entry_id, receipt_id)
ORDER BY (reverse(publisher), toStartOfHour(timestamp), entry_id, receipt_id, payload_hash, timestamp);

CREATE TABLE IF NOT EXISTS `receipts_1`.evidence
(
    publisher String CODEC(ZSTD(1)),
    timestamp DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    entry_id UUID CODEC(ZSTD(1)),
    receipt_id UUID CODEC(LZ4),
    payload_hash FixedString(32) CODEC(NONE),
    arrival SimpleAggregateFunction(min, Tuple(DateTime64(3, 'UTC'), UInt128, String, FixedString(32), String))
        CODEC(ZSTD(1)),
    INDEX receipt_id_bloom receipt_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/receipts_1/evidence', '{replica}')
PARTITION BY toYYYYMM(timestamp)
PRIMARY KEY (reverse(publisher), toStartOfHour(timestamp), entry_id)
ORDER BY (reverse(publisher), toStartOfHour(timestamp), entry_id, receipt_id, payload_hash, timestamp)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `receipts_1`.rejected
(
    position UInt128 CODEC(ZSTD(1)),
    reason LowCardinality(String),
    detail String CODEC(ZSTD(1)),
    publisher String CODEC(ZSTD(1)),
    receipt_id Nullable(UUID) CODEC(LZ4),
    client_id Nullable(UUID) CODEC(ZSTD(1)),
    entry_id Nullable(UUID) CODEC(ZSTD(1)),
    payload_hash Nullable(FixedString(32)) CODEC(LZ4),
    key_fingerprint FixedString(32) CODEC(ZSTD(1)),
    received_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    request_id String CODEC(ZSTD(1)),
    client_address String CODEC(ZSTD(1)),
    kind LowCardinality(String),
    raw String CODEC(ZSTD(1)),
    request_signature Nullable(String) CODEC(ZSTD(1)),
    origin LowCardinality(String),
    receipts UInt32 CODEC(T64, ZSTD(1)),
    INDEX key_fingerprint_bloom key_fingerprint TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX receipt_id_bloom receipt_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX position_minmax (position, CAST(position, 'UInt64')) TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/rejected', '{replica}')
PARTITION BY toYYYYMM(received_at)
ORDER BY (reverse(publisher), received_at, position);

CREATE TABLE IF NOT EXISTS `receipts_1`.ledger
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
    verdicts_offset UInt64 CODEC(Delta(8), ZSTD(1)),
    touched Array(Tuple(UInt32, String)) CODEC(ZSTD(1)) TTL toDateTime(committed_at) + INTERVAL 3 DAY,
    INDEX verdicts_offset_minmax verdicts_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/ledger', '{replica}')
ORDER BY (shard, epoch, partition, first_offset);

CREATE TABLE IF NOT EXISTS `receipts_1`.writers
(
    shard UInt32,
    number UInt64,
    token UInt128,
    taken_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/writers', '{replica}')
ORDER BY (shard, number, token);

CREATE TABLE IF NOT EXISTS `receipts_1`.progress
(
    shard UInt32,
    version UInt64,
    verdicts_epoch UInt32,
    verdicts_offset UInt64,
    source_partitions UInt32,
    shards UInt32,
    partitions Array(Tuple(UInt32, UInt32, UInt64, UInt64, Int64)),
    published_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/progress', '{replica}', version)
ORDER BY shard;

CREATE TABLE IF NOT EXISTS `receipts_1`.evidence_progress
(
    shard UInt32,
    verdicts_epoch UInt32,
    verdicts_offset UInt64,
    published_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/evidence_progress', '{replica}', published_at)
ORDER BY shard;

CREATE TABLE IF NOT EXISTS `receipts_1`.usage
(
    grain Enum8('counted' = 0, 'all' = 1, 'purpose' = 2, 'client' = 3, 'entry' = 4),
    publisher String CODEC(LZ4),
    time UInt32 CODEC(Delta(4), LZ4),
    entry_id UUID CODEC(LZ4),
    half_hour UInt8 CODEC(LZ4),
    key FixedString(16) CODEC(LZ4),
    client_id UUID CODEC(LZ4),
    purpose LowCardinality(String),
    model_id String CODEC(LZ4),
    client_name LowCardinality(String),
    organization LowCardinality(String),
    client_version LowCardinality(String),
    url String CODEC(LZ4),
    operator LowCardinality(String),
    key_fingerprint LowCardinality(FixedString(32)),
    verified Bool CODEC(LZ4),
    revision UInt32 CODEC(LZ4),
    receipts SimpleAggregateFunction(sum, Int64) CODEC(T64, LZ4),
    first_ms SimpleAggregateFunction(min, Int64) CODEC(Delta(8), ZSTD(1)),
    last_ms SimpleAggregateFunction(max, Int64) CODEC(Delta(8), LZ4)
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/receipts_1/usage', '{replica}')
PARTITION BY toYYYYMM(toDateTime(time, 'UTC'))
PRIMARY KEY (grain, reverse(publisher), time, entry_id, half_hour, key)
ORDER BY (grain, reverse(publisher), time, entry_id, half_hour, key, client_id, purpose, model_id, client_name,
    organization, client_version, url, operator, key_fingerprint, verified, revision)
SETTINGS index_granularity = 256,
    min_compress_block_size = 4096,
    max_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS `receipts_1`.usage_rebuilds
(
    request UUID,
    publishers Array(String) CODEC(ZSTD(1)),
    parents Array(String) CODEC(ZSTD(1)),
    others_of Array(String) CODEC(ZSTD(1)),
    others Array(String) CODEC(ZSTD(1)),
    before_ms Int64,
    is_finished Bool,
    requested_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/usage_rebuilds', '{replica}', is_finished)
ORDER BY request;

CREATE TABLE IF NOT EXISTS `receipts_1`.audit
(
    state UInt8 DEFAULT 0,
    version UInt64,
    checked Array(Tuple(UInt32, UInt32, UInt64)),
    pass Array(Tuple(UInt32, UInt32, UInt64)),
    pass_began_ms Int64,
    pass_receipts UInt64,
    wrong Array(Tuple(UInt32, UInt32, UInt64, UInt64))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/receipts_1/audit', '{replica}', version)
ORDER BY state;

ALTER TABLE `receipts_1`.receipts MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts_1`.receipts MODIFY TTL toDateTime(timestamp) + toIntervalDay(2557);

ALTER TABLE `receipts_1`.evidence MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts_1`.evidence MODIFY TTL toDateTime(timestamp) + toIntervalDay(2557);

ALTER TABLE `receipts_1`.rejected MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts_1`.rejected MODIFY TTL toDateTime(received_at) + toIntervalDay(90);

ALTER TABLE `receipts_1`.usage MODIFY SETTING ttl_only_drop_parts = 1;

ALTER TABLE `receipts_1`.usage MODIFY TTL toDateTime(time) + toIntervalDay(2557);

