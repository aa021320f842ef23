//! The gateway on Kafka beside a bare Go server on the same broker: rate, CPU time, and latency at
//! half of the load. Client, servers and broker share the machine.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result};
use load_tests::fleet::Fleet;
use receipt::Algorithm;
use tokio::runtime::Runtime;

use super::Setting;
use crate::cost::installation::fleet_shape;
use crate::cost::{programs, reference};
use crate::process::{Server, cpu_seconds};
use crate::rounds::{Samples, median};
use crate::row::{Row, Target, number};
use crate::traffic::{BATCH_PATH, Requests, SINGLE_PATH};
use crate::workload;

const BARE_GO: &str = "bare Go: net/http and franz-go, checks that the body is JSON";
const ROUNDS_MAX: usize = 5;
const BATCH_RECEIPTS: usize = 1_000;

/// A load on both servers.
struct Load {
    requests: Requests,
    connections: usize,
    total: u64,
}

/// Both servers on one broker.
struct Servers {
    runtime: Runtime,
    // Before the broker that it is connected to.
    go: Server,
    address: SocketAddr,
    process: u32,
    _fleet: Fleet,
}

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let servers = Servers::start(setting)?;
    let effort = &setting.effort;
    let singles = Load {
        requests: Requests::new(SINGLE_PATH, &workload::singles(Algorithm::Ed25519, 4_096)?),
        connections: 64,
        total: effort.singles / 2,
    };
    let batches = Load {
        requests: Requests::new(BATCH_PATH, &workload::batches(Algorithm::Ed25519, 8, BATCH_RECEIPTS)?),
        connections: 16,
        total: effort.batches / 2,
    };
    let rounds = effort.rounds.min(ROUNDS_MAX);
    let (mut rows, mut reached) = (Vec::new(), None);
    for (name, what, load, rate, cpu) in [
        ("gateway-kafka-singles", "single receipts", &singles, 1.3, 0.8),
        ("gateway-kafka-batches", "batches of 1,000", &batches, 4.0, 0.8),
    ] {
        setting.progress.step(name, "in turn");
        let (rates, costs) = servers.rounds(load, rounds)?;
        reached = reached.or_else(|| rates.ours());
        let what = format!(
            "gateway on Kafka, durable acks, {} connections, {what}",
            load.connections
        );
        rows.push(
            Row::measured(name, &what, "requests/s", rates)
                .against(BARE_GO)
                .target(Target::RatioAtLeast(rate)),
        );
        rows.push(
            Row::measured(&format!("{name}-cpu"), what, "CPU us/request", costs)
                .against(BARE_GO)
                .target(Target::RatioAtMost(cpu)),
        );
    }
    let name = "gateway-kafka-latency";
    let half = (reached.context("no round")? / 2.0).round();
    setting.progress.step(name, "at half of the load");
    let latency = |address| {
        let sent = singles
            .requests
            .send(address, singles.connections, singles.total, Some(half));
        let latencies_ms: Vec<f64> = servers
            .runtime
            .block_on(sent)?
            .latencies_us
            .into_iter()
            .map(|us| us / 1e3)
            .collect();
        median(&latencies_ms).context("no answer")
    };
    let samples = Samples::take(rounds, || latency(servers.address), || latency(servers.go.address))?;
    let what = format!("the same at half of that rate, {} single receipts/s: p50", number(half));
    rows.push(
        Row::measured(name, what, "ms", samples)
            .against(BARE_GO)
            .target(Target::Below(1.0)),
    );
    Ok(rows)
}

impl Servers {
    fn start(setting: &Setting<'_>) -> Result<Self> {
        let go = reference::build_bare_go(setting.scratch.path())?.context("Go isn't installed")?;
        let programs = programs(setting.arguments.programs.as_deref())?;
        // An engine blocks one of its threads while it starts.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let mut fleet = runtime.block_on(Fleet::start(&fleet_shape(&programs)))?;
        // Bare Go's records have no stages behind it either.
        fleet.verifiers.clear();
        fleet.writers.clear();
        let gateway = fleet.gateways.first().context("no gateway")?;
        Ok(Self {
            go: reference::start_bare_go(&go, fleet.kafka.bootstrap())?,
            address: gateway.address.trim_start_matches("http://").parse()?,
            process: gateway.process.id().context("the gateway has no process")?,
            _fleet: fleet,
            runtime,
        })
    }

    /// Requests a second, and CPU microseconds for each.
    fn rounds(&self, load: &Load, rounds: usize) -> Result<(Samples, Samples)> {
        let round = |address, cpu: &dyn Fn() -> Result<f64>| {
            let (before, began) = (cpu()?, Instant::now());
            let sent = load.requests.send(address, load.connections, load.total, None);
            let accepted = self.runtime.block_on(sent)?.accepted as f64;
            let seconds = began.elapsed().as_secs_f64();
            Ok::<_, anyhow::Error>((accepted / seconds, (cpu()? - before) * 1e6 / accepted))
        };
        let (mut rates, mut costs) = (Samples::default(), Samples::default());
        for number in 0..=rounds {
            let ours = round(self.address, &|| cpu_seconds(self.process))?;
            let bare = round(self.go.address, &|| self.go.cpu_seconds())?;
            if number > 0 {
                rates.ours.push(ours.0);
                rates.reference.push(bare.0);
                costs.ours.push(ours.1);
                costs.reference.push(bare.1);
            }
        }
        Ok((rates, costs))
    }
}
