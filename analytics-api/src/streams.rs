//! Places of streamed answers: a few for each account, some for all.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use web::shares::Shares;

/// Streams of one account at one time.
const ACCOUNT_STREAMS_MAX: usize = 2;

/// The permits.
pub(crate) struct StreamLimits {
    all: Arc<Semaphore>,
    shares: Shares,
}

/// Permits that a stream holds until it ends.
#[derive(Debug)]
pub(crate) struct StreamPermits {
    _own: OwnedSemaphorePermit,
    _permit: OwnedSemaphorePermit,
}

impl StreamLimits {
    /// For `streams_max` at one time.
    pub(crate) fn new(streams_max: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(streams_max)),
            shares: Shares::new(ACCOUNT_STREAMS_MAX),
        }
    }

    /// A permit for this account.
    ///
    /// # Errors
    /// There is none: true if it is the account that has all it may have.
    pub(crate) fn take(&self, account_id: &str) -> Result<StreamPermits, bool> {
        let own = self.shares.of(account_id).try_acquire_owned().map_err(|_| true)?;
        let permit = Arc::clone(&self.all).try_acquire_owned().map_err(|_| false)?;
        Ok(StreamPermits {
            _own: own,
            _permit: permit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_its_share_and_all_have_theirs() {
        let streams = StreamLimits::new(3);
        let held: Vec<_> = ["a", "a"].map(|account| streams.take(account)).into_iter().collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(streams.take("a").err(), Some(true));
        let other = streams.take("b");
        assert!(other.is_ok());
        assert_eq!(streams.take("c").err(), Some(false));
        drop(held);
        assert!(streams.take("c").is_ok());
    }
}
