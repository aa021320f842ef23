//! An HTTP/1.1 client that writes exactly the bytes it is given, and reads one answer at a time.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::sample::{SIGNATURE, signature_of};

/// Longer than any answer takes; only a hanging gateway reaches it.
const PATIENCE: Duration = Duration::from_secs(300);

pub struct Client {
    pub stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub fields: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Asserts a refusal with this status and code; the first pointer if the problem lists faults.
    pub fn refused(&self, status: u16, code: &str) -> Option<String> {
        let json = self.json();
        assert_eq!((self.status, json["code"].as_str()), (status, Some(code)), "{json}");
        assert_eq!(self.field("content-type"), "application/problem+json");
        assert_eq!(json["status"], status);
        assert_eq!(json["requestId"], self.field("x-request-id"));
        assert_eq!(self.fields.contains_key("www-authenticate"), status == 401, "{json}");
        assert!(!json["detail"].as_str().unwrap().is_empty());
        json["errors"][0]["pointer"].as_str().map(str::to_owned)
    }
}

impl From<TcpStream> for Client {
    fn from(stream: TcpStream) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::from(stream)
    }

    /// From an address of this machine's own network, which tells clients apart.
    pub async fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((source, 0))).unwrap();
        Self::from(socket.connect(address).await.unwrap())
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// A whole request. Writing may fail when the gateway has answered and closed already; the
    /// answer is what counts.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let head = head_of(path, fields, body);
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        let _ = self.stream.write_all(&request).await;
        self.answer().await
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes())
            .await;
        self.answer().await
    }

    pub async fn answer(&mut self) -> Answer {
        let answer = timeout(PATIENCE, self.read_answer()).await.expect("an answer in time");
        answer.expect("an answer before the end of the connection")
    }

    /// The next answer, or `None` if the connection ends before it.
    pub async fn answer_or_end(&mut self) -> Option<Answer> {
        timeout(PATIENCE, self.read_answer())
            .await
            .expect("an answer or an end in time")
    }

    /// Waits for the end of the connection, after which nothing may have come.
    pub async fn ended(&mut self) -> bool {
        let mut rest = [0; 1];
        matches!(
            timeout(PATIENCE, self.stream.read(&mut rest))
                .await
                .expect("an end in time"),
            Ok(0) | Err(_)
        )
    }

    async fn read_answer(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let mut lines = head.split("\r\n");
        let status: u16 = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let fields: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        if status == 100 {
            return Some(Answer {
                status,
                fields,
                body: Vec::new(),
            });
        }
        let length: usize = fields.get("content-length").map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            self.more().await?;
        }
        let body = self.unread.drain(..length).collect();
        Some(Answer { status, fields, body })
    }

    async fn more(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.unread).await.unwrap_or(0);
        (read > 0).then_some(())
    }
}

/// The head of a POST with a body of `length` bytes.
/// The head of a request with this body. [`SIGNATURE`] is replaced by the body's.
pub fn head_of(path: &str, fields: &[(&str, &str)], body: &[u8]) -> String {
    post_head(path, fields, body.len()).replace(SIGNATURE, &signature_of(body))
}

pub fn post_head(path: &str, fields: &[(&str, &str)], length: usize) -> String {
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
