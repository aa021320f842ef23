//! Inserted rows against the official client's own serializer, and against what the tables return.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use blocks::{AcceptedRow, RejectedRow};
use clickhouse::Row;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use warehouse::{LedgerRow, PartitionProgress, ShardProgress, Touched, VerdictsPosition, WarehouseError};

use crate::harness::{
    NOON_MS, Receipt, accepted, exchange, fresh, insert, insert_rejected, line, official, position, rejected, run,
    socket, sql,
};

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
    unsigned_positions: Vec<u128>,
    received_at: i64,
    url: String,
    content_hash: [u8; 32],
    #[serde(with = "clickhouse::serde::uuid")]
    client_id: Uuid,
    client_name: String,
    client_version: String,
    organization: String,
    key_fingerprint: [u8; 32],
    stamp: (i64, String, bool),
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
    key_fingerprint: [u8; 32],
    received_at: i64,
    request_id: String,
    client_address: String,
    kind: String,
    raw: String,
    request_signature: Option<String>,
    origin: String,
    receipts: u32,
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
    shard: u32,
    verdicts_epoch: u32,
    verdicts_offset: u64,
    touched: Vec<(u32, String)>,
}

impl From<AcceptedRow<'_>> for TypedReceipt {
    fn from(row: AcceptedRow<'_>) -> Self {
        Self {
            publisher: row.publisher.to_owned(),
            timestamp: row.timestamp_ms,
            entry_id: row.entry_id,
            receipt_id: row.receipt_id,
            payload_hash: *row.payload_hash,
            positions: vec![row.position],
            unsigned_positions: (row.kind == "receipt" && row.request_signature.is_empty())
                .then_some(row.position)
                .into_iter()
                .collect(),
            received_at: row.received_at_ms,
            url: row.url.to_owned(),
            content_hash: *row.content_hash,
            client_id: row.client_id,
            client_name: row.client_name.to_owned(),
            client_version: row.client_version.to_owned(),
            organization: row.organization.to_owned(),
            key_fingerprint: *row.key_fingerprint,
            stamp: (row.received_at_ms, row.operator.to_owned(), row.publisher_verified),
            algorithm: row.algorithm.to_owned(),
            purpose: row.purpose.to_owned(),
            context: row.context.to_owned(),
            dataset_id: row.dataset_id.to_owned(),
            model_id: row.model_id.to_owned(),
            query_id: row.query_id.to_owned(),
            session_id: row.session_id.to_owned(),
            study_id: row.study_id.to_owned(),
            researcher_id: row.researcher_id.to_owned(),
        }
    }
}

impl From<RejectedRow<'_>> for TypedRejected {
    fn from(row: RejectedRow<'_>) -> Self {
        let id = |id: Uuid| (!id.is_nil()).then_some(id);
        Self {
            position: row.position,
            reason: row.reason.to_owned(),
            detail: row.detail.to_owned(),
            publisher: row.publisher.to_owned(),
            receipt_id: id(row.receipt_id),
            client_id: id(row.client_id),
            entry_id: id(row.entry_id),
            payload_hash: (*row.payload_hash != [0; 32]).then_some(*row.payload_hash),
            key_fingerprint: *row.key_fingerprint,
            received_at: row.received_at_ms,
            request_id: row.request_id.to_owned(),
            client_address: row.client_address.to_owned(),
            kind: row.kind.to_owned(),
            raw: String::from_utf8(row.raw.to_vec()).unwrap(),
            request_signature: (!row.request_signature.is_empty()).then(|| row.request_signature.to_owned()),
            origin: row.origin.to_owned(),
            receipts: row.receipts,
        }
    }
}

impl From<LedgerRow> for TypedLedger {
    fn from(row: LedgerRow) -> Self {
        Self {
            epoch: row.epoch,
            partition: row.partition,
            first_offset: row.first_offset,
            last_offset: row.last_offset,
            records: row.records,
            receipts_in: row.receipts_in,
            accepted: row.accepted,
            rejected: row.rejected,
            verifier: row.verifier,
            committed_at: row.committed_at_ms,
            shard: row.shard,
            verdicts_epoch: row.verdicts.epoch,
            verdicts_offset: row.verdicts.offset,
            touched: row
                .touched
                .pairs()
                .map(|(hour, name)| (hour, name.to_owned()))
                .collect(),
        }
    }
}

/// A table's bytes, as ClickHouse writes them.
async fn dump(database: &str, table: &str) -> Vec<u8> {
    let statement = format!("SELECT * FROM {table} ORDER BY tuple(*) FORMAT RowBinary");
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

/// Asserts that a table has the same bytes when the official client inserts the rows.
async fn assert_official<T>(database: &str, table: &str, rows: impl IntoIterator<Item = T>)
where
    T: clickhouse::RowOwned + clickhouse::RowWrite,
{
    let theirs = fresh().await;
    let client = official(theirs.database()).await.with_validation(false);
    let mut insert = client.insert::<T>(table).await.unwrap();
    for row in rows {
        insert.write(&row).await.unwrap();
    }
    insert.end().await.unwrap();
    let stored = dump(database, table).await;
    assert!(!stored.is_empty());
    assert!(stored == dump(theirs.database(), table).await, "{table} differs");
}

#[test]
fn receipts_are_what_the_official_client_writes() {
    run(async {
        let warehouse = fresh().await;
        let (medium, long) = ("ä".repeat(100), "x".repeat(20_000));
        let receipt = Receipt {
            timestamp_ms: NOON_MS - 1,
            entry_id: Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            receipt_id: Uuid::from_u128(u128::MAX - 1),
            payload_hash: std::array::from_fn(|n| n as u8),
            received_at_ms: NOON_MS + 7,
            url: long,
            client_name: medium,
            client_version: String::new(),
            organization: "O\0\"'\\".to_owned(),
            model_id: "m".to_owned(),
            ..Receipt::new(1)
        };
        let row = (receipt, position(3, (1 << 48) - 1, 9_999));
        insert(&warehouse, std::slice::from_ref(&row)).await;
        let typed = TypedReceipt::from(row.0.row(row.1));
        assert_official(warehouse.database(), "receipts", [typed]).await;
    });
}

#[test]
fn rejected_and_ledger_rows_are_what_the_official_client_writes() {
    run(async {
        let warehouse = fresh().await;
        let (medium, long) = ("ä".repeat(100), "x".repeat(20_000));
        let full = RejectedRow {
            detail: &medium,
            receipt_id: Uuid::from_u128(1),
            client_id: Uuid::from_u128(2),
            entry_id: Uuid::from_u128(3),
            payload_hash: &[7; 32],
            kind: "batch",
            raw: long.as_bytes(),
            request_signature: "c2ln",
            origin: "signed_batch",
            receipts: 7,
            ..rejected(position(1, 2, 3), "bad_signature")
        };
        let bare = rejected(position(1, 2, 4), "bad_signature");
        insert_rejected(&warehouse, &[full, bare]).await;
        let typed = [full, bare].map(TypedRejected::from);
        assert_official(warehouse.database(), "rejected", typed).await;

        let mut touched = Touched::default();
        touched.add(NOON_MS, "news.example");
        touched.add(NOON_MS, "blog.example");
        touched.extend([(0, String::new())]);
        // Touched hours of older rows expire.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let committed_at_ms = now.unwrap().as_millis() as i64;
        let lines = [
            LedgerRow {
                last_offset: u64::MAX >> 16,
                records: 5,
                receipts_in: 6,
                shard: 9,
                verdicts: VerdictsPosition { epoch: 10, offset: 11 },
                touched: Touched::from_iter([(1, "a.example".to_owned())]),
                ..line(2, 3, 3, 7, 8)
            },
            // Without hours between two rows with some.
            line(2, 4, 4, 1, 0),
            LedgerRow {
                touched,
                ..line(2, 5, 5, 1, 0)
            },
        ]
        .map(|line| LedgerRow {
            committed_at_ms,
            ..line
        });
        warehouse.insert_ledger(&lines, None).await.unwrap();
        assert_official(warehouse.database(), "ledger", lines.clone().map(TypedLedger::from)).await;
        assert_eq!(warehouse.ledger(1, 2, 0, 10).await.unwrap(), lines);
    });
}

#[test]
fn progress_is_read_as_it_was_published() {
    run(async {
        let warehouse = fresh().await;
        let partition = |epoch, partition| PartitionProgress {
            epoch,
            partition,
            first_offset: 0,
            next_offset: u64::MAX >> 16,
            complete_through_ms: -1,
        };
        let mut progress = ShardProgress {
            shard: 3,
            version: 1,
            verdicts: VerdictsPosition { epoch: 7, offset: 8 },
            source_partitions: 4,
            shards: 5,
            partitions: Vec::new(),
        };
        for partitions in [vec![], vec![partition(5, 0)], vec![partition(5, 0), partition(6, 1)]] {
            progress.version += 1;
            progress.partitions = partitions;
            warehouse.publish_progress(&progress, None).await.unwrap();
            assert_eq!(warehouse.progress().await.unwrap(), std::slice::from_ref(&progress));
        }
    });
}

#[test]
fn an_insert_over_its_limits_is_refused_before_anything_is_sent() {
    run(async {
        let warehouse = fresh().await;
        let batch = |publisher: &str, rows| {
            let publishers = StringArray::from_iter_values(std::iter::repeat_n(publisher, rows));
            RecordBatch::try_from_iter([("publisher", Arc::new(publishers) as ArrayRef)]).unwrap()
        };
        let refused = async |batch: RecordBatch| {
            let batches = [batch];
            let inserted = warehouse.insert_arrow("receipts", &batches, None);
            inserted.await.unwrap_err()
        };
        let error = refused(batch("", 200_001)).await;
        assert!(matches!(error, WarehouseError::TooLarge { max: 200_000, .. }) && !error.is_retryable());
        let error = refused(batch(&"x".repeat((64 << 20) + 1), 1)).await;
        assert!(matches!(error, WarehouseError::TooLarge { .. }), "{error}");
        warehouse.insert_accepted(&[], None).await.unwrap();
        warehouse.insert_accepted(&[accepted(&[])], None).await.unwrap();
        assert_eq!(warehouse.totals().await.unwrap().receipts, 0);
    });
}

#[test]
fn many_batches_are_one_part_a_month() {
    run(async {
        let warehouse = fresh().await;
        let rows: Vec<_> = (0..70_001_u128)
            .map(|n| {
                let mut receipt = Receipt::new(n);
                receipt.publisher = format!("publisher-{}.example", n % 7);
                receipt.client_name = "n".repeat((n % 300) as usize);
                receipt.timestamp_ms = NOON_MS - (n as i64 % 50) * 86_400_000;
                (receipt, position(2, n as u64, 3))
            })
            .collect();
        let batches: Vec<_> = rows.chunks(9_999).map(accepted).collect();
        warehouse.insert_accepted(&batches, None).await.unwrap();
        let parts =
            "SELECT count(), sum(rows), uniqExact(partition) FROM system.parts WHERE active AND table = 'receipts'
            AND database = currentDatabase() AND level = 0";
        assert_eq!(sql(warehouse.database(), parts).await, "3\t70001\t3\n");
        let typed = rows.iter().map(|(receipt, at)| TypedReceipt::from(receipt.row(*at)));
        assert_official(warehouse.database(), "receipts", typed).await;
    });
}
