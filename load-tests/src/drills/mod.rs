//! Fault drills: each breaks something under load and ends in an exact audit.
//!
//! - [`stage`]: a fleet under load, and what a drill can do with it
//! - [`processes`]: kills, restarts, freezes and wrong clocks of our own processes
//! - [`engines`]: Kafka, ClickHouse, Redis and PostgreSQL away, frozen, slow and refusing
//! - [`calm`]: no fault at all: rate and freshness
//! - [`clients`]: a client that retries every time-out
//! - [`disks`]: full disks
//! - [`show`]: running them, with progress and a summary

pub mod calm;
pub mod clients;
pub mod disks;
pub mod engines;
mod logs;
pub mod processes;
pub mod show;
pub mod stage;

use std::path::PathBuf;

use anyhow::Result;
use futures_util::future::BoxFuture;

pub use stage::Stage;

/// A drill.
#[derive(Clone, Copy)]
pub struct Drill {
    /// Name for `--only`.
    pub name: &'static str,
    /// Description, a line.
    pub what: &'static str,
    body: Body,
}

/// On what a drill runs.
#[derive(Clone, Copy)]
enum Body {
    /// On the fleet that all drills share, and whose books are audited whole each time.
    Shared(for<'a> fn(&'a mut Stage) -> BoxFuture<'a, Result<()>>),
    /// On an installation of its own.
    Own(fn(Setting) -> BoxFuture<'static, Result<Figures>>),
}

/// Setting of the drills.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The folder with `receipts` and `receipts-load`.
    pub programs: PathBuf,
    /// Whether seconds must do instead of minutes.
    pub short: bool,
    /// The seed of every instant and victim.
    pub seed: u64,
    /// Prints what happens.
    pub verbose: bool,
}

/// Figures that a drill measured, for the summary.
pub type Figures = Vec<(&'static str, String)>;

/// A drill on the shared fleet.
macro_rules! shared {
    ($name:literal, $what:literal, $run:path) => {
        Drill {
            name: $name,
            what: $what,
            body: Body::Shared(|stage| Box::pin($run(stage))),
        }
    };
}

/// A drill on an installation of its own.
macro_rules! own {
    ($name:literal, $what:literal, $run:path) => {
        Drill {
            name: $name,
            what: $what,
            body: Body::Own(|setting| Box::pin($run(setting))),
        }
    };
}

/// All drills, in the order they run.
pub const DRILLS: &[Drill] = &[
    own!(
        "calm",
        "no fault: rate and freshness of two gateways, three verifiers and two writers",
        calm::calm
    ),
    shared!(
        "kill-gateway",
        "kill -9 of a gateway at random instants",
        processes::kill_gateway
    ),
    shared!(
        "kill-verifier",
        "kill -9 of a verifier at random instants",
        processes::kill_verifier
    ),
    shared!(
        "kill-writer",
        "kill -9 of a writer, a verifier, and both, at random instants",
        processes::kill_writer
    ),
    shared!(
        "kill-all",
        "kill -9 of every service and of the endpoint at once",
        processes::kill_all
    ),
    shared!(
        "churn",
        "a verifier killed and one added every few seconds",
        processes::churn
    ),
    shared!(
        "frozen-verifier",
        "a verifier frozen until its partitions are others', then thawed",
        processes::frozen_verifier
    ),
    shared!(
        "frozen-writer",
        "the shard's writer frozen before, during and after an insert until another has taken it over",
        processes::frozen_writer
    ),
    shared!(
        "rolling-restart",
        "every service stopped and started again in turn",
        processes::rolling_restart
    ),
    shared!(
        "clock-skew",
        "a gateway four minutes behind, a verifier and the writers an hour ahead",
        processes::clock_skew
    ),
    shared!(
        "client-retries",
        "answers lost; a client that retries every time-out",
        clients::retries
    ),
    shared!("kafka-killed", "kill -9 of Kafka, started again", engines::kafka_killed),
    shared!(
        "kafka-frozen",
        "Kafka frozen, below and beyond the session time-out",
        engines::kafka_frozen
    ),
    shared!(
        "kafka-away",
        "Kafka away under load: 503, bounded memory, and back",
        engines::kafka_away
    ),
    shared!(
        "clickhouse-down",
        "kill -9 of the ClickHouse endpoint, started again",
        engines::clickhouse_down
    ),
    shared!(
        "clickhouse-slow",
        "every answer of ClickHouse late",
        engines::clickhouse_slow
    ),
    shared!(
        "clickhouse-refusing",
        "ClickHouse answers errors",
        engines::clickhouse_refusing
    ),
    shared!("redis-down", "Redis away: limits go on locally", engines::redis_down),
    shared!(
        "postgres-down",
        "PostgreSQL away: receipts go on, keys can't be checked",
        engines::postgres_down
    ),
    own!("full-disk", "a full disk under `receipts up`", disks::embedded),
    own!("full-disk-kafka", "a full disk under Kafka", disks::kafka),
];
