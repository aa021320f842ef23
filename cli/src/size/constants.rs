//! Cost of a receipt, as measured. Every figure has the run that it comes from; a new run
//! changes it here and nowhere else.
//!
//! Runs: `benches/runs/2026-11-21-*` on two cores of an Intel Xeon (family 6, model 167), release
//! build. CPU is in microseconds of one such core; another machine's share follows from `compare`'s
//! `verify-ed25519` (53,000/s on one core here).

use super::load::Algorithm;

/// A gateway's CPU for each request: connection, head, answer, the log's word. `gateway-singles`
/// 13.2 us, less what it costs by receipt (2026-11-21-gateway-after-gathering.json), when it does
/// nothing else and thousands share a write; 25 more at a pace that leaves cores idle, where few
/// share one (the gateway's and the log's threads under 2,500 single receipts/s).
pub const GATEWAY_US_PER_REQUEST: f64 = 36.0;
/// A gateway's CPU for each receipt: reading and the format's checks. `gateway-batches`, 447,761
/// receipts/s on a core (same run).
pub const GATEWAY_US_PER_RECEIPT: f64 = 2.2;
/// Kafka's cost for each record: rdkafka's producer against the embedded log (ENGINES.md: 12-15
/// us against 13 at 512 connections, 16-21 against 16-19 at 64).
pub const KAFKA_US_PER_RECORD: f64 = 2.0;
/// Cost of lz4 in the gateway for each receipt: 3,220 us against 1,470 for 1,000 (ENGINES.md).
pub const LZ4_US_PER_RECEIPT: f64 = 1.8;
/// Cost of zstd: 7,140 us against 1,470.
pub const ZSTD_US_PER_RECEIPT: f64 = 5.7;

/// The verifier's CPU for a signature, as judged with everything around it: `verify-*-request` (two
/// signatures a receipt) of 2026-11-21-intel-xeon-processor-family-6-model-167.json: 55,368, 68,587
/// and 19,621 signatures/s.
pub fn judge_us_per_signature(algorithm: Algorithm) -> f64 {
    mixed(algorithm, [18.1, 14.6, 51.0])
}

/// The verifier's CPU for a receipt of a batch: `verify-*-batch`, 50,038, 58,281 and 18,718
/// receipts/s (same run).
pub fn judge_us_per_batched_receipt(algorithm: Algorithm) -> f64 {
    mixed(algorithm, [20.0, 17.2, 53.4])
}

/// The verifier's CPU for a record of the log: reading, gathering, its place in the commit. What
/// `single ed25519` of 2026-11-21-sizing-before.json costs after everything else here.
pub const VERIFIER_US_PER_RECORD: f64 = 64.0;
/// The verifier's CPU for a receipt beside judging: encoding its row, handing it over. Half of the
/// rest of `service-sustained` (40.5 us of the whole service a receipt) and `-mixed` (46.9 us).
pub const VERIFIER_US_PER_RECEIPT: f64 = 5.0;

/// ClickHouse's CPU for a row of an insert: `warehouse-1k`, `-10k` and `-50k` (15.8, 4.12 and 2.51
/// us a row) of 2026-11-21-warehouse-rows.json, through which a line goes.
pub const CLICKHOUSE_US_PER_ROW: f64 = 2.3;
/// ClickHouse's CPU for a block: its insert (14 ms by the same line), the line of the ledger, the
/// marks of the hours that it touches, merging the small parts of all three, and rolling. By what
/// `a trickle of single receipts` costs more than `single ed25519` (2026-11-21-sizing-before.json).
pub const CLICKHOUSE_US_PER_INSERT: f64 = 53_000.0;
/// ClickHouse's CPU for a row in all merges to come. What `ed25519 in batches of 100` costs after
/// everything else here (same run).
pub const CLICKHOUSE_MERGE_US_PER_ROW: f64 = 11.0;
/// Time for which a verifier gathers a block (`verifier.block_wait_ms_max`), and the most records
/// it takes (`verifier.block_records_max`).
pub const BLOCK_SECONDS: f64 = 0.15;
/// See [`BLOCK_SECONDS`].
pub const BLOCK_RECORDS_MAX: f64 = 20_000.0;
/// CPU seconds a second of idle services: checks of engines and of the ledger,
/// ClickHouse's own threads. All in one process.
pub const IDLE_CORES: f64 = 0.03;

/// A receipt's bytes as sent: the generator's, by what the log counts in `make size-check` (RSA's
/// is longer by key and signature).
pub fn body_bytes(algorithm: Algorithm) -> f64 {
    mixed(algorithm, [855.0, 1_462.0, 931.0])
}
/// Bytes of the embedded log beside each record's body: frame, place, times, request id,
/// signature of the request.
pub const LOG_BYTES_PER_RECORD: f64 = 188.0;
/// Ratio of a receipt's bytes in a topic with lz4: 1,000 signed receipts of one client, in
/// one message of 1,000 or many of one each (measured with `lz4 -1` on 2026-11-21: 0.28, 0.36 and
/// 0.26 of the bytes; singles in sets of 20: 0.33, 0.39 and 0.33).
pub fn lz4_ratio(algorithm: Algorithm) -> f64 {
    mixed(algorithm, [0.33, 0.39, 0.33])
}
/// Ratio with zstd (`zstd -3`: 0.15, 0.22 and 0.14; singles in sets of 20: 0.23, 0.29 and 0.23).
pub fn zstd_ratio(algorithm: Algorithm) -> f64 {
    mixed(algorithm, [0.23, 0.29, 0.23])
}
/// A record's headers in Kafka.
pub const KAFKA_BYTES_PER_RECORD: f64 = 120.0;
/// A row of `receipts` on disk, merged: 65 bytes over 100,000 receipts of one publisher
/// (`make size-check`), 91 over 50 million of many (`benches/runs/*-analytics-50m.json`'s data: 4.2
/// GiB, not all merged).
pub const CLICKHOUSE_BYTES_PER_RECEIPT: f64 = 78.0;
/// Rows of `usage` on disk, merged, for each receipt: 37 bytes in a prototype over 50 million
/// receipts, with room for the columns that it lacked. To be measured.
pub const USAGE_BYTES_PER_RECEIPT: f64 = 45.0;
/// A row of `evidence` on disk, merged: 190 bytes over 76,000 receipts of the load generator, 134
/// of them the exact bytes.
pub const EVIDENCE_BYTES_PER_RECEIPT: f64 = 190.0;
/// A row as it travels to ClickHouse (2026-11-21-warehouse-rows.json: 373 bytes as RowBinary, 334
/// as Native).
pub const ROW_BYTES: f64 = 334.0;

/// Memory of a gateway: 73 MB under 64 connections of batches of 1.2 MB (`gateway-memory`), with
/// room for `inflight_bytes_max`.
pub const GATEWAY_MEMORY_MB: f64 = 512.0;
/// Memory of a verifier: five blocks (`verifier.block_*`), with room.
pub const VERIFIER_MEMORY_MB: f64 = 1_024.0;
/// Memory of an API.
pub const API_MEMORY_MB: f64 = 512.0;
/// Memory of `receipts up`, libchdb included: 480 to 620 MB (`service-memory`), with room.
pub const ALL_IN_ONE_MEMORY_MB: f64 = 1_500.0;
/// CPU of a dashboard's question in ClickHouse, one publisher's month: 25 to 40 ms (ENGINES.md,
/// 180,000 receipts).
pub const QUERY_CLICKHOUSE_US: f64 = 40_000.0;
/// CPU of the same in the analytics API.
pub const QUERY_API_US: f64 = 1_000.0;

/// Capacity of a machine: a broker's network and disk, a ClickHouse server's cores and
/// disk.
pub const BROKER_MB_PER_S: f64 = 200.0;
/// See [`BROKER_MB_PER_S`].
pub const BROKER_DISK_TB: f64 = 8.0;
/// See [`BROKER_MB_PER_S`].
pub const CLICKHOUSE_CORES: f64 = 32.0;
/// See [`BROKER_MB_PER_S`].
pub const CLICKHOUSE_DISK_TB: f64 = 16.0;
/// Load that one partition carries without pain.
pub const PARTITION_MB_PER_S: f64 = 10.0;

/// The generator's mix: 8 of 10 Ed25519, 1 RSA-2048, 1 ECDSA P-256.
fn mixed(algorithm: Algorithm, [ed25519, rsa, ecdsa]: [f64; 3]) -> f64 {
    match algorithm {
        Algorithm::Ed25519 => ed25519,
        Algorithm::Rsa => rsa,
        Algorithm::Ecdsa => ecdsa,
        Algorithm::Mix => 0.8 * ed25519 + 0.1 * rsa + 0.1 * ecdsa,
    }
}
