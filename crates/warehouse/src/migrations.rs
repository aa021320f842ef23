//! The schema, version by version.
//!
//! Every statement can be run again, and a version is recorded only after all its statements: a crash in between, or
//! two processes at once, ends in the same schema. A version that was ever released is never changed; the next one is
//! added below it.

use crate::client::Call;
use crate::{LedgerRow, ReceiptRow, RejectedRow, Warehouse, WarehouseError};

/// One version of the schema.
struct Migration {
    version: u32,
    name: &'static str,
    statements: &'static [&'static str],
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "receipts, rejected, ledger",
        statements: &[RECEIPTS, REJECTED, LEDGER],
    },
    Migration {
        version: 2,
        name: "replays",
        statements: &[REJECTED_CONTEXT, REPLAYS],
    },
];

/// ClickHouse's UNKNOWN_DATABASE and UNKNOWN_TABLE.
const NOT_THERE: [u32; 2] = [81, 60];

const VERSIONS: &str = "
CREATE TABLE IF NOT EXISTS schema_versions
(
    version UInt32,
    name String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree ORDER BY version
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1";

/// One row is one receipt's payload; `positions` is the set of log positions it was seen at. The sorting key is
/// everything a retry repeats, and all else are aggregates, so that merges unite the positions of equal payloads and
/// writing a block again changes nothing. The four `fsync` settings make a commit survive power loss, before merges
/// and after.
const RECEIPTS: &str = "
CREATE TABLE IF NOT EXISTS receipts
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
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1";

/// One row is one refused occurrence; its position makes it one.
const REJECTED: &str = "
CREATE TABLE IF NOT EXISTS rejected
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
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1";

/// One row is one block of the log; offsets of a partition are contiguous over its blocks.
const LEDGER: &str = "
CREATE TABLE IF NOT EXISTS ledger
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
    committed_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (epoch, partition, first_offset)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1";

/// What a rejected receipt is judged again by. Rows of before have neither: `receipts repair` fills them from the log.
const REJECTED_CONTEXT: &str = "
ALTER TABLE rejected
    ADD COLUMN IF NOT EXISTS request_signature Nullable(String) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS origin LowCardinality(String)";

/// One row is one rejected receipt that counts now. The rejected row stays: the ledger needs it.
const REPLAYS: &str = "
CREATE TABLE IF NOT EXISTS replays
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
    min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1";

impl Warehouse {
    /// Creates the database and brings the schema up to date. Safe to repeat, also after a crash in the middle.
    ///
    /// # Errors
    /// [`WarehouseError`]; also if the schema is newer than this program knows.
    pub async fn migrate(&self) -> Result<(), WarehouseError> {
        let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
        let found = match self.schema_version().await {
            Err(WarehouseError::Refused { code, .. }) if NOT_THERE.contains(&code) => 0,
            other => other?,
        };
        if found > known {
            return Err(WarehouseError::Config(format!(
                "the warehouse's schema has version {found}, newer than this program's {known}: run a newer program"
            )));
        }
        if found == known {
            return match self.missing_tables().await?.as_slice() {
                [] => Ok(()),
                missing => Err(WarehouseError::Damaged(format!(
                    "of the database `{}` the tables are gone: {}",
                    self.database(),
                    missing.join(", ")
                ))),
            };
        }
        self.create_database().await?;
        self.execute("migrate", Call::new(VERSIONS)).await?;
        for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
            for &statement in migration.statements {
                self.execute("migrate", Call::new(statement)).await?;
            }
            let record =
                Call::new("INSERT INTO schema_versions (version, name) SELECT {version:UInt32}, {name:String}")
                    .with("version", migration.version)
                    .with("name", migration.name);
            self.execute("migrate", record).await?;
            tracing::info!(
                version = migration.version,
                name = migration.name,
                "the warehouse's schema was brought up"
            );
        }
        Ok(())
    }

    /// Makes tables anew, empty, that were lost from a schema that is up to date; returns which. Their rows are to be
    /// written again from the log.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn restore_tables(&self) -> Result<Vec<String>, WarehouseError> {
        let missing = match self.schema_version().await {
            Err(WarehouseError::Refused { code, .. }) if NOT_THERE.contains(&code) => Vec::new(),
            version => {
                version?;
                self.missing_tables().await?
            }
        };
        if !missing.is_empty() {
            for statement in MIGRATIONS.iter().flat_map(|migration| migration.statements) {
                self.execute("migrate", Call::new(*statement)).await?;
            }
        }
        self.migrate().await?;
        Ok(missing)
    }

    async fn missing_tables(&self) -> Result<Vec<String>, WarehouseError> {
        let call = Call::new("SELECT name FROM system.tables WHERE database = currentDatabase()");
        let there: Vec<String> = self.rows("migrate", call).await?;
        let tables = [ReceiptRow::TABLE, RejectedRow::TABLE, LedgerRow::TABLE];
        let missing = tables.iter().filter(|table| !there.iter().any(|name| name == *table));
        Ok(missing.map(ToString::to_string).collect())
    }

    async fn schema_version(&self) -> Result<u32, WarehouseError> {
        self.one::<u32>("migrate", Call::new("SELECT max(version) FROM schema_versions"))
            .await
    }
}
