//! The plan as a person reads it.

use super::load::{Engines, Load};
use super::model::{FILL, Log, Plan, Small};

/// Lines in Markdown, so that a page can hold them.
#[must_use]
pub fn lines(load: &Load, plan: &Plan) -> Vec<String> {
    let one = &plan.per_receipt;
    let mut out = vec![
        "| what | how much |".to_owned(),
        "|---|---|".to_owned(),
        row(
            "one receipt, CPU",
            format!(
                "gateway {:.1} us, signatures {:.1} us, verifier's rest {:.1} us, insert {:.1} us, merges {:.1} us a replica",
                one.gateway_us, one.judge_us, one.verifier_us, one.insert_us, one.merge_us
            ),
        ),
        row(
            "one receipt, bytes",
            format!(
                "log {:.0} a copy, ClickHouse {:.0}, {:.0} of usage and {:.0} of evidence a replica",
                one.log_bytes, one.clickhouse_bytes, one.usage_bytes, one.evidence_bytes
            ),
        ),
        row(
            "cores at work at peak",
            format!(
                "{} in all: gateway {}, verifier {}, ClickHouse {}",
                number(plan.cores.total),
                number(plan.cores.gateway),
                number(plan.cores.verifier),
                number(plan.cores.clickhouse)
            ),
        ),
    ];
    for pods in &plan.pods {
        let size = format!(
            "{} x {} cores, {} MB",
            grouped(pods.pods),
            number(pods.cores),
            number(pods.memory_mb)
        );
        out.push(row(pods.service, size));
    }
    let (log, house) = (&plan.log, &plan.clickhouse);
    let servers = load.engines == Engines::Servers;
    if servers {
        out.push(row(
            "Kafka",
            format!(
                "{} brokers, {} partitions; in {}/s, out {}/s; disk {}",
                grouped(log.brokers),
                grouped(log.partitions),
                bytes(log.in_mb_per_s * 1e6),
                bytes(log.out_mb_per_s * 1e6),
                bytes(log.disk_gb * 1e9)
            ),
        ));
        out.push(row(
            "ClickHouse",
            format!(
                "{} servers ({} shards); {} inserts/s of {} rows, {}/s; {} rows, disk {}",
                grouped(house.servers),
                grouped(house.shards),
                number(house.inserts_per_s),
                number(house.rows_per_insert),
                bytes(house.in_mb_per_s * 1e6),
                count(house.rows),
                bytes(house.disk_gb * 1e9)
            ),
        ));
        out.push(row("PostgreSQL", small(&plan.postgresql)));
        out.push(row("Redis", small(&plan.redis)));
    } else {
        out.push(row("log on disk", embedded_log(load, log)));
        out.push(row(
            "warehouse on disk",
            format!("{} rows, {}", count(house.rows), bytes(house.disk_gb * 1e9)),
        ));
    }
    out.push(row("what it costs most", plan.cost_drivers.join("; ")));
    out
}

fn row(what: &str, how_much: impl AsRef<str>) -> String {
    format!("| {what} | {} |", how_much.as_ref())
}

/// The embedded log ends at so many bytes, whatever days were requested.
fn embedded_log(load: &Load, log: &Log) -> String {
    let disk = bytes(log.disk_gb * 1e9);
    let Some(needed) = log.retention_bytes_max_needed else {
        return disk;
    };
    #[allow(clippy::cast_precision_loss)] // Shown with two digits.
    let wanted = bytes(needed as f64 / FILL);
    format!(
        "{disk}: `log.retention_bytes_max` is 64 GiB unless set, and holds {} days; {} days need {needed}, and {wanted} of disk",
        number(log.days),
        load.log_days
    )
}

fn small(server: &Small) -> String {
    let disk = if server.disk_gb > 0.0 {
        format!(", disk {}", bytes(server.disk_gb * 1e9))
    } else {
        String::new()
    };
    format!("{} cores, {} MB{disk}", number(server.cores), number(server.memory_mb))
}

/// Whole from 10 on, with a digit below.
fn number(value: f64) -> String {
    if value >= 9.95 {
        grouped_f(value)
    } else {
        format!("{value:.1}")
    }
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Shown, not reckoned with.
fn grouped_f(value: f64) -> String {
    grouped(value.round() as u64)
}

fn count(value: f64) -> String {
    scaled(value, &["", " thousand", " million", " billion", " trillion"])
}

fn bytes(value: f64) -> String {
    scaled(value, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"])
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 1_000.0 && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    format!("{}{}", number(value), units[unit])
}
