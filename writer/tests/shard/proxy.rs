//! A proxy between a writer and the warehouse's endpoint, with faults of a network and a server.
//!
//! The client sends one request at a time on a connection, so what comes after an answer begins
//! with a request's head.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// Fault of the next insert into a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
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
    /// The connection is cut, and the whole request arrives once it is released.
    Late,
}

/// Mode of the proxy for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All requests are forwarded.
    Open,
    /// Connections are cut and not accepted.
    Down,
    /// Each piece is forwarded so much later.
    Slow(Duration),
    /// Requests are forwarded, and the connection is cut instead of the answer being forwarded.
    Unanswered,
    /// An insert into `receipts` may take so many bytes of the engine's memory.
    Memory(u64),
}

struct Shared {
    mode: watch::Sender<Mode>,
    fault: parking_lot::Mutex<Option<(&'static str, Fault)>>,
    /// Inserts that were forwarded, by the text of their heads.
    heads: parking_lot::Mutex<Vec<String>>,
    answers_cut: parking_lot::Mutex<u32>,
    reached: Notify,
    released: Notify,
    /// The answer to a late request.
    late: watch::Sender<String>,
}

/// A listener in front of an endpoint.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    pub(crate) async fn before(endpoint: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            mode: watch::Sender::new(Mode::Open),
            fault: parking_lot::Mutex::default(),
            heads: parking_lot::Mutex::default(),
            answers_cut: parking_lot::Mutex::default(),
            reached: Notify::new(),
            released: Notify::new(),
            late: watch::Sender::default(),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if *accepting.mode.borrow() == Mode::Down {
                    continue;
                }
                let Ok(inner) = TcpStream::connect(endpoint).await else {
                    continue;
                };
                tokio::spawn(forward(stream, inner, Arc::clone(&accepting)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Arms a fault for the next insert into a table.
    pub(crate) fn arm(&self, table: &'static str, fault: Fault) {
        *self.shared.fault.lock() = Some((table, fault));
    }

    /// Waits until the fault has happened.
    pub(crate) async fn reached(&self) {
        let reached = self.shared.reached.notified();
        tokio::time::timeout(crate::harness::WAIT_MAX, reached)
            .await
            .expect("the fault is reached");
    }

    /// Forwards a held insert.
    pub(crate) fn release(&self) {
        self.shared.released.notify_one();
    }

    /// Waits until a released late request is answered, and returns the answer.
    pub(crate) async fn late_answer(&self) -> String {
        let mut late = self.shared.late.subscribe();
        let answered = late.wait_for(|answer| !answer.is_empty());
        let answered = tokio::time::timeout(crate::harness::WAIT_MAX, answered);
        answered.await.expect("a late answer").unwrap().clone()
    }

    /// Answers that were cut off.
    pub(crate) fn answers_cut(&self) -> u32 {
        *self.shared.answers_cut.lock()
    }

    /// Inserts into a table that were forwarded.
    pub(crate) fn inserts(&self, table: &str) -> usize {
        let heads = self.shared.heads.lock();
        heads.iter().filter(|head| is_insert(head, table)).count()
    }
}

/// Whether a request inserts into a table: by its address, or by a statement in its body.
fn is_insert(request: &str, table: &str) -> bool {
    let plain = request.replace("%20", " ").replace('+', " ");
    plain.contains(&format!("INSERT INTO {table} "))
}

async fn forward(mut outer: TcpStream, mut inner: TcpStream, shared: Arc<Shared>) {
    let mut mode = shared.mode.subscribe();
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut armed = None;
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
                let piece = &with_memory(now, &asked[..length]);
                if piece.starts_with(b"POST ") {
                    let head = String::from_utf8_lossy(piece).into_owned();
                    armed = take(&shared, &head);
                    match armed {
                        Some(Fault::CutBefore) => return shared.reached.notify_one(),
                        Some(Fault::HangBefore) => {
                            shared.reached.notify_one();
                            return std::future::pending().await;
                        }
                        Some(Fault::Held) => {
                            shared.reached.notify_one();
                            shared.released.notified().await;
                        }
                        Some(Fault::Late) => return arrive_late(piece.to_vec(), outer, inner, &shared).await,
                        _ => {}
                    }
                    shared.heads.lock().push(head);
                }
                tokio::time::sleep(pause).await;
                let end = if armed == Some(Fault::CutWithin) { head_end(piece) } else { piece.len() };
                if inner.write_all(&piece[..end]).await.is_err() { return }
                if armed == Some(Fault::CutWithin) {
                    return shared.reached.notify_one();
                }
            }
            read = inner.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                match armed {
                    Some(Fault::CutAfter) => return shared.reached.notify_one(),
                    Some(Fault::HangAfter) => {
                        shared.reached.notify_one();
                        return std::future::pending().await;
                    }
                    _ => {}
                }
                if now == Mode::Unanswered {
                    *shared.answers_cut.lock() += 1;
                    return;
                }
                tokio::time::sleep(pause).await;
                if outer.write_all(&answered[..length]).await.is_err() { return }
            }
        }
    }
}

/// A piece of a request, whose statement has the mode's limit of memory if it is such an insert.
fn with_memory(mode: Mode, piece: &[u8]) -> Cow<'_, [u8]> {
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
async fn arrive_late(mut request: Vec<u8>, mut outer: TcpStream, mut inner: TcpStream, shared: &Shared) {
    while !request.ends_with(b"\r\n0\r\n\r\n") {
        assert!(outer.read_buf(&mut request).await.unwrap() > 0, "the request ends");
    }
    drop(outer);
    shared.reached.notify_one();
    shared.released.notified().await;
    inner.write_all(&request).await.unwrap();
    let mut answer = vec![0; 1 << 16];
    let length = inner.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    shared.late.send_replace(answer);
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
