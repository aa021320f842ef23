//! Effects of each mode and fault of the proxy on a connection.

use std::time::Duration;

use test_engines::fault_proxy::{Fault, FaultProxy, Mode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A proxy in front of a server that sends every byte back.
async fn echoing() -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = client.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    FaultProxy::start(address).await.unwrap()
}

/// Sends a request on a connection, and returns what comes back; nothing if the connection ends.
async fn exchange(client: &mut TcpStream, request: &str) -> String {
    let _ = client.write_all(request.as_bytes()).await;
    let mut answer = vec![0; 1_024];
    let read = client.read(&mut answer).await.unwrap_or(0);
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test]
async fn each_mode_holds_for_new_connections_and_for_those_that_exist() {
    let proxy = echoing().await;
    let modes = [
        (Mode::Open, "ping"),
        (Mode::Slow(Duration::from_millis(1)), "ping"),
        (Mode::Unanswered, ""),
        (Mode::Down, ""),
    ];
    for (mode, expected) in modes {
        proxy.set(Mode::Open);
        let mut existing = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(exchange(&mut existing, "ping").await, "ping");
        proxy.set(mode.clone());
        let mut new = TcpStream::connect(proxy.address()).await.unwrap();
        for client in [&mut existing, &mut new] {
            let answer = exchange(client, "ping").await;
            assert_eq!(answer.is_empty(), expected.is_empty(), "{mode:?}: {answer}");
            assert!(answer.starts_with(expected), "{mode:?}: {answer}");
        }
    }
    assert_eq!(proxy.answers_cut(), 2);
    proxy.set(Mode::answer("500 Internal Server Error", "no"));
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    let answer = exchange(&mut client, "ping").await;
    assert!(answer.starts_with("HTTP/1.1 500 Internal"), "{answer}");
}

#[tokio::test]
async fn a_fault_happens_once_at_an_insert_into_its_table() {
    let proxy = echoing().await;
    let insert = |table: &str| format!("POST /?query=INSERT%20INTO+{table}+(key) HTTP/1.1\r\n\r\n");
    for (fault, is_answered) in [(Fault::CutBefore, false), (Fault::CutAfter, false), (Fault::Held, true)] {
        proxy.arm("usage", fault);
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let other = insert("receipts");
        assert_eq!(exchange(&mut client, &other).await, other);
        let armed = insert("usage");
        let (answer, ()) = tokio::join!(exchange(&mut client, &armed), async {
            proxy.reached().await.unwrap();
            proxy.release();
        });
        assert_eq!(!answer.is_empty(), is_answered, "{fault:?}");
        if fault != Fault::Held {
            // Nobody took what was released.
            proxy.arm("usage", Fault::AnswerHeld);
            client = TcpStream::connect(proxy.address()).await.unwrap();
            assert_eq!(exchange(&mut client, &armed).await, armed);
            proxy.reached().await.unwrap();
        }
        assert_eq!(exchange(&mut client, &armed).await, armed);
    }
    assert_eq!(proxy.inserts("receipts"), 3);
}
