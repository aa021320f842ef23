//! Roles of clients.

use crate::Topic;

/// The purpose of a client, and its log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    /// The label `client` of the metrics.
    pub(super) client: &'static str,
    pub(super) topic: Topic,
}
