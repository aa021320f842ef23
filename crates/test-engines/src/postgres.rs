//! PostgreSQL, from Debian, which keeps its programs off PATH.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::process::Signal;

use crate::engine::{Engine, run};
use crate::folder::Folder;
use crate::{Certificates, Login, ports, random_id};

/// The user that the server runs as where the tests are root's: PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// A running server. Nothing is synced, so that tests are quick; a kill loses nothing by that, only
/// a power loss would.
#[derive(Debug)]
pub struct Postgres {
    engine: Engine,
    security: Option<PostgresSecurity>,
    // After the engine: dropped in this order.
    folder: Folder,
}

/// Settings for a client of [`Postgres::start_secure`]. The URLs have all of it.
#[derive(Debug, Clone)]
pub struct PostgresSecurity {
    /// Whom to trust.
    pub certificates: Certificates,
    /// The login over TCP (SCRAM-SHA-256); it may create databases and nothing else.
    pub login: Login,
    /// The port of 127.0.0.1, which takes TLS only.
    pub port: u16,
}

impl Postgres {
    /// A server that is reached by its socket alone, as its superuser.
    ///
    /// # Errors
    ///
    /// PostgreSQL is missing or doesn't start.
    pub fn start() -> anyhow::Result<Self> {
        Self::launch(false)
    }

    /// A server with a TCP port too, which takes only TLS with a login.
    ///
    /// # Errors
    ///
    /// As [`Postgres::start`]; openssl is missing.
    pub fn start_secure() -> anyhow::Result<Self> {
        Self::launch(true)
    }

    fn launch(secure: bool) -> anyhow::Result<Self> {
        let bin =
            binaries().context("no PostgreSQL server in /usr/lib/postgresql: scripts/install-deps installs it")?;
        let folder = Folder::new("postgres")?;
        let (root, tables) = (folder.path().to_owned(), folder.path().join("tables"));
        let mut arguments: Vec<String> = vec!["-D".to_owned(), tables.display().to_string()];
        let mut set = |setting: String| arguments.extend(["-c".to_owned(), setting]);
        set("fsync=off".to_owned());
        set(format!("unix_socket_directories={}", root.display()));
        let mut security = None;
        if secure {
            let certificates = Certificates::make(&root)?;
            let [port] = ports::free()?;
            set(format!("port={port}"));
            set("listen_addresses=127.0.0.1".to_owned());
            set("ssl=on".to_owned());
            set(format!("ssl_cert_file={}", certificates.certificate.display()));
            set(format!("ssl_key_file={}", certificates.key.display()));
            let login = Login {
                user: "receipts".to_owned(),
                password: random_id()?,
            };
            security = Some(PostgresSecurity {
                certificates,
                login,
                port,
            });
        } else {
            // By its socket alone: no port to choose, and nobody else can connect.
            set("listen_addresses=".to_owned());
        }
        if is_root()? {
            run(Command::new("chown").arg("-R").arg(USER).arg(&root))?;
        }
        let mut initdb = as_server(&bin.join("initdb"), &root)?;
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]);
        run(initdb.args(["--locale=C", "-D"]).arg(&tables))?;
        if secure {
            // Written into the file that is there, which stays the server's.
            let rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
            std::fs::write(tables.join("pg_hba.conf"), rules)?;
        }

        let port = security.as_ref().map_or(5432, |security| security.port);
        let (socket, program, owner) = (root.clone(), bin.join("postgres"), root.clone());
        let command = move || {
            // The folder was there a moment ago; without it the spawn fails and says so.
            let mut command = as_server(&program, &owner).unwrap_or_else(|_| Command::new(&program));
            command.args(&arguments);
            command
        };
        let answers = move |_: &Path| psql(&socket, port, "postgres", "SELECT 1").is_ok();
        // SIGQUIT is PostgreSQL's immediate shutdown, which gives its shared memory back.
        let engine = Engine::start("PostgreSQL", root.join("log"), Signal::QUIT, command, answers)?;
        let postgres = Self {
            engine,
            security,
            folder,
        };
        if let Some(PostgresSecurity { login, .. }) = &postgres.security {
            let Login { user, password } = login;
            let role = format!("CREATE ROLE {user} LOGIN CREATEDB PASSWORD '{password}'");
            postgres.psql("postgres", &role)?;
        }
        Ok(postgres)
    }

    /// Makes an empty database, the login's own if there is a login.
    ///
    /// # Errors
    ///
    /// There is one of this name.
    pub fn create_database(&self, name: &str) -> anyhow::Result<()> {
        let owner = self.security.as_ref().map_or(USER, |security| &security.login.user);
        self.psql("postgres", &format!("CREATE DATABASE {name} OWNER {owner}"))?;
        Ok(())
    }

    /// `postgres://...` of a database: by the socket, or over verified TLS with the login.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let escaped = |path: &Path| path.display().to_string().replace('/', "%2F");
        let Some(PostgresSecurity {
            certificates,
            login,
            port,
        }) = &self.security
        else {
            let socket = escaped(self.folder.path());
            return format!("postgres://{USER}@localhost/{database}?host={socket}");
        };
        let Login { user, password } = login;
        let ca = escaped(&certificates.ca);
        format!("postgres://{user}:{password}@localhost:{port}/{database}?sslmode=verify-full&sslrootcert={ca}")
    }

    /// Settings for a client of [`Postgres::start_secure`].
    #[must_use]
    pub fn security(&self) -> Option<&PostgresSecurity> {
        self.security.as_ref()
    }

    /// `psql`, an independent client, as superuser by the socket: the rows, values separated by
    /// `|`.
    ///
    /// # Errors
    ///
    /// `psql` is missing, or the server refuses the statement.
    pub fn psql(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        let port = self.security.as_ref().map_or(5432, |security| security.port);
        psql(self.folder.path(), port, database, sql)
    }
}

crate::engine::controls!(Postgres);

fn psql(socket: &Path, port: u16, database: &str, sql: &str) -> anyhow::Result<String> {
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-U", USER]);
    psql.args(["-v", "ON_ERROR_STOP=1", "-p", &port.to_string(), "-d", database]);
    run(psql.arg("-h").arg(socket).args(["-c", sql]))
}

/// The newest installed server's programs, if there are any.
fn binaries() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
        .collect();
    found.sort();
    found.pop()
}

fn is_root() -> anyhow::Result<bool> {
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

/// `program` as a user that may run the server, in its folder; it ends with this process.
fn as_server(program: &Path, folder: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new("setpriv");
    if is_root()? {
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
    }
    // Applied after the change of user, which would undo it.
    command.args(["--pdeathsig", "QUIT", "--"]).arg(program);
    command.current_dir(folder);
    Ok(command)
}
