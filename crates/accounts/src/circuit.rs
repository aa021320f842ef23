//! Whether PostgreSQL can be reached: while it can't, queries fail at once instead of waiting.
//!
//! sqlx's pool has no such state: it repeats a refused connection until the caller's time is over.
//! A query that takes long requests a probe, which opens a connection beside the pool. If that
//! fails, the circuit is open, and one probe after the other finds out when the server is back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::{AnyConnection, Connection};
use tokio::sync::watch;

use crate::AccountsError;

/// Time after which a query requests a probe: longer than a healthy server's connections take.
const PROBE_AFTER: Duration = Duration::from_millis(500);
/// Pause between two probes of a server that can't be reached.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// The state of the server, as the last probe saw it.
pub(crate) struct Circuit {
    url: String,
    probe_wait_max: Duration,
    is_probing: AtomicBool,
    /// Why the server can't be reached; empty while it can, or nobody has checked.
    outage: watch::Sender<String>,
}

impl Circuit {
    /// A circuit for queries of at most `wait_max`. A probe has half of it, so that a query that
    /// waits still learns its result.
    pub(crate) fn new(url: String, wait_max: Duration) -> Self {
        Self {
            url,
            probe_wait_max: wait_max / 2,
            is_probing: AtomicBool::new(false),
            outage: watch::Sender::default(),
        }
    }

    /// Runs a query while the server can be reached. A query that waits is dropped when a probe
    /// fails.
    ///
    /// # Errors
    /// [`AccountsError::Unreachable`], or the query's own.
    pub(crate) async fn guard<T>(
        self: &Arc<Self>,
        query: impl Future<Output = Result<T, AccountsError>>,
    ) -> Result<T, AccountsError> {
        if let Some(outage) = self.outage() {
            return Err(outage);
        }
        let unreachable = async {
            tokio::time::sleep(PROBE_AFTER).await;
            self.probe_in_background();
            let mut outages = self.outage.subscribe();
            match outages.wait_for(|why| !why.is_empty()).await {
                Ok(why) => AccountsError::Unreachable(why.clone()),
                // The sender is this circuit's own.
                Err(closed) => AccountsError::Unreachable(closed.to_string()),
            }
        };
        tokio::select! {
            biased;
            result = query => result,
            outage = unreachable => Err(outage),
        }
    }

    fn outage(&self) -> Option<AccountsError> {
        let why = self.outage.borrow();
        (!why.is_empty()).then(|| AccountsError::Unreachable(why.clone()))
    }

    /// Begins probing, unless that is in progress.
    fn probe_in_background(self: &Arc<Self>) {
        if !self.is_probing.swap(true, Ordering::AcqRel) {
            tokio::spawn(probe_until_reached(Arc::downgrade(self)));
        }
    }

    /// Connects once.
    async fn probe(&self) -> Result<(), String> {
        let connecting = async { AnyConnection::connect(&self.url).await?.close().await };
        match tokio::time::timeout(self.probe_wait_max, connecting).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(sqlx::Error::Database(refusal))) if is_up(refusal.as_ref()) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no connection within {} ms", self.probe_wait_max.as_millis())),
        }
    }
}

/// Whether a server that refuses a new connection serves its others: all but 57P01 to 57P03, which
/// it answers while it starts or stops.
fn is_up(refusal: &dyn DatabaseError) -> bool {
    !refusal.code().is_some_and(|code| code.starts_with("57P"))
}

/// Probes the server until it can be reached, or until nobody has the store any more.
async fn probe_until_reached(circuit: Weak<Circuit>) {
    while let Some(circuit) = circuit.upgrade() {
        let why = circuit.probe().await.err().unwrap_or_default();
        let is_reached = why.is_empty();
        let before = circuit.outage.send_replace(why.clone());
        if is_reached {
            circuit.is_probing.store(false, Ordering::Release);
            if !before.is_empty() {
                tracing::info!("the account store can be reached again");
            }
            return;
        }
        if before.is_empty() {
            tracing::warn!(error = %why, "the account store can't be reached; its queries fail until it can");
        }
        drop(circuit);
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}
