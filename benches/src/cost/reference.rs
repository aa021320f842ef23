//! References beside a cell: microseconds of CPU time for a signature alone, and for a receipt at a
//! server that does less.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use receipt::Algorithm;

use crate::process::{Server, find_in_path};
use crate::reference::{Library, SignatureAlone};
use crate::rounds::{median, units_per_cpu_second};
use crate::traffic::Requests;
use crate::workload;

const ROUNDS: usize = 3;
const ROUND_TIME: Duration = Duration::from_millis(100);
const SIGNATURES: usize = 64;
const CONNECTIONS: usize = 16;
/// Single receipts of a round: about half a second of the server's CPU time.
const BARE_HYPER_SINGLES: usize = 60_000;
const BARE_GO_SINGLES: usize = 15_000;

/// Microseconds for a signature alone, the mean of the clients: `verify_strict` for Ed25519,
/// aws-lc-rs for RSA and ECDSA.
///
/// # Errors
/// A key can't be made.
pub fn verify_us(clients: &[(Algorithm, usize)]) -> Result<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for (algorithm, weight) in clients {
        let singles = workload::singles(*algorithm, SIGNATURES)?;
        let signatures = singles.iter().map(|one| SignatureAlone::of(&one.body, Library::Usual));
        let signatures = signatures.collect::<Result<Vec<_>>>()?;
        let verified = || signatures.iter().map(|signature| u64::from(signature.verify())).sum();
        let rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| 1e6 / units_per_cpu_second(ROUND_TIME, verified))
            .collect();
        sum += median(&rounds).context("no round")? * *weight as f64;
        count += *weight as f64;
    }
    Ok(sum / count)
}

/// Microseconds of CPU time for a receipt at a bare hyper server, which reads the body and answers
/// 202.
///
/// # Errors
/// The server doesn't start, or refuses a request.
pub async fn bare_hyper_us(requests: &Requests, batch: usize) -> Result<f64> {
    server_us(&Server::start(&["bare"])?, requests, batch, BARE_HYPER_SINGLES).await
}

/// Microseconds of CPU time for a receipt at the bare Go server, which checks that the body is JSON
/// and appends it to Kafka.
///
/// # Errors
/// The server doesn't start, or refuses a request.
pub async fn bare_go_us(program: &Path, brokers: &str, requests: &Requests, batch: usize) -> Result<f64> {
    server_us(&start_bare_go(program, brokers)?, requests, batch, BARE_GO_SINGLES).await
}

/// Starts the bare Go server.
///
/// # Errors
/// The server doesn't start.
pub fn start_bare_go(program: &Path, brokers: &str) -> Result<Server> {
    Server::start_program(program, &["-brokers", brokers])
}

async fn server_us(server: &Server, requests: &Requests, batch: usize, singles: usize) -> Result<f64> {
    // A round of large bodies costs more for each request and less for each receipt.
    let total = (singles / batch.isqrt()) as u64;
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let before = server.cpu_seconds()?;
        let answers = requests.send(server.address, CONNECTIONS, total, None).await?;
        ensure!(
            answers.others.is_empty(),
            "the reference answered {:?}, not 202",
            answers.others
        );
        // The first one warms up.
        if round > 0 {
            rounds.push((server.cpu_seconds()? - before) * 1e6 / (total as f64 * batch as f64));
        }
    }
    median(&rounds).context("no round")
}

/// Builds the bare Go server. `None` where Go isn't installed.
///
/// # Errors
/// The program doesn't build.
pub fn build_bare_go(folder: &Path) -> Result<Option<PathBuf>> {
    let Some(go) = find_in_path("go") else {
        return Ok(None);
    };
    let program = folder.join("bare-go");
    let built = Command::new(go)
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/bare-go"))
        .output()?;
    ensure!(
        built.status.success(),
        "go build: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    Ok(Some(program))
}
