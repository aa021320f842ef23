//! The streams of each API key, and whether the key still holds: it is looked at again from time to time, once for all its streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use accounts::{Accounts, AuthError, Principal, Scope};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Why a stream can't go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The key was revoked, has expired or lost its scope.
    Key,
    /// What may be seen has changed.
    Domains,
}

/// A key's principal, as last seen; none once the key doesn't hold.
type Standing = Option<Arc<Principal>>;

/// All keys that have streams.
pub(super) struct Keys {
    streams_max: usize,
    age_max: Duration,
    by_id: Mutex<HashMap<String, Key>>,
}

struct Key {
    streams: usize,
    standing: Arc<watch::Sender<Standing>>,
    looking: AbortHandle,
}

/// One stream of a key, given back when dropped.
pub(super) struct KeySeat {
    keys: Arc<Keys>,
    principal: Arc<Principal>,
    standing: watch::Receiver<Standing>,
}

impl Keys {
    /// At most `streams_max` streams a key; a key is looked at again after `age_max`.
    pub(super) fn new(streams_max: usize, age_max: Duration) -> Self {
        Self {
            streams_max,
            age_max,
            by_id: Mutex::default(),
        }
    }

    /// A seat for a stream of `principal`, whose key's text is `bearer`, if it may have one more.
    pub(super) fn take(
        keys: &Arc<Self>,
        accounts: &Accounts,
        principal: &Arc<Principal>,
        bearer: String,
    ) -> Option<KeySeat> {
        let mut by_id = keys.by_id.lock();
        let key = by_id.entry(principal.key_id.clone()).or_insert_with(|| {
            let standing = Arc::new(watch::Sender::new(Some(Arc::clone(principal))));
            let looking = look(accounts.clone(), bearer, keys.age_max, Arc::clone(&standing));
            let looking = tokio::spawn(looking).abort_handle();
            Key {
                streams: 0,
                standing,
                looking,
            }
        });
        if key.streams >= keys.streams_max {
            return None;
        }
        key.streams += 1;
        // Just looked at: newer than what the last look found.
        key.standing.send_if_modified(|standing| {
            let newer = standing.as_ref() != Some(principal);
            *standing = Some(Arc::clone(principal));
            newer
        });
        metrics::gauge!("receipts_live_streams").increment(1);
        Some(KeySeat {
            keys: Arc::clone(keys),
            principal: Arc::clone(principal),
            standing: key.standing.subscribe(),
        })
    }
}

/// An account store that doesn't answer ends no stream.
async fn look(accounts: Accounts, bearer: String, age_max: Duration, told: Arc<watch::Sender<Standing>>) {
    loop {
        tokio::time::sleep(age_max).await;
        match accounts.authenticate(&bearer).await {
            Ok(principal) => drop(told.send_replace(principal.can(Scope::Read).then(|| Arc::new(principal)))),
            Err(AuthError::Unavailable(error)) => tracing::debug!(%error, "a live stream's key can't be looked at"),
            Err(_) => drop(told.send_replace(None)),
        }
    }
}

impl KeySeat {
    /// Resolves once the stream must end. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> End {
        let mine = &self.principal;
        let same = |now: &Principal| now.domains == mine.domains && now.inherited == mine.inherited;
        let changed = self
            .standing
            .wait_for(|standing| standing.as_deref().is_none_or(|now| !same(now)));
        match changed.await.as_deref() {
            Ok(Some(_)) => End::Domains,
            // Its sender lives as long as there are seats.
            Ok(None) | Err(_) => End::Key,
        }
    }
}

impl Drop for KeySeat {
    fn drop(&mut self) {
        metrics::gauge!("receipts_live_streams").decrement(1);
        let mut by_id = self.keys.by_id.lock();
        if let Some(key) = by_id.get_mut(&self.principal.key_id) {
            key.streams -= 1;
            if key.streams == 0 {
                key.looking.abort();
                by_id.remove(&self.principal.key_id);
            }
        }
    }
}
