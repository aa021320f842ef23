//! Something between the verifier and the warehouse's endpoint, with faults of a network and a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What it does to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Hands everything on.
    Open,
    /// Takes no connection and cuts those that there are.
    Down,
    /// Hands everything on, each piece this much later.
    Slow(Duration),
    /// Hands requests on, and cuts the connection instead of handing the answer on.
    Unanswered,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<Mode>,
    answers_cut: Arc<AtomicU32>,
}

impl Proxy {
    pub(crate) async fn before(endpoint: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, seen) = watch::channel(Mode::Open);
        let answers_cut = Arc::new(AtomicU32::new(0));
        let cut = answers_cut.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, cut) = (seen.clone(), cut.clone());
                if *seen.borrow() == Mode::Down {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(inner) = TcpStream::connect(endpoint).await else {
                        return;
                    };
                    forward(stream, inner, seen, &cut).await;
                });
            }
        });
        Self {
            address,
            mode,
            answers_cut,
        }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many answers were cut off.
    pub(crate) fn answers_cut(&self) -> u32 {
        self.answers_cut.load(Ordering::Relaxed)
    }
}

async fn forward(mut outer: TcpStream, mut inner: TcpStream, mut mode: watch::Receiver<Mode>, cut: &AtomicU32) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let now = *mode.borrow_and_update();
        if now == Mode::Down {
            return;
        }
        let pause = match now {
            Mode::Slow(pause) => pause,
            _ => Duration::ZERO,
        };
        tokio::select! {
            changed = mode.changed() => if changed.is_err() { return },
            read = outer.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                tokio::time::sleep(pause).await;
                if inner.write_all(&asked[..length]).await.is_err() { return }
            }
            read = inner.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if *mode.borrow() == Mode::Unanswered {
                    cut.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                tokio::time::sleep(pause).await;
                if outer.write_all(&answered[..length]).await.is_err() { return }
            }
        }
    }
}
