//! The stream below HTTP: a Unix socket or TCP.

use std::path::PathBuf;

/// Where the warehouse answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The embedded engine's Unix socket, in this process or another.
    Socket(PathBuf),
    /// `http://host:port` of a ClickHouse server, or of an embedded engine's TCP endpoint.
    Url(String),
}
