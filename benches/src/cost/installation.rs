//! The service under test: `receipts up`, or one process for each stage.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use load_tests::fleet::replica::Replica;
use load_tests::fleet::{Fleet, Shape as FleetShape};
use load_tests::http::client;
use load_tests::stack::Stack;

use super::cell::Shape;
use crate::process::find_in_path;

/// All requests come from one address, whose limits are out of reach.
pub const SETTINGS: [(&str, &str); 4] = [
    ("RECEIPTS_TELEMETRY_LOG_LEVEL", "warn"),
    ("RECEIPTS_GATEWAY_RATE_ADDRESS_VERIFICATIONS_PER_S", "0"),
    ("RECEIPTS_GATEWAY_RATE_ADDRESS_BYTES_PER_S", "0"),
    ("RECEIPTS_GATEWAY_RATE_KEY_RECEIPTS_PER_S", "0"),
];
/// For the topic of the reference, which Kafka creates: its limit is below a batch of 1,000.
const KAFKA: [(&str, &str); 3] = [
    ("auto.create.topics.enable", "true"),
    ("num.partitions", "6"),
    ("message.max.bytes", "16777216"),
];
/// Figures of `receipts up` are for two cores: on larger machines it is pinned to the first two.
const CORES: &str = "0,1";
const STORED_WAIT_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A running service. Its data is removed with it.
pub struct Installation {
    kind: Kind,
    /// The gateway's address.
    pub gateway: SocketAddr,
    /// The writer's address of `/metrics`.
    metrics: String,
    /// ClickHouse's protocol.
    pub socket: PathBuf,
    /// Processes with the names of their stages.
    pub processes: BTreeMap<u32, String>,
}

enum Kind {
    #[expect(dead_code, reason = "the process ends when this is dropped")]
    Up(Box<Stack>),
    Stages(Box<(Replica, Fleet)>),
}

impl Installation {
    /// Starts it and waits until it is ready. `data` is the folder of `receipts up`.
    ///
    /// # Errors
    /// A program is missing, or a process doesn't start.
    pub async fn start(shape: Shape, programs: &Path, data: &Path) -> Result<Self> {
        for program in ["receipts", "receipts-load"] {
            let path = programs.join(program);
            ensure!(path.is_file(), "{} isn't built: cargo build --release", path.display());
        }
        match shape {
            Shape::Up => Self::up(programs, data).await,
            Shape::Stages => Self::stages(programs).await,
        }
    }

    async fn up(programs: &Path, data: &Path) -> Result<Self> {
        let mut stack = Box::new(Stack::new(&programs.join("receipts"), data, &SETTINGS)?);
        stack.start()?;
        stack.ready().await?;
        let process = stack.process_id().context("the service has no process")?;
        keep_on_two_cores(process)?;
        Ok(Self {
            gateway: address(&stack.gateway())?,
            metrics: stack.metrics(),
            socket: data.join("warehouse.sock"),
            processes: [(process, "receipts up".to_owned())].into(),
            kind: Kind::Up(stack),
        })
    }

    async fn stages(programs: &Path) -> Result<Self> {
        let mut fleet = Fleet::start(&fleet_shape(programs)).await?;
        let mut publisher = fleet.prepare("publisher-api")?;
        publisher.process.start()?;
        publisher.process.ready(&fleet.http()).await?;
        let mut processes = BTreeMap::new();
        for service in fleet.services().chain([&mut publisher]) {
            let name = service.process.name().trim_end_matches(|c: char| c.is_ascii_digit());
            let process = service.process.id().context("a service has no process")?;
            processes.insert(process, name.trim_end_matches('-').to_owned());
        }
        let clickhouse = fleet.endpoint.id().context("the endpoint has no process")?;
        processes.insert(clickhouse, "clickhouse".to_owned());
        let (gateway, writer) = (fleet.gateways.first(), fleet.writers.first());
        Ok(Self {
            gateway: address(&gateway.context("no gateway")?.address)?,
            metrics: writer.context("no writer")?.admin.clone(),
            socket: fleet.folder().join("endpoint/clickhouse.sock"),
            processes,
            kind: Kind::Stages(Box::new((publisher, fleet))),
        })
    }

    /// The Kafka broker's address, where there is one.
    #[must_use]
    pub fn brokers(&self) -> Option<&str> {
        match &self.kind {
            Kind::Up(_) => None,
            Kind::Stages(parts) => Some(parts.1.kafka.bootstrap()),
        }
    }

    /// Receipts with an outcome that are stored, by the writer's counter.
    ///
    /// # Errors
    /// The writer doesn't answer.
    pub async fn stored(&self) -> Result<f64> {
        let (_, text) = load_tests::http::get(&client(1), &format!("{}/metrics", self.metrics)).await?;
        let text = String::from_utf8_lossy(&text);
        let counts = text
            .lines()
            .filter(|line| line.starts_with("receipts_writer_receipts_total"));
        let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(counts.sum())
    }

    /// Waits until so many receipts are stored; `each` runs at every look.
    ///
    /// # Errors
    /// The wait took too long, or `each` failed.
    pub async fn wait_for(&self, receipts: f64, mut each: impl FnMut() -> Result<()>) -> Result<()> {
        let began = Instant::now();
        loop {
            let stored = self.stored().await?;
            each()?;
            if stored >= receipts {
                return Ok(());
            }
            ensure!(
                began.elapsed() < STORED_WAIT_MAX,
                "{stored} of {receipts} receipts are stored after {STORED_WAIT_MAX:?}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// A fleet of one process for each stage, on a broker that the bare Go server can use, too.
#[must_use]
pub fn fleet_shape(programs: &Path) -> FleetShape {
    FleetShape {
        gateways: 1,
        verifiers: 1,
        writers: 1,
        // The service's default: the drills' is short so that a lost verifier is missed soon.
        session_wait_ms_max: 10_000,
        direct: true,
        kafka: pairs(&KAFKA),
        environment: pairs(&SETTINGS),
        ..FleetShape::for_drills(programs)
    }
}

fn pairs(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = settings
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    pairs.collect()
}

fn address(url: &str) -> Result<SocketAddr> {
    url.trim_start_matches("http://").parse().context("an address")
}

/// Moves the threads of `receipts up`, which starts on all cores, to two.
///
/// # Errors
/// `taskset` isn't installed, or fails.
pub fn keep_on_two_cores(process: u32) -> Result<()> {
    if std::thread::available_parallelism()?.get() <= 2 {
        return Ok(());
    }
    let taskset = find_in_path("taskset").context("taskset isn't installed")?;
    let moved = std::process::Command::new(taskset)
        .args(["--all-tasks", "--cpu-list", "--pid", CORES, &process.to_string()])
        .stdout(std::process::Stdio::null())
        .status()?;
    ensure!(moved.success(), "taskset can't keep the service on two cores");
    Ok(())
}
