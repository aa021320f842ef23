//! The tables, and how they are laid out.
//!
//! A shard's tables are in a database of its own. Where there are several shards, queries read a
//! further database: its tables are `Distributed` and store nothing. A receipt and its duplicates
//! are in one shard, so `FINAL` on each shard is `FINAL` over all.

/// The schema's version. Databases of development versions before it can't be read.
pub(crate) const VERSION: u32 = 16;

/// A table.
#[derive(Debug)]
pub(crate) struct SchemaTable {
    /// Name of the table in every statement but those that make it.
    pub(crate) name: &'static str,
    /// Columns, each with its type and codec on a line of its own, then secondary indexes.
    columns: &'static str,
    /// The table engine; replicated tables have the replicated one of the same kind.
    pub(crate) engine: &'static str,
    /// From `PARTITION BY` to `ORDER BY`.
    pub(crate) keys: &'static str,
    /// Settings of the table, beside those of durability.
    pub(crate) settings: &'static [&'static str],
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaColumn {
    pub(crate) name: &'static str,
    /// Type of an inserted value, as `input()` takes it.
    pub(crate) input_type: &'static str,
}

impl SchemaColumn {
    pub(crate) fn is_nullable(&self) -> bool {
        self.input_type.starts_with("Nullable(")
    }
}

impl SchemaTable {
    pub(crate) fn columns(&self) -> impl Iterator<Item = SchemaColumn> {
        let lines = self
            .columns
            .split("\n    ")
            .filter(|line| !line.starts_with([' ', '\n']));
        let columns = lines.filter(|line| !line.starts_with("INDEX "));
        columns.filter_map(|line| {
            let (name, definition) = line.trim_end_matches(',').split_once(' ')?;
            Some(SchemaColumn {
                name,
                input_type: input_type(definition),
            })
        })
    }
}

/// The type of an inserted value, as `input()` takes it: without codec, aggregate function and
/// dictionary, and an enumeration by its names.
fn input_type(definition: &'static str) -> &'static str {
    let kind = definition.split(" CODEC(").next().unwrap_or_default();
    let argument = |kind: &'static str, wrapper| kind.strip_prefix(wrapper)?.strip_suffix(')');
    let united = argument(kind, "SimpleAggregateFunction(").and_then(|arguments| arguments.split_once(", "));
    let kind = united.map_or(kind, |(_, kind)| kind);
    match argument(kind, "LowCardinality(").unwrap_or(kind) {
        names if names.starts_with("Enum8(") => "String",
        kind => kind,
    }
}

/// Step of the schema, which can be repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SchemaStep {
    /// A new table.
    Create(&'static SchemaTable),
    /// Drops a part once the youngest of its rows, by this column, is as old as its rows may get.
    Retain(&'static SchemaTable, &'static str, Retention),
}

/// Age at which rows expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    /// As old as receipts.
    Receipts,
    /// As old as rejected receipts.
    Rejected,
}

/// Layout of the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout<'a> {
    /// The database; a name that needs no quotes.
    pub(crate) database: &'a str,
    /// Whether the tables are replicated.
    pub(crate) is_replicated: bool,
    /// Whether an insert is synced before it counts, before merges and after.
    pub(crate) fsync: bool,
    /// Largest age of receipts, in days.
    pub(crate) receipts_days_max: u64,
    /// Age at which rejected receipts expire, in days.
    pub(crate) rejected_days_max: u64,
    /// The storage policy with the volume `cold`.
    pub(crate) storage_policy: Option<&'a str>,
    /// Age at which parts of `evidence` move to `cold`, in days.
    pub(crate) evidence_cold_days: u64,
    /// Age at which parts of `receipts` move to `cold`, in days.
    pub(crate) receipts_cold_days: u64,
}

/// Without all four, a commit doesn't survive power loss: merged parts are synced by settings of
/// their own.
const FSYNC: [&str; 2] = [
    "fsync_after_insert = 1, fsync_part_directory = 1",
    "min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1",
];

impl Layout<'_> {
    /// Makes the database.
    pub(crate) fn database(&self) -> String {
        format!("CREATE DATABASE IF NOT EXISTS `{}`", self.database)
    }

    /// The statements of a step, in order.
    pub(crate) fn statements(&self, step: &SchemaStep) -> Vec<String> {
        match step {
            SchemaStep::Create(table) => vec![self.create(table)],
            SchemaStep::Retain(table, column, retention) => self.retain(table, &self.expiry(table, column, *retention)),
        }
    }

    fn retain(&self, table: &SchemaTable, expiry: &str) -> Vec<String> {
        let alter = format!("ALTER TABLE {}", self.name(table));
        let policy = self
            .cold(table)
            .map_or_else(String::new, |(policy, _)| format!(", storage_policy = '{policy}'"));
        vec![
            // Whole parts: deleting row by row would write the oldest month again every few hours.
            format!("{alter} MODIFY SETTING ttl_only_drop_parts = 1{policy}"),
            format!("{alter} MODIFY TTL {expiry}"),
        ]
    }

    /// When a row expires, by its column of time, and when its part moves to `cold`.
    pub(crate) fn expiry(&self, table: &SchemaTable, column: &str, retention: Retention) -> String {
        let expiry = format!("toDateTime({column}) + toIntervalDay({})", self.days_max(retention));
        match self.cold(table) {
            Some((_, days)) => format!("{expiry}, toDateTime({column}) + toIntervalDay({days}) TO VOLUME 'cold'"),
            None => expiry,
        }
    }

    /// Storage policy of a table whose old parts move, and the age at which they do, in days.
    fn cold(&self, table: &SchemaTable) -> Option<(&str, u64)> {
        let days = match table.name {
            "evidence" => self.evidence_cold_days,
            "receipts" => self.receipts_cold_days,
            _ => return None,
        };
        self.storage_policy.map(|policy| (policy, days))
    }

    /// Age at which rows expire, in days.
    pub(crate) fn days_max(&self, retention: Retention) -> u64 {
        match retention {
            Retention::Receipts => self.receipts_days_max,
            Retention::Rejected => self.rejected_days_max,
        }
    }

    /// The table with its database.
    pub(crate) fn name(&self, table: &SchemaTable) -> String {
        format!("`{}`.{}", self.database, table.name)
    }

    fn create(&self, table: &SchemaTable) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {}\n({}\n)\nENGINE = {}{}{}",
            self.name(table),
            table.columns,
            self.engine(table),
            table.keys,
            self.settings(table),
        )
    }

    /// Makes the table over all shards, with the columns that they have now: it stores nothing, so
    /// one that is there is replaced. The empty database is each shard's default one.
    pub(crate) fn distributed(&self, table: &SchemaTable, columns: &str, cluster: &str) -> String {
        format!(
            "CREATE OR REPLACE TABLE {} ({columns}) ENGINE = Distributed('{cluster}', '', '{}')",
            self.name(table),
            table.name
        )
    }

    fn settings(&self, table: &SchemaTable) -> String {
        let fsync: &[&str] = if self.fsync { &FSYNC } else { &[] };
        let settings: Vec<&str> = table.settings.iter().chain(fsync).copied().collect();
        if settings.is_empty() {
            return String::new();
        }
        format!("\nSETTINGS {}", settings.join(",\n    "))
    }

    /// With its path in the keeper, if it is replicated: a shard's database has a name of its own.
    fn engine(&self, table: &SchemaTable) -> String {
        if !self.is_replicated {
            return table.engine.to_owned();
        }
        let path = format!("'/clickhouse/tables/{}/{}', '{{replica}}'", self.database, table.name);
        replicated(table.engine, &path)
    }
}

/// The replicated engine of the same kind, whose first arguments are its path and name.
fn replicated(engine: &str, path_and_name: &str) -> String {
    match engine.split_once('(') {
        Some((engine, arguments)) => format!("Replicated{engine}({path_and_name}, {arguments}"),
        None => format!("Replicated{engine}({path_and_name})"),
    }
}

/// Versions of the schema: a row is one whose statements have all run.
pub(crate) static VERSIONS: SchemaTable = SchemaTable {
    name: "schema_versions",
    columns: "
    version UInt32,
    name String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)",
    engine: "ReplacingMergeTree",
    keys: "
ORDER BY version",
    settings: &[],
};

/// Receipts: a row is one payload; `positions` is the set of log positions it was seen at. Sorting
/// keys have the publisher reversed, so that a domain's subdomains are one range of them. This
/// sorting key is everything a retry repeats, and all else are aggregates, so that merges unite the
/// positions of equal payloads and writing a block again changes nothing. Columns that say who used
/// content are united by `min`: equal payloads have equal values, and a row that an erasure has
/// blanked wins over a duplicate that comes later. `unsigned_positions` has those of `positions` at
/// which no signature of the request or batch binds the receipt to its sender. `stamp` has an
/// arrival, the operator whose key it was then, and whether the publisher's domain was verified;
/// the first arrival's stamp stays.
pub(crate) static RECEIPTS: SchemaTable = SchemaTable {
    name: "receipts",
    columns: "
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
        TYPE minmax GRANULARITY 1",
    engine: "AggregatingMergeTree",
    keys: "
PARTITION BY toYYYYMM(timestamp)
PRIMARY KEY (reverse(publisher), toStartOfHour(timestamp), entry_id, receipt_id)
ORDER BY (reverse(publisher), toStartOfHour(timestamp), entry_id, receipt_id, payload_hash, timestamp)",
    settings: &[],
};

/// Exact bytes of accepted receipts, with signature and key, for everybody who verifies one again.
/// Rows are in the order of `receipts`, so that a page of an export is one range of both. `arrival`
/// has an occurrence as a whole: when it arrived, its position, its bytes, and hash and signature
/// of its batch, empty for single receipts. The first arrival stays, whoever sends a copy with
/// other bytes or without the batch. A row that an erasure has blanked arrived at 0, so it wins
/// over all copies.
pub(crate) static EVIDENCE: SchemaTable = SchemaTable {
    name: "evidence",
    columns: "
    publisher String CODEC(ZSTD(1)),
    timestamp DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    entry_id UUID CODEC(ZSTD(1)),
    receipt_id UUID CODEC(LZ4),
    payload_hash FixedString(32) CODEC(NONE),
    arrival SimpleAggregateFunction(min, Tuple(DateTime64(3, 'UTC'), UInt128, String, FixedString(32), String))
        CODEC(ZSTD(1)),
    INDEX receipt_id_bloom receipt_id TYPE bloom_filter(0.01) GRANULARITY 1",
    engine: "AggregatingMergeTree",
    keys: "
PARTITION BY toYYYYMM(timestamp)
PRIMARY KEY (reverse(publisher), toStartOfHour(timestamp), entry_id)
ORDER BY (reverse(publisher), toStartOfHour(timestamp), entry_id, receipt_id, payload_hash, timestamp)",
    settings: &["index_granularity = 1024"],
};

/// Rejected occurrences. A row is one, or several beyond what is stored of a key (`origin` is
/// `not_stored`), of which the first has the row's position. `key_fingerprint` is the key whose
/// signature of the request or batch was verified, and so the sender's; zero if none was.
pub(crate) static REJECTED: SchemaTable = SchemaTable {
    name: "rejected",
    columns: "
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
    INDEX position_minmax (position, CAST(position, 'UInt64')) TYPE minmax GRANULARITY 1",
    engine: "ReplacingMergeTree",
    keys: "
PARTITION BY toYYYYMM(received_at)
ORDER BY (reverse(publisher), received_at, position)",
    settings: &[],
};

/// Ledger: a row is one block of the log; offsets of a partition are contiguous over its blocks.
/// `touched` has the hours and publishers of its accepted receipts, for live streams, and is empty
/// after three days.
pub(crate) static LEDGER: SchemaTable = SchemaTable {
    name: "ledger",
    columns: "
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
    INDEX verdicts_offset_minmax verdicts_offset TYPE minmax GRANULARITY 1",
    engine: "ReplacingMergeTree",
    keys: "
ORDER BY (shard, epoch, partition, first_offset)",
    settings: &[],
};

/// Epochs of the shards' writers. The writer with a shard's greatest pair may insert.
pub(crate) static WRITERS: SchemaTable = SchemaTable {
    name: "writers",
    columns: "
    shard UInt32,
    number UInt64,
    token UInt128,
    taken_at DateTime64(3, 'UTC') DEFAULT now64(3)",
    engine: "ReplacingMergeTree",
    keys: "
ORDER BY (shard, number, token)",
    settings: &[],
};

/// Progress of the shards' writers. The greatest version of a shard is the newest. `partitions`
/// has epoch, partition, first and next offset, and complete-through of each partition of
/// `receipts`.
pub(crate) static PROGRESS: SchemaTable = SchemaTable {
    name: "progress",
    columns: "
    shard UInt32,
    version UInt64,
    verdicts_epoch UInt32,
    verdicts_offset UInt64,
    source_partitions UInt32,
    shards UInt32,
    partitions Array(Tuple(UInt32, UInt32, UInt64, UInt64, Int64)),
    published_at DateTime64(3, 'UTC') DEFAULT now64(3)",
    engine: "ReplacingMergeTree(version)",
    keys: "
ORDER BY shard",
    settings: &[],
};

/// Position in `verdicts` up to which a shard's evidence is stored. A consumer group's offset would
/// be wrong once the tables are restored from an older copy.
pub(crate) static EVIDENCE_PROGRESS: SchemaTable = SchemaTable {
    name: "evidence_progress",
    columns: "
    shard UInt32,
    verdicts_epoch UInt32,
    verdicts_offset UInt64,
    published_at DateTime64(3, 'UTC') DEFAULT now64(3)",
    engine: "ReplacingMergeTree(published_at)",
    keys: "
ORDER BY shard",
    settings: &[],
};

/// State of the running audit: see `AuditState`. Offsets are (epoch, partition, next offset),
/// sections (epoch, partition, first offset, offset behind).
pub(crate) static AUDIT: SchemaTable = SchemaTable {
    name: "audit",
    columns: "
    state UInt8 DEFAULT 0,
    version UInt64,
    checked Array(Tuple(UInt32, UInt32, UInt64)),
    pass Array(Tuple(UInt32, UInt32, UInt64)),
    pass_began_ms Int64,
    pass_receipts UInt64,
    wrong Array(Tuple(UInt32, UInt32, UInt64, UInt64))",
    engine: "ReplacingMergeTree(version)",
    keys: "
ORDER BY state",
    settings: &[],
};

/// Aggregates of usage. A row is a part of the one in `grain`, which determines the row's columns.
/// The others are empty or 0 (see `usage`, the crate).
///
/// - `time`, in seconds since the Unix epoch: the timestamp's second (`counted`), the half hour's
///   start (`purpose`), or the UTC day's start (`all`, `client`, `entry`)
/// - `half_hour`: of the day, 0 to 47 (`all`)
/// - `key`: the first 16 bytes of the payload's hash, which covers everything that identifies a
///   receipt (`counted`)
/// - `revision`: 0, or how often a rebuild has replaced the key's rows. Replaced ones add up to 0
///
/// The month's partition holds a receipt's counted row and all its contributions, so one insert
/// makes one part with all of them. Queries read few rows of many parts. So a compressed block is
/// small, and LZ4 is used, which takes a third more space but half the time of ZSTD.
pub(crate) static USAGE: SchemaTable = SchemaTable {
    name: "usage",
    columns: "
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
    last_ms SimpleAggregateFunction(max, Int64) CODEC(Delta(8), LZ4)",
    engine: "AggregatingMergeTree",
    keys: "
PARTITION BY toYYYYMM(toDateTime(time, 'UTC'))
PRIMARY KEY (grain, reverse(publisher), time, entry_id, half_hour, key)
ORDER BY (grain, reverse(publisher), time, entry_id, half_hour, key, client_id, purpose, model_id, client_name,
    organization, client_version, url, operator, key_fingerprint, verified, revision)",
    settings: &[
        "index_granularity = 256",
        "min_compress_block_size = 4096",
        "max_compress_block_size = 4096",
    ],
};

/// Requests that a shard's writer executes between inserts: the aggregates of these publishers'
/// usage are made equal to `receipts` again.
pub(crate) static USAGE_REBUILDS: SchemaTable = SchemaTable {
    name: "usage_rebuilds",
    columns: "
    request UUID,
    publishers Array(String) CODEC(ZSTD(1)),
    parents Array(String) CODEC(ZSTD(1)),
    others_of Array(String) CODEC(ZSTD(1)),
    others Array(String) CODEC(ZSTD(1)),
    before_ms Int64,
    is_finished Bool,
    requested_at DateTime64(3, 'UTC') DEFAULT now64(3)",
    engine: "ReplacingMergeTree(is_finished)",
    keys: "
ORDER BY request",
    settings: &[],
};

/// All tables but [`VERSIONS`].
pub(crate) static TABLES: [&SchemaTable; 10] = [
    &RECEIPTS,
    &EVIDENCE,
    &REJECTED,
    &LEDGER,
    &WRITERS,
    &PROGRESS,
    &EVIDENCE_PROGRESS,
    &USAGE,
    &USAGE_REBUILDS,
    &AUDIT,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn input(table: &SchemaTable) -> String {
        let columns = table.columns();
        let columns = columns.map(|column| format!("{} {}", column.name, column.input_type));
        columns.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn inserted_columns_are_the_tables_without_how_they_are_stored() {
        assert_eq!(
            input(&EVIDENCE),
            "publisher String, timestamp DateTime64(3, 'UTC'), entry_id UUID, receipt_id UUID, payload_hash FixedString(32), \
             arrival Tuple(DateTime64(3, 'UTC'), UInt128, String, FixedString(32), String)"
        );
        assert!(input(&RECEIPTS).ends_with(", study_id String, researcher_id String"));
        assert_eq!(RECEIPTS.columns().count(), 25);
        let rejected = input(&REJECTED);
        assert!(rejected.contains(", reason String, ") && rejected.contains(", client_id Nullable(UUID), "));
        assert_eq!(REJECTED.columns().filter(SchemaColumn::is_nullable).count(), 5);
        assert!(input(&USAGE).starts_with("grain String, publisher String, time UInt32, "));
        assert!(input(&USAGE).contains(", key_fingerprint FixedString(32), verified Bool, "));
    }
}
