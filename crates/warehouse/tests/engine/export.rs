//! Every receipt is in exactly one page, whatever the size of the pages and whatever is written
//! meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;

use blocks::{AcceptedRow, Rows};
use uuid::Uuid;
use warehouse::{BeforeVerification, ExportLimits, ExportPage, Filter, QueryScope, ReceiptCursor, Warehouse};

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
const ALL: ExportLimits = ExportLimits::DEFAULT;

fn rows_max(rows_max: u32) -> ExportLimits {
    ExportLimits { rows_max, ..ALL }
}

fn of_times(times: &Range<i64>) -> Filter {
    Filter {
        from_ms: times.start,
        to_ms: times.end,
        before_verification: BeforeVerification::Include,
        ..Filter::default()
    }
}

async fn pages(warehouse: &Warehouse, scope: &QueryScope, filter: &Filter, limits: ExportLimits) -> Vec<ExportPage> {
    let mut pages: Vec<ExportPage> = Vec::new();
    loop {
        let after = pages.last().map(|page| &page.end);
        let page = warehouse.export_page(scope, filter, after, limits).await.unwrap();
        let Some(page) = page else { return pages };
        assert!(page.receipts.len() <= limits.rows_max as usize);
        pages.push(page);
    }
}

async fn walk(
    warehouse: &Warehouse,
    scope: &QueryScope,
    times: &Range<i64>,
    limits: ExportLimits,
) -> Vec<(ReceiptCursor, u64)> {
    let pages = pages(warehouse, scope, &of_times(times), limits).await;
    let receipts = pages.into_iter().flat_map(|page| page.receipts);
    receipts
        .map(|(receipt, _)| (receipt.key, receipt.occurrences))
        .collect()
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
        let all = walk(&warehouse, &both, &EVER, ALL).await;
        let found: BTreeMap<_, _> = all
            .iter()
            .map(|(key, occurrences)| ((key.receipt_id, key.payload_hash), *occurrences))
            .collect();
        assert_eq!((found, all.len()), (expected, 61));
        for rows in [1, 2, 7, 61] {
            assert_eq!(
                walk(&warehouse, &both, &EVER, rows_max(rows)).await,
                all,
                "pages of {rows}"
            );
        }
        let own = walk(&warehouse, &scope(&["a.example"]), &EVER, rows_max(7)).await;
        let of_a: Vec<_> = all
            .iter()
            .filter(|(key, _)| key.publisher == "a.example")
            .cloned()
            .collect();
        assert_eq!(own, of_a);
        assert_eq!(walk(&warehouse, &scope(&[]), &EVER, rows_max(7)).await, []);
        // From an instant on, and before one: ranges that meet at a receipt's time share none.
        let cut = all[30].0.timestamp_ms;
        for times in [i64::MIN..cut, cut..i64::MAX, cut..cut + 1, cut..cut] {
            let within = |(key, _): &&(ReceiptCursor, u64)| times.contains(&key.timestamp_ms);
            let expected: Vec<_> = all.iter().filter(within).cloned().collect();
            assert_eq!(
                walk(&warehouse, &both, &times, rows_max(7)).await,
                expected,
                "{times:?}"
            );
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
        let found = pages(&warehouse, &scope(&["news.example"]), &of_times(&EVER), ALL).await;
        let [ExportPage { receipts, .. }] = found.as_slice() else {
            panic!("{found:?}")
        };
        let [(one, evidence)] = receipts.as_slice() else {
            panic!("{receipts:?}")
        };
        assert_eq!(evidence.received, "", "none is stored yet");
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

#[test]
fn evidence_is_in_the_page_of_its_receipt_and_bounds_it() {
    run(async {
        let warehouse = fresh().await;
        let rows = receipts();
        // Each arrival with other bytes. The first one's are the evidence.
        let raw = |position: u128| format!("{position}, {}", "x".repeat((position >> 16) as usize % 7 * 100));
        let mut evidence = Rows::default();
        for (receipt, position) in &rows {
            let raw = raw(*position);
            let row = AcceptedRow {
                raw: raw.as_bytes(),
                publisher_verified: !receipt.receipt_id.as_u128().is_multiple_of(5),
                ..receipt.row(*position)
            };
            evidence.push_accepted(&row);
        }
        let (evidence, _) = evidence.batches().unwrap();
        warehouse
            .insert_accepted(std::slice::from_ref(&evidence), None)
            .await
            .unwrap();
        let none_yet = rows.len() / 2;
        warehouse.insert_evidence(&[evidence.slice(0, none_yet)]).await.unwrap();
        let mut expected: BTreeMap<(Uuid, [u8; 32]), String> = BTreeMap::new();
        for (number, (receipt, position)) in rows.iter().enumerate() {
            let bytes = if number < none_yet {
                raw(*position)
            } else {
                String::new()
            };
            let key = (receipt.receipt_id, receipt.payload_hash);
            expected.entry(key).or_insert(bytes);
        }
        let both = scope(&["a.example", "b.example"]);
        let all = of_times(&EVER);
        let verified = Filter {
            before_verification: BeforeVerification::Exclude,
            ..all.clone()
        };
        for bytes_max in [1, 200, 700, 3_000, ALL.bytes_max] {
            for filter in [&all, &verified] {
                let limits = ExportLimits { bytes_max, ..ALL };
                let pages = pages(&warehouse, &both, filter, limits).await;
                let bytes = |page: &ExportPage| {
                    page.receipts
                        .iter()
                        .map(|(_, evidence)| evidence.received.len() as u64)
                        .sum::<u64>()
                };
                assert!(pages.iter().all(|page| bytes(page) < bytes_max + 700), "{bytes_max}");
                let found = pages.into_iter().flat_map(|page| page.receipts);
                let found: Vec<_> = found
                    .map(|(receipt, evidence)| ((receipt.key.receipt_id, receipt.key.payload_hash), evidence.received))
                    .collect();
                let mut expected = expected.clone();
                if filter == &verified {
                    expected.retain(|(id, _), _| !id.as_u128().is_multiple_of(5));
                }
                assert_eq!(found.len(), expected.len(), "each once");
                assert_eq!(BTreeMap::from_iter(found), expected, "{bytes_max}");
            }
        }
    });
}
