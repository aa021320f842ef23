//! ClickHouse: processes that load libchdb and open ClickHouse's own HTTP and native listeners.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use rustix::process::Signal;

use crate::cache::cached;
use crate::engine::{Engine, run};
use crate::folder::Folder;
use crate::object_store::ObjectStore;
use crate::proxy::Proxy;
use crate::spawner::dying_with_us;
use crate::{http, ports};

const VERSION: &str = "26.7.3-stable.1";
const SCRIPT: &str = include_str!("clickhouse.py");
/// The default is 90% of the machine's memory, for each server.
const MEMORY_BYTES_MAX: u64 = 1_500_000_000;
/// Limit for the requests that run when a cluster changes.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// ClickHouse servers that form one cluster. Their data is in a temporary folder.
///
/// A server reads its clusters only when it starts: libchdb has no `SYSTEM RELOAD CONFIG`. A proxy
/// in front of each HTTP listener therefore holds requests back while
/// [`set_cluster`](Self::set_cluster) restarts the servers. The proxy closes each connection after
/// one request. Native connections, which servers use among themselves, don't pass through it.
///
/// There is no replication: libchdb opens no interserver listener.
#[derive(Debug)]
pub struct ClickHouse {
    // Before the folder: dropped in this order.
    servers: Vec<Server>,
    clusters: BTreeMap<String, Vec<Shard>>,
    /// The servers' `storage_configuration`; empty without one.
    storage: String,
    folder: Folder,
}

/// A user of every server, beside `default`, who has all rights and no password.
#[derive(Debug, Clone)]
pub struct ClickHouseUser {
    /// Name.
    pub name: String,
    /// Password.
    pub password: String,
    /// Rights of the user, each as `GRANT SELECT ON database.table`.
    pub grants: Vec<String>,
}

#[derive(Debug)]
struct Server {
    engine: Engine,
    ports: Ports,
    /// Absent while the server is killed: its port then refuses connections.
    proxy: Mutex<Option<Proxy>>,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    /// The proxy's, which clients use.
    public: u16,
    http: u16,
    native: u16,
}

#[derive(Debug)]
struct Shard {
    native: u16,
    database: String,
}

impl ClickHouse {
    /// Starts `servers` servers, which have no cluster yet.
    ///
    /// # Errors
    ///
    /// libchdb can't be fetched (scripts/fetch-chdb), python3 is missing, or a server doesn't
    /// start.
    pub fn start(servers: usize) -> anyhow::Result<Self> {
        Self::start_with_users(servers, &[])
    }

    /// Starts servers with further users.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with_users(servers: usize, users: &[ClickHouseUser]) -> anyhow::Result<Self> {
        Self::start_with(servers, users, "")
    }

    /// Starts a server with the storage policy `tiered`, whose volume `cold` is a bucket.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with_bucket(bucket: &ObjectStore) -> anyhow::Result<Self> {
        let storage = format!(
            "<storage_configuration><disks><bucket><type>s3</type><endpoint>{}</endpoint>\
             <access_key_id>test</access_key_id><secret_access_key>test</secret_access_key></bucket></disks>\
             <policies><tiered><volumes><default><disk>default</disk></default>\
             <cold><disk>bucket</disk></cold></volumes><move_factor>0</move_factor></tiered></policies></storage_configuration>\n",
            bucket.url()
        );
        Self::start_with(1, &[], &storage)
    }

    fn start_with(servers: usize, users: &[ClickHouseUser], storage: &str) -> anyhow::Result<Self> {
        let library = library()?;
        let folder = Folder::new("clickhouse")?;
        std::fs::write(folder.path().join("clickhouse.py"), SCRIPT)?;
        std::fs::write(users_file(folder.path()), users_xml(users)?)?;
        let starts = (0..servers).map(|server| {
            let (library, folder) = (&library, folder.path());
            move || Server::start(server, library, folder, storage)
        });
        let servers = in_parallel(starts)?;
        Ok(Self {
            servers,
            clusters: BTreeMap::new(),
            storage: storage.to_owned(),
            folder,
        })
    }

    /// `http://127.0.0.1:PORT` of a server.
    #[must_use]
    pub fn url(&self, server: usize) -> String {
        format!("http://127.0.0.1:{}", self.servers[server].ports.public)
    }

    /// Makes the cluster `name` consist of these shards, in order: server and default database of
    /// each. A database doesn't have to exist yet.
    ///
    /// The running servers restart, in less than a second. Running requests get their responses
    /// first, and new ones wait: none fails. A killed server reads its clusters at its
    /// [`restart`](Self::restart).
    ///
    /// # Errors
    ///
    /// No shards, a server that doesn't exist, a name with other characters than letters, digits
    /// and underscores, a request that still runs after a minute, or a server that doesn't start.
    pub fn set_cluster(&mut self, name: &str, shards: &[(usize, &str)]) -> anyhow::Result<()> {
        check_name(name)?;
        if shards.is_empty() {
            bail!("cluster {name} has no shards");
        }
        let shards: Vec<Shard> = shards
            .iter()
            .map(|&(server, database)| {
                check_name(database)?;
                let server = self
                    .servers
                    .get(server)
                    .with_context(|| format!("no server {server}"))?;
                Ok(Shard {
                    native: server.ports.native,
                    database: database.to_owned(),
                })
            })
            .collect::<anyhow::Result<_>>()?;
        let expected = shards.iter().fold(String::new(), |lines, Shard { native, database }| {
            format!("{lines}{native}\t{database}\n")
        });
        self.clusters.insert(name.to_owned(), shards);
        for server in 0..self.servers.len() {
            std::fs::write(
                config(self.folder.path(), server),
                config_of(self.folder.path(), &self.clusters, &self.storage)?,
            )?;
        }
        self.restart_running()?;
        let sql = format!(
            "SELECT port, default_database FROM system.clusters WHERE cluster = '{name}' ORDER BY shard_num FORMAT TSV"
        );
        for server in self.servers.iter().filter(|server| server.proxy.lock().is_some()) {
            let found = statement(server.ports.http, &sql)?;
            if found != expected {
                bail!("cluster {name} should have the shards\n{expected}but a server has\n{found}");
            }
        }
        Ok(())
    }

    fn restart_running(&mut self) -> anyhow::Result<()> {
        let mut running: Vec<(&Engine, &Proxy)> = Vec::new();
        for server in &mut self.servers {
            running.extend(server.proxy.get_mut().as_ref().map(|proxy| (&server.engine, proxy)));
        }
        running.iter().for_each(|(_, proxy)| proxy.pause());
        let deadline = Instant::now() + DRAIN_MAX;
        let drained = running.iter().try_for_each(|(_, proxy)| proxy.drain(deadline));
        let restarted = drained.and_then(|()| {
            in_parallel(running.iter().map(|(engine, _)| {
                || {
                    engine.kill()?;
                    engine.restart()
                }
            }))
        });
        running.iter().for_each(|(_, proxy)| proxy.resume());
        restarted.map(drop)
    }

    /// Kills a server (SIGKILL), also a frozen one; returns when it is gone.
    ///
    /// # Errors
    ///
    /// The server isn't running.
    pub fn kill(&self, server: usize) -> anyhow::Result<()> {
        let server = &self.servers[server];
        drop(server.proxy.lock().take());
        server.engine.kill()
    }

    /// Starts a killed server again, on the same data and ports, and waits until it answers.
    ///
    /// # Errors
    ///
    /// The server is running already, or doesn't start.
    pub fn restart(&self, server: usize) -> anyhow::Result<()> {
        let server = &self.servers[server];
        server.engine.restart()?;
        *server.proxy.lock() = Some(server.ports.proxy()?);
        Ok(())
    }

    /// Freezes a server (SIGSTOP): its connections stay open and nothing answers.
    ///
    /// # Errors
    ///
    /// The server isn't running.
    pub fn freeze(&self, server: usize) -> anyhow::Result<()> {
        self.servers[server].engine.freeze()
    }

    /// Continues a frozen server (SIGCONT).
    ///
    /// # Errors
    ///
    /// The server isn't running.
    pub fn thaw(&self, server: usize) -> anyhow::Result<()> {
        self.servers[server].engine.thaw()
    }

    /// Runs a statement on a server over HTTP and returns its answer.
    ///
    /// # Errors
    ///
    /// The server doesn't answer, or refuses the statement: the error contains its message.
    pub fn query(&self, server: usize, sql: &str) -> anyhow::Result<String> {
        statement(self.servers[server].ports.public, sql)
    }
}

impl Server {
    fn start(server: usize, library: &Path, folder: &Path, storage: &str) -> anyhow::Result<Self> {
        let [public, http, native] = ports::free()?;
        let ports = Ports { public, http, native };
        let config = config(folder, server);
        std::fs::write(&config, config_of(folder, &BTreeMap::new(), storage)?)?;
        let (library, home) = (library.to_owned(), folder.to_owned());
        let data = folder.join(format!("data-{server}"));
        let command = move || {
            let mut command = dying_with_us("python3", "KILL");
            command
                .current_dir(&home)
                .arg("clickhouse.py")
                .arg(&library)
                .arg(format!("--path={}", data.display()))
                .arg(format!("--config-file={}", config.display()))
                .arg("--listen_host=127.0.0.1")
                .arg(format!("--http_port={http}"))
                .arg(format!("--tcp_port={native}"));
            command
        };
        let log = folder.join(format!("clickhouse-{server}.log"));
        let answers = move |_: &Path| http::query(http, "GET /ping", "").is_ok();
        Ok(Self {
            engine: Engine::start("ClickHouse", log, Signal::KILL, command, answers)?,
            ports,
            proxy: Mutex::new(Some(ports.proxy()?)),
        })
    }
}

impl Ports {
    fn proxy(self) -> anyhow::Result<Proxy> {
        Proxy::open(self.public, self.http)
    }
}

/// Runs every task on a thread of its own.
fn in_parallel<T: Send>(
    tasks: impl Iterator<Item = impl FnOnce() -> anyhow::Result<T> + Send>,
) -> anyhow::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let running: Vec<_> = tasks.map(|task| scope.spawn(task)).collect();
        let ended = running
            .into_iter()
            .map(|task| task.join().ok().context("a start panicked")?);
        ended.collect()
    })
}

fn statement(port: u16, sql: &str) -> anyhow::Result<String> {
    // Without the parameter, an error in the middle of an answer has the status 200.
    http::query(port, "POST /?wait_end_of_query=1", sql)
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.bytes().all(fits) || name.bytes().next().is_none_or(|first| first.is_ascii_digit()) {
        bail!("`{name}` isn't a name of letters, digits and underscores");
    }
    Ok(())
}

fn config(folder: &Path, server: usize) -> PathBuf {
    folder.join(format!("server-{server}.xml"))
}

fn users_file(folder: &Path) -> PathBuf {
    folder.join("users.xml")
}

fn users_xml(users: &[ClickHouseUser]) -> anyhow::Result<String> {
    let mut xml = "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>\n\
                   <default><password/><networks><ip>::/0</ip></networks></default>\n"
        .to_owned();
    for ClickHouseUser { name, password, grants } in users {
        check_name(name)?;
        check_name(password)?;
        write!(
            xml,
            "<{name}><password>{password}</password><networks><ip>::/0</ip></networks><grants>"
        )?;
        for grant in grants {
            write!(xml, "<query>{grant}</query>")?;
        }
        writeln!(xml, "</grants></{name}>")?;
    }
    Ok(xml + "</users></clickhouse>\n")
}

fn config_of(folder: &Path, clusters: &BTreeMap<String, Vec<Shard>>, storage: &str) -> anyhow::Result<String> {
    let users = users_file(folder);
    let mut xml = format!(
        "<clickhouse>\n<max_server_memory_usage>{MEMORY_BYTES_MAX}</max_server_memory_usage>\n\
         <users_config>{}</users_config>\n{storage}<remote_servers>\n",
        users.display()
    );
    for (name, shards) in clusters {
        writeln!(xml, "<{name}>")?;
        for Shard { native, database } in shards {
            writeln!(
                xml,
                "<shard><replica><host>127.0.0.1</host><port>{native}</port>\
                 <default_database>{database}</default_database></replica></shard>"
            )?;
        }
        writeln!(xml, "</{name}>")?;
    }
    xml += "</remote_servers>\n</clickhouse>\n";
    Ok(xml)
}

/// Path of libchdb: as configured for the services, or in the cache, fetched now if it is missing.
fn library() -> anyhow::Result<PathBuf> {
    if let Some(configured) = std::env::var_os("RECEIPTS_WAREHOUSE_LIBRARY") {
        return Ok(configured.into());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fetch-chdb");
    run(&mut Command::new(script))?;
    Ok(cached(&format!("libchdb-{VERSION}"))?.join("libchdb.so"))
}
