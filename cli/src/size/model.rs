//! From a load to what carries it: plain arithmetic over [`super::constants`].

use receipt_log::EmbeddedConfig;
use serde::Serialize;

use super::constants as c;
use super::load::{Compression, Engines, Load};

/// Plan for a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Cost of a receipt.
    pub per_receipt: PerReceipt,
    /// Cores at work at peak.
    pub cores: Cores,
    /// Pods, with their cores and memory.
    pub pods: Vec<Pods>,
    /// The log.
    pub log: Log,
    /// The warehouse.
    pub clickhouse: ClickHouse,
    /// Accounts.
    pub postgresql: Small,
    /// Counts of the limiter.
    pub redis: Small,
    /// Largest costs, the largest first.
    pub cost_drivers: Vec<String>,
}

/// CPU microseconds and bytes of one receipt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PerReceipt {
    /// In the gateway, its log's client or log included.
    pub gateway_us: f64,
    /// In the verifier: signatures.
    pub judge_us: f64,
    /// In the verifier: the rest.
    pub verifier_us: f64,
    /// In one ClickHouse replica: its insert.
    pub insert_us: f64,
    /// In every replica: its merges.
    pub merge_us: f64,
    /// Written to one copy of the log.
    pub log_bytes: f64,
    /// On disk in one replica of ClickHouse, merged.
    pub clickhouse_bytes: f64,
    /// On disk in one replica of ClickHouse beside it, in the table `usage`, merged.
    pub usage_bytes: f64,
    /// Bytes of evidence on a replica's disk.
    pub evidence_bytes: f64,
}

/// Cores at work at peak, without headroom.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cores {
    /// Gateways.
    pub gateway: f64,
    /// Verifiers.
    pub verifier: f64,
    /// ClickHouse, all replicas.
    pub clickhouse: f64,
    /// The APIs.
    pub apis: f64,
    /// Cost without any requests (embedded only; a pod's is within its headroom).
    pub idle: f64,
    /// All of it.
    pub total: f64,
}

/// Pods of one service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// Name of the service.
    pub service: &'static str,
    /// Number of pods.
    pub pods: u64,
    /// Cores of each.
    pub cores: f64,
    /// Memory of each, in MB.
    pub memory_mb: f64,
}

/// The log: Kafka, or segments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// Brokers; 0 with the embedded log.
    pub brokers: u64,
    /// Partitions of the topic.
    pub partitions: u64,
    /// MB a second into the leaders.
    pub in_mb_per_s: f64,
    /// MB a second between brokers and to verifiers.
    pub out_mb_per_s: f64,
    /// All copies on disk, in GB, with a third free.
    pub disk_gb: f64,
    /// Days of it that are on disk: less than was requested if the embedded log's
    /// `log.retention_bytes_max` ends first.
    pub days: f64,
    /// Value of `log.retention_bytes_max` for all days that were requested, where its default
    /// is too little.
    pub retention_bytes_max_needed: Option<u64>,
}

/// The warehouse.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClickHouse {
    /// Shards; 0 with the embedded engine.
    pub shards: u64,
    /// Servers: shards times replicas.
    pub servers: u64,
    /// Rows kept.
    pub rows: f64,
    /// Rows in an insert.
    pub rows_per_insert: f64,
    /// Inserts a second.
    pub inserts_per_s: f64,
    /// MB a second to one replica.
    pub in_mb_per_s: f64,
    /// All replicas on disk, in GB, with a third free.
    pub disk_gb: f64,
}

/// A server that needs little.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Small {
    /// Cores.
    pub cores: f64,
    /// Memory in MB.
    pub memory_mb: f64,
    /// Disk in GB.
    pub disk_gb: f64,
}

const DAY_SECONDS: f64 = 86_400.0;
/// Disks are planned to be filled so far.
pub(super) const FILL: f64 = 0.67;

/// Plans for `load`.
#[must_use]
pub fn plan(load: &Load) -> Plan {
    let (rate, batch) = (load.rate, f64::from(load.batch));
    let servers = load.engines == Engines::Servers;
    let replicas = if servers {
        f64::from(load.clickhouse_replicas)
    } else {
        1.0
    };
    let copies = if servers { f64::from(load.replication) } else { 1.0 };

    let gateway_us = gateway_us(load);
    let judge_us = if load.batch == 1 {
        2.0 * c::judge_us_per_signature(load.algorithm)
    } else {
        c::judge_us_per_batched_receipt(load.algorithm) + c::judge_us_per_signature(load.algorithm) / batch
    };
    let verifier_us = c::VERIFIER_US_PER_RECEIPT + c::VERIFIER_US_PER_RECORD / batch;
    let verifier_cores = rate * (judge_us + verifier_us) / 1e6;
    let pods_of = |cores: f64, least: f64| (cores / (load.pod_cores * load.utilization)).ceil().max(least);
    let verifiers = if servers { pods_of(verifier_cores, 2.0) } else { 1.0 };
    // Each verifier makes blocks of its own share.
    let rows_per_insert = (rate / verifiers * c::BLOCK_SECONDS).clamp(batch.min(rate), c::BLOCK_RECORDS_MAX * batch);
    let inserts_per_s = rate / rows_per_insert;
    let insert_us = c::CLICKHOUSE_US_PER_ROW + c::CLICKHOUSE_US_PER_INSERT / rows_per_insert;
    let merge_us = c::CLICKHOUSE_MERGE_US_PER_ROW;
    let queries = load.queries_per_s();

    let cores = {
        let gateway = rate * gateway_us / 1e6;
        let asked = if servers {
            queries * c::QUERY_CLICKHOUSE_US / 1e6
        } else {
            0.0
        };
        let clickhouse = rate * (insert_us + merge_us * replicas) / 1e6 + asked;
        let apis = if servers { queries * c::QUERY_API_US / 1e6 } else { 0.0 };
        let idle = if servers { 0.0 } else { c::IDLE_CORES };
        Cores {
            gateway,
            verifier: verifier_cores,
            clickhouse,
            apis,
            idle,
            total: gateway + verifier_cores + clickhouse + apis + idle,
        }
    };

    let log_bytes = log_bytes(load);
    let in_mb_per_s = rate * log_bytes / 1e6;
    let day_bytes = in_mb_per_s * 1e6 * load.average * DAY_SECONDS;
    let asked_bytes = day_bytes * f64::from(load.log_days);
    #[allow(clippy::cast_precision_loss)] // 64 GiB is exact.
    let held_bytes = if servers {
        asked_bytes
    } else {
        asked_bytes.min(EmbeddedConfig::default().retention_bytes_max as f64)
    };
    let log = Log {
        brokers: 0,
        partitions: 1,
        in_mb_per_s,
        out_mb_per_s: in_mb_per_s * copies,
        disk_gb: held_bytes * copies / 1e9 / FILL,
        days: held_bytes / day_bytes,
        retention_bytes_max_needed: (held_bytes < asked_bytes).then(|| whole(asked_bytes)),
    };
    let rows = rate * load.average * DAY_SECONDS * f64::from(load.days);
    let stored_bytes = c::CLICKHOUSE_BYTES_PER_RECEIPT + c::USAGE_BYTES_PER_RECEIPT + c::EVIDENCE_BYTES_PER_RECEIPT;
    let clickhouse = ClickHouse {
        shards: 0,
        servers: 0,
        rows,
        rows_per_insert,
        inserts_per_s,
        in_mb_per_s: rate * c::ROW_BYTES / 1e6,
        disk_gb: rows * stored_bytes * replicas / 1e9 / FILL,
    };
    let per_receipt = PerReceipt {
        gateway_us,
        judge_us,
        verifier_us,
        insert_us,
        merge_us,
        log_bytes,
        clickhouse_bytes: c::CLICKHOUSE_BYTES_PER_RECEIPT,
        usage_bytes: c::USAGE_BYTES_PER_RECEIPT,
        evidence_bytes: c::EVIDENCE_BYTES_PER_RECEIPT,
    };
    let mut plan = Plan {
        per_receipt,
        cores,
        pods: Vec::new(),
        log,
        clickhouse,
        postgresql: Small {
            cores: (0.2 + queries / 1e3).max(1.0),
            memory_mb: 1_024.0,
            // A thousand entries a publisher, 400 bytes each, and the trail of changes beside.
            disk_gb: (f64::from(load.publishers) * 1e3 * 400.0 * 2.0 / 1e9).max(1.0),
        },
        redis: Small {
            cores: 1.0,
            // Two windows a key, 200 bytes.
            memory_mb: (f64::from(load.publishers) * 400.0 / 1e6).max(64.0),
            disk_gb: 0.0,
        },
        cost_drivers: Vec::new(),
    };
    if servers {
        on_servers(
            load,
            &mut plan,
            pods_of(cores.gateway, 2.0),
            verifiers,
            pods_of(cores.apis, 2.0),
        );
    } else {
        plan.pods.push(Pods {
            service: "receipts up",
            pods: 1,
            cores: (cores.total / load.utilization).ceil(),
            memory_mb: c::ALL_IN_ONE_MEMORY_MB,
        });
    }
    plan.cost_drivers = cost_drivers(&plan, replicas);
    plan
}

fn gateway_us(load: &Load) -> f64 {
    let batch = f64::from(load.batch);
    let own = c::GATEWAY_US_PER_RECEIPT + c::GATEWAY_US_PER_REQUEST / batch;
    if load.engines == Engines::Embedded {
        return own;
    }
    let compressing = match load.compression {
        Compression::None => 0.0,
        Compression::Lz4 => c::LZ4_US_PER_RECEIPT,
        Compression::Zstd => c::ZSTD_US_PER_RECEIPT,
    };
    own + c::KAFKA_US_PER_RECORD / batch + compressing
}

fn log_bytes(load: &Load) -> f64 {
    let (body, batch) = (c::body_bytes(load.algorithm), f64::from(load.batch));
    if load.engines == Engines::Embedded {
        return body + c::LOG_BYTES_PER_RECORD / batch;
    }
    let ratio = match load.compression {
        Compression::None => 1.0,
        Compression::Lz4 => c::lz4_ratio(load.algorithm),
        Compression::Zstd => c::zstd_ratio(load.algorithm),
    };
    body * ratio + c::KAFKA_BYTES_PER_RECORD / batch
}

/// Counts the machines.
fn on_servers(load: &Load, plan: &mut Plan, gateways: f64, verifiers: f64, apis: f64) {
    let mut add = |service, pods, memory_mb| {
        plan.pods.push(Pods {
            service,
            pods: whole(pods),
            cores: load.pod_cores,
            memory_mb,
        });
    };
    add("gateway", gateways, c::GATEWAY_MEMORY_MB);
    add("verifier", verifiers, c::VERIFIER_MEMORY_MB);
    add("analytics-api", apis, c::API_MEMORY_MB);
    add("publisher-api", 2.0, c::API_MEMORY_MB);
    let log = &mut plan.log;
    // Twice the verifiers, so that they can grow, in dozens, which many numbers divide.
    let wanted = (2.0 * verifiers).max(log.in_mb_per_s / c::PARTITION_MB_PER_S);
    log.partitions = whole((wanted / 12.0).ceil().max(1.0) * 12.0);
    let carried = log.in_mb_per_s + log.out_mb_per_s;
    let brokers = (carried / c::BROKER_MB_PER_S).max(log.disk_gb / 1e3 / c::BROKER_DISK_TB);
    log.brokers = whole(brokers.ceil().max(f64::from(load.replication)));
    let house = &mut plan.clickhouse;
    let replicas = f64::from(load.clickhouse_replicas);
    let by_cores = plan.cores.clickhouse / replicas / (c::CLICKHOUSE_CORES * load.utilization);
    let by_disk = house.disk_gb / replicas / 1e3 / c::CLICKHOUSE_DISK_TB;
    house.shards = whole(by_cores.max(by_disk).ceil().max(1.0));
    house.servers = house.shards * u64::from(load.clickhouse_replicas);
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts of machines and bytes.
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}

fn cost_drivers(plan: &Plan, replicas: f64) -> Vec<String> {
    let one = plan.per_receipt;
    let mut cpu = [
        ("signatures in the verifier", one.judge_us),
        ("the verifier's own work", one.verifier_us),
        ("requests in the gateway", one.gateway_us),
        ("inserts into ClickHouse", one.insert_us),
        ("merges in ClickHouse", one.merge_us * replicas),
    ];
    cpu.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sum: f64 = cpu.iter().map(|(_, us)| us).sum();
    let mut drivers: Vec<_> = cpu
        .iter()
        .take(3)
        .map(|(what, us)| format!("{:.0} % of the CPU: {what}, {us:.1} us a receipt", 100.0 * us / sum))
        .collect();
    let (log, house) = (plan.log.disk_gb, plan.clickhouse.disk_gb);
    let all = log + house;
    drivers.push(format!("{:.0} % of the disk: the log", 100.0 * log / all));
    drivers.push(format!("{:.0} % of the disk: ClickHouse", 100.0 * house / all));
    drivers
}
