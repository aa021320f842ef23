//! Load to carry.

use clap::ValueEnum;
use serde::Serialize;

/// Algorithm of the clients' signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Ed25519.
    Ed25519,
    /// RSA-2048.
    Rsa,
    /// ECDSA over P-256.
    Ecdsa,
    /// 8 of 10 Ed25519, one RSA, one ECDSA.
    Mix,
}

/// Compression of records in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    None,
    /// The default.
    Lz4,
    /// Smaller, and three times the CPU of lz4.
    Zstd,
}

/// Engines that carry the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engines {
    /// Kafka, ClickHouse servers, PostgreSQL and Redis.
    Servers,
    /// `receipts up`: everything in one process.
    Embedded,
}

/// The load, and what is fixed about the installation.
#[derive(Debug, Clone, clap::Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Receipts a second, at peak
    #[arg(long, value_name = "R", value_parser = positive)]
    pub rate: f64,
    /// Algorithm of the clients' signatures
    #[arg(long, value_name = "A", default_value = "mix")]
    pub algorithm: Algorithm,
    /// Receipts in a request; 1 are single receipts, each with its request's signature
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Days that receipts are kept in ClickHouse
    #[arg(long, value_name = "D", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..))]
    pub days: u32,
    /// The average rate's share of the peak, for what is kept
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    pub average: f64,
    /// Days that the log is kept
    #[arg(long, value_name = "D", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub log_days: u32,
    /// Copies of the log
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub replication: u32,
    /// Compression of records in Kafka
    #[arg(long, value_name = "C", default_value = "lz4")]
    pub compression: Compression,
    /// Copies of each ClickHouse shard
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub clickhouse_replicas: u32,
    /// Publishers
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub publishers: u32,
    /// Questions of dashboards a second; by default one for each 100 publishers
    #[arg(long, value_name = "Q", value_parser = positive)]
    pub queries: Option<f64>,
    /// Cores of a pod
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = positive)]
    pub pod_cores: f64,
    /// The share of its cores that a pod is to use at peak; the rest is for bursts, rollouts and
    /// the loss of a pod
    #[arg(long, value_name = "SHARE", default_value_t = 0.6, value_parser = share)]
    pub utilization: f64,
    /// Engines that carry the load
    #[arg(long, value_name = "E", default_value = "servers")]
    pub engines: Engines,
}

impl Load {
    /// Requests a second.
    #[must_use]
    pub fn requests_per_s(&self) -> f64 {
        self.rate / f64::from(self.batch)
    }

    /// Questions a second.
    #[must_use]
    pub fn queries_per_s(&self) -> f64 {
        self.queries.unwrap_or(f64::from(self.publishers) / 100.0)
    }
}

fn positive(text: &str) -> Result<f64, String> {
    // 10k, 1M: people say rates so.
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let value: f64 = number
        .parse()
        .map_err(|_| "must be a number such as 2500, 10k or 1M".to_owned())?;
    let value = value * factor;
    if value > 0.0 && value <= 1e9 {
        Ok(value)
    } else {
        Err("must be above 0 and at most 1000M".to_owned())
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("must be above 0 and at most 1".to_owned()),
    }
}
