//! Random receipts in memory and in the warehouse.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use usage::Usage;
use uuid::Uuid;
use warehouse::{BeforeVerification, Below, Filter, MetadataErasure, Scope, Trust};

use super::harness::{NOON_MS, Receipt, insert};

/// Names as a user might choose them, with subdomains.
pub(crate) const PUBLISHERS: [&str; 6] = [
    "news.example",
    "blog.news.example",
    "old.blog.news.example",
    "o'reilly.example",
    "ünïcode.example",
    "') OR 1=1 --.example",
];
const PURPOSES: [&str; 3] = ["training", "inference", "research"];
const OPERATORS: [&str; 3] = ["", "ai.example", "other-ai.example"];
const MODELS: [&str; 4] = ["", "model 'a'", "model b", "модель"];

pub(crate) const MINUTE_MS: i64 = 60_000;
pub(crate) const HALF_HOUR_MS: i64 = 30 * MINUTE_MS;
pub(crate) const HOUR_MS: i64 = 2 * HALF_HOUR_MS;
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;

/// Days that receipts are spread over.
pub(crate) const DAYS: i64 = 92;

/// Distinct receipts, as the warehouse shows them.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) receipts: Vec<Receipt>,
    offset: u64,
}

fn random_time(rng: &mut StdRng) -> i64 {
    let noon = NOON_MS;
    let begin = noon - DAYS * DAY_MS;
    match rng.random_range(0..10) {
        // On, just before and just after days and half hours: where units and buckets meet.
        0 | 1 => (noon - DAY_MS * rng.random_range(0..DAYS)) / DAY_MS * DAY_MS + rng.random_range(-1..=1),
        2..=4 => noon - HALF_HOUR_MS * rng.random_range(0..48 * DAYS) + rng.random_range(-1..=1),
        // Days of time zones at +5:45 and -3:30.
        5 => {
            let offset = *[-345, 210].choose(rng).unwrap();
            noon / DAY_MS * DAY_MS - DAY_MS * rng.random_range(0..DAYS) + offset * MINUTE_MS + rng.random_range(-1..=1)
        }
        // Clusters: few instants of one day, so that receipts share a millisecond.
        6 => noon - 40 * DAY_MS + rng.random_range(0..5) * 7 * HOUR_MS / 3,
        7 => noon - rng.random_range(0..3 * HOUR_MS),
        _ => rng.random_range(begin..noon),
    }
}

fn random_receipt(rng: &mut StdRng, number: u128) -> Receipt {
    // Some entries and clients are used much more than others.
    let (entries, clients) = (rng.random_range(1..40_u128), rng.random_range(1..14_u128));
    let (entry, client) = (rng.random_range(0..entries), rng.random_range(0..clients));
    Receipt {
        publisher: (*PUBLISHERS.choose(rng).unwrap()).to_owned(),
        timestamp_ms: random_time(rng),
        // Texts and values of IDs are in different orders.
        entry_id: Uuid::from_u128(entry << 90 | (40 - entry)),
        url: format!("https://x.example/{entry}?v={}", rng.random_range(0..3)),
        client_id: Uuid::from_u128(client << 70 | client | 1 << 100),
        client_name: format!("client 'n°{client}' {}", rng.random_range(0..2)),
        client_version: format!("1.{}", rng.random_range(0..4)),
        organization: format!("org {client} {}", rng.random_range(0..2)),
        purpose: (*PURPOSES.choose(rng).unwrap()).to_owned(),
        model_id: (*MODELS.choose(rng).unwrap()).to_owned(),
        // Keys don't follow from clients, and became an operator's in between.
        key: [rng.random_range(1..4); 32],
        operator: (*OPERATORS.choose(rng).unwrap()).to_owned(),
        publisher_verified: rng.random_bool(0.8),
        ..Receipt::new(number)
    }
}

impl Model {
    /// Inserts and counts a batch, once or twice, with new receipts and duplicates.
    pub(crate) async fn batch(&mut self, rng: &mut StdRng, usage: &Usage) {
        let offset = self.offset;
        let mut batch: Vec<Receipt> = Vec::new();
        for _ in 0..rng.random_range(1..400) {
            self.offset += 1;
            let duplicate = self.receipts.choose(rng).filter(|_| rng.random_bool(0.1)).cloned();
            let receipt = if let Some(mut again) = duplicate {
                if again.client_id.is_nil() {
                    // A duplicate has its client, and stays erased.
                    again.client_id = Uuid::from_u128(77);
                    again.client_name = "not erased".to_owned();
                    again.key = [9; 32];
                }
                // The stamp of the first arrival stays.
                again.operator = (*OPERATORS.choose(rng).unwrap()).to_owned();
                again.received_at_ms += rng.random_range(1..1_000);
                // Who was verified once stays so.
                again.publisher_verified |= rng.random_bool(0.5);
                again
            } else {
                let receipt = random_receipt(rng, u128::from(self.offset));
                self.receipts.push(receipt.clone());
                receipt
            };
            batch.push(receipt);
        }
        batch.shuffle(rng);
        for _ in 0..rng.random_range(1..3) {
            insert(usage, &batch, offset).await;
        }
    }

    /// Erases the clients of a publisher's receipts so far, and rebuilds `usage`.
    pub(crate) async fn erase(&mut self, usage: &Usage, publisher: &str) {
        let erasure = MetadataErasure {
            scope: Scope::of(vec![publisher.to_owned()]),
            before_ms: NOON_MS + DAY_MS,
        };
        usage.warehouse().erase_metadata(&erasure).await.unwrap();
        usage.request_rebuild(&erasure.scope, i64::MAX).await.unwrap();
        for request in usage.pending_rebuilds().await.unwrap() {
            usage.execute_rebuild(&request, None).await.unwrap();
        }
        let erased = self
            .receipts
            .iter_mut()
            .filter(|receipt| receipt.publisher == publisher);
        for receipt in erased {
            receipt.client_id = Uuid::nil();
            receipt.key = [0; 32];
            for text in [
                &mut receipt.client_name,
                &mut receipt.client_version,
                &mut receipt.organization,
                &mut receipt.operator,
            ] {
                text.clear();
            }
        }
    }

    /// Receipts of a scope and filter.
    pub(crate) fn matching(&self, scope: &Scope, filter: &Filter) -> Vec<&Receipt> {
        let matches = |receipt: &&Receipt| {
            is_in(scope, &receipt.publisher)
                && (filter.from_ms..filter.to_ms).contains(&receipt.timestamp_ms)
                && filter
                    .purpose
                    .as_ref()
                    .is_none_or(|purpose| *purpose == receipt.purpose)
                && filter.client_id.is_none_or(|id| id == receipt.client_id)
                && filter.entry_id.is_none_or(|id| id == receipt.entry_id)
                && filter.model_id.as_ref().is_none_or(|model| *model == receipt.model_id)
                && filter.trust.is_none_or(|trust| trust == Trust::of(&receipt.operator))
                && filter
                    .operator
                    .as_ref()
                    .is_none_or(|operator| *operator == receipt.operator)
                && filter.key_fingerprint.is_none_or(|key| key == receipt.key)
                && match filter.before_verification {
                    BeforeVerification::Exclude => receipt.publisher_verified,
                    BeforeVerification::Include => true,
                    BeforeVerification::Only => !receipt.publisher_verified,
                }
        };
        self.receipts.iter().filter(matches).collect()
    }
}

fn is_in(scope: &Scope, name: &str) -> bool {
    let is_below = |below: &Below| {
        let under = |parent: &str| name.ends_with(&format!(".{parent}"));
        under(&below.parent) && !below.except.iter().any(|other| name == other || under(other))
    };
    scope.publishers.iter().any(|publisher| publisher == name) || scope.below.iter().any(is_below)
}
