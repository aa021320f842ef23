//! Settings, resolver and permits that all requests of a client share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;

use crate::connection::Deadline;
use crate::error::{RequestStep, SetupError};
use crate::resolver::Resolver;
use crate::{Config, Error, tls};

/// Shared by all requests of a client.
pub(crate) struct Resources {
    pub(crate) config: Config,
    pub(crate) resolver: Resolver,
    pub(crate) tls: TlsConnector,
    permits: Arc<Semaphore>,
}

impl Resources {
    pub(crate) fn new(config: &Config) -> Result<Self, SetupError> {
        Ok(Self {
            resolver: Resolver::new(config)?,
            tls: tls::connector(config)?,
            permits: Arc::new(Semaphore::new(config.requests_max)),
            config: config.clone(),
        })
    }

    /// Waits for a permit for a request.
    pub(crate) async fn permit(&self, host: &str, deadline: Deadline) -> Result<OwnedSemaphorePermit, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = deadline.all(host, RequestStep::Place, permit).await?;
        permit.map_err(|_| Error::Unreachable {
            host: host.to_owned(),
            what: "this process is ending".to_owned(),
        })
    }

    pub(crate) fn count(&self, kind: &'static str, failed: Option<&Error>) {
        let outcome = failed.map_or("answered", Error::label);
        metrics::counter!("receipts_outbound_requests_total", "kind" => kind, "outcome" => outcome).increment(1);
    }
}
