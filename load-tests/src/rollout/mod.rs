//! A `helm upgrade` replayed: two replicas of each service on real engines, each replaced in turn
//! as a Deployment does it (a new one first, then an old one's preStop and SIGTERM), under load,
//! with the probes and timings of the rendered chart.
//!
//! - [`timings`]: what the chart says
//! - [`endpoints`]: what a Kubernetes Service does: connections to ready pods
//! - [`pod`]: a replica with its probes
//! - [`readers`]: clients of the APIs meanwhile
//! - [`scraped`]: a Prometheus that asks every replica for its metrics

pub mod endpoints;
pub mod pod;
pub mod readers;
pub mod scraped;
pub mod timings;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;

use crate::fleet::replica::Replica;
use crate::fleet::{Fleet, Shape};
use crate::report::Report;
use crate::run::Run;
use endpoints::Endpoints;
use pod::Pod;
use readers::{Reader, Readings};
use scraped::Scraped;
use timings::Timings;

/// Replicas of each service.
const REPLICAS: usize = 2;
/// The publisher whose receipts the load sends.
const DOMAIN: &str = "rollout.example";
/// An ordinary client's.
const TRIES_MAX: &str = "5";
/// Load before and after the roll.
const STEADY: Duration = Duration::from_secs(2);

/// A service and its replicas.
struct Deployment {
    name: &'static str,
    timings: timings::Service,
    endpoints: Option<Endpoints>,
    pods: Vec<Pod>,
    made: Vec<Replica>,
}

/// Result of a replayed upgrade.
#[derive(Debug)]
pub struct Outcome {
    /// The load's.
    pub report: Report,
    /// Readings of each API.
    pub readings: Vec<Readings>,
    /// The longest that a pod took from SIGTERM to its end, by service.
    pub drains: Vec<(&'static str, Duration)>,
    /// The whole roll.
    pub took: Duration,
    /// Different metrics that Prometheus found, if there was one.
    pub metrics: Option<usize>,
}

/// Starts everything from the folder `programs`, rolls it, and checks every number. With `rules`
/// (files of rules, as a pattern) a Prometheus scrapes all of it.
///
/// # Errors
/// A metric or a rule isn't what it should be; a pod didn't become ready, lost readiness or
/// liveness while it should have them, or outlived its grace; a request failed in spite of its
/// retries; a number is wrong.
pub async fn run(programs: &Path, timings: &Timings, rate: u32, rules: Option<&Path>) -> Result<Outcome> {
    let shape = Shape {
        gateways: REPLICAS,
        verifiers: REPLICAS,
        writers: REPLICAS,
        ..Shape::for_drills(programs)
    };
    let mut fleet = Fleet::start(&shape).await?;
    let rolled = roll_under_load(&mut fleet, timings, rate, rules).await;
    if rolled.is_err() {
        for (name, tail) in fleet.logs() {
            anstream::eprintln!("--- the end of {name}'s log\n{tail}");
        }
    }
    rolled
}

async fn roll_under_load(fleet: &mut Fleet, timings: &Timings, rate: u32, rules: Option<&Path>) -> Result<Outcome> {
    let mut deployments = Vec::new();
    for name in ["gateway", "verifier", "writer", "analytics-api", "publisher-api"] {
        deployments.push(deploy(fleet, timings, name).await?);
    }
    let scraped = match rules {
        Some(rules) => Some(Scraped::start(deployments.iter().flat_map(Deployment::targets).collect(), rules).await?),
        None => None,
    };
    let address = |name: &str| {
        let found = deployments.iter().find(|deployment| deployment.name == name);
        let endpoints = found.and_then(|deployment| deployment.endpoints.as_ref());
        endpoints
            .map(Endpoints::address)
            .context("a service without an address")
    };
    let mut installation = fleet.installation();
    installation.gateways = vec![address("gateway")?];
    installation.analytics = address("analytics-api")?;
    let publisher = address("publisher-api")?;
    let key = installation.create_key(DOMAIN).await?;
    let rate = rate.to_string();
    let more = [
        "--rate",
        &rate,
        "--duration",
        "3600",
        "--batch",
        "5",
        "--tries-max",
        TRIES_MAX,
    ];
    let ledger = fleet.ledger().await?;
    let load = Run::start(installation.load(&key, DOMAIN, &more)).await?;
    let asked = [
        format!("{}/healthz", installation.gateways[0]),
        format!("{}/api/v1/analytics/dashboard", installation.analytics),
        format!("{publisher}/api/v1/publisher/entries?limit=1"),
    ];
    let readers: Vec<Reader> = asked.into_iter().map(|url| Reader::start(url, &key)).collect();
    tokio::time::sleep(STEADY).await;
    ensure!(load.acknowledged() > 0, "nothing was acknowledged in {STEADY:?}");

    let began = Instant::now();
    // All at once, as an upgrade of the chart does it.
    let drains = try_join_all(deployments.iter_mut().map(Deployment::roll)).await?;
    let took = began.elapsed();
    tokio::time::sleep(STEADY).await;
    let metrics = match &scraped {
        Some(scraped) => Some(scraped.check().await.context("Prometheus")?),
        None => None,
    };

    let readings = try_join_all(readers.into_iter().map(Reader::finish)).await?;
    load.stop();
    let report = load.finish().await?;
    let faults = report.faults();
    ensure!(report.passed(), "{}", faults.join("\n"));
    ensure!(
        report.given_up == 0,
        "{} requests failed in {TRIES_MAX} tries each",
        report.given_up
    );
    for reading in &readings {
        ensure!(reading.failed == 0, "{reading:?}");
        ensure!(reading.answered > 0, "nobody read: {reading:?}");
    }
    for deployment in &deployments {
        deployment.pods.iter().try_for_each(Pod::stayed_well)?;
    }
    let after = fleet.ledger().await?;
    after.check()?;
    ensure!(
        after.since(&ledger).verifiers() >= 2 * REPLICAS,
        "not every verifier, old and new, has verdicts in the ledger"
    );
    Ok(Outcome {
        report,
        readings,
        drains,
        took,
        metrics,
    })
}

/// A service's replicas, ready, and as many prepared that will take their places.
async fn deploy(fleet: &mut Fleet, timings: &Timings, name: &'static str) -> Result<Deployment> {
    let running = match name {
        "gateway" => std::mem::take(&mut fleet.gateways),
        "verifier" => std::mem::take(&mut fleet.verifiers),
        "writer" => std::mem::take(&mut fleet.writers),
        _ => Vec::new(),
    };
    let mut deployment = Deployment {
        name,
        timings: timings.of(name)?,
        endpoints: None,
        pods: Vec::new(),
        made: Vec::new(),
    };
    if !matches!(name, "verifier" | "writer") {
        deployment.endpoints = Some(Endpoints::start().await?);
    }
    for _ in running.len()..2 * REPLICAS {
        deployment.made.push(fleet.prepare(name)?);
    }
    for replica in running {
        deployment.adopt(replica);
    }
    while deployment.pods.len() < REPLICAS {
        deployment.start_one()?;
    }
    for pod in &deployment.pods {
        pod.ready().await?;
    }
    Ok(deployment)
}

impl Deployment {
    /// Metrics addresses of each replica, also of those that aren't started yet.
    fn targets(&self) -> impl Iterator<Item = (&'static str, String)> {
        let running = self.pods.iter().map(Pod::admin);
        let made = self.made.iter().map(|replica| &*replica.admin);
        running.chain(made).map(|admin| (self.name, admin.to_owned()))
    }

    fn adopt(&mut self, replica: Replica) {
        let pod = Pod::watch(replica, &self.timings, self.endpoints.as_ref());
        self.pods.push(pod);
    }

    fn start_one(&mut self) -> Result<()> {
        let mut replica = self.made.pop().context("no further replica was prepared")?;
        replica.process.start()?;
        self.adopt(replica);
        Ok(())
    }

    /// maxSurge 1 and maxUnavailable 0: one more, and once it has been ready for long enough, one
    /// of the old less. The longest drain.
    async fn roll(&mut self) -> Result<(&'static str, Duration)> {
        let mut longest = Duration::ZERO;
        for _ in 0..REPLICAS {
            self.start_one()?;
            let new = self.pods.last().context("it was just started")?;
            new.ready().await?;
            tokio::time::sleep(self.timings.min_ready()).await;
            let old = self.pods.remove(0);
            longest = longest.max(old.terminate(&self.timings).await?);
        }
        Ok((self.name, longest))
    }
}
