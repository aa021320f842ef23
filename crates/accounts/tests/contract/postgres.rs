//! PostgreSQL: the same suite on a private server, started from Debian's binaries and stopped with the test.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use accounts::{Accounts, AccountsConfig, AccountsError};
use sqlx::{AnyConnection, AssertSqlSafe, Connection};

use crate::{Place, suite};

/// The user that the server runs as where the tests are root's: PostgreSQL refuses to run as root.
const USER: &str = "postgres";

struct Server {
    child: Child,
    directory: tempfile::TempDir,
}

/// The newest installed server's binaries, if there are any.
fn binaries() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
        .collect();
    found.sort();
    found.pop()
}

/// `program` as a user that may run the server; it ends with this process.
fn command(program: &Path, owner: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if std::fs::metadata(owner).unwrap().uid() != std::fs::metadata("/proc/self").unwrap().uid() {
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
    }
    command.arg(program).current_dir(owner).stdin(Stdio::null());
    command
}

fn start(bin: &Path) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let (root, tables) = (directory.path(), directory.path().join("tables"));
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        assert!(Command::new("chown").arg(USER).arg(root).status().unwrap().success());
    }
    let mut initdb = command(&bin.join("initdb"), root);
    initdb
        .args([
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ])
        .arg(&tables);
    let made = initdb.output().unwrap();
    assert!(
        made.status.success(),
        "initdb: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let log = std::fs::File::create(root.join("log")).unwrap();
    let mut postgres = command(&bin.join("postgres"), root);
    // By its socket alone: no port to choose, and nobody else can connect.
    postgres
        .arg("-D")
        .arg(&tables)
        .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c"]);
    postgres.arg(format!("unix_socket_directories={}", root.display()));
    let child = postgres.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    Server { child, directory }
}

impl Server {
    fn url(&self, database: &str) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@localhost/{database}?host={socket}")
    }

    async fn connect(&mut self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        for _ in 0..600 {
            if let Ok(connection) = AnyConnection::connect(&self.url("postgres")).await {
                return connection;
            }
            let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap();
            assert!(self.child.try_wait().unwrap().is_none(), "the server ended: {}", log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the server never took a connection");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast shutdown.
        let _ = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds() {
    let Some(bin) = binaries() else {
        println!("skipped: no PostgreSQL server in /usr/lib/postgresql (apt-get install postgresql)");
        return;
    };
    let mut server = start(&bin);
    let mut admin = server.connect().await;
    for (number, case) in suite::CASES.iter().enumerate() {
        println!("postgres: {case}");
        let database = format!("case_{number}");
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {database}")))
            .execute(&mut admin)
            .await
            .unwrap();
        let data = tempfile::tempdir().unwrap();
        suite::run(case, Place::new(data.path(), Some(server.url(&database)))).await;
        assert!(
            std::fs::read_dir(data.path()).unwrap().next().is_none(),
            "nothing is written beside the database"
        );
    }
}

#[tokio::test]
async fn a_server_that_isnt_there_is_an_error() {
    let nowhere = tempfile::tempdir().unwrap();
    let socket = nowhere.path().display().to_string().replace('/', "%2F");
    let url = format!("postgres://someone:secret@localhost/db?host={socket}");
    let config = AccountsConfig {
        url: Some(url),
        wait_ms_max: 200,
        ..AccountsConfig::default()
    };
    let error = Accounts::open(&config, nowhere.path()).await.unwrap_err();
    assert!(matches!(error, AccountsError::Open(_)), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}
