//! Credentials of open streams, rechecked from time to time, once for all streams of a credential.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use accounts::{Accounts, AuthError, Principal, Scope};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, watch};
use web::Credential;
use web::shares::Shares;

/// Reason why a stream must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The key was revoked, has expired or lost its scope; the session has ended.
    Key,
    /// The account's domains or trusted operators have changed.
    Domains,
}

/// All keys and sessions that have streams.
pub(super) struct StreamedKeys {
    streams: Shares,
    age_max: Duration,
    by_secret: Mutex<HashMap<String, Weak<StreamedKey>>>,
}

/// A key's principal; `None` once the key is invalid.
struct StreamedKey(watch::Sender<Option<Arc<Principal>>>);

/// The key of one stream.
pub(super) struct StreamKey {
    _key: Arc<StreamedKey>,
    _stream: OwnedSemaphorePermit,
    principal: Arc<Principal>,
    current: watch::Receiver<Option<Arc<Principal>>>,
}

impl StreamedKeys {
    /// Allows `streams_max` streams per key, and rechecks a key every `age_max`.
    pub(super) fn new(streams_max: usize, age_max: Duration) -> Self {
        Self {
            streams: Shares::new(streams_max),
            age_max,
            by_secret: Mutex::default(),
        }
    }

    /// Admits a stream of `principal`, who has shown `credential`; `None` if the key or the person
    /// has as many streams as allowed.
    pub(super) fn admit(
        &self,
        accounts: &Accounts,
        principal: &Arc<Principal>,
        credential: Credential,
    ) -> Option<StreamKey> {
        let stream = self.streams.of(&principal.actor.to_string()).try_acquire_owned().ok()?;
        let (secret, mut by_secret) = (credential.secret(), self.by_secret.lock());
        by_secret.retain(|_, key| key.strong_count() > 0);
        let key = by_secret.get(&secret).and_then(Weak::upgrade).unwrap_or_else(|| {
            let key = Arc::new(StreamedKey(watch::Sender::new(None)));
            by_secret.insert(secret, Arc::downgrade(&key));
            tokio::spawn(recheck(
                accounts.clone(),
                credential,
                self.age_max,
                Arc::downgrade(&key),
            ));
            key
        });
        // Authenticated now: newer than the last check.
        key.set(Some(Arc::clone(principal)));
        Some(StreamKey {
            current: key.0.subscribe(),
            principal: Arc::clone(principal),
            _stream: stream,
            _key: key,
        })
    }
}

/// Rechecks a key while it has streams. An unavailable account store ends no stream.
async fn recheck(accounts: Accounts, credential: Credential, age_max: Duration, key: Weak<StreamedKey>) {
    loop {
        tokio::time::sleep(age_max).await;
        if key.strong_count() == 0 {
            return;
        }
        let current = match credential.principal(&accounts).await {
            Ok(principal) => principal.can(Scope::Read).then(|| Arc::new(principal)),
            Err(AuthError::Unavailable(error)) => {
                tracing::debug!(%error, "the API key of a live stream can't be rechecked");
                continue;
            }
            Err(_) => None,
        };
        let Some(key) = key.upgrade() else { return };
        key.set(current);
    }
}

impl StreamedKey {
    /// Wakes the key's streams if its principal has changed.
    fn set(&self, current: Option<Arc<Principal>>) {
        self.0.send_if_modified(|principal| {
            let is_changed = *principal != current;
            *principal = current;
            is_changed
        });
    }
}

impl StreamKey {
    /// Resolves once the stream must end. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> StreamEnd {
        let mine = &self.principal;
        let is_same = |now: &Principal| {
            now.domains == mine.domains
                && now.inherited == mine.inherited
                && now.trusted_operators == mine.trusted_operators
        };
        let changed = self
            .current
            .wait_for(|current| current.as_deref().is_none_or(|now| !is_same(now)));
        match changed.await.as_deref() {
            Ok(Some(_)) => StreamEnd::Domains,
            // The sender lives as long as the stream.
            Ok(None) | Err(_) => StreamEnd::Key,
        }
    }
}
