//! Every receipt is in exactly one page, whatever the size of the pages and whatever is written
//! meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;

use uuid::Uuid;
use warehouse::{QueryScope, ReceiptCursor, Warehouse};

use crate::harness::{NOON_MS, Receipt, fresh, insert, position, run};

/// Sixty receipts of two publishers over months and hours, entries and ids in no order, some of
/// them several times.
fn receipts() -> Vec<(Receipt, u128)> {
    let mut rows = Vec::new();
    for number in 0..60_u64 {
        let mixed = number * 37 % 60;
        let receipt = Receipt {
            publisher: ["a.example", "b.example"][usize::from(mixed % 3 == 0)].to_owned(),
            timestamp_ms: NOON_MS - (mixed as i64 % 7) * 600_000 - (mixed as i64 % 5) * 20 * 86_400_000,
            entry_id: Uuid::from_u128((u128::from(mixed % 4) << 96) | u128::from(mixed % 3)),
            receipt_id: Uuid::from_u128((u128::from(mixed % 11) << 64) | u128::from(mixed)),
            ..Receipt::new(mixed.into())
        };
        for copy in 0..=(number % 3) {
            rows.push((receipt.clone(), position(0, number * 10 + copy, 0)));
        }
    }
    // Two payloads under one id.
    let mut other = rows[0].0.clone();
    other.payload_hash[5] ^= 1;
    rows.push((other, position(0, 1_000, 0)));
    rows
}

fn scope(publishers: &[&str]) -> QueryScope {
    QueryScope::of(publishers.iter().map(ToString::to_string).collect())
}

const EVER: Range<i64> = i64::MIN..i64::MAX;

async fn walk(warehouse: &Warehouse, scope: &QueryScope, rows_max: u64) -> Vec<(ReceiptCursor, u64)> {
    walk_of(warehouse, scope, &EVER, rows_max).await
}

async fn walk_of(
    warehouse: &Warehouse,
    scope: &QueryScope,
    times: &Range<i64>,
    rows_max: u64,
) -> Vec<(ReceiptCursor, u64)> {
    let mut all = Vec::new();
    let mut after: Option<ReceiptCursor> = None;
    loop {
        let page = warehouse
            .export_receipts(scope, times, after.as_ref(), rows_max)
            .await
            .unwrap();
        assert!(page.len() as u64 <= rows_max);
        let Some(last) = page.last() else { return all };
        after = Some(last.key.clone());
        all.extend(page.into_iter().map(|receipt| (receipt.key, receipt.occurrences)));
    }
}

#[test]
fn pages_of_any_size_hold_each_receipt_once() {
    run(async {
        let warehouse = fresh().await;
        let rows = receipts();
        // One block for each row: nothing is merged when it is read.
        for row in &rows {
            insert(&warehouse, std::slice::from_ref(row)).await;
        }
        let mut expected: BTreeMap<(Uuid, [u8; 32]), u64> = BTreeMap::new();
        for (receipt, _) in &rows {
            *expected.entry((receipt.receipt_id, receipt.payload_hash)).or_default() += 1;
        }
        let both = scope(&["a.example", "b.example"]);
        let all = walk(&warehouse, &both, 1_000).await;
        let found: BTreeMap<_, _> = all
            .iter()
            .map(|(key, occurrences)| ((key.receipt_id, key.payload_hash), *occurrences))
            .collect();
        assert_eq!((found, all.len()), (expected, 61));
        for rows_max in [1, 2, 7, 61] {
            assert_eq!(walk(&warehouse, &both, rows_max).await, all, "pages of {rows_max}");
        }
        let own = walk(&warehouse, &scope(&["a.example"]), 7).await;
        let of_a: Vec<_> = all
            .iter()
            .filter(|(key, _)| key.publisher == "a.example")
            .cloned()
            .collect();
        assert_eq!(own, of_a);
        assert_eq!(walk(&warehouse, &scope(&[]), 7).await, []);
        // From an instant on, and before one: ranges that meet at a receipt's time share none.
        let cut = all[30].0.timestamp_ms;
        for times in [i64::MIN..cut, cut..i64::MAX, cut..cut + 1, cut..cut] {
            let within = |(key, _): &&(ReceiptCursor, u64)| times.contains(&key.timestamp_ms);
            let expected: Vec<_> = all.iter().filter(within).cloned().collect();
            assert_eq!(walk_of(&warehouse, &both, &times, 7).await, expected, "{times:?}");
        }
    });
}

#[test]
fn everything_stored_is_reported() {
    run(async {
        let warehouse = fresh().await;
        let receipt = Receipt::new(1);
        insert(
            &warehouse,
            &[(receipt.clone(), position(0, 1, 0)), (receipt, position(0, 2, 0))],
        )
        .await;
        let page = warehouse
            .export_receipts(&scope(&["news.example"]), &EVER, None, 10)
            .await
            .unwrap();
        let [one] = page.as_slice() else { panic!("{page:?}") };
        assert_eq!((one.key.timestamp_ms, one.received_at_ms), (NOON_MS, NOON_MS + 1_000));
        assert_eq!((one.occurrences, one.key.entry_id), (2, Uuid::from_u128(7)));
        assert_eq!((one.content_hash, one.key_fingerprint), ([3; 32], [4; 32]));
        assert_eq!(
            [
                &one.url,
                &one.client_name,
                &one.client_version,
                &one.organization,
                &one.algorithm,
                &one.purpose
            ]
            .map(String::as_str),
            [
                "https://news.example/7",
                "reader",
                "1.0",
                "Readers",
                "Ed25519",
                "training"
            ]
        );
        assert_eq!(
            [&one.context, &one.dataset_id, &one.model_id, &one.researcher_id].map(String::as_str),
            ["test", "d", "", ""]
        );
        assert_eq!(one.client_id, Uuid::from_u128(9));
    });
}
