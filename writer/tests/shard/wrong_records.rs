//! Records that a writer doesn't accept: it stops with what is wrong, and stores everything before.

use blocks::Rows;
use bytes::Bytes;
use writer::WriterError;
use writer::sequence::SequenceError;

use crate::harness::{World, run};
use crate::verdicts::Source;

/// Appends good records, the wrong one and a good one, and returns why the writer stops and the
/// wrong one's offset.
async fn stopped_by(world: &World, source: &mut Source, wrong: Bytes) -> (WriterError, u64) {
    world.append(source.singles(0..3)).await;
    world.append(source.singles(3..5)).await;
    let stored = source.clone();
    let offset = world.append(wrong).await;
    world.append(source.singles(5..7)).await;
    let mut errors = Vec::new();
    // It stops again at the same record.
    for _ in 0..2 {
        errors.push(world.spawn().ended().await.unwrap_err());
        let totals = world.warehouse.totals().await.unwrap();
        assert_eq!(
            totals.receipts,
            stored.occurrences(),
            "everything before is stored, and nothing behind"
        );
        let progress = world.progress().await;
        assert_eq!(progress.partitions[0].next_offset, stored.next_offset);
        assert_eq!(progress.verdicts.offset, offset);
    }
    assert_eq!(errors[0].to_string(), errors[1].to_string());
    (errors.remove(0), offset)
}

#[test]
fn a_record_that_can_t_be_decoded_stops_the_writer() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let (error, at) = stopped_by(&world, &mut source, Bytes::from_static(b"no block")).await;
        assert!(
            matches!(error, WriterError::Undecodable { offset, .. } if offset == at),
            "{error}"
        );
    });
}

/// A record whose header has another version.
fn of_version_2() -> Bytes {
    // The only header value that is `1`.
    let mut header = Source::new(9, 0, 5).header(7);
    header.source.first.offset = 20;
    header.source.end.offset = 27;
    header.shards = 3;
    let record = Rows::default().encode(header).unwrap();
    let one = b"\x01\0\0\x001\0";
    let found: Vec<_> = (0..record.len() - one.len())
        .filter(|&at| record[at..].starts_with(one))
        .collect();
    assert_eq!(found.len(), 1);
    let mut record = record.to_vec();
    record[found[0] + 4] = b'2';
    record.into()
}

#[test]
fn a_record_of_another_format_version_stops_the_writer() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let (error, at) = stopped_by(&world, &mut source, of_version_2()).await;
        let is_version = |detail: &str| detail.contains("format version 2");
        assert!(
            matches!(&error, WriterError::Undecodable { offset, detail } if *offset == at && is_version(detail)),
            "{error}"
        );
    });
}

#[test]
fn a_gap_stops_the_writer() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let mut ahead = Source::new(3, 0, 1);
        ahead.next_offset = 6;
        let (error, at) = stopped_by(&world, &mut source, ahead.singles([100])).await;
        let gap = SequenceError::Gap {
            partition: 0,
            expected: 5,
            found: 6,
        };
        assert!(
            matches!(&error, WriterError::Sequence { offset, sequence } if *offset == at && *sequence == gap),
            "{error}"
        );
    });
}

#[test]
fn an_overlap_stops_the_writer() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let mut behind = Source::new(3, 0, 1);
        behind.next_offset = 4;
        let (error, at) = stopped_by(&world, &mut source, behind.singles([100, 101])).await;
        let overlap = SequenceError::Overlap {
            partition: 0,
            expected: 5,
            found: 4,
        };
        assert!(
            matches!(&error, WriterError::Sequence { offset, sequence } if *offset == at && *sequence == overlap),
            "{error}"
        );
    });
}

#[test]
fn a_recreated_log_of_verdicts_is_out_of_reach() {
    run(async {
        let mut world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        world.append(source.singles(0..3)).await;
        world.run_until_caught_up().await;
        let stored = world.progress().await.verdicts;
        world.recreate_log();
        world.append(source.singles(3..5)).await;
        let error = world.spawn().ended().await.unwrap_err();
        assert!(
            matches!(error, WriterError::OutOfReach { shard: 0, stored_epoch, stored_end, .. }
                if (stored_epoch, stored_end) == (stored.epoch, stored.offset)),
            "{error}"
        );
        assert_eq!(world.warehouse.totals().await.unwrap().receipts, 3);
        assert_eq!(world.progress().await.verdicts, stored);
    });
}
