//! The accept loop of every port in the workspace.
//!
//! | module | noun |
//! |---|---|
//! | [`listen`] | binding a port, and the limit of open files |
//! | [`server`] | the accept loop: limits, and the drain at the end |
//! | [`config`] | its limits |
//! | [`address`], [`address_limit`] | connections of one address, or of one /64 of IPv6 |
//! | [`forwarded`] | clients behind trusted proxies |
//! | [`connection`], [`socket`], [`response`] | HTTP/1.1 or h2c on one socket |
//! | [`state`], [`reaper`] | the phase of a connection, and the end of those that take too long |
//! | [`admin`] | the admin port of every process |
#![forbid(unsafe_code)]

pub mod address;
mod address_limit;
pub mod admin;
pub mod config;
mod connection;
pub mod forwarded;
pub mod listen;
mod reaper;
mod response;
pub mod server;
mod socket;
mod state;

pub use config::{ServerConfig, WhenFull};
pub use response::TrackedBody;
pub use server::{Listener, OpenConnections, serve};
