//! A name that resolves differently each time it is requested.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outbound::{Config, Error, OutboundClient};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use crate::server::{Server, answer};
use crate::world::World;

/// A DNS server that gives 127.0.0.1 to the first question for an address, and 127.0.0.3 to all
/// later ones.
struct Rebinder {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Rebinder {
    async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut question = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut question).await.unwrap();
                let answer = answer_to(&question[..length], &count);
                socket.send_to(&answer, from).await.unwrap();
            }
        });
        Self { address, asked, task }
    }
}

impl Drop for Rebinder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// RFC 1035, 4.1: the question comes back, and for type A one record that points at its name.
fn answer_to(question: &[u8], count: &AtomicUsize) -> Vec<u8> {
    let name_end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let is_a = question[name_end..name_end + 2] == [0, 1];
    let mut answer = question[..name_end + 4].to_vec();
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    if is_a {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let address = if first {
            Ipv4Addr::LOCALHOST
        } else {
            Ipv4Addr::new(127, 0, 0, 3)
        };
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    answer
}

#[tokio::test]
async fn what_was_judged_is_what_is_connected_to() {
    let trap = Server::with("127.0.0.3:0", World::get().tls(&["good.test"]), |_| async {}).await;
    // The same port on the allowed address, so that only the address tells them apart.
    let port = trap.address.port();
    let honest = Server::with(
        &format!("127.0.0.1:{port}"),
        World::get().tls(&["good.test"]),
        |mut socket| async move {
            use tokio::io::AsyncWriteExt;
            if crate::server::request(&mut socket).await.is_some() {
                let redirect = answer("302 Found", "location: https://good.test/again\r\n", "");
                let _ = socket.write_all(redirect.as_bytes()).await;
            }
        },
    )
    .await;
    let rebinder = Rebinder::start().await;
    let config = Config {
        test_resolver: Some(rebinder.address),
        test_allow_addresses: vec!["127.0.0.1/32".parse().unwrap()],
        ..World::get().config(trap.address)
    };
    let client = OutboundClient::new(&config).unwrap();
    // The first connection goes where the first answer said, without a second question; the
    // redirect to the same host asks again, and the new address is judged again.
    let error = client.get("https://good.test/", 100).await.unwrap_err();
    let Error::Refused(reported) = error else {
        panic!("{error:?}")
    };
    assert_eq!(reported, "good.test resolves to an address that isn't public");
    assert_eq!(rebinder.asked.load(Ordering::Relaxed), 2, "once for each connection");
    assert_eq!((honest.connections(), trap.connections()), (1, 0));
}
