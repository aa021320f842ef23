//! A TCP proxy between an HTTP client and its server, with faults of a network and of a server.
//!
//! The client sends one request at a time on a connection, so what comes after an answer begins
//! with a request's head.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

const PIECE_BYTES: usize = 64 << 10;

/// A fault that is armed happens within this time, or never.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Fault of the next insert into a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut, and nothing is forwarded.
    CutBefore,
    /// The head is forwarded, then the connection is cut.
    CutWithin,
    /// The insert is forwarded, and the connection is cut instead of its answer being forwarded.
    CutAfter,
    /// The insert isn't forwarded, and the client waits.
    HangBefore,
    /// The insert is forwarded, and the client waits for the answer.
    HangAfter,
    /// The insert is held until it is released, whatever the client does; then the connection
    /// continues.
    Held,
    /// The insert is forwarded, and its answer is held until it is released.
    AnswerHeld,
    /// The connection is cut, and the whole request arrives once it is released.
    Late,
}

/// Mode of the proxy for everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// All requests are forwarded.
    Open,
    /// Connections are cut, and new ones are closed.
    Down,
    /// Each piece of an answer is forwarded so much later.
    Slow(Duration),
    /// Requests are forwarded, and the connection is cut instead of the answer being forwarded.
    Unanswered,
    /// Connections are cut, and requests on new ones get this text as their answer.
    Answer(String),
    /// An insert into `receipts` may take so many bytes of the engine's memory.
    Memory(u64),
}

impl Mode {
    /// An HTTP answer of this status to everything.
    #[must_use]
    pub fn answer(status: &str, body: &str) -> Self {
        let length = body.len();
        Self::Answer(format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ))
    }
}

struct Shared {
    mode: watch::Sender<Mode>,
    fault: Mutex<Option<(&'static str, Fault)>>,
    /// Heads of the requests that were forwarded.
    heads: Mutex<Vec<String>>,
    answers_cut: Mutex<u32>,
    reached: Notify,
    released: Notify,
    /// The answer to a late request.
    late: watch::Sender<String>,
}

/// A listener in front of a server. It ends, with its connections, when it is dropped.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// Listens on a port of its own, and forwards to `server`.
    ///
    /// # Errors
    ///
    /// No free port.
    pub async fn start(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            mode: watch::Sender::new(Mode::Open),
            fault: Mutex::default(),
            heads: Mutex::default(),
            answers_cut: Mutex::default(),
            reached: Notify::new(),
            released: Notify::new(),
            late: watch::Sender::default(),
        });
        let accepting = tokio::spawn(accept(listener, server, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the mode, of connections that exist, too.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Arms a fault for the next insert into a table.
    pub fn arm(&self, table: &'static str, fault: Fault) {
        *self.shared.fault.lock() = Some((table, fault));
    }

    /// Waits until the fault has happened.
    ///
    /// # Errors
    ///
    /// No such insert arrived in time.
    pub async fn reached(&self) -> anyhow::Result<()> {
        let reached = tokio::time::timeout(WAIT_MAX, self.shared.reached.notified());
        reached.await.context("the armed insert didn't come")
    }

    /// Forwards what is held.
    pub fn release(&self) {
        self.shared.released.notify_one();
    }

    /// Waits until a released late request is answered, and returns the answer.
    ///
    /// # Errors
    ///
    /// No answer arrived in time.
    pub async fn late_answer(&self) -> anyhow::Result<String> {
        let mut late = self.shared.late.subscribe();
        let answered = late.wait_for(|answer| !answer.is_empty());
        Ok(tokio::time::timeout(WAIT_MAX, answered).await??.clone())
    }

    /// Number of answers that were cut off.
    #[must_use]
    pub fn answers_cut(&self) -> u32 {
        *self.shared.answers_cut.lock()
    }

    /// Number of inserts into a table that were forwarded.
    #[must_use]
    pub fn inserts(&self, table: &str) -> usize {
        let heads = self.shared.heads.lock();
        heads.iter().filter(|head| is_insert(head, table)).count()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Whether a request inserts into a table: by its address, or by a statement in its body.
fn is_insert(request: &str, table: &str) -> bool {
    let plain = request.replace("%20", " ").replace('+', " ");
    plain.contains(&format!("INSERT INTO {table} "))
}

async fn accept(listener: TcpListener, server: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn(forward(client, server, Arc::clone(&shared)));
    }
}

async fn forward(mut client: TcpStream, server: SocketAddr, shared: Arc<Shared>) {
    let mut mode = shared.mode.subscribe();
    let at_first = mode.borrow_and_update().clone();
    if let Mode::Answer(text) = at_first {
        return answer(client, text).await;
    }
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
        return;
    }
    let (mut asked, mut answered) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut armed = None;
    loop {
        let now = mode.borrow_and_update().clone();
        if matches!(now, Mode::Down | Mode::Answer(_)) {
            return;
        }
        tokio::select! {
            biased;
            changed = mode.changed() => if changed.is_err() { return },
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let piece = &with_memory(&now, &asked[..length]);
                if piece.starts_with(b"POST ") {
                    let head = String::from_utf8_lossy(piece).into_owned();
                    armed = take(&shared, &head);
                    match armed {
                        Some(Fault::CutBefore) => return shared.reached.notify_one(),
                        Some(Fault::HangBefore) => {
                            shared.reached.notify_one();
                            return std::future::pending().await;
                        }
                        Some(Fault::Held) => hold(&shared).await,
                        Some(Fault::Late) => return arrive_late(piece.to_vec(), client, server, &shared).await,
                        _ => {}
                    }
                    shared.heads.lock().push(head);
                }
                let end = if armed == Some(Fault::CutWithin) { head_end(piece) } else { piece.len() };
                if server.write_all(&piece[..end]).await.is_err() { return }
                if armed == Some(Fault::CutWithin) {
                    return shared.reached.notify_one();
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                match armed {
                    Some(Fault::CutAfter) => return shared.reached.notify_one(),
                    Some(Fault::HangAfter) => {
                        shared.reached.notify_one();
                        return std::future::pending().await;
                    }
                    Some(Fault::AnswerHeld) => {
                        armed = None;
                        hold(&shared).await;
                    }
                    _ => {}
                }
                if now == Mode::Unanswered {
                    *shared.answers_cut.lock() += 1;
                    return;
                }
                if let Mode::Slow(pause) = now {
                    tokio::time::sleep(pause).await;
                }
                if client.write_all(&answered[..length]).await.is_err() { return }
            }
        }
    }
}

async fn hold(shared: &Shared) {
    shared.reached.notify_one();
    shared.released.notified().await;
}

/// Reads a request as far as it came, then answers: some clients write before they read.
async fn answer(mut client: TcpStream, text: String) {
    let mut request = vec![0; PIECE_BYTES];
    if !matches!(client.read(&mut request).await, Ok(1..)) {
        return;
    }
    if client.write_all(text.as_bytes()).await.is_ok() && client.shutdown().await.is_ok() {
        while matches!(client.read(&mut request).await, Ok(1..)) {}
    }
}

/// A piece of a request, whose statement has the mode's limit of memory if it is such an insert.
fn with_memory<'a>(mode: &Mode, piece: &'a [u8]) -> Cow<'a, [u8]> {
    const START: &[u8] = b"POST /?";
    match (mode, piece.strip_prefix(START)) {
        (Mode::Memory(bytes), Some(rest)) if is_insert(&String::from_utf8_lossy(piece), "receipts") => {
            let setting = format!("max_memory_usage={bytes}&");
            Cow::Owned([START, setting.as_bytes(), rest].concat())
        }
        _ => Cow::Borrowed(piece),
    }
}

/// Reads the rest of a chunked request and cuts its connection. Sends it once it is released.
async fn arrive_late(mut request: Vec<u8>, mut client: TcpStream, mut server: TcpStream, shared: &Shared) {
    while !request.ends_with(b"\r\n0\r\n\r\n") {
        if !matches!(client.read_buf(&mut request).await, Ok(1..)) {
            return;
        }
    }
    drop(client);
    hold(shared).await;
    let mut answer = vec![0; PIECE_BYTES];
    if server.write_all(&request).await.is_ok()
        && let Ok(length) = server.read(&mut answer).await
    {
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        shared.late.send_replace(answer);
    }
}

fn take(shared: &Shared, head: &str) -> Option<Fault> {
    let mut fault = shared.fault.lock();
    let (_, found) = fault.take_if(|(table, _)| is_insert(head, table))?;
    Some(found)
}

fn head_end(piece: &[u8]) -> usize {
    piece
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map_or(piece.len(), |end| end + 4)
}
