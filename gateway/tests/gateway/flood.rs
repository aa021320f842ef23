//! 20,000 connections against a limit of 10,000: none of it crashes the gateway or starves those
//! inside.
//!
//! A process may usually have 20,000 files, so the crowd is two processes of 10,000.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, ChildStdout, Command};

use crate::running::Running;
use crate::sample::{FIELDS, RECEIPTS, receipt};

const LIMIT: usize = 10_000;
/// Of each process.
const CROWD: usize = 10_000;

/// Variable that makes a process part of the crowd: where to connect to, where from, and how
/// often.
const TASK: &str = "RECEIPTS_TEST_CROWD";

struct Crowd {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Crowd {
    fn gather(to: SocketAddr, source: u8, count: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "flood::part_of_the_crowd", "--ignored", "--nocapture"])
            .env(TASK, format!("{to} 127.0.0.{source} {count}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// Number of connected ones, and how many of a sample of the last ones were turned away.
    async fn is_there(&mut self) -> (usize, usize) {
        while let Some(line) = self.said.next_line().await.unwrap() {
            if let Some((_, numbers)) = line.split_once("crowd: ") {
                let (connected, refused) = numbers.split_once(' ').unwrap();
                return (connected.parse().unwrap(), refused.parse().unwrap());
            }
        }
        panic!("the crowd has gone");
    }

    async fn disperse(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().await.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_connections() {
    // As many as the machine lets one process have: the limit and what the tests beside this one
    // need.
    let files = usize::try_from(http_server::listen::lift_open_files().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let share = files.saturating_sub(1_000).min(LIMIT);
    let gateway = Running::with(|config| {
        config.connections_max = share;
        config.head_wait_ms_max = 120_000;
        config.idle_wait_ms_max = 120_000;
    })
    .await;
    let mut inside = gateway.connect().await;
    assert_eq!(inside.get("/healthz").await.status, 200);
    let mut crowds = [2, 3].map(|source| Crowd::gather(gateway.address, source, share * CROWD / LIMIT));
    let (mut connected, mut refused) = (0, 0);
    for crowd in &mut crowds {
        let mut there = std::pin::pin!(crowd.is_there());
        let counted = loop {
            // Those inside are served all the while.
            assert_eq!(inside.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
            tokio::select! {
                counted = &mut there => break counted,
                () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
            }
        };
        connected += counted.0;
        refused += counted.1;
    }
    assert_eq!(connected, 2 * share, "the kernel completes every connection");
    assert!(refused > 0, "those over the limit were refused or closed");
    for crowd in crowds {
        crowd.disperse().await;
    }
    loop {
        let mut client = gateway.connect().await;
        let _ =
            tokio::io::AsyncWriteExt::write_all(&mut client.stream, b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await;
        if client.answer_or_end().await.is_some_and(|answer| answer.status == 200) {
            break;
        }
    }
    gateway.stop().await;
}

/// Not a test: what the processes of the crowd run.
#[tokio::test]
#[ignore = "run by twenty_thousand_connections"]
async fn part_of_the_crowd() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut words = task.split(' ');
    let to: SocketAddr = words.next().unwrap().parse().unwrap();
    let source: Ipv4Addr = words.next().unwrap().parse().unwrap();
    let count: usize = words.next().unwrap().parse().unwrap();
    http_server::listen::lift_open_files();
    let mut open = Vec::new();
    for _ in 0..count {
        open.extend(connect_from(source.into(), to).await);
    }
    let mut refused = 0;
    let connected = open.len();
    for stream in open.iter().rev().take(2_000) {
        let mut byte = [0];
        let waited = tokio::time::timeout(std::time::Duration::from_millis(1), stream.peek(&mut byte)).await;
        refused += usize::from(waited.is_ok());
    }
    // Through the test harness's own line.
    println!("\ncrowd: {connected} {refused}");
    let _ = tokio::io::stdin().read(&mut [0]).await;
}

async fn connect_from(source: IpAddr, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(SocketAddr::new(source, 0)).ok()?;
    socket.connect(to).await.ok()
}
