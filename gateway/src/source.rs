//! Sources: what one address holds of what all share.
//!
//! An address may hold a share of the connections, of the unfinished exchanges (a body that isn't whole, an explanation that
//! isn't read) and of their bytes. What has arrived whole is no longer its sender's doing, and isn't counted here: so most
//! requests, which come in one piece, cost no account, and an honest proxy keeps far below its share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::admission::Full;
use crate::config::GatewayConfig;

/// What one address may hold.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    connections: usize,
    unfinished: usize,
    bytes: usize,
}

/// All addresses that are connected.
#[derive(Debug)]
pub(crate) struct Sources {
    allowed: Allowed,
    connected: Mutex<HashMap<u128, Connected>>,
}

#[derive(Debug)]
struct Connected {
    connections: usize,
    source: Arc<Source>,
}

/// One address (IPv6: one /64), as its connections know it.
#[derive(Debug)]
pub(crate) struct Source {
    allowed: Allowed,
    unfinished: AtomicUsize,
    /// Bytes it may still hold.
    bytes: Semaphore,
}

/// A connection's place in the account of its address, given up when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    sources: Arc<Sources>,
    key: u128,
    source: Arc<Source>,
}

/// An unfinished exchange in the account of its address, with the bytes it holds; given up when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    source: Arc<Source>,
    bytes: usize,
}

impl Sources {
    /// `connections_max` is what the listener really takes.
    pub(crate) fn new(config: &GatewayConfig, connections_max: usize) -> Self {
        let share = |all: usize| (all.saturating_mul(config.address_share_percent_max) / 100).max(1);
        Self {
            allowed: Allowed {
                connections: share(connections_max),
                unfinished: share(config.requests_max),
                bytes: share(config.inflight_bytes_max),
            },
            connected: Mutex::default(),
        }
    }

    /// A place for one more connection from `key`, if its address may have it.
    pub(crate) fn connect(self: &Arc<Self>, key: u128) -> Option<Seat> {
        let mut connected = self.connected.lock();
        let of_address = connected.entry(key).or_insert_with(|| Connected {
            connections: 0,
            source: Arc::new(Source::new(self.allowed)),
        });
        if of_address.connections >= self.allowed.connections {
            return None;
        }
        of_address.connections += 1;
        Some(Seat {
            sources: Arc::clone(self),
            key,
            source: Arc::clone(&of_address.source),
        })
    }
}

impl Seat {
    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut connected = self.sources.connected.lock();
        if let Some(of_address) = connected.get_mut(&self.key) {
            of_address.connections -= 1;
            if of_address.connections == 0 {
                connected.remove(&self.key);
            }
        }
    }
}

impl Source {
    fn new(allowed: Allowed) -> Self {
        Self {
            allowed,
            unfinished: AtomicUsize::new(0),
            bytes: Semaphore::new(allowed.bytes),
        }
    }

    /// One more unfinished exchange, of no bytes yet.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Claim, Full> {
        let others = self.unfinished.fetch_add(1, Ordering::Relaxed);
        let claim = Claim {
            source: Arc::clone(self),
            bytes: 0,
        };
        if others < self.allowed.unfinished {
            Ok(claim)
        } else {
            Err(Full)
        }
    }
}

impl Claim {
    /// Raises it to `bytes` in all, if that is possible at once.
    pub(crate) fn try_raise(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return true;
        };
        let Ok(permits) = u32::try_from(more) else { return false };
        match self.source.bytes.try_acquire_many(permits) {
            Ok(taken) => taken.forget(),
            Err(_) => return false,
        }
        self.bytes = bytes;
        true
    }

    /// Raises it to `bytes` in all, after a wait if need be. Whoever calls this bounds the wait.
    pub(crate) async fn raise(&mut self, bytes: usize) -> Result<(), Full> {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            return Ok(());
        };
        let permits = u32::try_from(more).map_err(|_| Full)?;
        self.source
            .bytes
            .acquire_many(permits)
            .await
            .map_err(|_| Full)?
            .forget();
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.source.unfinished.fetch_sub(1, Ordering::Relaxed);
        self.source.bytes.add_permits(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn sources() -> Arc<Sources> {
        let config = GatewayConfig {
            requests_max: 4,
            inflight_bytes_max: 1_000,
            address_share_percent_max: 50,
            ..GatewayConfig::default()
        };
        Arc::new(Sources::new(&config, 6))
    }

    #[test]
    fn an_address_has_its_share_of_the_connections_and_is_forgotten_with_the_last() {
        let sources = sources();
        let mut seats: Vec<_> = (0..3).map(|_| sources.connect(1).unwrap()).collect();
        assert!(sources.connect(1).is_none());
        let other = sources.connect(2).unwrap();
        seats.pop();
        seats.push(sources.connect(1).unwrap());
        assert!(sources.connect(1).is_none());
        drop((seats, other));
        assert!(sources.connected.lock().is_empty());
    }

    #[test]
    fn its_connections_share_one_account_of_what_is_unfinished() {
        let sources = sources();
        let seats = [1, 1, 2].map(|key| sources.connect(key).unwrap());
        let [mut first, second] = [0, 1].map(|seat: usize| seats[seat].source().begin().unwrap());
        assert_eq!(seats[0].source().begin().unwrap_err(), Full);
        assert!(first.try_raise(300) && first.try_raise(500) && first.try_raise(10));
        assert!(!first.try_raise(501));
        let mut other = seats[2].source().begin().unwrap();
        assert!(other.try_raise(500));
        drop((first, second));
        let mut again = seats[1].source().begin().unwrap();
        assert!(again.try_raise(500));
    }

    #[tokio::test]
    async fn a_claim_waits_for_what_its_address_gives_back() {
        let seat = sources().connect(1).unwrap();
        let mut first = seat.source().begin().unwrap();
        let mut second = seat.source().begin().unwrap();
        first.raise(400).await.unwrap();
        let mut waiting = Box::pin(second.raise(200));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        waiting.await.unwrap();
    }
}
