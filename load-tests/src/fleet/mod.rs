//! An installation of separate processes on real engines: Kafka, Redis, PostgreSQL, ClickHouse's
//! protocol over libchdb, gateways, verifiers, writers and an analytics API, each started, stopped,
//! killed and frozen at will. All of it ends with this process.
//!
//! - [`replica`]: one service's process
//! - [`ledger`]: the ledger's lines, and whose verdicts they are

pub mod ledger;
pub mod replica;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use receipt::{Algorithm, SigningKey};
use test_engines::fault_proxy::FaultProxy;
use test_engines::{Folder, Kafka, Postgres, Redis};

use crate::http::{HttpClient, client};
use crate::installation::Installation;
use crate::process::Process;

use replica::Replica;

/// The database of the accounts.
const DATABASE: &str = "receipts";
/// Numbers of replicas that are prepared for others begin here.
const PREPARED_FROM: usize = 100;
const ENDPOINT_USER: &str = "receipts";
const ENDPOINT_PASSWORD: &str = "a-password-for-drills";

/// Settings that make events come soon: the end of a quiet log, and the end of a killed verifier's
/// transaction.
const FOR_DRILLS: [(&str, &str); 2] = [
    ("RECEIPTS_VERIFIER_IDLE_INTERVAL_MS", "500"),
    ("RECEIPTS_KAFKA_TRANSACTION_WAIT_MS_MAX", "3000"),
];

/// Composition of a fleet.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The folder with `receipts` and `receipts-load`.
    pub programs: PathBuf,
    /// Gateways.
    pub gateways: usize,
    /// Verifiers.
    pub verifiers: usize,
    /// Writers: one of them owns the only shard, the others stand by.
    pub writers: usize,
    /// The topic's partitions.
    pub partitions: u32,
    /// A verifier or writer that isn't heard of for so long loses its partitions.
    pub session_wait_ms_max: u64,
    /// Whether the services reach the endpoint past the proxy, at its full speed.
    pub direct: bool,
    /// Further lines of Kafka's configuration.
    pub kafka: Vec<(String, String)>,
    /// Further variables for every service.
    pub environment: Vec<(String, String)>,
}

impl Shape {
    /// The drills' shape: two gateways, three verifiers, two writers.
    #[must_use]
    pub fn for_drills(programs: &Path) -> Self {
        Self {
            programs: programs.to_owned(),
            gateways: 2,
            verifiers: 3,
            writers: 2,
            partitions: 6,
            session_wait_ms_max: 4_000,
            direct: false,
            kafka: Vec::new(),
            environment: FOR_DRILLS
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
        }
    }
}

/// The writer that inserts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActiveWriter {
    /// Index in [`Fleet::writers`].
    pub index: usize,
    /// Epoch of the writer.
    pub epoch: f64,
}

/// A running installation. Fields drop in this order: services before their engines, the folder
/// last.
pub struct Fleet {
    /// Gateways.
    pub gateways: Vec<Replica>,
    /// Verifiers without those that were killed permanently.
    pub verifiers: Vec<Replica>,
    /// Writers.
    pub writers: Vec<Replica>,
    /// The analytics API.
    pub analytics: Replica,
    /// ClickHouse's protocol over libchdb.
    pub endpoint: Process,
    /// Proxy between the services and the endpoint.
    pub warehouse: FaultProxy,
    /// The broker.
    pub kafka: Kafka,
    /// The rate limits' counts.
    pub redis: Redis,
    /// The accounts.
    pub postgres: Postgres,
    http: HttpClient,
    endpoint_address: SocketAddr,
    environment: Vec<(String, String)>,
    programs: PathBuf,
    verifiers_made: usize,
    prepared: usize,
    folder: Folder,
}

impl Fleet {
    /// Starts everything and waits until it is ready.
    ///
    /// # Errors
    /// A program is missing, or an engine or service doesn't start; the text holds the end of its
    /// log.
    pub async fn start(shape: &Shape) -> Result<Self> {
        let folder = Folder::new("fleet")?;
        let programs = shape.programs.clone();
        let (kafka, redis, postgres) = tokio::task::block_in_place(|| start_engines(shape))?;
        let [port] = test_engines::free_ports()?;
        let endpoint_address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut endpoint = endpoint_process(&programs, folder.path(), endpoint_address)?;
        endpoint.start()?;
        let http = client(4);
        endpoint.ready(&http).await?;
        let warehouse = FaultProxy::start(endpoint_address).await?;
        let reached = if shape.direct {
            endpoint_address
        } else {
            warehouse.address()
        };
        let mut environment = variables(&kafka, &redis, &postgres, reached, shape);
        environment.push(acknowledgement_keys(folder.path())?);
        environment.extend(shape.environment.iter().cloned());

        let home = ReplicaHome {
            programs: &programs,
            folder: folder.path(),
            environment: &environment,
        };
        let gateways = (1..=shape.gateways)
            .map(|number| home.replica("gateway", number))
            .collect::<Result<Vec<_>>>()?;
        let writers = (1..=shape.writers)
            .map(|number| home.replica("writer", number))
            .collect::<Result<Vec<_>>>()?;
        let analytics = home.replica("analytics-api", 1)?;
        let mut fleet = Self {
            gateways,
            verifiers: Vec::new(),
            writers,
            analytics,
            endpoint,
            warehouse,
            kafka,
            redis,
            postgres,
            http,
            endpoint_address,
            environment,
            programs,
            verifiers_made: 0,
            prepared: 0,
            folder,
        };
        for _ in 0..shape.verifiers {
            fleet.add_verifier()?;
        }
        for gateway in &mut fleet.gateways {
            gateway.process.start()?;
        }
        for writer in &mut fleet.writers {
            writer.process.start()?;
        }
        fleet.analytics.process.start()?;
        fleet.ready().await?;
        Ok(fleet)
    }

    /// Installation for a load.
    #[must_use]
    pub fn installation(&self) -> Installation {
        Installation {
            gateways: self.gateways.iter().map(|gateway| gateway.address.clone()).collect(),
            analytics: self.analytics.address.clone(),
            receipts: self.programs.join("receipts"),
            data: self.folder.path().join("receipts"),
            environment: self.environment.clone(),
        }
    }

    /// Starts one more verifier, without waiting for it.
    ///
    /// # Errors
    /// The verifier can't be started.
    pub fn add_verifier(&mut self) -> Result<()> {
        self.verifiers_made += 1;
        let home = ReplicaHome {
            programs: &self.programs,
            folder: self.folder.path(),
            environment: &self.environment,
        };
        let mut verifier = home.replica("verifier", self.verifiers_made)?;
        verifier.process.start()?;
        self.verifiers.push(verifier);
        Ok(())
    }

    /// Prepares one more replica of a service, and starts nothing.
    ///
    /// # Errors
    /// The program isn't built, or there is no free port.
    pub fn prepare(&mut self, service: &str) -> Result<Replica> {
        self.prepared += 1;
        let home = ReplicaHome {
            programs: &self.programs,
            folder: self.folder.path(),
            environment: &self.environment,
        };
        home.replica(service, PREPARED_FROM + self.prepared)
    }

    /// Every service's process.
    pub fn services(&mut self) -> impl Iterator<Item = &mut Replica> {
        let others = self
            .verifiers
            .iter_mut()
            .chain(&mut self.writers)
            .chain([&mut self.analytics]);
        self.gateways.iter_mut().chain(others)
    }

    /// Waits until every service says that it is ready.
    ///
    /// # Errors
    /// A replica ended, or took too long.
    pub async fn ready(&mut self) -> Result<()> {
        let http = self.http.clone();
        self.endpoint.ready(&http).await?;
        for service in self.services() {
            service.process.ready(&http).await?;
        }
        Ok(())
    }

    /// The client that looks at the processes.
    #[must_use]
    pub fn http(&self) -> HttpClient {
        self.http.clone()
    }

    /// The ledger, past the proxy.
    ///
    /// # Errors
    /// The endpoint doesn't answer.
    pub async fn ledger(&self) -> Result<ledger::Ledger> {
        let endpoint = format!("http://{}", self.endpoint_address);
        ledger::read(&self.http, &endpoint, ENDPOINT_USER, ENDPOINT_PASSWORD).await
    }

    /// The latest instant through which a partition is said to be complete, in milliseconds since
    /// the Unix epoch.
    ///
    /// # Errors
    /// The warehouse doesn't answer.
    pub async fn latest_complete_ms(&self) -> Result<i64> {
        let endpoint = format!("http://{}", self.endpoint_address);
        ledger::latest_complete_ms(&self.http, &endpoint, ENDPOINT_USER, ENDPOINT_PASSWORD).await
    }

    /// The sum of a metric over the verifiers that live; 0 where none has it yet.
    pub async fn verifiers_metric(&self, name: &str) -> f64 {
        let mut sum = 0.0;
        for verifier in &self.verifiers {
            sum += verifier.metric(&self.http, name).await.unwrap_or(0.0);
        }
        sum
    }

    /// The writer that owns the shard: the one with the highest epoch.
    ///
    /// # Errors
    /// No writer has inserted anything within a minute.
    pub async fn active_writer(&self) -> Result<ActiveWriter> {
        for _ in 0..600 {
            let mut active: Option<ActiveWriter> = None;
            for (index, writer) in self.writers.iter().enumerate() {
                let epoch = writer.metric(&self.http, "receipts_writer_epoch").await.unwrap_or(0.0);
                if epoch > active.map_or(0.0, |active| active.epoch) {
                    active = Some(ActiveWriter { index, epoch });
                }
            }
            if let Some(active) = active {
                return Ok(active);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("no writer inserted anything within a minute")
    }

    /// Last lines of every service, for whoever looks for the reason of a failure.
    #[must_use]
    pub fn logs(&mut self) -> BTreeMap<String, String> {
        let mut logs: BTreeMap<String, String> = self
            .services()
            .map(|service| (service.process.name().to_owned(), service.process.log_tail()))
            .collect();
        logs.insert("endpoint".to_owned(), self.endpoint.log_tail());
        logs
    }

    /// Folder of the logs and the data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Environment of replicas.
struct ReplicaHome<'a> {
    programs: &'a Path,
    folder: &'a Path,
    environment: &'a [(String, String)],
}

impl ReplicaHome<'_> {
    fn replica(&self, service: &str, number: usize) -> Result<Replica> {
        let program = self.programs.join("receipts");
        ensure!(
            program.is_file(),
            "{} isn't built: cargo build --workspace --bins",
            program.display()
        );
        let environment: Vec<_> = self
            .environment
            .iter()
            .filter(|(key, _)| reads(service, key))
            .cloned()
            .collect();
        Replica::new(service, number, &program, self.folder, &environment)
    }
}

/// Whether a service is led to an engine. It isn't to those that it has no right to use.
fn reads(service: &str, variable: &str) -> bool {
    let engines: &[&str] = match service {
        "gateway" => &["RECEIPTS_WAREHOUSE_", "RECEIPTS_ACCOUNTS_", "RECEIPTS_REDIS_"],
        "verifier" => &["RECEIPTS_WAREHOUSE_", "RECEIPTS_REDIS_"],
        "writer" => &["RECEIPTS_ACCOUNTS_", "RECEIPTS_REDIS_"],
        "analytics-api" | "publisher-api" => &["RECEIPTS_KAFKA_"],
        _ => &[],
    };
    !engines.iter().any(|prefix| variable.starts_with(prefix))
}

/// Makes the key that all gateways sign acknowledgements with, and returns the setting.
fn acknowledgement_keys(folder: &Path) -> Result<(String, String)> {
    let path = folder.join("acknowledgement.key");
    let key = SigningKey::generate(Algorithm::Ed25519)?;
    std::fs::write(&path, key.to_pkcs8_pem()?)?;
    let setting = "RECEIPTS_GATEWAY_ACKNOWLEDGEMENT_KEYS".to_owned();
    Ok((setting, serde_json::json!([path]).to_string()))
}

fn start_engines(shape: &Shape) -> Result<(Kafka, Redis, Postgres)> {
    let mut lines = vec![
        ("group.min.session.timeout.ms", "500"),
        // Of ten seconds otherwise: until then nobody reads beyond an open transaction that is over
        // its time.
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000"),
    ];
    lines.extend(shape.kafka.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let kafka = Kafka::start_with(&lines)?;
    let redis = Redis::start()?;
    let postgres = Postgres::start()?;
    postgres.create_database(DATABASE)?;
    Ok((kafka, redis, postgres))
}

fn endpoint_process(programs: &Path, folder: &Path, listen: SocketAddr) -> Result<Process> {
    let program = programs.join("receipts-load");
    ensure!(program.is_file(), "{} isn't built", program.display());
    let data = folder.join("endpoint");
    std::fs::create_dir_all(&data).context("the endpoint's folder")?;
    let command = move || {
        let mut command = test_engines::dying_with_us(&program, "KILL");
        command.args([
            "endpoint",
            "--listen",
            &listen.to_string(),
            "--user",
            ENDPOINT_USER,
            "--data",
        ]);
        command
            .arg(&data)
            .env("RECEIPTS_LOAD_ENDPOINT_PASSWORD", ENDPOINT_PASSWORD);
        command
    };
    let ready_at = vec![format!("http://{listen}/ping")];
    Ok(Process::new(
        "endpoint",
        &folder.join("endpoint.log"),
        ready_at,
        command,
    ))
}

/// Variables that lead every process to the same engines.
fn variables(
    kafka: &Kafka,
    redis: &Redis,
    postgres: &Postgres,
    endpoint: SocketAddr,
    shape: &Shape,
) -> Vec<(String, String)> {
    let pairs = [
        ("RECEIPTS_KAFKA_BROKERS", kafka.bootstrap().to_owned()),
        ("RECEIPTS_KAFKA_PARTITIONS", shape.partitions.to_string()),
        ("RECEIPTS_KAFKA_REPLICATION_FACTOR", "1".to_owned()),
        ("RECEIPTS_KAFKA_MIN_INSYNC_REPLICAS", "1".to_owned()),
        (
            "RECEIPTS_KAFKA_SESSION_WAIT_MS_MAX",
            shape.session_wait_ms_max.to_string(),
        ),
        ("RECEIPTS_REDIS_URL", redis.url()),
        ("RECEIPTS_ACCOUNTS_URL", postgres.url(DATABASE)),
        ("RECEIPTS_WAREHOUSE_URL", format!("http://{endpoint}")),
        ("RECEIPTS_WAREHOUSE_USER", ENDPOINT_USER.to_owned()),
        ("RECEIPTS_WAREHOUSE_PASSWORD", ENDPOINT_PASSWORD.to_owned()),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).to_vec()
}
