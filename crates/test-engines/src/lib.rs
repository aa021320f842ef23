//! The real engines, for tests, drills and `make run-prod-like`: each on free ports of 127.0.0.1,
//! with its data in a temporary folder, and gone when its handle is dropped or this process ends in
//! any way.
//!
//! ```no_run
//! let kafka = test_engines::Kafka::shared()?; // for the whole test binary; use your own topics
//! println!("{}", kafka.bootstrap());
//! let mine = test_engines::Kafka::start()?; // one of your own, to kill and to freeze
//! mine.kill()?;
//! mine.restart()?; // the same data, the same ports
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Engines block: a start takes one to a few seconds. Beside them are a [`fault_proxy`] and the
//! clients of [`http`], which have no engine.
#![forbid(unsafe_code)]

mod acls;
mod cache;
mod certificates;
mod clickhouse;
mod dns;
mod engine;
pub mod examples;
pub mod fault_proxy;
mod folder;
pub mod http;
mod kafka;
mod object_store;
mod ports;
mod postgres;
mod prometheus;
mod proxy;
mod python;
mod redis;
pub mod scenarios;
mod spawner;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
pub use certificates::Certificates;
pub use clickhouse::{ClickHouse, ClickHouseUser};
pub use dns::Dns;
pub use folder::Folder;
pub use kafka::{Kafka, KafkaSecurity};
pub use object_store::ObjectStore;
pub use ports::free as free_ports;
pub use postgres::{Postgres, PostgresSecurity};
pub use prometheus::Prometheus;
pub use python::python;
pub use redis::{Redis, RedisSecurity};
pub use spawner::{dying_with_us, spawn};

/// A user that an engine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password, in the clear: these engines live for a test.
    pub password: String,
}

/// 16 random bytes in the form of Kafka's identifiers, which does for a password too.
fn random_id() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).context("randomness")?;
    // A leading '-' would read as an option.
    bytes[0] &= 0x7f;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}
