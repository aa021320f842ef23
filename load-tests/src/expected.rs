//! Expected numbers of the service, updated as acknowledgements arrive.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use jiff::Timestamp;
use uuid::Uuid;

/// Expected outcome of a receipt in a request.
#[derive(Debug, Clone)]
pub struct Item {
    /// The receipt's id.
    pub receipt_id: Uuid,
    /// The client.
    pub client_id: Uuid,
    /// The entry.
    pub entry_id: Uuid,
    /// The purpose's name.
    pub purpose: &'static str,
    /// `None`: verified (or a duplicate of a verified one). Otherwise the reason of its rejection.
    pub rejected: Option<&'static str>,
}

/// When something was acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged {
    /// For delays.
    pub instant: Instant,
    /// By the clock on the wall, for the watermark.
    pub time: Timestamp,
}

/// Sums over everything acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Receipts that must be counted, by id; the value is how often each was acknowledged.
    pub verified: HashMap<Uuid, u32>,
    /// Counted receipts by purpose.
    pub by_purpose: BTreeMap<&'static str, u64>,
    /// Counted receipts by entry.
    pub by_entry: HashMap<Uuid, u64>,
    /// Clients with at least one counted receipt.
    pub clients: HashSet<Uuid>,
    /// Acknowledged occurrences of receipts that must be counted.
    pub occurrences: u64,
    /// Acknowledged receipts that must be rejected, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Malformed requests, each refused with 400 as it must be.
    pub refused: u64,
    /// Further occurrences that the log may hold: of good receipts in tries that left open whether
    /// they were stored.
    pub open_occurrences: u64,
    /// Number of uncertain receipts that must be rejected.
    pub open_rejected: u64,
    /// Receipts in requests that were given up: they may be counted or not.
    pub given_up: u64,
    /// Answers that were wrong in themselves, the first few.
    pub wrong_answers: Vec<String>,
    /// When the n-th counted receipt was acknowledged.
    pub acknowledged_at: Vec<Acknowledged>,
}

impl Expected {
    /// Takes in one acknowledged request, after `open` tries that left open whether it was stored.
    pub fn acknowledge(&mut self, items: &[Item], open: u32) {
        let now = Acknowledged {
            instant: Instant::now(),
            time: Timestamp::now(),
        };
        let rejected = items.iter().filter(|item| item.rejected.is_some()).count() as u64;
        self.open_rejected += rejected * u64::from(open);
        self.open_occurrences += (items.len() as u64 - rejected) * u64::from(open);
        for item in items {
            if let Some(reason) = item.rejected {
                *self.rejected.entry(reason).or_insert(0) += 1;
                continue;
            }
            self.occurrences += 1;
            let times = self.verified.entry(item.receipt_id).or_insert(0);
            *times += 1;
            if *times == 1 {
                *self.by_purpose.entry(item.purpose).or_insert(0) += 1;
                *self.by_entry.entry(item.entry_id).or_insert(0) += 1;
                self.clients.insert(item.client_id);
                self.acknowledged_at.push(now);
            }
        }
    }

    /// Notes a wrong answer; only the first twenty are stored.
    pub fn wrong(&mut self, what: String) {
        if self.wrong_answers.len() < 20 {
            self.wrong_answers.push(what);
        }
    }

    /// Acknowledged receipts that must be rejected.
    #[must_use]
    pub fn rejected_sum(&self) -> u64 {
        self.rejected.values().sum()
    }
}
