//! Data that identify clients go out of rows that stay, and stay out.

use blocks::{AcceptedRow, RejectedRow, Rows};
use uuid::Uuid;
use warehouse::{CommittedOffset, ErasedPerson, MetadataErasure, QueryScope, ReceiptsOf, Warehouse};

use crate::harness::{NOON_MS, Receipt, accepted, fresh, insert, insert_rejected, line, position, rejected, run, sql};

const HOUR_MS: i64 = 3_600_000;

fn of(publisher: &str, number: u128, timestamp_ms: i64) -> Receipt {
    Receipt {
        publisher: publisher.to_owned(),
        timestamp_ms,
        ..Receipt::new(number)
    }
}

fn erasure() -> MetadataErasure {
    MetadataErasure {
        scope: QueryScope::of(vec!["mine.example".to_owned()]),
        before_ms: NOON_MS,
        person: None,
    }
}

/// Receipts 0 to 2 of mine before noon (2 twice), 3 at noon, 4 of another publisher; 5 and 6 are
/// refused, mine and another's.
async fn filled() -> Warehouse {
    let warehouse = fresh().await;
    let before = NOON_MS - HOUR_MS;
    let rows = [
        (of("mine.example", 0, before), position(0, 0, 0)),
        (of("mine.example", 1, before), position(0, 1, 0)),
        (of("mine.example", 2, NOON_MS - 1), position(0, 2, 0)),
        (of("mine.example", 3, NOON_MS), position(0, 3, 0)),
        (of("other.example", 4, before), position(0, 4, 0)),
    ];
    insert(&warehouse, &rows).await;
    insert(&warehouse, &[(rows[2].0.clone(), position(0, 7, 0))]).await;
    warehouse.insert_evidence(&[accepted(&rows)]).await.unwrap();
    let refused = |offset, publisher| RejectedRow {
        publisher,
        client_id: Uuid::from_u128(9),
        request_signature: "c2ln",
        received_at_ms: NOON_MS - 1,
        ..rejected(position(0, offset, 0), "bad_signature")
    };
    insert_rejected(&warehouse, &[refused(5, "mine.example"), refused(6, "other.example")]).await;
    warehouse.insert_ledger(&[line(0, 0, 7, 6, 2)], None).await.unwrap();
    warehouse
}

async fn assert_the_books_are_exact(warehouse: &Warehouse) {
    let end = CommittedOffset {
        epoch: 1,
        partition: 0,
        next_offset: 8,
    };
    let sums = warehouse.audit(&[end]).await.unwrap();
    assert!(sums.findings.is_empty(), "{:?}", sums.findings);
    assert_eq!(
        (sums.stored_occurrences, sums.stored_rejected, sums.receipts),
        (6, 2, 5)
    );
}

/// Receipt by receipt: whether anything of its client is seen.
async fn seen(warehouse: &Warehouse) -> String {
    let question =
        "SELECT toUInt128(receipt_id) AS number, concat(client_name, client_version, organization, context) != ''
            OR client_id != toUUID('00000000-0000-0000-0000-000000000000') OR key_fingerprint != toFixedString('', 32)
        FROM receipts FINAL ORDER BY number FORMAT TSV";
    sql(warehouse.database(), question).await
}

#[test]
fn the_clients_are_gone_and_the_numbers_are_the_same() {
    run(async {
        let warehouse = filled().await;
        let found = warehouse.metadata_left(&erasure()).await.unwrap();
        assert_eq!(found.rejected, 1);
        // One row for each time it came, unless a merge came first.
        assert!((3..=4).contains(&found.receipts), "{found:?}");
        warehouse.erase_metadata(&erasure()).await.unwrap();
        assert!(warehouse.metadata_left(&erasure()).await.unwrap().is_none());
        assert_eq!(seen(&warehouse).await, "0\t0\n1\t0\n2\t0\n3\t1\n4\t1\n");
        let question = "SELECT publisher, detail, client_address, raw, request_id, client_id IS NULL, request_signature IS NULL, reason
            FROM rejected FINAL ORDER BY position FORMAT TSV";
        assert_eq!(
            sql(warehouse.database(), question).await,
            "mine.example\t\t\t\t\t1\t1\tbad_signature\nother.example\tdetail\t127.0.0.1\t{}\trequest\t0\t0\tbad_signature\n"
        );
        assert_the_books_are_exact(&warehouse).await;
        sql(warehouse.database(), "OPTIMIZE TABLE receipts FINAL").await;
        assert_eq!(seen(&warehouse).await, "0\t0\n1\t0\n2\t0\n3\t1\n4\t1\n");
        assert_the_books_are_exact(&warehouse).await;
    });
}

/// Receipt by receipt: whether its bytes are there.
async fn evidence(warehouse: &Warehouse) -> String {
    let question = "SELECT toUInt128(receipt_id) AS number, tupleElement(arrival, 3) != '' FROM evidence FINAL ORDER BY number FORMAT TSV";
    sql(warehouse.database(), question).await
}

#[test]
fn bytes_are_erased_with_the_clients_and_stay_so() {
    run(async {
        let warehouse = filled().await;
        assert_eq!(evidence(&warehouse).await, "0\t1\n1\t1\n2\t1\n3\t1\n4\t1\n");
        assert_eq!(warehouse.metadata_left(&erasure()).await.unwrap().evidence, 3);
        warehouse.erase_metadata(&erasure()).await.unwrap();
        let erased = "0\t0\n1\t0\n2\t0\n3\t1\n4\t1\n";
        assert_eq!(evidence(&warehouse).await, erased);
        // A block that is written again, and a duplicate that was received later.
        let later = Receipt {
            received_at_ms: NOON_MS + HOUR_MS,
            ..of("mine.example", 0, NOON_MS - HOUR_MS)
        };
        let rows = [
            (later, position(0, 9, 0)),
            (of("mine.example", 2, NOON_MS - 1), position(0, 2, 0)),
        ];
        warehouse.insert_evidence(&[accepted(&rows)]).await.unwrap();
        assert_eq!(evidence(&warehouse).await, erased, "before they are merged");
        sql(warehouse.database(), "OPTIMIZE TABLE evidence FINAL").await;
        assert_eq!(evidence(&warehouse).await, erased, "and after");
    });
}

/// As a client's retry brings it, or a block that is written again.
#[test]
fn a_later_duplicate_brings_nothing_back() {
    run(async {
        let warehouse = filled().await;
        warehouse.erase_metadata(&erasure()).await.unwrap();
        insert(
            &warehouse,
            &[(of("mine.example", 0, NOON_MS - HOUR_MS), position(0, 0, 0))],
        )
        .await;
        assert_eq!(
            seen(&warehouse).await,
            "0\t0\n1\t0\n2\t0\n3\t1\n4\t1\n",
            "before they are merged"
        );
        sql(warehouse.database(), "OPTIMIZE TABLE receipts FINAL").await;
        assert_eq!(seen(&warehouse).await, "0\t0\n1\t0\n2\t0\n3\t1\n4\t1\n", "and after");
        assert!(warehouse.metadata_left(&erasure()).await.unwrap().is_none());
        assert_the_books_are_exact(&warehouse).await;
    });
}

#[test]
fn what_was_received_before_goes_though_its_clock_was_ahead() {
    run(async {
        let warehouse = fresh().await;
        let ahead = |number, received_at_ms| Receipt {
            received_at_ms,
            ..of("mine.example", number, NOON_MS + 60_000)
        };
        let rows = [
            (ahead(0, NOON_MS - 1), position(0, 0, 0)),
            (ahead(1, NOON_MS), position(0, 1, 0)),
        ];
        insert(&warehouse, &rows).await;
        assert_eq!(warehouse.metadata_left(&erasure()).await.unwrap().receipts, 1);
        warehouse.erase_metadata(&erasure()).await.unwrap();
        assert!(warehouse.metadata_left(&erasure()).await.unwrap().is_none());
        assert_eq!(seen(&warehouse).await, "0\t0\n1\t1\n");
    });
}

/// Receipts of people: 0 and 1 of mine before noon, 2 at noon, 3 of another publisher.
async fn of_people() -> Warehouse {
    let warehouse = fresh().await;
    let before = NOON_MS - HOUR_MS;
    let people = [
        ("mine.example", before, "r'1", "s1"),
        ("mine.example", before, "r2", "s2"),
        ("mine.example", NOON_MS, "r'1", "s1"),
        ("other.example", before, "r'1", "s1"),
    ];
    let receipts: Vec<Receipt> = (0..).zip(&people).map(|(at, one)| of(one.0, at, one.1)).collect();
    let mut rows = Rows::default();
    for (at, (receipt, one)) in receipts.iter().zip(&people).enumerate() {
        rows.push_accepted(&AcceptedRow {
            researcher_id: one.2,
            session_id: one.3,
            ..receipt.row(position(0, at as u64, 0))
        });
    }
    let (batch, _) = rows.batches().unwrap();
    warehouse
        .insert_accepted(std::slice::from_ref(&batch), None)
        .await
        .unwrap();
    warehouse.insert_evidence(&[batch]).await.unwrap();
    let refused = |offset, raw| RejectedRow {
        publisher: "mine.example",
        received_at_ms: NOON_MS - 1,
        raw,
        ..rejected(position(0, offset, 0), "bad_signature")
    };
    insert_rejected(
        &warehouse,
        &[refused(4, br#"{"a":"r'1"}"#), refused(5, br#"{"a":"r'11"}"#)],
    )
    .await;
    warehouse
}

/// Receipt by receipt: client, researcher, session, and whether its bytes are there; then the bytes
/// of rejected ones.
async fn named(warehouse: &Warehouse) -> Vec<String> {
    let receipts = "SELECT client_name, researcher_id, session_id, tupleElement(arrival, 3) != ''
        FROM (SELECT * FROM receipts FINAL) AS r JOIN (SELECT * FROM evidence FINAL) AS e USING (receipt_id)
        ORDER BY toUInt128(receipt_id) FORMAT TSVRaw";
    let rejected = "SELECT raw FROM rejected FINAL ORDER BY position FORMAT TSVRaw";
    let all = sql(warehouse.database(), receipts).await + &sql(warehouse.database(), rejected).await;
    all.replace('\t', " ").lines().map(str::to_owned).collect()
}

#[test]
fn a_person_goes_and_the_clients_stay() {
    run(async {
        let warehouse = of_people().await;
        let person = |person| MetadataErasure {
            person: Some(person),
            ..erasure()
        };
        let researcher = person(ErasedPerson::Researcher("r'1".to_owned()));
        let before = named(&warehouse).await;
        assert!(before[0].ends_with(" r'1 s1 1"), "{before:?}");
        let client = before[0].trim_end_matches(" r'1 s1 1");
        let found = warehouse.metadata_left(&researcher).await.unwrap();
        assert_eq!((found.receipts, found.rejected, found.evidence), (1, 1, 1));
        warehouse.erase_metadata(&researcher).await.unwrap();
        assert!(warehouse.metadata_left(&researcher).await.unwrap().is_none());
        let erased = [
            &format!("{client}   0"),
            &before[1],
            &before[2],
            &before[3],
            "",
            r#"{"a":"r'11"}"#,
        ];
        assert_eq!(named(&warehouse).await, erased);
        // By a session that no receipt of before noon has any more, and by one that one has.
        let gone = person(ErasedPerson::Session("s1".to_owned()));
        assert!(warehouse.metadata_left(&gone).await.unwrap().is_none());
        warehouse
            .erase_metadata(&person(ErasedPerson::Session("s2".to_owned())))
            .await
            .unwrap();
        assert_eq!(
            named(&warehouse).await[..2],
            [format!("{client}   0"), format!("{client}   0")]
        );
    });
}

#[test]
fn nobody_is_erased_by_an_empty_scope() {
    run(async {
        let warehouse = filled().await;
        let nobody = MetadataErasure {
            scope: QueryScope::of(Vec::new()),
            before_ms: i64::MAX,
            person: None,
        };
        assert!(warehouse.metadata_left(&nobody).await.unwrap().is_none());
        warehouse.erase_metadata(&nobody).await.unwrap();
        assert!(warehouse.metadata_left(&erasure()).await.unwrap().receipts >= 3);
    });
}

#[test]
fn old_addresses_are_blanked_and_nothing_else() {
    run(async {
        let warehouse = filled().await;
        assert_eq!(warehouse.blank_addresses(NOON_MS - 1).await.unwrap(), 0);
        assert_eq!(warehouse.blank_addresses(NOON_MS).await.unwrap(), 2);
        assert_eq!(warehouse.blank_addresses(NOON_MS).await.unwrap(), 0);
        let question =
            "SELECT count(), countIf(client_address = ''), countIf(raw = '{}') FROM rejected FINAL FORMAT TSV";
        assert_eq!(sql(warehouse.database(), question).await, "2\t2\t2\n");
        assert_the_books_are_exact(&warehouse).await;
    });
}

/// Whoever has a receipt's bytes can send copies: with other white space, without the batch.
#[test]
fn the_first_arrival_is_the_evidence_as_a_whole() {
    run(async {
        let warehouse = fresh().await;
        let first = of("mine.example", 0, NOON_MS - HOUR_MS);
        let padded = format!("{}{{}}", " ".repeat(60_000));
        let copy = |received_at_ms, offset, raw: &'static str, batch: &'static [u8]| Copy {
            receipt: Receipt {
                received_at_ms,
                ..first.clone()
            },
            offset,
            raw: if raw.is_empty() { padded.clone() } else { raw.to_owned() },
            batch,
        };
        let original = copy(NOON_MS, 5, "{ }", b"signature");
        let copies = [
            // In the same millisecond, later, and a copy of lesser bytes at a lesser position.
            copy(NOON_MS, 6, "", b""),
            copy(NOON_MS + 1, 4, "", b""),
            copy(NOON_MS + 2, 7, "{}", b"another"),
        ];
        insert(&warehouse, &[(original.receipt.clone(), position(0, 5, 0))]).await;
        let of_publisher = ReceiptsOf::Publisher(QueryScope::of(vec!["mine.example".to_owned()]), None);
        let is_original = async |when: &str| {
            let page = warehouse
                .evidence(&of_publisher, Uuid::from_u128(0), None)
                .await
                .unwrap();
            let [stored] = page.payloads.as_slice() else {
                panic!("{when}: {page:?}");
            };
            let signature = stored.batch.as_ref().map(|batch| batch.signature_hex.as_str());
            assert_eq!(
                (stored.received_at_ms, stored.received.as_str(), signature),
                (NOON_MS, "{ }", Some("7369676E6174757265")),
                "{when}"
            );
        };
        insert_copies(&warehouse, &copies[..1]).await;
        insert_copies(&warehouse, &[original]).await;
        insert_copies(&warehouse, &copies[1..]).await;
        is_original("before they are merged").await;
        sql(warehouse.database(), "OPTIMIZE TABLE evidence FINAL").await;
        is_original("after").await;
        insert_copies(&warehouse, &copies).await;
        is_original("and with copies since").await;
        warehouse.erase_metadata(&erasure()).await.unwrap();
        insert_copies(&warehouse, &copies).await;
        assert_eq!(evidence(&warehouse).await, "0\t0\n", "a copy brings nothing back");
    });
}

struct Copy {
    receipt: Receipt,
    offset: u64,
    raw: String,
    batch: &'static [u8],
}

async fn insert_copies(warehouse: &Warehouse, copies: &[Copy]) {
    let mut rows = Rows::default();
    for copy in copies {
        rows.push_accepted(&AcceptedRow {
            raw: copy.raw.as_bytes(),
            batch_signature: copy.batch,
            ..copy.receipt.row(position(0, copy.offset, 0))
        });
    }
    let (accepted, _) = rows.batches().unwrap();
    warehouse.insert_evidence(&[accepted]).await.unwrap();
}
