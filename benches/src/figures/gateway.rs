//! Cost of the gateway: its process's CPU time for each request, beside a bare server's, and its
//! memory.

use anyhow::{Context, Result};
use receipt::Algorithm;
use tokio::runtime::Runtime;

use super::Setting;
use crate::process::Server;
use crate::rounds::{Samples, median};
use crate::row::{Row, Target, number};
use crate::traffic::{Answers, BATCH_PATH, Requests, SINGLE_PATH};
use crate::workload;

const CONNECTIONS: usize = 64;
const BATCH_RECEIPTS: usize = 1_000;
/// A pace that both servers keep up with on one core: about half of what the gateway can do there.
const PACE_PER_S: f64 = 5_000.0;
/// Requests of a round at that pace: two seconds.
const PACED: u64 = 10_000;

/// The bench's own side: one thread, so that it leaves the other cores to the server.
fn client_runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn start_gateway(setting: &Setting<'_>, name: &str) -> Result<Server> {
    let folder = setting.scratch.folder(name)?;
    Server::start(&[
        "gateway",
        "--log",
        folder.to_str().context("a folder's name isn't UTF-8")?,
    ])
}

/// Cost of a round, and its answers.
struct Cost {
    cpu_seconds: f64,
    answers: Answers,
}

impl Cost {
    fn of(runtime: &Runtime, server: &Server, requests: &Requests, total: u64, pace: Option<f64>) -> Result<Self> {
        let before = server.cpu_seconds()?;
        let answers = runtime.block_on(requests.send(server.address, CONNECTIONS, total, pace))?;
        Ok(Self {
            cpu_seconds: server.cpu_seconds()? - before,
            answers,
        })
    }
}

/// Both servers in turn.
struct Rounds {
    gateway: Vec<Cost>,
    bare: Vec<Cost>,
    core: Option<usize>,
}

impl Rounds {
    fn take(setting: &Setting<'_>, name: &str, requests: &Requests, total: u64, pace: Option<f64>) -> Result<Self> {
        let runtime = client_runtime()?;
        let (gateway, bare) = (start_gateway(setting, name)?, Server::start(&["bare"])?);
        let mut rounds = Self {
            gateway: Vec::new(),
            bare: Vec::new(),
            core: gateway.core,
        };
        for round in 0..=setting.effort.rounds {
            setting
                .progress
                .step(name, &format!("round {round} of {}", setting.effort.rounds));
            let pair = (
                Cost::of(&runtime, &gateway, requests, total, pace)?,
                Cost::of(&runtime, &bare, requests, total, pace)?,
            );
            if round > 0 {
                rounds.gateway.push(pair.0);
                rounds.bare.push(pair.1);
            }
        }
        Ok(rounds)
    }

    fn samples(&self, figure: impl Fn(&Cost) -> f64) -> Samples {
        Samples {
            ours: self.gateway.iter().map(&figure).collect(),
            reference: self.bare.iter().map(&figure).collect(),
        }
    }

    fn with_notes(&self, row: Row, receipts: f64) -> Row {
        let rate = |costs: &[Cost]| {
            let rates: Vec<f64> = costs
                .iter()
                .map(|cost| cost.answers.accepted as f64 * receipts / cost.answers.elapsed.as_secs_f64())
                .collect();
            median(&rates).map_or_else(|| "-".to_owned(), number)
        };
        let location = match self.core {
            Some(core) => format!("servers pinned to core {core}, the client on the others"),
            None => "servers and client share the cores".to_owned(),
        };
        let speed = format!(
            "{} receipts/s accepted, bare {} (with the client's share of the machine); {location}",
            rate(&self.gateway),
            rate(&self.bare)
        );
        let others: u64 = self.gateway.iter().flat_map(|cost| cost.answers.others.values()).sum();
        let row = row.note(speed);
        if others > 0 {
            row.note(format!("{others} requests of all rounds were answered other than 202"))
        } else {
            row
        }
    }
}

/// CPU microseconds for each answer.
fn cost_us(cost: &Cost) -> f64 {
    let answered = cost.answers.accepted + cost.answers.others.values().sum::<u64>();
    cost.cpu_seconds * 1e6 / answered as f64
}

pub(super) fn singles(setting: &Setting<'_>) -> Result<Vec<Row>> {
    const BARE: &str = "a bare hyper server that reads the body and answers 202";
    let signed = workload::singles(Algorithm::Ed25519, 4_096)?;
    let requests = Requests::new(SINGLE_PATH, &signed);
    let total = setting.effort.singles;

    let rounds = Rounds::take(setting, "gateway-singles", &requests, total, None)?;
    let what = format!("gateway, durable acks, {CONNECTIONS} connections, single receipts");
    let row = Row::measured("gateway-singles", what, "CPU us/request", rounds.samples(cost_us))
        .against(BARE)
        // The gateway verifies a signature for it. Five times are about 0.8 of bare Go's on Kafka.
        .target(Target::RatioAtMost(5.0));
    let closed = rounds.with_notes(row, 1.0);

    let paced = total.min(PACED);
    let rounds = Rounds::take(setting, "gateway-singles-paced", &requests, paced, Some(PACE_PER_S))?;
    let what = format!("the same at one pace for both, {} requests/s", number(PACE_PER_S));
    let row = Row::measured("gateway-singles-paced", what, "CPU us/request", rounds.samples(cost_us)).against(BARE);
    Ok(vec![closed, rounds.with_notes(row, 1.0)])
}

pub(super) fn batches(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let signed = workload::batches(Algorithm::Ed25519, 8, BATCH_RECEIPTS)?;
    let rounds = Rounds::take(
        setting,
        "gateway-batches",
        &Requests::new(BATCH_PATH, &signed),
        setting.effort.batches,
        None,
    )?;
    let receipts = BATCH_RECEIPTS as f64;
    let samples = rounds.samples(|cost| cost.answers.accepted as f64 * receipts / cost.cpu_seconds);
    let what = format!("gateway, durable acks, {CONNECTIONS} connections, batches of {BATCH_RECEIPTS}");
    let row = Row::measured("gateway-batches", what, "receipts/s per core of CPU", samples)
        .against("a bare hyper server that reads the body and answers 202")
        .target(Target::AtLeast(400_000.0));
    Ok(vec![rounds.with_notes(row, receipts)])
}

pub(super) fn memory(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let runtime = client_runtime()?;
    let signed = workload::batches(Algorithm::Ed25519, 8, BATCH_RECEIPTS)?;
    let bytes = signed.first().map_or(0, |signed| signed.body.len());
    let requests = Requests::new(BATCH_PATH, &signed);
    let server = start_gateway(setting, "gateway-memory")?;
    let total = setting.effort.batches * 5;
    let cost = Cost::of(&runtime, &server, &requests, total, None)?;
    let what = format!(
        "gateway alone, {CONNECTIONS} connections of batches of {} bytes: peak memory",
        number(bytes as f64)
    );
    let peak = server.memory_peak_bytes()? as f64 / 1e6;
    let note = format!(
        "{} of {total} batches accepted, other answers: {:?}",
        cost.answers.accepted, cost.answers.others
    );
    Ok(vec![
        Row::alone("gateway-memory", what, "MB", peak)
            .target(Target::Below(100.0))
            .note(note),
    ])
}
