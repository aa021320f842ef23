//! HTTP proxy that can pause: requests then wait, instead of failing, while their server restarts.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, bail};
use parking_lot::{Condvar, Mutex};

const HEAD_BYTES_MAX: usize = 1 << 20;

/// Forwards each request to a port of this machine, over a connection of its own.
///
/// The proxy adds `Connection: close`, so that a connection carries one request and is never idle:
/// bytes can then be copied without understanding bodies.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    requests: Arc<Requests>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Requests {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    paused: bool,
    closed: bool,
    in_flight: usize,
}

impl Proxy {
    /// Listens on `port` and forwards to `backend`.
    pub(crate) fn open(port: u16, backend: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("port {port}"))?;
        let requests = Arc::new(Requests::default());
        let accepted = Arc::clone(&requests);
        let acceptor = std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepted.state.lock().closed {
                    return;
                }
                let (Ok(client), requests) = (client, Arc::clone(&accepted)) else {
                    continue;
                };
                // An error ends the client's connection, as an error of the server would.
                std::thread::spawn(move || forward(client, backend, &requests));
            }
        });
        Ok(Self {
            port,
            requests,
            acceptor: Some(acceptor),
        })
    }

    /// Makes new requests wait until [`resume`](Self::resume).
    pub(crate) fn pause(&self) {
        self.requests.state.lock().paused = true;
    }

    /// Lets the waiting requests through.
    pub(crate) fn resume(&self) {
        self.requests.state.lock().paused = false;
        self.requests.changed.notify_all();
    }

    /// Waits until every forwarded request has its response.
    pub(crate) fn drain(&self, deadline: Instant) -> anyhow::Result<()> {
        let mut state = self.requests.state.lock();
        while state.in_flight > 0 {
            if self.requests.changed.wait_until(&mut state, deadline).timed_out() {
                bail!("{} requests to port {} are still running", state.in_flight, self.port);
            }
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.requests.state.lock().closed = true;
        self.requests.changed.notify_all();
        // The acceptor wakes up, reads `closed` and closes the listener.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Counts a request as in flight until dropped.
struct InFlight<'a>(&'a Requests);

impl<'a> InFlight<'a> {
    /// Waits while the proxy is paused. None: the proxy was closed.
    fn enter(requests: &'a Requests) -> Option<Self> {
        let mut state = requests.state.lock();
        while state.paused && !state.closed {
            requests.changed.wait(&mut state);
        }
        if state.closed {
            return None;
        }
        state.in_flight += 1;
        Some(Self(requests))
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.state.lock().in_flight -= 1;
        self.0.changed.notify_all();
    }
}

fn forward(mut client: TcpStream, backend: u16, requests: &Requests) -> io::Result<()> {
    let Some(start) = read_head(&mut client)? else {
        return Ok(());
    };
    let Some(_in_flight) = InFlight::enter(requests) else {
        return Ok(());
    };
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, backend))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.write_all(&start)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        if io::copy(&mut from_client, &mut to_server).is_err() {
            // The server responded before the end of the body. Unread bytes would reset the
            // connection before the client has read that response.
            let _ = io::copy(&mut from_client, &mut io::sink());
        }
        // The client is gone, or has sent everything.
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let copied = io::copy(&mut server, &mut client);
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Write);
    copied.map(drop)
}

/// Reads a request up to the end of its head, and makes the head close the connection.
/// Returns nothing if the connection ended, or if the bytes are no HTTP.
fn read_head(client: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut received = Vec::new();
    let mut chunk = [0; 8192];
    let end = loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        let read = client.read(&mut chunk)?;
        if read == 0 || received.len() > HEAD_BYTES_MAX {
            return Ok(None);
        }
        received.extend_from_slice(&chunk[..read]);
    };
    let Ok(head) = std::str::from_utf8(&received[..end]) else {
        return Ok(None);
    };
    let is_connection = |line: &&str| {
        line.split(':')
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("connection"))
    };
    let mut start = String::with_capacity(received.len() + 32);
    for line in head.split("\r\n").filter(|line| !is_connection(line)) {
        start += line;
        start += "\r\n";
    }
    start += "Connection: close";
    let mut start = start.into_bytes();
    start.extend_from_slice(&received[end..]);
    Ok(Some(start))
}
