//! The shard map of a verifier, confirmed in the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::gauge;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::ShardMap;
use crate::Accounts;

/// Interval between two reads.
const REFRESH: Duration = Duration::from_secs(60);
/// Age up to which a map is used. An entry takes effect 24 hours after its registration, so every
/// verifier knows it by then.
const AGE_MAX: Duration = Duration::from_secs(3_600);

/// Why there is no map to use; the same call can succeed later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the shard map can't be confirmed: {0}")]
pub struct ShardMapUnavailable(String);

/// The shard map. Clones share it.
#[derive(Clone)]
pub struct ShardMapCache(Arc<ShardMapState>);

struct ShardMapState {
    accounts: Accounts,
    /// The map, and when the read began that confirmed it.
    confirmed: Mutex<Option<(Arc<ShardMap>, Instant)>>,
}

impl ShardMapCache {
    /// Starts a task that reads the map each minute until `shutdown`. Needs a tokio runtime.
    #[must_use]
    pub fn start(accounts: Accounts, shutdown: CancellationToken) -> Self {
        let cache = Self(Arc::new(ShardMapState {
            accounts,
            confirmed: Mutex::default(),
        }));
        let refreshed = cache.clone();
        tokio::spawn(shutdown.run_until_cancelled_owned(async move {
            loop {
                if let Err(error) = refreshed.confirm().await {
                    tracing::warn!(%error, "the last shard map is used for an hour");
                }
                tokio::time::sleep(REFRESH).await;
            }
        }));
        cache
    }

    /// The map, if it was confirmed within the last hour or can be confirmed now. It has the entry
    /// `version`, which another verifier has used.
    ///
    /// # Errors
    /// [`ShardMapUnavailable`]: also if the account store doesn't have the entry.
    pub async fn at_least(&self, version: u32) -> Result<Arc<ShardMap>, ShardMapUnavailable> {
        let confirmed = self.0.confirmed.lock().clone();
        let usable = confirmed.filter(|(map, at)| map.version() >= version && at.elapsed() < AGE_MAX);
        if let Some((map, _)) = usable {
            return Ok(map);
        }
        let map = self.confirm().await?;
        if map.version() >= version {
            return Ok(map);
        }
        Err(ShardMapUnavailable(format!(
            "verdicts were assigned to shards by its entry {version}, and the account store has {} entries; restore the \
             newer account store",
            map.version()
        )))
    }

    /// The map as it was last read.
    #[must_use]
    pub fn last(&self) -> Option<Arc<ShardMap>> {
        self.0.confirmed.lock().as_ref().map(|(map, _)| Arc::clone(map))
    }

    async fn confirm(&self) -> Result<Arc<ShardMap>, ShardMapUnavailable> {
        let began = Instant::now();
        let read = self.0.accounts.shard_map().await;
        let read = Arc::new(read.map_err(|error| ShardMapUnavailable(error.to_string()))?);
        let mut confirmed = self.0.confirmed.lock();
        if let Some((existing, at)) = &*confirmed
            && !read.extends(existing)
        {
            // A slower read than the one that found the newer map says nothing.
            if existing.extends(&read) && began < *at {
                return Ok(Arc::clone(existing));
            }
            return Err(ShardMapUnavailable(format!(
                "the account store has another map than before (it had {} entries and has {}); restore the newer \
                 account store",
                existing.version(),
                read.version()
            )));
        }
        gauge!("receipts_shard_map_version").set(f64::from(read.version()));
        *confirmed = Some((Arc::clone(&read), began));
        Ok(read)
    }
}
