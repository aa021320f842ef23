//! Hand-encoded rows against the official client's own serializer, and against what the tables give back.

use bytes::Bytes;
use clickhouse::Row;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use warehouse::{LedgerRow, ReceiptRow, RejectedRow, WarehouseError};

use crate::harness::{NOON_MS, Receipt, exchange, fresh, official, position, run, socket, sql};

#[derive(Row, Serialize, Deserialize, Debug, PartialEq, Clone)]
struct TypedReceipt {
    publisher: String,
    timestamp: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    entry_id: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    receipt_id: Uuid,
    payload_hash: [u8; 32],
    positions: Vec<u128>,
    received_at: i64,
    url: String,
    content_hash: [u8; 32],
    #[serde(with = "clickhouse::serde::uuid")]
    client_id: Uuid,
    client_name: String,
    client_version: String,
    organization: String,
    key_fingerprint: [u8; 32],
    algorithm: String,
    purpose: String,
    context: String,
    dataset_id: String,
    model_id: String,
    query_id: String,
    session_id: String,
    study_id: String,
    researcher_id: String,
}

#[derive(Row, Serialize, Deserialize, Debug, PartialEq, Clone)]
struct TypedRejected {
    position: u128,
    reason: String,
    detail: String,
    publisher: String,
    #[serde(with = "clickhouse::serde::uuid::option")]
    receipt_id: Option<Uuid>,
    #[serde(with = "clickhouse::serde::uuid::option")]
    client_id: Option<Uuid>,
    #[serde(with = "clickhouse::serde::uuid::option")]
    entry_id: Option<Uuid>,
    payload_hash: Option<[u8; 32]>,
    received_at: i64,
    request_id: String,
    client_address: String,
    kind: String,
    raw: String,
    request_signature: Option<String>,
    origin: String,
}

#[derive(Row, Serialize, Deserialize, Debug, PartialEq, Clone)]
struct TypedLedger {
    epoch: u32,
    partition: u32,
    first_offset: u64,
    last_offset: u64,
    records: u64,
    receipts_in: u64,
    accepted: u64,
    rejected: u64,
    verifier: String,
    committed_at: i64,
}

/// Long enough that lengths take two and three bytes.
fn texts() -> (String, String) {
    ("ä".repeat(100), "x".repeat(20_000))
}

/// A table's bytes, as ClickHouse writes them.
async fn dump(database: &str, table: &str, columns: &str) -> Vec<u8> {
    let statement = format!("SELECT {columns} FROM {table} ORDER BY tuple(*) FORMAT RowBinary");
    let mut stream = tokio::net::UnixStream::connect(socket()).await.unwrap();
    let answer = exchange(
        &mut stream,
        &format!("POST /?database={database} HTTP/1.1"),
        statement.as_bytes(),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.body
}

#[test]
fn receipts_are_what_the_official_client_writes() {
    run(async {
        let (ours, theirs) = (fresh().await, fresh().await);
        let (medium, long) = texts();
        let typed = TypedReceipt {
            publisher: "news.example".to_owned(),
            timestamp: NOON_MS - 1,
            entry_id: Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            receipt_id: Uuid::from_u128(u128::MAX - 1),
            payload_hash: std::array::from_fn(|n| n as u8),
            positions: vec![position(3, (1 << 48) - 1, 9_999)],
            received_at: NOON_MS + 7,
            url: long.clone(),
            content_hash: [0xab; 32],
            client_id: Uuid::from_u128(5),
            client_name: medium.clone(),
            client_version: String::new(),
            organization: "O\0\"'\\".to_owned(),
            key_fingerprint: [0; 32],
            algorithm: "ECDSA-P256".to_owned(),
            purpose: "research".to_owned(),
            context: "c".to_owned(),
            dataset_id: "ds".to_owned(),
            model_id: "m".to_owned(),
            query_id: "q".to_owned(),
            session_id: "s".to_owned(),
            study_id: "st".to_owned(),
            researcher_id: "r".to_owned(),
        };
        let row = ReceiptRow {
            publisher: &typed.publisher,
            timestamp_ms: typed.timestamp,
            entry_id: typed.entry_id,
            receipt_id: typed.receipt_id,
            payload_hash: &typed.payload_hash,
            position: typed.positions[0],
            received_at_ms: typed.received_at,
            url: &typed.url,
            content_hash: &typed.content_hash,
            client_id: typed.client_id,
            client_name: &typed.client_name,
            client_version: &typed.client_version,
            organization: &typed.organization,
            key_fingerprint: &typed.key_fingerprint,
            algorithm: &typed.algorithm,
            purpose: &typed.purpose,
            context: &typed.context,
            dataset_id: &typed.dataset_id,
            model_id: &typed.model_id,
            query_id: &typed.query_id,
            session_id: &typed.session_id,
            study_id: &typed.study_id,
            researcher_id: &typed.researcher_id,
        };
        let mut bytes = Vec::new();
        row.encode(&mut bytes);
        let encoded = bytes.clone();
        // A row is whole in its piece.
        let (head, tail) = bytes.split_at(777);
        let cut = vec![Bytes::copy_from_slice(head), Bytes::copy_from_slice(tail)];
        let error = ours.insert_receipts(cut, 1).await.unwrap_err();
        assert!(matches!(error, WarehouseError::BadRows(_)), "{error}");
        ours.insert_receipts(vec![Bytes::new(), bytes.into(), Bytes::new()], 1)
            .await
            .unwrap();

        let client = official(theirs.database()).await.with_validation(false);
        let mut insert = client.insert::<TypedReceipt>("receipts").await.unwrap();
        insert.write(&typed).await.unwrap();
        insert.end().await.unwrap();

        let stored = dump(ours.database(), "receipts", ReceiptRow::COLUMNS).await;
        assert_eq!(stored, dump(theirs.database(), "receipts", ReceiptRow::COLUMNS).await);
        assert_eq!(stored, encoded, "and ClickHouse writes the same bytes as we do");
    });
}

#[test]
fn refusals_and_ledger_lines_are_what_the_official_client_writes() {
    run(async {
        let (ours, theirs) = (fresh().await, fresh().await);
        let (medium, long) = texts();
        let full = TypedRejected {
            position: position(1, 2, 3),
            reason: "bad_signature".to_owned(),
            detail: medium,
            publisher: "p".to_owned(),
            receipt_id: Some(Uuid::from_u128(1)),
            client_id: Some(Uuid::from_u128(2)),
            entry_id: Some(Uuid::from_u128(3)),
            payload_hash: Some([7; 32]),
            received_at: NOON_MS,
            request_id: "r".to_owned(),
            client_address: "::1".to_owned(),
            kind: "batch".to_owned(),
            raw: long,
            request_signature: Some("c2ln".to_owned()),
            origin: "signed_batch".to_owned(),
        };
        let bare = TypedRejected {
            position: position(1, 2, 4),
            receipt_id: None,
            client_id: None,
            entry_id: None,
            payload_hash: None,
            request_signature: None,
            ..full.clone()
        };
        let mut bytes = Vec::new();
        for typed in [&full, &bare] {
            let row = RejectedRow {
                position: typed.position,
                reason: &typed.reason,
                detail: &typed.detail,
                publisher: &typed.publisher,
                receipt_id: typed.receipt_id,
                client_id: typed.client_id,
                entry_id: typed.entry_id,
                payload_hash: typed.payload_hash.as_ref(),
                received_at_ms: typed.received_at,
                request_id: &typed.request_id,
                client_address: &typed.client_address,
                kind: &typed.kind,
                raw: typed.raw.as_bytes(),
                request_signature: typed.request_signature.as_deref(),
                origin: &typed.origin,
            };
            row.encode(&mut bytes);
        }
        let encoded = bytes.clone();
        ours.insert_rejected(vec![bytes.into()], 2).await.unwrap();
        let line = LedgerRow {
            epoch: 1,
            partition: 2,
            first_offset: 3,
            last_offset: u64::MAX >> 16,
            records: 5,
            receipts_in: 6,
            accepted: 7,
            rejected: 8,
            verifier: "v".to_owned(),
            committed_at_ms: NOON_MS,
            shard: 0,
            verdicts: warehouse::VerdictsPosition::default(),
        };
        ours.insert_ledger(std::slice::from_ref(&line)).await.unwrap();

        let client = official(theirs.database()).await.with_validation(false);
        let mut insert = client.insert::<TypedRejected>("rejected").await.unwrap();
        insert.write(&full).await.unwrap();
        insert.write(&bare).await.unwrap();
        insert.end().await.unwrap();
        let mut insert = client.insert::<TypedLedger>("ledger").await.unwrap();
        let typed = TypedLedger {
            epoch: line.epoch,
            partition: line.partition,
            first_offset: line.first_offset,
            last_offset: line.last_offset,
            records: line.records,
            receipts_in: line.receipts_in,
            accepted: line.accepted,
            rejected: line.rejected,
            verifier: line.verifier.clone(),
            committed_at: line.committed_at_ms,
        };
        insert.write(&typed).await.unwrap();
        insert.end().await.unwrap();

        for (table, columns) in [("rejected", RejectedRow::COLUMNS), ("ledger", LedgerRow::COLUMNS)] {
            let stored = dump(ours.database(), table, columns).await;
            assert_eq!(stored, dump(theirs.database(), table, columns).await, "{table}");
            if table == "rejected" {
                assert_eq!(stored, encoded);
            }
        }
        assert_eq!(sql(ours.database(), "SELECT count() FROM ledger").await.trim(), "1");
    });
}

#[test]
fn an_insert_over_its_limits_is_refused_before_anything_is_sent() {
    run(async {
        let warehouse = fresh().await;
        let error = warehouse
            .insert_receipts(vec![Bytes::from_static(b"x")], 200_001)
            .await
            .unwrap_err();
        assert!(matches!(error, warehouse::WarehouseError::TooLarge { max: 200_000, .. }) && !error.is_retryable());
        let error = warehouse
            .insert_receipts(vec![Bytes::from(vec![0; (64 << 20) + 1])], 1)
            .await
            .unwrap_err();
        assert!(matches!(error, warehouse::WarehouseError::TooLarge { .. }));
        warehouse.insert_receipts(Vec::new(), 0).await.unwrap();
        assert_eq!(warehouse.totals().await.unwrap().receipts, 0);
    });
}

#[test]
fn rows_travel_in_columns_and_arrive_as_they_were() {
    run(async {
        let (ours, theirs) = (fresh().await, fresh().await);
        // More than one Native block, in pieces of odd sizes.
        let rows: Vec<_> = (0..70_001_u128)
            .map(|n| {
                let mut receipt = Receipt::new(n);
                receipt.publisher = format!("publisher-{}.example", n % 7);
                receipt.client_name = "n".repeat((n % 300) as usize);
                receipt.timestamp_ms = NOON_MS - (n as i64 % 50) * 86_400_000;
                (receipt, position(2, n as u64, 3))
            })
            .collect();
        let pieces: Vec<Bytes> = rows.chunks(9_999).map(|rows| encoded(rows).into()).collect();
        ours.insert_receipts(pieces, rows.len() as u64).await.unwrap();
        let parts =
            "SELECT count(), sum(rows), uniqExact(partition) FROM system.parts WHERE active AND table = 'receipts'
            AND database = currentDatabase() AND level = 0";
        assert_eq!(
            sql(ours.database(), parts).await,
            "3\t70001\t3\n",
            "one part a month, however many blocks"
        );
        // The reference: the same bytes as RowBinary, which ClickHouse takes apart itself.
        let target = format!(
            "POST /?database={}&query={} HTTP/1.1",
            theirs.database(),
            format!("INSERT INTO receipts ({}) FORMAT RowBinary", ReceiptRow::COLUMNS).replace(' ', "%20")
        );
        let answer = crate::harness::request(&target, &encoded(&rows)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let ours = dump(ours.database(), "receipts", ReceiptRow::COLUMNS).await;
        assert!(ours == dump(theirs.database(), "receipts", ReceiptRow::COLUMNS).await);
        assert!(ours.len() > rows.len() * 200);
    });
}

fn encoded(rows: &[(Receipt, u128)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (receipt, position) in rows {
        receipt.row(*position).encode(&mut bytes);
    }
    bytes
}
