//! The audit: silent when all adds up, and each kind of difference named.

use warehouse::{AuditPartition, AuditState, AuditSums, CommittedOffset, LedgerRow, SectionOffsets, Warehouse};

use crate::harness::{Receipt, fresh, insert, insert_rejected, line, position, rejected, run, sql};

fn upto(partition: u32, next_offset: u64) -> CommittedOffset {
    CommittedOffset {
        epoch: 1,
        partition,
        next_offset,
    }
}

/// Two partitions: blocks 0..=4 and 5..=9 of partition 0 with one receipt a record, of which offset
/// 7 is refused; and one block of partition 1 whose record 0 is a batch of three.
async fn sound() -> Warehouse {
    let warehouse = fresh().await;
    let singles: Vec<_> = (0..10)
        .filter(|n| *n != 7)
        .map(|n| (Receipt::new(n), position(0, n as u64, 0)))
        .collect();
    insert(&warehouse, &singles).await;
    let batch: Vec<_> = (0..3)
        .map(|n| (Receipt::new(100 + n), position(1, 0, n as u16)))
        .collect();
    insert(&warehouse, &batch).await;
    insert_rejected(&warehouse, &[rejected(position(0, 7, 0), "bad_signature")]).await;
    warehouse
        .insert_ledger(&[line(0, 0, 4, 5, 0), line(0, 5, 9, 4, 1), line(1, 0, 0, 3, 0)], None)
        .await
        .unwrap();
    warehouse
}

async fn look(warehouse: &Warehouse) -> AuditSums {
    warehouse.audit(&[upto(0, 10), upto(1, 1)]).await.unwrap()
}

fn kinds(sums: &AuditSums) -> Vec<&'static str> {
    sums.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_sound_ledger_has_no_findings() {
    run(async {
        let warehouse = sound().await;
        let sums = look(&warehouse).await;
        let expected = AuditSums {
            blocks: 3,
            blocks_past: 0,
            records: 11,
            receipts_in: 13,
            accepted: 12,
            rejected: 1,
            rejected_past: 0,
            stored_occurrences: 12,
            stored_rejected: 1,
            receipts: 12,
            uncommitted_positions: 0,
            off_by: 0,
            findings: Vec::new(),
            unnamed: 0,
        };
        assert_eq!(sums, expected);
        // The same lines and rows again, a block in progress, and an earlier life of the log nobody
        // names.
        warehouse.insert_ledger(&[line(0, 5, 9, 4, 1)], None).await.unwrap();
        insert(
            &warehouse,
            &[
                (Receipt::new(1), position(0, 1, 0)),
                (Receipt::new(200), position(0, 10, 0)),
            ],
        )
        .await;
        let earlier = |position: u128| position - (1 << 96);
        insert(&warehouse, &[(Receipt::new(300), earlier(position(0, 0, 0)))]).await;
        warehouse
            .insert_ledger(
                &[LedgerRow {
                    epoch: 0,
                    ..line(0, 0, 0, 1, 0)
                }],
                None,
            )
            .await
            .unwrap();
        let sums = look(&warehouse).await;
        assert_eq!(
            (sums.findings.as_slice(), sums.uncommitted_positions, sums.blocks),
            (&[][..], 1, 4)
        );
    });
}

#[test]
fn an_empty_warehouse_is_sound() {
    run(async {
        let warehouse = fresh().await;
        assert_eq!(warehouse.audit(&[]).await.unwrap(), AuditSums::default());
        assert_eq!(warehouse.audit(&[upto(0, 0)]).await.unwrap(), AuditSums::default());
        assert_eq!(kinds(&warehouse.audit(&[upto(0, 3)]).await.unwrap()), ["ledger_gap"]);
    });
}

#[test]
fn a_missing_block_is_a_gap_and_its_positions_stand_in_no_block() {
    run(async {
        let warehouse = sound().await;
        let gone = "ALTER TABLE ledger DELETE WHERE partition = 0 AND first_offset = 0 SETTINGS mutations_sync = 2";
        sql(warehouse.database(), gone).await;
        let sums = look(&warehouse).await;
        assert_eq!(kinds(&sums), ["ledger_gap", "not_in_ledger"]);
        assert_eq!(
            sums.findings[0].detail,
            "epoch 1 partition 0: no block for offsets 0 to 4"
        );
        assert_eq!(
            sums.findings[1].detail,
            "epoch 1 partition 0: positions of offsets 0 to 4 are in no block"
        );
        // At the end it is a gap too: the commit is ahead.
        let sums = warehouse.audit(&[upto(0, 10), upto(1, 4)]).await.unwrap();
        assert!(
            sums.findings
                .iter()
                .any(|one| one.detail == "epoch 1 partition 1: no block for offsets 1 to 3")
        );
    });
}

#[test]
fn overlaps_and_blocks_beyond_the_commit_are_named() {
    run(async {
        let warehouse = sound().await;
        warehouse.insert_ledger(&[line(0, 3, 4, 0, 0)], None).await.unwrap();
        let sums = look(&warehouse).await;
        assert_eq!(kinds(&sums), ["ledger_overlap"]);
        assert_eq!(
            sums.findings[0].detail,
            "epoch 1 partition 0: a block begins at offset 3, but the one before ends at 5"
        );
        let sums = warehouse.audit(&[upto(0, 8), upto(1, 1)]).await.unwrap();
        assert!(kinds(&sums).contains(&"ledger_overlap"));
    });
}

#[test]
fn a_line_that_does_not_add_up_is_named() {
    run(async {
        let warehouse = sound().await;
        warehouse
            .insert_ledger(
                &[LedgerRow {
                    receipts_in: 6,
                    ..line(0, 0, 4, 5, 0)
                }],
                None,
            )
            .await
            .unwrap();
        let sums = look(&warehouse).await;
        assert_eq!(kinds(&sums), ["ledger_line"]);
        warehouse
            .insert_ledger(
                &[LedgerRow {
                    records: 4,
                    ..line(0, 0, 4, 5, 0)
                }],
                None,
            )
            .await
            .unwrap();
        assert_eq!(kinds(&look(&warehouse).await), ["ledger_line"]);
    });
}

#[test]
fn lost_and_surplus_rows_are_named() {
    run(async {
        let warehouse = sound().await;
        let gone = "ALTER TABLE receipts DELETE WHERE receipt_id = '00000000-0000-0000-0000-000000000002' SETTINGS mutations_sync = 2";
        sql(warehouse.database(), gone).await;
        let sums = look(&warehouse).await;
        assert_eq!(kinds(&sums), ["accepted_sum"]);
        assert_eq!(
            sums.findings[0].detail,
            "epoch 1 partition 0, offsets 0 to 9: the ledger counts 9, the table has 8"
        );

        let warehouse = sound().await;
        insert_rejected(&warehouse, &[rejected(position(0, 3, 1), "bad_signature")]).await;
        let sums = look(&warehouse).await;
        assert_eq!(kinds(&sums), ["rejected_sum"]);
        assert_eq!(
            sums.findings[0].detail,
            "epoch 1 partition 0, offsets 0 to 9: the ledger counts 1, the table has 2"
        );
    });
}

#[test]
fn one_position_with_two_outcomes_is_named() {
    run(async {
        let warehouse = sound().await;
        insert_rejected(&warehouse, &[rejected(position(0, 3, 0), "bad_signature")]).await;
        let sums = look(&warehouse).await;
        assert_eq!(kinds(&sums), ["rejected_sum", "in_both"]);
        assert_eq!(
            sums.findings[1].detail,
            "epoch 1 partition 0 offset 3 index 0 is both accepted and rejected"
        );
        // One position under two receipts is one too many as well.
        let warehouse = sound().await;
        insert(&warehouse, &[(Receipt::new(999), position(0, 3, 0))]).await;
        assert_eq!(kinds(&look(&warehouse).await), ["accepted_sum"]);
    });
}

#[test]
fn many_findings_of_a_kind_are_cut_short() {
    run(async {
        let warehouse = fresh().await;
        let lines: Vec<_> = (0..40).map(|n| line(0, n * 2, n * 2, 0, 0)).collect();
        warehouse.insert_ledger(&lines, None).await.unwrap();
        let sums = warehouse.audit(&[upto(0, 79)]).await.unwrap();
        assert_eq!((sums.findings.len(), sums.unnamed), (10, 29));
    });
}

#[test]
fn lines_are_read_back_in_log_order_from_an_offset_on() {
    run(async {
        let warehouse = sound().await;
        let (first, second) = (line(0, 0, 4, 5, 0), line(0, 5, 9, 4, 1));
        warehouse
            .insert_ledger(std::slice::from_ref(&first), None)
            .await
            .unwrap();
        assert_eq!(
            warehouse.ledger(1, 0, 0, 10).await.unwrap(),
            [first.clone(), second.clone()]
        );
        assert_eq!(warehouse.ledger(1, 0, 4, 1).await.unwrap(), [first]);
        assert_eq!(warehouse.ledger(1, 0, 5, 10).await.unwrap(), [second]);
        assert_eq!(warehouse.ledger(2, 0, 0, 10).await.unwrap(), []);
    });
}

#[test]
fn the_running_checks_state_is_replaced_as_a_whole() {
    run(async {
        let warehouse = fresh().await;
        assert_eq!(warehouse.audit_state().await.unwrap(), None);
        let section = SectionOffsets {
            epoch: 1,
            partition: 2,
            from: 3,
            end: 1 << 40,
        };
        let first = AuditState {
            checked: vec![upto(0, 10), upto(1, 1)],
            pass: vec![upto(0, 5)],
            pass_began_ms: 1_795_000_000_000,
            pass_receipts: 7,
            wrong: vec![section, SectionOffsets { from: 1, ..section }],
        };
        warehouse.save_audit_state(&first).await.unwrap();
        assert_eq!(warehouse.audit_state().await.unwrap(), Some(first));
        warehouse.save_audit_state(&AuditState::default()).await.unwrap();
        assert_eq!(warehouse.audit_state().await.unwrap(), Some(AuditState::default()));
    });
}

#[test]
fn positions_outside_of_a_section_do_not_count_in_it() {
    run(async {
        let warehouse = sound().await;
        // Two versions of a receipt's row, with positions on both sides of the section's end.
        insert(&warehouse, &[(Receipt::new(4), position(0, 5, 1))]).await;
        warehouse.insert_ledger(&[line(0, 5, 9, 5, 1)], None).await.unwrap();
        let partition = |end| AuditPartition {
            epoch: 1,
            partition: 0,
            begin: 0,
            rejected_begin: 0,
            end,
        };
        for merges in [false, true] {
            if merges {
                sql(warehouse.database(), "OPTIMIZE TABLE receipts FINAL").await;
            }
            let first = warehouse.audit_section(&partition(5), 0).await.unwrap();
            assert_eq!((first.end, first.sums.stored_occurrences), (5, 5));
            let second = warehouse.audit_section(&partition(10), 5).await.unwrap();
            assert_eq!((second.end, second.sums.stored_occurrences), (10, 5));
            assert!(first.sums.is_clean() && second.sums.is_clean());
        }
    });
}
