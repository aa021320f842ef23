//! The ledger's lines, and whose verdicts they are.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use crate::http::HttpClient;

const SQL: &str = "SELECT epoch, partition, first_offset, last_offset, toString(verifier), \
    toUnixTimestamp64Milli(committed_at) FROM ledger FINAL ORDER BY epoch, partition, first_offset";

const LATEST_COMPLETE: &str =
    "SELECT max(arrayMax(partition -> tupleElement(partition, 5), partitions)) FROM progress FINAL";

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The log's epoch.
    pub epoch: u32,
    /// The partition.
    pub partition: u32,
    /// First record of the block.
    pub first_offset: u64,
    /// Last record of the block.
    pub last_offset: u64,
    /// Verifier whose verdicts it has: `<process id>-<random>`.
    pub verifier: String,
    /// When it was stored, by the writer's clock.
    pub committed_at_ms: i64,
}

/// All blocks, in the order of their positions.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// The lines.
    pub lines: Vec<Line>,
}

/// Reads it from the warehouse.
///
/// # Errors
/// The endpoint doesn't answer, or not with lines.
pub async fn read(http: &HttpClient, endpoint: &str, user: &str, password: &str) -> Result<Ledger> {
    Ledger::parse(&answer(http, endpoint, user, password, SQL).await?)
}

/// Reads the latest instant through which a partition is said to be complete, in milliseconds since
/// the Unix epoch.
///
/// # Errors
/// The endpoint doesn't answer, or not with a number.
pub async fn latest_complete_ms(http: &HttpClient, endpoint: &str, user: &str, password: &str) -> Result<i64> {
    let text = answer(http, endpoint, user, password, LATEST_COMPLETE).await?;
    text.trim().parse().with_context(|| format!("no number: {text}"))
}

async fn answer(http: &HttpClient, endpoint: &str, user: &str, password: &str, sql: &'static str) -> Result<String> {
    let request = http::Request::post(format!("{endpoint}/?database=receipts"))
        .header("x-clickhouse-user", user)
        .header("x-clickhouse-key", password)
        .body(Full::from(Bytes::from_static(sql.as_bytes())))?;
    let answer = http.request(request).await.context("reading from the warehouse")?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    let text = std::str::from_utf8(&body)?;
    ensure!(status.is_success(), "the warehouse: {status}: {text}");
    Ok(text.to_owned())
}

impl Ledger {
    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [epoch, partition, first, last, verifier, committed] = fields[..] else {
                anyhow::bail!("no line of the ledger: {line}");
            };
            Ok(Line {
                epoch: epoch.parse()?,
                partition: partition.parse()?,
                first_offset: first.parse()?,
                last_offset: last.parse()?,
                verifier: verifier.to_owned(),
                committed_at_ms: committed.parse()?,
            })
        });
        Ok(Self {
            lines: lines.collect::<Result<_>>()?,
        })
    }

    /// Every record of a partition is in exactly one line.
    ///
    /// # Errors
    /// The first gap or overlap.
    pub fn check(&self) -> Result<()> {
        let mut next: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for line in &self.lines {
            let due = next.entry((line.epoch, line.partition)).or_insert(0);
            ensure!(
                line.first_offset == *due && line.last_offset >= line.first_offset,
                "partition {} of epoch {}: {}..={} by {} follows {due}",
                line.partition,
                line.epoch,
                line.first_offset,
                line.last_offset,
                line.verifier
            );
            *due = line.last_offset + 1;
        }
        Ok(())
    }

    /// The lines that aren't in `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let seen: BTreeSet<(u32, u32, u64)> = earlier.lines.iter().map(position).collect();
        let new = self.lines.iter().filter(|line| !seen.contains(&position(line)));
        Self {
            lines: new.cloned().collect(),
        }
    }

    /// The lines with verdicts of the process `id`.
    #[must_use]
    pub fn by_process(&self, id: u32) -> Self {
        let prefix = format!("{id}-");
        let own = self.lines.iter().filter(|line| line.verifier.starts_with(&prefix));
        Self {
            lines: own.cloned().collect(),
        }
    }

    /// The partitions that have lines.
    #[must_use]
    pub fn partitions(&self) -> BTreeSet<u32> {
        self.lines.iter().map(|line| line.partition).collect()
    }

    /// Number of verifiers that have lines.
    #[must_use]
    pub fn verifiers(&self) -> usize {
        let names: BTreeSet<&str> = self.lines.iter().map(|line| line.verifier.as_str()).collect();
        names.len()
    }

    /// Number of times that a partition went from one verifier to another.
    #[must_use]
    pub fn handovers(&self) -> usize {
        let pairs = self.lines.windows(2);
        pairs
            .filter(|pair| pair[0].partition == pair[1].partition && pair[0].verifier != pair[1].verifier)
            .count()
    }
}

fn position(line: &Line) -> (u32, u32, u64) {
    (line.epoch, line.partition, line.first_offset)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Ledger;

    const GOOD: &str = "7\t0\t0\t4\t11-a\t100\n7\t0\t5\t5\t12-b\t200\n7\t1\t0\t9\t12-b\t150\n";

    #[test]
    fn lines_follow_each_other_without_gap_or_overlap() {
        let good = Ledger::parse(GOOD).unwrap();
        good.check().unwrap();
        for bad in [GOOD.replace("5\t5", "4\t5"), GOOD.replace("5\t5", "6\t6")] {
            assert!(Ledger::parse(&bad).unwrap().check().is_err(), "{bad}");
        }
    }

    #[test]
    fn who_wrote_what_is_distinguished() {
        let all = Ledger::parse(GOOD).unwrap();
        assert_eq!((all.verifiers(), all.handovers()), (2, 1));
        assert_eq!(all.by_process(12).lines.len(), 2);
        assert_eq!(all.by_process(1).lines.len(), 0);
        let first = Ledger::parse(GOOD.lines().next().unwrap()).unwrap();
        assert_eq!(all.since(&first).lines.len(), 2);
    }
}
