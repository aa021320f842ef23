//! Apache Kafka: one node, KRaft, as scripts/fetch-kafka fetched it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rustix::process::Signal;

use crate::cache::cached;
use crate::engine::{Engine, run};
use crate::folder::Folder;
use crate::spawner::dying_with_us;
use crate::{Certificates, Login, acls, ports, random_id};

const VERSION: &str = "4.1.1";
/// Flags for a quick start and a small process; throughput isn't what these servers are for.
const JVM: [&str; 4] = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
];
const LOGGING: &str = "appender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\n\
    appender.out.layout.pattern=%d %p %c{1} %m%n\nrootLogger.level=info\nrootLogger.appenderRef.out.ref=out\n\
    logger.config.name=org.apache.kafka.common.config\nlogger.config.level=warn\n";
/// The last line of a start: the broker is registered, its listeners answer.
const STARTED: &str = "] Kafka Server started";

/// A running broker. Topics aren't created by themselves, so that no test passes on one with
/// settings nobody chose.
#[derive(Debug)]
pub struct Kafka {
    // Before the folder: dropped in this order.
    engine: Engine,
    bootstrap: String,
    /// Port of the broker's own listener, in the clear, whose clients may do everything.
    own: u16,
    security: Option<KafkaSecurity>,
    folder: Folder,
}

/// Settings for a client of [`Kafka::start_secure`]: `SASL_SSL`, mechanism `PLAIN` or
/// `SCRAM-SHA-512`, the same login for both.
#[derive(Debug, Clone)]
pub struct KafkaSecurity {
    /// Whom to trust.
    pub certificates: Certificates,
    /// Login of the client.
    pub login: Login,
}

impl Kafka {
    /// The one broker that the tests of one binary share. Use topics and groups of your own, and
    /// don't kill it.
    ///
    /// # Errors
    ///
    /// As [`Kafka::start`].
    pub fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceLock<Result<Kafka, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Self::start().map_err(|error| format!("{error:#}")));
        shared.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// A broker of one's own, in the clear.
    ///
    /// # Errors
    ///
    /// Kafka can't be fetched (scripts/fetch-kafka), or doesn't start.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts it with further lines for `server.properties`.
    ///
    /// # Errors
    ///
    /// As [`Kafka::start`].
    pub fn start_with(properties: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::launch(&[], properties)
    }

    /// A broker that takes only TLS with a login.
    ///
    /// # Errors
    ///
    /// As [`Kafka::start`].
    pub fn start_secure() -> anyhow::Result<Self> {
        Self::launch(&["receipts"], &[])
    }

    /// A broker that takes only TLS with one of these logins, which share a password and have no
    /// right until [`add_acls`](Self::add_acls) gives them one.
    ///
    /// # Errors
    ///
    /// As [`Kafka::start`].
    pub fn start_with_users(users: &[&str]) -> anyhow::Result<Self> {
        let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        let properties = [("authorizer.class.name", authorizer), ("super.users", "User:ANONYMOUS")];
        Self::launch(users, &properties)
    }

    fn launch(users: &[&str], properties: &[(&str, &str)]) -> anyhow::Result<Self> {
        let home = home()?;
        let folder = Folder::new("kafka")?;
        let [client, broker, controller] = ports::free()?;
        let security = match users.first() {
            Some(user) => Some(KafkaSecurity {
                certificates: Certificates::make(folder.path())?,
                login: Login {
                    user: (*user).to_owned(),
                    password: random_id()?,
                },
            }),
            None => None,
        };
        let mut lines = properties_of(folder.path(), [client, broker, controller], security.as_ref())?;
        if let Some(KafkaSecurity { login, .. }) = &security {
            // Mechanism PLAIN has its users here, and SCRAM has them in the metadata.
            lines += "listener.name.sasl_ssl.plain.sasl.jaas.config=\
                      org.apache.kafka.common.security.plain.PlainLoginModule required";
            for user in users {
                write!(lines, " user_{user}=\"{}\"", login.password)?;
            }
            lines += ";\n";
        }
        for (key, value) in properties {
            writeln!(lines, "{key}={value}")?;
        }
        let file = folder.path().join("server.properties");
        std::fs::write(&file, lines)?;
        let logging = folder.path().join("log4j2.properties");
        std::fs::write(&logging, LOGGING)?;

        let java = Java { home, logging };
        let mut format = java.command(Command::new("java"), "kafka.tools.StorageTool");
        format
            .args(["format", "--standalone", "-t", &random_id()?, "-c"])
            .arg(&file);
        if let Some(KafkaSecurity { login, .. }) = &security {
            for user in users {
                format.arg("--add-scram");
                format.arg(format!("SCRAM-SHA-512=[name={user},password={}]", login.password));
            }
        }
        run(&mut format)?;

        let command = move || {
            let mut command = java.command(dying_with_us("java", "KILL"), "kafka.Kafka");
            command.arg(&file);
            command
        };
        let started = |log: &Path| std::fs::read_to_string(log).is_ok_and(|log| log.contains(STARTED));
        let log = folder.path().join("kafka.log");
        Ok(Self {
            engine: Engine::start("Kafka", log, Signal::KILL, command, started)?,
            bootstrap: format!(
                "{}:{client}",
                if security.is_some() { "localhost" } else { "127.0.0.1" }
            ),
            own: broker,
            security,
            folder,
        })
    }

    /// `host:port`, for `bootstrap.servers`.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Further settings for a client of [`Kafka::start_secure`].
    #[must_use]
    pub fn security(&self) -> Option<&KafkaSecurity> {
        self.security.as_ref()
    }

    /// Gives a user of [`Kafka::start_with_users`] rights; `options` are those of `kafka-acls.sh
    /// --add`: `--allow-principal User:NAME --topic TOPIC --operation Read`.
    ///
    /// # Errors
    ///
    /// Options that tests don't use so far, or that Kafka refuses.
    pub fn add_acls(&self, options: &str) -> anyhow::Result<()> {
        acls::add(self.own, options)
    }

    /// Log of the engine, for a look when something is odd.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("kafka.log")
    }

    /// Gives a topic more partitions: `partitions` altogether. Not for [`Kafka::start_secure`].
    ///
    /// # Errors
    ///
    /// There is no such topic, or it has as many already.
    pub async fn add_partitions(&self, topic: &str, partitions: u32) -> anyhow::Result<()> {
        let wanted = NewPartitions::new(topic, usize::try_from(partitions)?);
        let results = self.admin()?.create_partitions([&wanted], &AdminOptions::new()).await?;
        first_error(results)
    }

    /// Deletes a topic. Not for [`Kafka::start_secure`].
    ///
    /// # Errors
    ///
    /// There is no such topic.
    pub async fn delete_topic(&self, topic: &str) -> anyhow::Result<()> {
        first_error(self.admin()?.delete_topics(&[topic], &AdminOptions::new()).await?)
    }

    fn admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        Ok(ClientConfig::new().set("bootstrap.servers", &self.bootstrap).create()?)
    }

    /// `kcat`, an independent client, with these arguments after the address and the login: what it
    /// wrote.
    ///
    /// # Errors
    ///
    /// `kcat` is missing, or failed.
    pub fn kcat(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut kcat = Command::new("kcat");
        kcat.args(["-b", &self.bootstrap]);
        if let Some(KafkaSecurity { certificates, login }) = &self.security {
            let ca = format!("ssl.ca.location={}", certificates.ca.display());
            let user = format!("sasl.username={}", login.user);
            let password = format!("sasl.password={}", login.password);
            // Not SCRAM: Debian's librdkafka (2.0) sends a nonce that Kafka refuses since
            // CVE-2024-56128 was fixed.
            let fixed = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"];
            for setting in fixed.into_iter().chain([&*ca, &*user, &*password]) {
                kcat.args(["-X", setting]);
            }
        }
        run(kcat.args(arguments))
    }
}

crate::engine::controls!(Kafka);

fn first_error(results: Vec<TopicResult>) -> anyhow::Result<()> {
    for result in results {
        result.map_err(|(topic, code)| anyhow::anyhow!("topic {topic}: {code}"))?;
    }
    Ok(())
}

/// Command line of a class of Kafka's.
struct Java {
    home: PathBuf,
    logging: PathBuf,
}

impl Java {
    fn command(&self, mut java: Command, class: &str) -> Command {
        let mut jars: Vec<String> = std::fs::read_dir(self.home.join("libs"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path().display().to_string()))
            .filter(|path| path.ends_with(".jar"))
            .collect();
        // The order that the archive of classes was made with.
        jars.sort();
        let archive = self.home.join("classes.jsa");
        if archive.is_file() {
            java.arg(format!("-XX:SharedArchiveFile={}", archive.display()));
        }
        java.args(JVM);
        java.arg(format!("-Dlog4j2.configurationFile={}", self.logging.display()));
        java.args(["-cp", &jars.join(":"), class]);
        java
    }
}

/// Folder of Kafka; fetched now if it wasn't yet.
fn home() -> anyhow::Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fetch-kafka");
    run(&mut Command::new(script))?;
    cached(&format!("kafka-{VERSION}"))
}

fn properties_of(
    folder: &Path,
    [client, broker, controller]: [u16; 3],
    security: Option<&KafkaSecurity>,
) -> anyhow::Result<String> {
    let mut lines = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=INTERNAL\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n\
         auto.create.topics.enable=false\n\
         log.dirs={}\n",
        folder.join("data").display()
    );
    // The broker speaks with itself over a listener of its own, so that the clients' may request a
    // login.
    let own = format!("INTERNAL://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}");
    let Some(KafkaSecurity { certificates, .. }) = security else {
        writeln!(
            lines,
            "listeners=PLAINTEXT://127.0.0.1:{client},{own}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        )?;
        return Ok(lines);
    };
    // Kafka wants the key and the certificate in one PEM file.
    let store = folder.join("keystore.pem");
    let key = std::fs::read_to_string(&certificates.key)?;
    std::fs::write(&store, key + &std::fs::read_to_string(&certificates.certificate)?)?;
    writeln!(
        lines,
        "listeners=SASL_SSL://127.0.0.1:{client},{own}\n\
         advertised.listeners=SASL_SSL://localhost:{client},INTERNAL://127.0.0.1:{broker}\n\
         listener.security.protocol.map=SASL_SSL:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
         listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
         org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
         ssl.keystore.type=PEM\n\
         ssl.keystore.location={}",
        store.display()
    )?;
    Ok(lines)
}
