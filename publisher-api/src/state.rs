//! State: what handlers and background work share.

use std::sync::Arc;

use tokio::sync::Notify;
use web::shares::FairSemaphore;

use crate::Deps;
use crate::config::PublisherConfig;
use crate::export::stream::ExportSlots;
use crate::operators::Directories;
use crate::verification::Looker;

/// Shared by all requests.
pub(crate) struct PublisherState {
    pub(crate) config: PublisherConfig,
    pub(crate) deps: Deps,
    /// ExportSlots of exports.
    pub(crate) exports: ExportSlots,
    /// Bodies of bulk lookups that are being read.
    pub(crate) lookup_bodies: FairSemaphore,
    /// Notified when there is something to erase.
    pub(crate) erasures_wanted: Arc<Notify>,
    /// Looks at domains.
    pub(crate) looker: Looker,
    /// Fetches operators' key directories.
    pub(crate) directories: Directories,
    /// The address at which clients reach the API.
    pub(crate) public_url: String,
    /// Whether there is a server for mails; without one they wait.
    pub(crate) sends_mails: bool,
}
