//! PostgreSQL: the same suite on a private server, started from Debian's binaries and stopped with the test.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use accounts::{Accounts, AccountsConfig, AccountsError};
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use crate::{Place, issue, suite};

/// The user that the server runs as where the tests are root's: PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// A server's directory; it runs once launched, and ends with this.
struct Server {
    bin: PathBuf,
    child: Option<Child>,
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

/// A running server, by its socket alone: no port to choose, and nobody else can connect.
fn start(bin: PathBuf) -> Server {
    let mut server = Server::prepare(bin);
    server.launch(&["listen_addresses="]);
    server
}

impl Server {
    fn prepare(bin: PathBuf) -> Self {
        let server = Self {
            bin,
            child: None,
            directory: tempfile::tempdir().unwrap(),
        };
        server.own(server.path());
        let mut initdb = command(&server.bin.join("initdb"), server.path());
        initdb
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(server.path().join("tables"));
        let made = initdb.output().unwrap();
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        server
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Gives a file to the user that the server runs as.
    fn own(&self, file: &Path) {
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            assert!(Command::new("chown").arg(USER).arg(file).status().unwrap().success());
        }
    }

    fn launch(&mut self, settings: &[&str]) {
        let log = std::fs::File::create(self.path().join("log")).unwrap();
        let mut postgres = command(&self.bin.join("postgres"), self.path());
        postgres.arg("-D").arg(self.path().join("tables"));
        let socket = format!("unix_socket_directories={}", self.path().display());
        for setting in settings.iter().copied().chain(["fsync=off", &socket]) {
            postgres.args(["-c", setting]);
        }
        self.child = Some(postgres.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    fn url(&self, database: &str) -> String {
        let socket = self.path().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@localhost/{database}?host={socket}")
    }

    async fn connect(&mut self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        for _ in 0..600 {
            if let Ok(connection) = AnyConnection::connect(&self.url("postgres")).await {
                return connection;
            }
            let log = std::fs::read_to_string(self.path().join("log")).unwrap();
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {log}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the server never took a connection");
    }

    /// Runs openssl in the server's directory.
    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let made = command.args(arguments.split(' ')).current_dir(self.path()).output();
        let made = made.unwrap();
        assert!(
            made.status.success(),
            "openssl {arguments}: {}",
            String::from_utf8_lossy(&made.stderr)
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // SIGINT is PostgreSQL's fast shutdown.
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let _ = child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds() {
    let Some(bin) = binaries() else {
        println!("skipped: no PostgreSQL server in /usr/lib/postgresql (apt-get install postgresql)");
        return;
    };
    let mut server = start(bin);
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
async fn a_server_that_isnt_there_is_told_by_every_question() {
    let nowhere = tempfile::tempdir().unwrap();
    let socket = nowhere.path().display().to_string().replace('/', "%2F");
    let url = format!("postgres://someone:secret@localhost/db?host={socket}");
    let config = AccountsConfig {
        url: Some(url),
        ..AccountsConfig::default()
    };
    let accounts = Accounts::open(&config, nowhere.path()).await.unwrap();
    assert_eq!(accounts.engine(), "postgres");
    // The second one comes within the pause, and is told the same.
    for _ in 0..2 {
        let error = accounts.ping().await.unwrap_err();
        assert!(
            matches!(&error, AccountsError::Open(why) if why.contains("No such file")),
            "{error}"
        );
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let error = accounts.authenticate("rcpt_0123456789abcdef_x").await.unwrap_err();
    assert!(!matches!(error, accounts::AuthError::Expired), "{error}");
}

#[tokio::test]
async fn a_url_that_cant_work_is_told_at_once() {
    let data = tempfile::tempdir().unwrap();
    for url in [
        "postgres://u:secret@h:99999/db",
        "postgres://u:secret@h/db?sslmode=maybe",
    ] {
        let config = AccountsConfig {
            url: Some(url.to_owned()),
            ..AccountsConfig::default()
        };
        let error = Accounts::open(&config, data.path()).await.unwrap_err();
        assert!(matches!(error, AccountsError::Open(_)), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_later_is_found() {
    let Some(bin) = binaries() else { return };
    let mut server = Server::prepare(bin);
    let data = tempfile::tempdir().unwrap();
    let place = Place::new(data.path(), Some(server.url("postgres")));
    let mut replicas = Vec::new();
    for _ in 0..4 {
        let accounts = place.open().await;
        assert!(matches!(accounts.ping().await, Err(AccountsError::Open(_))));
        replicas.push(accounts);
    }
    server.launch(&["listen_addresses="]);
    server.connect().await.close().await.unwrap();
    // Within the pause between two tries the answer is still the old one.
    let found = replicas.into_iter().map(|accounts| async move {
        for _ in 0..600 {
            if accounts.ping().await.is_ok() {
                return accounts;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", accounts.ping().await);
    });
    let mut tasks = tokio::task::JoinSet::new();
    found.for_each(|accounts| drop(tasks.spawn(accounts)));
    let replicas = tasks.join_all().await;
    let issued = issue(&replicas[0], "example.com").await;
    assert!(replicas[3].authenticate(&issued.api_key).await.is_ok());
}

/// `sslmode` as libpq has it, with a certificate of a CA that only `sslrootcert` names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_verified() {
    let Some(bin) = binaries() else { return };
    let mut server = Server::prepare(bin);
    for ca in ["ca", "other"] {
        server.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={ca} -keyout {ca}.key -out {ca}.pem"
        ));
    }
    server.openssl(
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=db -keyout server.key -out server.csr",
    );
    std::fs::write(server.path().join("names"), "subjectAltName=DNS:localhost").unwrap();
    server.openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
    let (certificate, key) = (server.path().join("server.pem"), server.path().join("server.key"));
    server.own(&key);
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    server.launch(&[
        "listen_addresses=127.0.0.1",
        &format!("port={port}"),
        "ssl=on",
        &format!("ssl_cert_file={}", certificate.display()),
        &format!("ssl_key_file={}", key.display()),
    ]);
    let socket = server.path().display().to_string().replace('/', "%2F");
    let by_socket = format!("postgres://postgres@localhost:{port}/postgres?host={socket}");
    let asked = |host: &str, rest: &str| {
        let url = format!("postgres://postgres@{host}:{port}/postgres?{rest}");
        let data = tempfile::tempdir().unwrap();
        let place = Place::new(data.path(), Some(url));
        async move { place.open().await.ping().await.map(|()| place) }
    };
    for _ in 0..600 {
        let place = Place::new(server.path(), Some(by_socket.clone()));
        if place.open().await.ping().await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let root = |ca: &str| format!("sslrootcert={}", server.path().join(ca).display());
    let full = format!("sslmode=verify-full&{}", root("ca.pem"));
    let place = asked("localhost", &full).await.unwrap();
    let encrypted = sqlx::query("SELECT CAST(ssl AS TEXT) FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    let row = encrypted.fetch_one(&place.raw().await).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "true");
    let refused = [
        // Another name than the certificate's; another CA than its; none of the public ones either.
        ("127.0.0.1", full.clone()),
        ("localhost", format!("sslmode=verify-full&{}", root("other.pem"))),
        ("localhost", "sslmode=verify-full".to_owned()),
    ];
    for (host, rest) in refused {
        let error = asked(host, &rest).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("certificate"), "{rest}: {error}");
    }
}
