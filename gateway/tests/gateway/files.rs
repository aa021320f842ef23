//! A low limit of open files: connections leave some for everything else.

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::client::Client;
use crate::running::Running;

/// Tells the process of a few files that it is one.
const TASK: &str = "RECEIPTS_TEST_FILES";

#[tokio::test]
async fn connections_leave_files_for_the_log() {
    http_server::listen::lift_open_files();
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n 320; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "files::a_gateway_of_few_files", "--ignored", "--nocapture"])
        .env(TASK, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || loop {
        let line = said.next_line().await.unwrap().expect("it goes on");
        if let Some((_, words)) = line.split_once("files: ") {
            return words.to_owned();
        }
    };
    let address: SocketAddr = next().await.parse().unwrap();
    let mut open = Vec::new();
    let reported = loop {
        assert!(open.len() < 320, "none was turned away");
        let mut client = Client::connect(address).await;
        let _ = client
            .stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n")
            .await;
        match client.answer_or_end().await {
            Some(answer) if answer.status == 200 => open.push(client),
            other => break other,
        }
    };
    assert_eq!(reported.map(|answer| answer.status), Some(503));
    child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
    assert_eq!(next().await, "100 opened");
    assert!(child.wait().await.unwrap().success());
}

/// Not a test: what the process of few files runs.
#[tokio::test]
#[ignore = "run by connections_leave_files_for_the_log"]
async fn a_gateway_of_few_files() {
    if std::env::var(TASK).is_err() {
        return;
    }
    let gateway = Running::with(|config| config.address_share_percent_max = 100).await;
    println!("\nfiles: {}", gateway.address);
    let _ = tokio::io::stdin().read(&mut [0]).await;
    let segments: Vec<_> = (0..100).map_while(|_| tempfile::tempfile().ok()).collect();
    println!("\nfiles: {} opened", segments.len());
    gateway.begin_shutdown();
    let _ = gateway.ended().await;
}
