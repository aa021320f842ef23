//! Rejected receipts: every row in any order of pages, and exact bytes.

use blocks::RejectedRow;
use uuid::Uuid;
use warehouse::{QueryScope, RejectedCursor, RejectedFilter, RejectedOrder, Warehouse};

use crate::harness::{NOON_MS, fresh, insert_rejected, position, rejected, run};

/// All positions of a filter, in pages of `rows_max`.
async fn paged(warehouse: &Warehouse, filter: &RejectedFilter, order: RejectedOrder, rows_max: u64) -> Vec<u128> {
    let mut keys: Vec<RejectedCursor> = Vec::new();
    loop {
        let page = warehouse
            .rejected_keys(filter, order, keys.last(), rows_max)
            .await
            .unwrap();
        let last = (page.len() as u64) < rows_max;
        keys.extend(page);
        if last {
            return keys.into_iter().map(|key| key.position).collect();
        }
    }
}

async fn insert_some(warehouse: &Warehouse) {
    let rows: Vec<_> = (0..40_u16)
        .map(|n| RejectedRow {
            publisher: ["", "a.example", "b.example"][usize::from(n) % 3],
            // Several at one instant, and over two months.
            received_at_ms: NOON_MS + i64::from(n / 4) * 86_400_000,
            receipt_id: Uuid::from_u128(u128::from(n * u16::from(n % 2 == 0))),
            client_id: Uuid::from_u128(u128::from(n % 5)),
            ..rejected(
                position(0, 1_000 - u64::from(n), 0),
                ["malformed", "bad_signature"][usize::from(n) % 2],
            )
        })
        .collect();
    insert_rejected(warehouse, &rows).await;
    insert_rejected(warehouse, &rows[..10]).await;
}

#[test]
fn pages_hold_each_row_once_in_both_orders() {
    run(async {
        let warehouse = fresh().await;
        insert_some(&warehouse).await;
        let all = RejectedFilter::default();
        let whole = warehouse
            .rejected_keys(&all, RejectedOrder::Newest, None, 1_000)
            .await
            .unwrap();
        assert_eq!(whole.len(), 40);
        assert!(whole.is_sorted_by_key(|key| std::cmp::Reverse((key.received_at_ms, key.position))));
        let stored = warehouse
            .rejected_keys(&all, RejectedOrder::Stored, None, 1_000)
            .await
            .unwrap();
        assert!(stored.is_sorted_by_key(|key| (key.publisher.clone(), key.received_at_ms, key.position)));
        for (order, whole) in [(RejectedOrder::Newest, whole), (RejectedOrder::Stored, stored)] {
            let whole: Vec<u128> = whole.into_iter().map(|key| key.position).collect();
            for rows_max in [1, 3, 40] {
                assert_eq!(
                    paged(&warehouse, &all, order, rows_max).await,
                    whole,
                    "{order:?} by {rows_max}"
                );
            }
        }
    });
}

#[test]
fn filters_take_what_they_say() {
    run(async {
        let warehouse = fresh().await;
        insert_some(&warehouse).await;
        let count = async |filter: RejectedFilter| {
            let (counted, listed) = tokio::join!(
                warehouse.rejected_count(&filter),
                warehouse.rejected_keys(&filter, RejectedOrder::Stored, None, 1_000)
            );
            assert_eq!(counted.unwrap(), listed.unwrap().len() as u64, "{filter:?}");
            warehouse.rejected_count(&filter).await.unwrap()
        };
        let all = RejectedFilter::default();
        assert_eq!(count(all.clone()).await, 40);
        let reasons = vec!["malformed".to_owned()];
        assert_eq!(count(RejectedFilter { reasons, ..all.clone() }).await, 20);
        let publishers = vec!["a.example".to_owned(), "b.example".to_owned()];
        assert_eq!(
            count(RejectedFilter {
                publishers,
                ..all.clone()
            })
            .await,
            26
        );
        let client_id = Some(Uuid::from_u128(4));
        assert_eq!(
            count(RejectedFilter {
                client_id,
                ..all.clone()
            })
            .await,
            8
        );
        let receipt_id = Some(Uuid::from_u128(6));
        assert_eq!(
            count(RejectedFilter {
                receipt_id,
                ..all.clone()
            })
            .await,
            1
        );
        let at = Some(position(0, 990, 0));
        assert_eq!(
            count(RejectedFilter {
                position: at,
                ..all.clone()
            })
            .await,
            1
        );
        let times = RejectedFilter {
            from_ms: Some(NOON_MS + 86_400_000),
            to_ms: Some(NOON_MS + 2 * 86_400_000),
            ..all
        };
        assert_eq!(count(times).await, 4);
    });
}

#[test]
fn bytes_come_back_as_they_went_in() {
    run(async {
        let warehouse = fresh().await;
        // A record body of the largest size, of all bytes there are.
        let large: Vec<u8> = (0..8_u32 << 20)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        let bodies: [&[u8]; 4] = [&large, b"", b"\xff\xfe\x00 \"{", "übér\u{202e}".as_bytes()];
        let rows: Vec<_> = bodies
            .iter()
            .zip(1..)
            .map(|(raw, n)| RejectedRow {
                raw,
                request_signature: if n == 1 { "c2ln" } else { "" },
                ..rejected(position(0, n, 0), "malformed")
            })
            .collect();
        insert_rejected(&warehouse, &rows).await;
        let all = RejectedFilter::default();
        let keys = warehouse
            .rejected_keys(&all, RejectedOrder::Stored, None, 10)
            .await
            .unwrap();
        let heads = warehouse.rejected(&keys).await.unwrap();
        let raw = warehouse.rejected_raw(&keys).await.unwrap();
        assert_eq!((heads.len(), raw.len()), (4, 4));
        for (head, row) in heads.iter().zip(&rows) {
            assert_eq!((head.position, head.raw_bytes), (row.position, row.raw.len() as u64));
            assert!(raw[&row.position] == row.raw, "the bytes differ");
            assert_eq!(
                head.request_signature.as_deref().unwrap_or_default(),
                row.request_signature
            );
            assert_eq!((head.origin.as_str(), head.kind.as_str()), ("record", "receipt"));
            assert_eq!((head.detail.as_str(), head.has_bytes()), ("detail", true));
        }
    });
}

#[test]
fn a_row_counts_all_receipts_that_are_not_retained() {
    run(async {
        let warehouse = fresh().await;
        let not_retained = RejectedRow {
            origin: blocks::NOT_STORED,
            key_fingerprint: &[8; 32],
            raw: b"",
            receipts: 40,
            ..rejected(position(0, 2, 5), "bad_signature")
        };
        insert_rejected(
            &warehouse,
            &[rejected(position(0, 1, 0), "bad_signature"), not_retained],
        )
        .await;
        let scope = QueryScope::of(vec!["news.example".to_owned()]);
        let refusals = warehouse.refusals(&scope, 0, NOON_MS * 2, 10).await.unwrap();
        assert_eq!(refusals.by_reason, [("bad_signature".to_owned(), 41)]);
        assert_eq!(refusals.newest.len(), 2);
        let totals = warehouse.totals().await.unwrap();
        assert_eq!(totals.rejected, 41);
        let all = RejectedFilter::default();
        assert_eq!(warehouse.rejected_count(&all).await.unwrap(), 41);
        let keys = warehouse
            .rejected_keys(&all, RejectedOrder::Stored, None, 10)
            .await
            .unwrap();
        let rows = warehouse.rejected(&keys).await.unwrap();
        let counted: Vec<_> = rows.iter().map(|row| (row.receipts, row.key_fingerprint)).collect();
        assert_eq!(counted, [(1, None), (40, Some([8; 32]))]);
        let with_bytes: Vec<_> = rows.iter().map(warehouse::Rejected::has_bytes).collect();
        assert_eq!(with_bytes, [true, false]);
        let standing = warehouse
            .standing_rejections(position(0, 2, 0), position(0, 2, 9))
            .await
            .unwrap();
        assert_eq!(standing[0].receipts, 40);
    });
}
