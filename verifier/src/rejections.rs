//! Clients most of whose receipts are rejected. In the totals, a client that lost its key would
//! drown in everybody's good receipts, and a metric label per client would give every made-up ID a
//! series.
//!
//! Outcomes are counted by client for some minutes, in bounded memory. Then the clients that were
//! mostly rejected are counted in one metric and named in the log. The ID is what the receipts
//! state: nobody has proven it of a rejected one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use metrics::counter;
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

/// The length of a window.
const WINDOW: Duration = Duration::from_secs(300);
/// Rejected receipts of a client in a window below which nothing is reported.
const REJECTED_MIN: u64 = 20;
/// Clients counted at a time; beyond, those without rejected receipts are evicted.
const CLIENTS_MAX: usize = 4_096;
/// Clients named in the log at the end of a window.
const NAMED_MAX: usize = 5;

/// Outcomes of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientTally {
    /// Receipts accepted.
    pub accepted: u64,
    /// Receipts rejected.
    pub rejected: u64,
}

/// Outcomes by client, of at most [`CLIENTS_MAX`] clients.
#[derive(Debug, Default)]
pub struct Tallies {
    by_client: HashMap<Uuid, ClientTally>,
}

impl Tallies {
    /// Counts an accepted receipt.
    pub(crate) fn accepted(&mut self, client: Uuid) {
        let one = ClientTally {
            accepted: 1,
            rejected: 0,
        };
        self.add(client, one);
    }

    /// Counts a rejected receipt; one without a readable client is left out.
    pub(crate) fn rejected(&mut self, client: Option<Uuid>) {
        let one = ClientTally {
            accepted: 0,
            rejected: 1,
        };
        if let Some(client) = client {
            self.add(client, one);
        }
    }

    fn add(&mut self, client: Uuid, more: ClientTally) {
        if self.by_client.len() >= CLIENTS_MAX && !self.by_client.contains_key(&client) {
            if more.rejected == 0 {
                return;
            }
            self.by_client.retain(|_, tally| tally.rejected > 0);
            if self.by_client.len() >= CLIENTS_MAX {
                return;
            }
        }
        match self.by_client.entry(client) {
            Entry::Occupied(mut found) => {
                let tally = found.get_mut();
                tally.accepted += more.accepted;
                tally.rejected += more.rejected;
            }
            Entry::Vacant(free) => {
                free.insert(more);
            }
        }
    }

    /// Clients that were mostly rejected, the most rejected first.
    fn mostly_rejected(&self) -> Vec<(Uuid, ClientTally)> {
        let mut found: Vec<_> = self
            .by_client
            .iter()
            .filter(|(_, tally)| tally.rejected >= REJECTED_MIN && tally.rejected > tally.accepted)
            .map(|(client, tally)| (*client, *tally))
            .collect();
        found.sort_unstable_by_key(|(client, tally)| (std::cmp::Reverse(tally.rejected), *client));
        found
    }
}

/// Counts over the blocks of a window.
#[derive(Debug, Default)]
pub struct HighRejectionClients {
    began: Option<Instant>,
    tallies: Tallies,
}

impl HighRejectionClients {
    /// Adds a block's outcomes. At the end of the window, reports the clients that were mostly
    /// rejected and starts again.
    pub fn add_block(&mut self, block: &Tallies, now: Instant) {
        let found = self.add(block, now);
        // Also by none: a counter that isn't there before its first event shows no increase.
        counter!("receipts_verifier_clients_mostly_rejected_total").increment(found.len() as u64);
        for (client, tally) in found.iter().take(NAMED_MAX) {
            warn!(
                client_id = %client,
                accepted = tally.accepted,
                rejected = tally.rejected,
                clients = found.len(),
                "most receipts of a client are rejected: `receipts rejected list --client` shows why"
            );
        }
    }

    fn add(&mut self, block: &Tallies, now: Instant) -> Vec<(Uuid, ClientTally)> {
        for (client, tally) in &block.by_client {
            self.tallies.add(*client, *tally);
        }
        let began = *self.began.get_or_insert(now);
        if now.saturating_duration_since(began) < WINDOW {
            return Vec::new();
        }
        self.began = None;
        std::mem::take(&mut self.tallies).mostly_rejected()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn tallies(client: u128, accepted: u64, rejected: u64) -> Tallies {
        let mut tallies = Tallies::default();
        tallies.add(Uuid::from_u128(client), ClientTally { accepted, rejected });
        tallies
    }

    #[test]
    fn whoever_is_mostly_rejected_is_named_once_a_window() {
        let start = Instant::now();
        let mut clients = HighRejectionClients::default();
        assert!(clients.add(&tallies(1, 500, 40), start).is_empty());
        assert!(clients.add(&tallies(2, 0, 19), start).is_empty(), "too few to say");
        assert!(clients.add(&tallies(3, 20, 20), start).is_empty(), "half isn't most");
        assert!(clients.add(&tallies(4, 10, 30), start).is_empty());
        let found = clients.add(&tallies(5, 0, 100), start + WINDOW);
        let named: Vec<_> = found.iter().map(|(client, _)| client.as_u128()).collect();
        assert_eq!(named, [5, 4]);
        assert!(
            clients.add(&tallies(6, 0, 100), start + WINDOW * 3).is_empty(),
            "a window begins with its first block"
        );
    }

    #[test]
    fn made_up_clients_are_bounded_and_dont_push_out_the_rejected() {
        let mut tallies = tallies(1, 0, 50);
        for client in 2..20_000 {
            tallies.accepted(Uuid::from_u128(client));
        }
        assert_eq!(tallies.by_client.len(), CLIENTS_MAX);
        tallies.rejected(Some(Uuid::from_u128(30_000)));
        assert_eq!(tallies.by_client.len(), 2, "who has nothing rejected makes room");
        for client in 40_000..60_000 {
            tallies.rejected(Some(Uuid::from_u128(client)));
        }
        assert_eq!(tallies.by_client.len(), CLIENTS_MAX);
        tallies.rejected(None);
        assert_eq!(tallies.mostly_rejected().len(), 1);
    }
}
