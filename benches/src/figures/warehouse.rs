//! The way of verdicts into the warehouse, as verifier and writer take it, beside the engine's own
//! fastest format, over the same engine and the same rows.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ::warehouse::{EmbeddedEngine, Target, Warehouse, WarehouseConfig, WriterEpoch};
use anyhow::{Context, Result, ensure};
use blocks::{AcceptedRow, Block, Header, ReceiptCounts, Rows, SourceIndex, SourceRange};
use bytes::Bytes;
use cpu_time::ProcessTime;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::Setting;
use crate::rounds::{Samples, median};
use crate::row::{Row, Target as Goal, number};

/// 2026-11-15T12:00:00Z.
const NOON_MS: i64 = 1_794_744_000_000;
/// A verifier begins another record of `verdicts` beyond this size, in bytes
/// (`verifier.record_bytes_max`).
const RECORD_BYTES: usize = 1 << 20;
/// A receipt's bytes: about what one has.
const RAW: &[u8] = &[b'x'; 1_200];
const USER: &str = "bench";
const PASSWORD: &str = "bench";

/// Members of a receipt's row. 200 publishers of 50 entries, 40 clients, the last 24 hours.
struct Facts {
    publisher: String,
    url: String,
    entry: u128,
    client: u128,
    hash: [u8; 32],
    at_ms: i64,
}

fn facts(rows: usize) -> Vec<Facts> {
    let fact = |number: usize| {
        let hash: [u8; 32] = Sha256::digest(number.to_le_bytes()).into();
        let (publisher, entry, client) = (hash[0] % 200, hash[1] % 50, hash[2] % 40);
        Facts {
            publisher: format!("publisher-{publisher}.example"),
            url: format!("https://publisher-{publisher}.example/articles/2026/11/{entry}-a-title-of-some-length"),
            entry: u128::from(publisher) << 64 | u128::from(entry),
            client: u128::from(client),
            at_ms: NOON_MS - i64::from(u32::from_le_bytes([hash[3], hash[4], hash[5], 0])) * 5,
            hash,
        }
    };
    (0..rows).map(fact).collect()
}

/// Records of `verdicts`, as a verifier encodes them.
fn encode(facts: &[Facts]) -> Result<Vec<Bytes>> {
    let mut records = Vec::new();
    let mut rows = Rows::default();
    for (number, fact) in facts.iter().enumerate() {
        let mut id = [0; 16];
        id.copy_from_slice(&fact.hash[16..]);
        rows.push_accepted(&AcceptedRow {
            publisher: &fact.publisher,
            timestamp_ms: fact.at_ms,
            entry_id: Uuid::from_u128(fact.entry),
            receipt_id: Uuid::from_bytes(id),
            payload_hash: &fact.hash,
            position: (1 << 96) | ((number as u128) << 16),
            received_at_ms: NOON_MS,
            url: &fact.url,
            content_hash: &[7; 32],
            client_id: Uuid::from_u128(fact.client),
            client_name: "SomeModel",
            client_version: "4.1.0",
            organization: "Some Organization",
            key_fingerprint: &[9; 32],
            algorithm: "Ed25519",
            purpose: ["training", "inference", "research"][usize::from(fact.hash[6] % 3)],
            context: "answering a question",
            dataset_id: "dataset-2026-11",
            model_id: "model-4.1",
            request_id: "0198c0de-0000-7000-8000-000000000000",
            client_address: "192.0.2.1",
            kind: "batch",
            raw: RAW,
            origin: "batch",
            ..AcceptedRow::default()
        });
        if rows.bytes() >= RECORD_BYTES {
            records.push(record(std::mem::take(&mut rows))?);
        }
    }
    if rows.accepted() > 0 {
        records.push(record(rows)?);
    }
    Ok(records)
}

fn record(rows: Rows) -> Result<Bytes> {
    let accepted = rows.accepted() as u64;
    let end = SourceIndex {
        offset: accepted,
        index: 0,
    };
    let header = Header {
        version: blocks::VERSION,
        source: SourceRange {
            end,
            ..SourceRange::default()
        },
        block: ReceiptCounts {
            received: accepted,
            accepted,
            rejected: 0,
        },
        ..Header::default()
    };
    Ok(rows.encode(header)?)
}

/// Inserts records as a writer does.
async fn insert(warehouse: &Warehouse, records: &[Bytes], epoch: &WriterEpoch) -> Result<()> {
    let decoded = records.iter().map(|record| Ok(Block::decode(record)?.accepted()));
    let rows = decoded.collect::<Result<Vec<_>>>()?;
    Ok(warehouse.insert_accepted(&rows, Some(epoch)).await?)
}

/// Way to the engine, past the client.
enum Way {
    Socket(PathBuf),
    Tcp(std::net::SocketAddr),
}

impl Way {
    /// Sends a statement with its data; the answer's body.
    async fn send(&self, sql: &str, body: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Socket(path) => exchange(UnixStream::connect(path).await?, sql, body).await,
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                exchange(stream, sql, body).await
            }
        }
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, sql: &str, body: &[u8]) -> Result<Vec<u8>> {
    let query: String = sql.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let head = format!(
        "POST /?database=receipts&query={query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         X-ClickHouse-User: {USER}\r\nX-ClickHouse-Key: {PASSWORD}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .context("no answer")?;
    ensure!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{sql}: {}",
        String::from_utf8_lossy(&answer)
    );
    Ok(answer.split_off(end + 4))
}

/// A round of one kind of block over one way.
struct Round<'a> {
    runtime: &'a Runtime,
    warehouse: &'a Warehouse,
    epoch: &'a WriterEpoch,
    way: &'a Way,
    facts: &'a [Facts],
    native: &'a [u8],
    blocks: usize,
}

impl Round<'_> {
    /// Encodes, decodes and inserts; rows a second, and CPU microseconds a row.
    fn ours(&self) -> Result<(f64, f64)> {
        self.timed(async || {
            let records = encode(self.facts)?;
            insert(self.warehouse, &records, self.epoch).await
        })
    }

    /// Inserts the same rows as the engine itself wrote them down.
    fn reference(&self) -> Result<(f64, f64)> {
        let sql = "INSERT INTO receipts FORMAT Native";
        self.timed(async || self.way.send(sql, self.native).await.map(drop))
    }

    fn timed(&self, insert: impl AsyncFn() -> Result<()>) -> Result<(f64, f64)> {
        self.runtime.block_on(async {
            // An empty table each time, so that merges of earlier rounds don't run into this one.
            self.way.send("TRUNCATE TABLE receipts", b"").await?;
            let (began, cpu) = (Instant::now(), ProcessTime::now());
            for _ in 0..self.blocks {
                insert().await?;
            }
            let rows = (self.blocks * self.facts.len()) as f64;
            Ok((
                rows / began.elapsed().as_secs_f64(),
                cpu.elapsed().as_secs_f64() * 1e6 / rows,
            ))
        })
    }
}

async fn start(directory: &Path) -> Result<(EmbeddedEngine, PathBuf, std::net::SocketAddr)> {
    let socket = directory.join("w.sock");
    let engine = EmbeddedEngine::start(&WarehouseConfig::default(), &directory.join("warehouse"), &socket).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    engine.serve_tcp(listener, USER, PASSWORD)?;
    Ok((engine, socket, address))
}

pub(super) fn measure(setting: &Setting<'_>) -> Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let directory = setting.scratch.folder("warehouse")?;
    let (engine, socket, address) = runtime.block_on(start(&directory))?;
    let local = engine.warehouse();
    let url = format!("http://{address}");
    let config = WarehouseConfig {
        url: Some(url.clone()),
        user: Some(USER.to_owned()),
        password: Some(PASSWORD.into()),
        ..WarehouseConfig::default()
    };
    let remote = Warehouse::new(&Target::Url(url), &config)?;
    let (socket, tcp) = (Way::Socket(socket), Way::Tcp(address));
    let epoch = runtime
        .block_on(local.take_epoch(0))?
        .context("another writer has the shard")?;
    let mut rows = Vec::new();
    for (name, location, warehouse, way, block) in [
        ("warehouse-1k", "socket", &local, &socket, 1_000),
        ("warehouse-10k", "socket", &local, &socket, 10_000),
        ("warehouse-50k", "socket", &local, &socket, 50_000),
        ("warehouse-tcp-10k", "TCP, LZ4", &remote, &tcp, 10_000),
    ] {
        let what = format!("verifier and writer to warehouse, batches of {block} rows, {location}, synced");
        setting.progress.step("warehouse", &what);
        let facts = facts(block);
        let native = runtime.block_on(async {
            way.send("TRUNCATE TABLE receipts", b"").await?;
            insert(&local, &encode(&facts)?, &epoch).await?;
            socket.send("SELECT * FROM receipts FORMAT Native", b"").await
        })?;
        let round = Round {
            runtime: &runtime,
            warehouse,
            epoch: &epoch,
            way,
            facts: &facts,
            native: &native,
            blocks: (100_000 / block).clamp(2, 40),
        };
        let (mut ours_us, mut reference_us) = (Vec::new(), Vec::new());
        let pace = |(rate, us): (f64, f64), cost: &mut Vec<f64>| {
            cost.push(us);
            rate
        };
        let samples = Samples::take(
            setting.effort.rounds,
            || Ok(pace(round.ours()?, &mut ours_us)),
            || Ok(pace(round.reference()?, &mut reference_us)),
        )?;
        let cost = |us: &[f64]| median(us).map_or_else(|| "-".to_owned(), number);
        let note = format!(
            "CPU a row, the engine's included: {} us and {} us; bytes a row: {} as records of verdicts, {} as the engine's Native",
            cost(&ours_us),
            cost(&reference_us),
            number(encode(&facts)?.iter().map(Bytes::len).sum::<usize>() as f64 / block as f64),
            number(native.len() as f64 / block as f64)
        );
        let row = Row::measured(name, what, "rows/s", samples).note(note);
        // Compression pays on a network, not on this machine.
        rows.push(match location {
            "socket" => row
                .against("the same rows in the engine's own Native")
                .target(Goal::RatioAtLeast(0.7)),
            _ => row.against("the engine's own Native, uncompressed"),
        });
    }
    runtime.block_on(engine.stop());
    Ok(rows)
}
