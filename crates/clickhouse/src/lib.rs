//! ClickHouse: a client over its HTTP protocol, and the embedded engine behind the same protocol.
//!
//! - [`config`]: the `[warehouse]` section
//! - [`client`]: [`ClickHouseClient`]: statements and inserts
//! - [`connector`]: the stream below HTTP, a Unix socket or TCP; `tls`: how a server is spoken to
//! - [`error`]: errors, and what helps against a failed insert
//! - [`engine`]: libchdb in this process, behind `endpoint`, which speaks ClickHouse's HTTP
//!   protocol
//! - `statements`: threads and connections between the two; `engine_files`: library, directory,
//!   configuration
//! - `chdb`: the only `unsafe` code of the project: libchdb's C functions, and the writes it fails
//!   to check
//!
//! This crate knows no table. Whether a server or the engine in this process answers is a matter of
//! configuration.

mod chdb;
pub mod client;
pub mod config;
pub mod connector;
mod endpoint;
pub mod engine;
mod engine_files;
pub mod error;
mod frame;
mod statements;
mod threads;
mod tls;

pub use self::config::WarehouseConfig;
pub use client::{ClickHouseClient, Damage, INSERT_SETTINGS, SERVER_SETTINGS, SqlStatement};
pub use connector::Target;
pub use engine::Engine;
pub use error::{EngineError, Remedy, WarehouseError};
