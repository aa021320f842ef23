//! 20,000 connections against a limit of 10,000: none of it crashes the gateway or starves those inside.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream};

use crate::client::Client;
use crate::running::Running;
use crate::sample::{FIELDS, RECEIPTS, receipt};

const CONNECTIONS: usize = 20_000;
const LIMIT: usize = 10_000;

/// Both ends of every connection are files of this process.
const FILES: u64 = (CONNECTIONS + LIMIT + 1_000) as u64;

async fn connect_from(source: IpAddr, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(SocketAddr::new(source, 0)).ok()?;
    socket.connect(to).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_connections() {
    let files = service::listen::lift_open_files().unwrap_or(u64::MAX);
    // As many as the machine lets one process have, in the same proportion.
    let share = |count: usize| usize::try_from(count as u64 * files.min(FILES) / FILES).unwrap();
    let (connections, limit) = (share(CONNECTIONS), share(LIMIT));
    let gateway = Running::with(|config| {
        config.connections_max = limit;
        config.head_wait_ms_max = 120_000;
        config.idle_wait_ms_max = 120_000;
    })
    .await;
    let mut inside = gateway.connect().await;
    assert_eq!(inside.get("/healthz").await.status, 200);
    let mut open = Vec::new();
    for index in 0..connections {
        // 10,000 a source address: a pair of addresses has 28,000 ports by default.
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(index / 10_000).unwrap()));
        open.extend(connect_from(source, gateway.address).await);
        if index % 1_000 == 0 {
            assert_eq!(
                inside.post(RECEIPTS, FIELDS, &receipt().0).await.status,
                202,
                "at {index}"
            );
        }
    }
    assert_eq!(inside.post(RECEIPTS, FIELDS, &receipt().0).await.status, 202);
    // Those beyond the limit were answered or closed; those within are silent and open.
    let mut last = Client::from(open.pop().unwrap());
    assert!(last.answer_or_end().await.is_none_or(|answer| answer.status == 503));
    drop(open);
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
