//! A lean HTTP/1.1 client: requests are made beforehand, sent over idle connections, and only the
//! answer's status is checked. It must cost less than the servers it measures, or it would be
//! what is measured.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::workload::Signed;

/// Path of single receipts.
pub const SINGLE_PATH: &str = "/api/v1/receipts";
/// Path of batches.
pub const BATCH_PATH: &str = "/api/v1/receipts/batch";
/// The longest answer: the gateway's are a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Requests, ready to be written to a socket.
#[derive(Debug, Clone)]
pub struct Requests {
    whole: Arc<[Bytes]>,
}

/// Answers to the requests.
#[derive(Debug, Default)]
pub struct Answers {
    /// Answers with 202.
    pub accepted: u64,
    /// Other answers, by status.
    pub others: BTreeMap<u16, u64>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// From the sending of each request to its answer, in microseconds.
    pub latencies_us: Vec<f64>,
}

impl Requests {
    /// Makes a POST to `path` for each body.
    #[must_use]
    pub fn new(path: &str, signed: &[Signed]) -> Self {
        let whole = signed.iter().map(|signed| {
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 x-service-signature: {}\r\ncontent-length: {}\r\n\r\n",
                signed.request_signature,
                signed.body.len()
            );
            let mut request = Vec::with_capacity(head.len() + signed.body.len());
            request.extend_from_slice(head.as_bytes());
            request.extend_from_slice(&signed.body);
            Bytes::from(request)
        });
        Self { whole: whole.collect() }
    }

    /// Number of the different requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.whole.len() as u64
    }

    /// Sends `total` requests over `connections`, taking turns among the bodies, one request at a
    /// time on each: as fast as answers come, or `rate` a second.
    ///
    /// # Errors
    /// A connection breaks.
    pub async fn send(
        &self,
        address: SocketAddr,
        connections: usize,
        total: u64,
        rate: Option<f64>,
    ) -> Result<Answers> {
        let mut streams = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let turns = Arc::new(Turns {
            taken: AtomicU64::new(0),
            total,
            began: Instant::now(),
            rate,
        });
        let mut tasks = JoinSet::new();
        for stream in streams {
            tasks.spawn(talk(stream, self.clone(), Arc::clone(&turns)));
        }
        let mut answers = Answers::default();
        while let Some(talked) = tasks.join_next().await {
            let talked = talked??;
            answers.latencies_us.extend(talked.latencies_us);
            for (status, count) in talked.statuses {
                match status {
                    202 => answers.accepted += count,
                    other => *answers.others.entry(other).or_default() += count,
                }
            }
        }
        answers.elapsed = turns.began.elapsed();
        Ok(answers)
    }
}

/// Turns of the requests, and their times.
struct Turns {
    taken: AtomicU64,
    total: u64,
    began: Instant,
    rate: Option<f64>,
}

impl Turns {
    /// The next request's number, when its time has come; `None` after the last.
    async fn next(&self) -> Option<u64> {
        let turn = self.taken.fetch_add(1, Ordering::Relaxed);
        if turn >= self.total {
            return None;
        }
        if let Some(rate) = self.rate {
            let due = self.began + Duration::from_secs_f64(turn as f64 / rate);
            tokio::time::sleep_until(due.into()).await;
        }
        Some(turn)
    }
}

/// Answers on one connection.
#[derive(Default)]
struct Talked {
    statuses: BTreeMap<u16, u64>,
    latencies_us: Vec<f64>,
}

async fn talk(mut stream: TcpStream, requests: Requests, turns: Arc<Turns>) -> Result<Talked> {
    let mut talked = Talked::default();
    let mut buffer = Vec::with_capacity(4 * 1024);
    while let Some(turn) = turns.next().await {
        let index = usize::try_from(turn % requests.whole.len() as u64)?;
        let began = Instant::now();
        stream.write_all(&requests.whole[index]).await?;
        let status = answer(&mut stream, &mut buffer).await?;
        talked.latencies_us.push(began.elapsed().as_secs_f64() * 1e6);
        *talked.statuses.entry(status).or_default() += 1;
    }
    Ok(talked)
}

/// Reads one answer and returns its status. It must have a `Content-Length`, as every answer to
/// these requests has.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<u16> {
    buffer.clear();
    loop {
        let read = stream.read_buf(buffer).await?;
        ensure!(read > 0, "the server closed the connection");
        ensure!(
            buffer.len() <= ANSWER_BYTES_MAX,
            "an answer is over {ANSWER_BYTES_MAX} bytes"
        );
        let Some((status, length)) = parse(buffer)? else {
            continue;
        };
        if buffer.len() >= length {
            return Ok(status);
        }
    }
}

/// The status and the whole length of an answer whose head is complete.
fn parse(buffer: &[u8]) -> Result<Option<(u16, usize)>> {
    let Some(head_end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&buffer[..head_end])?;
    let status = head.get(9..12).context("a short status line")?.parse()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>())
    });
    let length = length.context("an answer without Content-Length")??;
    Ok(Some((status, head_end + 4 + length)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn answers_are_read_to_their_end() {
        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\nx: y\r\n\r\nabc";
        assert_eq!(parse(answer).unwrap(), Some((202, answer.len())));
        assert_eq!(parse(&answer[..30]).unwrap(), None);
        assert!(parse(b"HTTP/1.1 202 Accepted\r\n\r\n").is_err());
    }
}
