//! A TCP proxy that can be slow, swallow answers, answer itself or be away, and that can run an
//! action at a moment of an insert.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

const CHUNK_BYTES: usize = 64 << 10;

/// Fault of a connection. A change ends the connections that were made before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Every chunk of an answer comes so much later.
    Slow(Duration),
    /// Requests arrive, answers don't, and the connection breaks so much later.
    Mute(Duration),
    /// The server isn't reached; this text is the answer to everything.
    Answer(String),
    /// Connections are closed as soon as they are made.
    Away,
}

/// A moment of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The request has reached the proxy, and not the server.
    Asked,
    /// The answer has reached the proxy, and not the client.
    Answered,
}

/// An action at a moment of the next insert into a table.
struct Trap {
    table: &'static str,
    moment: Moment,
    action: Box<dyn FnOnce() + Send>,
}

type Trapped = Arc<Mutex<Option<Trap>>>;

/// A proxy on a port of its own; it ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    trap: Trapped,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Listens, and passes everything on to `target`.
    ///
    /// # Errors
    /// No free port.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let fault = watch::Sender::new(Fault::None);
        let trap = Trapped::default();
        let task = tokio::spawn(serve(listener, target, fault.subscribe(), Arc::clone(&trap)));
        Ok(Self {
            address,
            fault,
            trap,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, this; connections made before are broken.
    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// Runs `action` at a moment of the next insert into a table, before anything is forwarded.
    pub fn at(&self, table: &'static str, moment: Moment, action: impl FnOnce() + Send + 'static) {
        let action = Box::new(action);
        *self.trap.lock() = Some(Trap { table, moment, action });
    }

    /// An HTTP answer of this status that ends its connection, for [`Fault::Answer`].
    #[must_use]
    pub fn answer(status: &str, body: &str) -> Fault {
        Fault::Answer(format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, fault: watch::Receiver<Fault>, trap: Trapped) {
    // Ends its connections when it ends.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let mut changes = fault.clone();
        let fault = changes.borrow_and_update().clone();
        let trap = Arc::clone(&trap);
        connections.spawn(async move {
            tokio::select! {
                _ = connection(client, target, fault, trap) => {}
                _ = changes.changed() => {}
            }
        });
    }
}

async fn connection(mut client: TcpStream, target: SocketAddr, fault: Fault, trap: Trapped) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let answer_late = match fault {
        Fault::None => Duration::ZERO,
        Fault::Slow(late) => late,
        Fault::Away => return Ok(()),
        Fault::Answer(text) => {
            // Its request, as far as it came, then the answer: some clients write before they read.
            let mut request = vec![0; CHUNK_BYTES];
            let _ = client.read(&mut request).await?;
            client.write_all(text.as_bytes()).await?;
            client.shutdown().await?;
            while client.read(&mut request).await? > 0 {}
            return Ok(());
        }
        Fault::Mute(wait) => {
            let mut server = TcpStream::connect(target).await?;
            let (mut from_client, _to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let mut swallowed = tokio::io::sink();
            let both = async {
                tokio::join!(
                    tokio::io::copy(&mut from_client, &mut to_server),
                    tokio::io::copy(&mut from_server, &mut swallowed)
                )
            };
            let _ = tokio::time::timeout(wait, both).await;
            return Ok(());
        }
    };
    let mut server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let caught = Mutex::new(None);
    let there = pass(&mut from_client, &mut to_server, Duration::ZERO, |piece| {
        if let Some(trap) = trap.lock().take_if(|trap| is_insert(piece, trap.table)) {
            match trap.moment {
                Moment::Asked => (trap.action)(),
                Moment::Answered => *caught.lock() = Some(trap.action),
            }
        }
    });
    let back = pass(&mut from_server, &mut to_client, answer_late, |_| {
        if let Some(action) = caught.lock().take() {
            action();
        }
    });
    tokio::try_join!(there, back)?;
    Ok(())
}

async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    late: Duration,
    seen: impl Fn(&[u8]),
) -> std::io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        seen(&chunk[..read]);
        if !late.is_zero() {
            tokio::time::sleep(late).await;
        }
        to.write_all(&chunk[..read]).await?;
    }
}

/// Whether a piece begins a request that inserts into a table: its statement is in the address.
fn is_insert(piece: &[u8], table: &str) -> bool {
    if !piece.starts_with(b"POST ") {
        return false;
    }
    let line = piece.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).replace("%20", " ").replace('+', " ");
    line.contains(&format!("INSERT INTO {table} "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::{Fault, Moment, Proxy};

    /// A server that sends every byte back.
    async fn echo() -> std::net::SocketAddr {
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
        address
    }

    async fn ask(proxy: &Proxy) -> Vec<u8> {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let _ = client.write_all(b"ping").await;
        let mut answer = vec![0; 64];
        let read = client.read(&mut answer).await.unwrap_or(0);
        answer.truncate(read);
        answer
    }

    #[tokio::test]
    async fn each_fault_is_what_it_says_and_ends() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        assert_eq!(ask(&proxy).await, b"ping");
        proxy.set(Fault::Slow(Duration::from_millis(1)));
        assert_eq!(ask(&proxy).await, b"ping");
        proxy.set(Fault::Mute(Duration::from_millis(1)));
        assert_eq!(ask(&proxy).await, b"");
        proxy.set(Fault::Away);
        assert_eq!(ask(&proxy).await, b"");
        proxy.set(Proxy::answer("500 Internal Server Error", "no"));
        assert!(ask(&proxy).await.starts_with(b"HTTP/1.1 500 Internal"));
        proxy.set(Fault::None);
        assert_eq!(ask(&proxy).await, b"ping");
    }

    #[tokio::test]
    async fn an_action_runs_once_at_its_moment() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        for moment in [Moment::Asked, Moment::Answered] {
            let (done, mut was_done) = tokio::sync::mpsc::unbounded_channel();
            proxy.at("usage", moment, move || done.send(()).unwrap());
            let mut client = TcpStream::connect(proxy.address()).await.unwrap();
            for (table, count) in [("receipts", 0), ("usage", 1), ("usage", 0)] {
                let request = format!("POST /?query=INSERT%20INTO+{table}+(key) HTTP/1.1\r\n");
                client.write_all(request.as_bytes()).await.unwrap();
                let mut answer = vec![0; request.len()];
                client.read_exact(&mut answer).await.unwrap();
                assert_eq!(answer, request.as_bytes());
                let found = std::iter::from_fn(|| was_done.try_recv().ok()).count();
                assert_eq!(found, count, "{table}");
            }
        }
    }

    #[tokio::test]
    async fn a_change_breaks_what_was_connected_before() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).await.unwrap();
        proxy.set(Fault::Away);
        assert_eq!(client.read(&mut answer).await.unwrap_or(0), 0);
    }
}
