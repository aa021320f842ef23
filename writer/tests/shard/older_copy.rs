//! Tables that were restored from an older copy.

use writer::WriterError;

use crate::harness::{World, run};
use crate::verdicts::{Source, Verdict};

use Verdict::{Accepted, Rejected};

#[test]
fn what_an_older_copy_lacks_is_inserted_again_from_the_log() {
    run(async {
        let mut world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let blocks = [
            source.block(&[vec![Accepted(0), Rejected], vec![Accepted(2)]]),
            source.block(&[vec![Accepted(2), Accepted(3)], vec![Rejected], vec![Accepted(4)]]),
            source.block(&[vec![Accepted(5), Rejected, Accepted(0)]]),
        ];
        let [first, second, third] = blocks;
        world.append(first).await;
        let writer = world.spawn_with_evidence(world.warehouse.clone());
        world.stored().await;
        world.evidence(2).await;
        let copy = world.copy().await;
        world.append(second).await;
        world.stored().await;
        world.evidence(4).await;
        writer.stop().await;

        world.warehouse = copy;
        assert_eq!(world.warehouse.totals().await.unwrap().receipts, 2);
        let writer = world.spawn_with_evidence(world.warehouse.clone());
        world.stored().await;
        world.append(third).await;
        world.stored().await;
        world.evidence(5).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn a_log_that_begins_behind_an_older_copy_is_out_of_its_reach() {
    run(async {
        let mut world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        world.append(source.singles(0..3)).await;
        world.run_until_caught_up().await;
        let copy = world.copy().await;
        for round in 1..60 {
            world.append(source.singles(round * 250..round * 250 + 250)).await;
        }
        world.run_until_caught_up().await;
        world.truncate_log().await;

        let newer = std::mem::replace(&mut world.warehouse, copy);
        let stored = world.progress().await.verdicts;
        let error = world.spawn().ended().await.unwrap_err();
        assert!(
            matches!(&error, WriterError::OutOfReach { shard: 0, stored_end, detail, .. }
                if *stored_end == stored.offset && detail.starts_with("the log has offsets ")),
            "{error}"
        );
        assert!(error.to_string().contains("run `receipts rewind`"), "{error}");
        assert_eq!(world.warehouse.totals().await.unwrap().receipts, 3);
        assert_eq!(world.progress().await.verdicts, stored);
        // The newer tables are within its reach.
        world.warehouse = newer;
        world.append(source.singles(3..5)).await;
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}
