//! A connection, as its requests see it.

use std::sync::Arc;

use crate::sender::Sender;
use crate::shared::Shared;

/// Peer of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) sender: Sender,
    /// A trusted proxy, which sends for others.
    pub(crate) is_proxy: bool,
}

/// State that the requests of one connection share.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Peer,
}
