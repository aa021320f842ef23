//! CPU time by group of functions, as `perf` samples it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::{Child, Command};

use crate::process::find_in_path;

/// Samples a second of each thread: no divisor of a timer's frequency.
const SAMPLES_PER_S: &str = "397";
/// Until `perf` has found every thread.
const BEGIN: Duration = Duration::from_millis(500);

/// Groups, and words of `program;symbol` that belong to them. The first group that matches counts.
const GROUPS: [(&str, &str); 13] = [
    ("ClickHouse", "libchdb"),
    (
        "kernel: switching",
        "finish_task_switch schedule futex try_to_wake raw_spin irqentry sched_ sched_yield ep_poll pick_",
    ),
    (
        "kernel: memory",
        "clear_page clear_huge copy_page folio lru_ mem_cgroup get_page free_ zap_ do_anonymous handle_mm alloc_pages",
    ),
    ("kernel: rest", ""),
    (
        "signature",
        "25519 FieldElement Edwards Scalar52 FixedBase fixed_base p256 ecdsa rsa_ rsaz RSA bn_ bignum mont_ montg",
    ),
    ("hash", "sha256 sha512 sha2 Sha256 Sha512"),
    ("allocation", "_mi_ mi_malloc mi_free mi_heap mi_page malloc cfree"),
    ("copy, compare", "memmove memcpy memset memcmp bcmp"),
    ("compression", "ZSTD HUF_ FSE_ LZ4 lz4 XXH snappy crc32"),
    (
        "parse, canonical form",
        "receipt:: simdutf8 serde_json from_utf8 uuid:: base64 memchr",
    ),
    ("columns", "arrow_ blocks:: flatbuffers"),
    ("Kafka's client", "rd_kafka rd_buf rd_slice rdkafka"),
    (
        "HTTP, runtime",
        "hyper tokio rayon crossbeam futures http:: httparse mio::",
    ),
];
const REST: &str = "rest";

/// Starts to sample processes. `None` where `perf` isn't installed.
///
/// # Errors
/// `perf` doesn't start.
pub async fn record(processes: &[u32], file: &Path) -> Result<Option<Child>> {
    let Some(perf) = find_in_path("perf") else {
        return Ok(None);
    };
    let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
    let child = Command::new(perf)
        // Not the processor's counter, which virtual machines often hide.
        .args(["record", "--event", "cpu-clock", "--freq", SAMPLES_PER_S, "--output"])
        .arg(file)
        .args(["--pid", &processes.join(",")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    tokio::time::sleep(BEGIN).await;
    Ok(Some(child))
}

/// Stops sampling; the share of each group in the samples, 0 to 1.
///
/// # Errors
/// `perf` recorded nothing, for example because the kernel forbids it.
pub async fn report(mut recording: Child, file: &Path) -> Result<BTreeMap<String, f64>> {
    // Ends as at Ctrl-C, and writes what it has.
    let process = recording.id().context("perf record has ended")?.to_string();
    Command::new("kill").args(["-INT", &process]).status().await?;
    recording.wait().await?;
    let output = Command::new("perf")
        .args([
            "report",
            "--stdio",
            "--no-inline",
            "--fields",
            "overhead,dso,symbol",
            "--field-separator",
            ";",
        ])
        .arg("--input")
        .arg(file)
        .output()
        .await?;
    ensure!(output.status.success(), "perf report: {}", output.status);
    let shares = shares(&String::from_utf8_lossy(&output.stdout));
    ensure!(
        !shares.is_empty(),
        "perf took no samples; is kernel.perf_event_paranoid above 2?"
    );
    Ok(shares)
}

fn shares(report: &str) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for line in report.lines().filter(|line| !line.starts_with('#')) {
        let share = || {
            let (percent, symbol) = line.split_once(';')?;
            Some((percent.trim().trim_end_matches('%').parse::<f64>().ok()?, symbol))
        };
        if let Some((percent, symbol)) = share() {
            *shares.entry(group(symbol).to_owned()).or_default() += percent / 100.0;
        }
    }
    shares
}

fn group(symbol: &str) -> &'static str {
    let is_kernel = symbol.contains("[k] ");
    let matches = |(name, words): &&(&str, &str)| {
        if name.starts_with("kernel") {
            is_kernel && (words.is_empty() || words.split(' ').any(|word| symbol.contains(word)))
        } else {
            words.split(' ').any(|word| symbol.contains(word))
        }
    };
    GROUPS.iter().find(matches).map_or(REST, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_groups() {
        let report = "# Samples: 12\n\
            40.00%;receipts        ;[.] curve25519_dalek::field::FieldElement51::mul\n\
            10.00%;[kernel.kallsyms];[k] finish_task_switch.isra.0\n\
            20.00%;libchdb.so      ;[.] 0x000000000a1b2c3d\n\
             5.00%;receipts        ;[.] receipt::scan::Scanner::string\n\
            12.50%;receipts        ;[.] aws_lc_sha256_block_data_order\n\
            12.50%;receipts        ;[.] main\n";
        let expected = [
            ("ClickHouse", 0.2),
            ("hash", 0.125),
            ("kernel: switching", 0.1),
            ("parse, canonical form", 0.05),
            ("rest", 0.125),
            ("signature", 0.4),
        ];
        assert_eq!(
            shares(report),
            expected.map(|(name, share)| (name.to_owned(), share)).into()
        );
    }
}
