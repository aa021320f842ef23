//! Receipts of a compromised key lose their operator from an arrival on: totals equal a model.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use blocks::{AcceptedRow, Rows};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use usage::Usage;
use uuid::Uuid;
use warehouse::{QueryScope, Reattribution};

use super::harness::{DAY_S, PUBLISHERS, World, today};
use crate::engine::run;

const OPERATOR: &str = "lab.example";
const COMPROMISED: [u8; 32] = [0xA7; 32];
const KEYS: [[u8; 32]; 2] = [COMPROMISED, [0x5B; 32]];

/// A receipt and its arrivals with the operator of each.
struct Modelled {
    number: u64,
    publisher: &'static str,
    key: [u8; 32],
    timestamp_ms: i64,
    arrivals: Vec<(i64, &'static str)>,
}

/// Receipts of four days; some arrive again later. Operators change: each arrival has its own.
fn modelled(random: &mut StdRng) -> Vec<Modelled> {
    let begin_ms = (i64::from(today()) - 3 * i64::from(DAY_S)) * 1_000;
    let mut receipts: Vec<Modelled> = (0..600)
        .map(|number| Modelled {
            number,
            publisher: PUBLISHERS[random.random_range(0..2)],
            key: KEYS[random.random_range(0..2)],
            timestamp_ms: begin_ms + random.random_range(0..3 * 86_400_000),
            arrivals: Vec::new(),
        })
        .collect();
    for receipt in &mut receipts {
        let mut at_ms = receipt.timestamp_ms;
        for _ in 0..=random.random_range(0..3) {
            at_ms += random.random_range(1..20_000_000);
            receipt
                .arrivals
                .push((at_ms, ["", OPERATOR][random.random_range(0..2)]));
        }
    }
    receipts
}

/// The arrivals of this number.
fn batch(receipts: &[Modelled], arrival: usize) -> RecordBatch {
    let mut rows = Rows::default();
    for receipt in receipts {
        let Some(&(received_at_ms, operator)) = receipt.arrivals.get(arrival) else {
            continue;
        };
        let mut payload_hash = [0; 32];
        payload_hash[..8].copy_from_slice(&receipt.number.to_be_bytes());
        rows.push_accepted(&AcceptedRow {
            position: u128::from(receipt.number) * 10 + arrival as u128,
            publisher: receipt.publisher,
            timestamp_ms: receipt.timestamp_ms,
            entry_id: Uuid::from_u128(1),
            receipt_id: Uuid::from_u128(u128::from(receipt.number) + 1),
            payload_hash: &payload_hash,
            received_at_ms,
            url: "https://a.example/",
            content_hash: &[1; 32],
            client_id: Uuid::from_u128(2),
            client_name: "Alpha",
            client_version: "1.0",
            organization: "Lab",
            key_fingerprint: &receipt.key,
            operator,
            algorithm: "Ed25519",
            purpose: "training",
            model_id: "m",
            kind: "receipt",
            origin: "record",
            ..AcceptedRow::default()
        });
    }
    rows.batches().unwrap().0
}

/// Receipts by publisher and operator, if what `change` makes of each arrival's operator is right.
fn expected(
    receipts: &[Modelled],
    change: impl Fn(&Modelled, i64, &'static str) -> &'static str,
) -> BTreeMap<(String, String), i64> {
    let mut totals = BTreeMap::new();
    for receipt in receipts {
        let (at_ms, operator) = receipt.arrivals[0];
        let operator = change(receipt, at_ms, operator);
        *totals
            .entry((receipt.publisher.to_owned(), operator.to_owned()))
            .or_default() += 1;
    }
    totals
}

async fn totals(world: &World) -> BTreeMap<(String, String), i64> {
    let mut totals = BTreeMap::new();
    for publisher in &PUBLISHERS[..2] {
        for operator in ["", OPERATOR] {
            let sql = format!(
                "SELECT sum(receipts) FROM usage
                 WHERE grain = 'entry' AND publisher = '{publisher}' AND operator = '{operator}'"
            );
            totals.insert(((*publisher).to_owned(), operator.to_owned()), world.number(&sql).await);
        }
    }
    totals
}

/// Rebuilds what the command requests, and returns the number of inserted rows.
async fn rebuild(usage: &Usage, reattribution: &Reattribution) -> u64 {
    let found = usage
        .warehouse()
        .reattributed_publishers(reattribution, "")
        .await
        .unwrap();
    let newest_ms = found.iter().map(|one| one.newest_ms).max().unwrap();
    let names: Vec<String> = found.into_iter().map(|one| one.publisher).collect();
    assert_eq!(names, PUBLISHERS[..2]);
    let after = usage.warehouse().reattributed_publishers(reattribution, &names[1]);
    assert!(after.await.unwrap().is_empty());
    usage.request_rebuild(&QueryScope::of(names), newest_ms).await.unwrap();
    let pending = usage.pending_rebuilds().await.unwrap();
    usage.execute_rebuild(&pending[0], None).await.unwrap()
}

#[test]
fn a_compromised_key_proves_nothing_from_an_arrival_on() {
    run(async {
        let world = World::new(21).await;
        let receipts = modelled(&mut StdRng::seed_from_u64(21));
        for arrival in 0..2 {
            world.usage.insert_counted(&[batch(&receipts, arrival)]).await.unwrap();
        }
        assert_eq!(totals(&world).await, expected(&receipts, |_, _, operator| operator));
        let compromised_ms = (i64::from(today()) - i64::from(DAY_S)) * 1_000;
        let from_ms = compromised_ms - 2 * 86_400_000 + 40_000_000;
        let none = Reattribution {
            key_fingerprint: COMPROMISED,
            from_ms,
            until_ms: i64::MAX,
            from_operator: OPERATOR.to_owned(),
            to_operator: String::new(),
        };
        let warehouse = world.usage.warehouse();
        assert!(warehouse.reattribution_left(&none).await.unwrap() > 0);
        warehouse.reattribute(&none).await.unwrap();
        assert_eq!(warehouse.reattribution_left(&none).await.unwrap(), 0);
        assert!(rebuild(&world.usage, &none).await > 0);
        let corrected = expected(&receipts, |receipt, at_ms, operator| {
            if receipt.key == COMPROMISED && at_ms >= from_ms {
                ""
            } else {
                operator
            }
        });
        assert_eq!(totals(&world).await, corrected);
        assert_ne!(
            corrected,
            expected(&receipts, |_, _, operator| operator),
            "something was corrected"
        );
        world.assert_equal().await;

        // Repeating it, and later duplicates with the old operator, change nothing.
        warehouse.reattribute(&none).await.unwrap();
        assert_eq!(rebuild(&world.usage, &none).await, 0);
        world.usage.insert_counted(&[batch(&receipts, 2)]).await.unwrap();
        assert_eq!(totals(&world).await, corrected);
        assert_eq!(world.rebuild().await, 0);
        world.assert_equal().await;
    });
}

#[test]
fn receipts_of_a_range_get_the_operator_that_had_the_key() {
    run(async {
        let world = World::new(22).await;
        let receipts = modelled(&mut StdRng::seed_from_u64(22));
        world.usage.insert_counted(&[batch(&receipts, 0)]).await.unwrap();
        let from_ms = (i64::from(today()) - 2 * i64::from(DAY_S)) * 1_000;
        let range = from_ms..from_ms + 90_000_000;
        let operator = Reattribution {
            key_fingerprint: COMPROMISED,
            from_ms: range.start,
            until_ms: range.end,
            from_operator: String::new(),
            to_operator: OPERATOR.to_owned(),
        };
        world.usage.warehouse().reattribute(&operator).await.unwrap();
        assert!(rebuild(&world.usage, &operator).await > 0);
        let corrected = expected(&receipts, |receipt, at_ms, stamped| {
            if receipt.key == COMPROMISED && range.contains(&at_ms) {
                OPERATOR
            } else {
                stamped
            }
        });
        assert_eq!(totals(&world).await, corrected);
        world.assert_equal().await;
    });
}
