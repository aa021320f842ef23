//! A PostgreSQL that goes away and comes back, behind a proxy that refuses, or answers nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use accounts::{Accounts, AccountsConfig, AccountsError};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use test_engines::Postgres;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

/// Bound of a query in these tests.
const WAIT_MS_MAX: u64 = 20_000;

/// A port of this machine that leads to the server's socket until it is closed.
struct Port {
    number: u16,
    /// Bound and never listening: nobody else gets the number while it is closed.
    _reserved: TcpSocket,
    socket: String,
    open: Option<AbortOnDropHandle<()>>,
}

/// A socket that shares its port with others of this process's user.
fn socket(port: u16) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    socket
}

impl Port {
    async fn open(postgres: &Postgres) -> Self {
        let url = postgres.url("postgres");
        let (_, folder) = url.split_once("?host=").unwrap();
        let reserved = socket(0);
        let mut port = Self {
            number: reserved.local_addr().unwrap().port(),
            _reserved: reserved,
            socket: format!("{}/.s.PGSQL.5432", folder.replace("%2F", "/")),
            open: None,
        };
        port.reopen().await;
        port
    }

    fn listen(&self) -> TcpListener {
        socket(self.number).listen(64).unwrap()
    }

    async fn reopen(&mut self) {
        self.close().await;
        let (listener, socket) = (self.listen(), self.socket.clone());
        self.open = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let socket = socket.clone();
                connections.spawn(async move {
                    let mut server = UnixStream::connect(socket).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        })));
    }

    /// Ends all connections and refuses new ones.
    async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            open.abort();
            // Its listener is closed then.
            let _ = open.await;
        }
    }

    /// Ends all connections, and accepts new ones that get no answer.
    async fn fall_silent(&mut self) {
        self.close().await;
        let listener = self.listen();
        self.open = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut connections: Vec<TcpStream> = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.push(client);
            }
        })));
    }

    fn config(&self, database: &str) -> AccountsConfig {
        let url = format!(
            "postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable",
            self.number
        );
        AccountsConfig {
            url: Some(url.into()),
            wait_ms_max: WAIT_MS_MAX,
            ..AccountsConfig::default()
        }
    }
}

/// Duration of a query that has to fail because the server is away.
async fn failed(accounts: &Accounts) -> Duration {
    let begun = Instant::now();
    let error = accounts.ping().await.unwrap_err();
    assert!(matches!(error, AccountsError::Unreachable(_)), "{error}");
    begun.elapsed()
}

/// Queries that waited for a server would take a hundred times as long, on any machine.
async fn assert_many_fail_while_one_may_wait(accounts: &Accounts) {
    let begun = Instant::now();
    for _ in 0..100 {
        failed(accounts).await;
    }
    let taken = begun.elapsed();
    assert!(taken < Duration::from_millis(WAIT_MS_MAX), "{taken:?}");
}

/// Waits until the store answers again; the time that took.
async fn answered(accounts: &Accounts) -> Duration {
    let begun = Instant::now();
    while accounts.ping().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_fail_at_once_while_the_server_is_away() {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("outage").unwrap();
    let mut port = Port::open(&postgres).await;
    let data = tempfile::tempdir().unwrap();
    let accounts = Accounts::open(&port.config("outage"), data.path()).await.unwrap();
    accounts.ping().await.unwrap();

    port.close().await;
    let first = failed(&accounts).await;
    println!("refused: noticed after {first:?}");
    assert!(first < Duration::from_millis(WAIT_MS_MAX / 4), "{first:?}");
    assert_many_fail_while_one_may_wait(&accounts).await;
    port.reopen().await;
    let back = answered(&accounts).await;
    println!("refused: answered {back:?} after the server was back");
    assert!(back < Duration::from_millis(WAIT_MS_MAX), "{back:?}");

    // Nobody refuses: a probe's time has to be over first.
    port.fall_silent().await;
    let first = failed(&accounts).await;
    println!("silent: noticed after {first:?}");
    assert!(first < Duration::from_millis(WAIT_MS_MAX), "{first:?}");
    assert_many_fail_while_one_may_wait(&accounts).await;
    port.reopen().await;
    answered(&accounts).await;
}

/// A query that waits for a lock, or a server without free connections, opens no circuit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_query_is_no_outage() {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("outage").unwrap();
    let port = Port::open(&postgres).await;
    let data = tempfile::tempdir().unwrap();
    let accounts = Accounts::open(&port.config("outage"), data.path()).await.unwrap();
    let url = postgres.url("outage");
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut locked = other.begin().await.unwrap();
    let lock = sqlx::query("LOCK TABLE accounts");
    lock.execute(&mut *locked).await.unwrap();
    let listing = accounts.list_accounts();
    tokio::pin!(listing);
    assert!(
        tokio::time::timeout(Duration::from_secs(2), &mut listing)
            .await
            .is_err()
    );
    accounts.ping().await.unwrap();
    // The server refuses further connections, as one does whose connections are all used.
    let full = "ALTER DATABASE outage ALLOW_CONNECTIONS false";
    postgres.psql("postgres", full).unwrap();
    assert!(
        tokio::time::timeout(Duration::from_secs(2), &mut listing)
            .await
            .is_err()
    );
    locked.rollback().await.unwrap();
    listing.await.unwrap();
}
