//! Rows and progress that a healthy writer stores and publishes.

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use receipt_log::{Commit, CommitError, ConsumeError, LogConsumer, LoggedRecord, PollLimits, Polled};
use warehouse::ShardProgress;
use writer::GROUP;

use crate::harness::{World, run};
use crate::verdicts::{Source, Verdict};

use Verdict::{Accepted, Rejected};

#[test]
fn every_verdict_is_stored_once_with_its_outcome() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let record = source.block(&[
            vec![Accepted(2)],
            vec![Rejected],
            vec![Accepted(3), Rejected, Accepted(4)],
            vec![Accepted(2)],
        ]);
        world.append(record).await;
        world.run_until_caught_up().await;
        assert_eq!((source.occurrences(), source.rejected), (4, 2));
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn rows_have_the_columns_of_their_verdicts() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        world.append(source.block(&[vec![Accepted(2), Rejected]])).await;
        world.run_until_caught_up().await;
        let accepted = world.sql(
            "SELECT publisher, url, client_name, purpose, algorithm, toString(receipt_id), length(positions), context
             FROM receipts FINAL",
        );
        assert_eq!(
            accepted.await,
            "news.example\thttps://news.example/a\treader\ttraining\tEd25519\t00000000-0000-0000-0000-000000000003\t1\ttest"
        );
        let rejected = world.sql(
            "SELECT reason, detail, kind, origin, hex(raw), client_address, isNull(receipt_id), isNull(payload_hash),
                isNull(request_signature) FROM rejected FINAL",
        );
        assert_eq!(
            rejected.await,
            "malformed\tnot JSON\treceipt\trecord\t7BFF\t192.0.2.1\t1\t1\t1"
        );
    });
}

#[test]
fn a_batch_of_many_blocks_and_partitions_has_one_ledger_line_a_block() {
    run(async {
        let world = World::new().await;
        let mut sources = [Source::new(3, 0, 3), Source::new(3, 1, 3), Source::new(3, 2, 3)];
        for round in 0..20_u128 {
            for (partition, source) in (0_u128..).zip(&mut sources) {
                let first = 1_000 * partition + 10 * round;
                world.append(source.singles(first..first + 2 + partition)).await;
            }
        }
        world.run_until_caught_up().await;
        let [one, two, three] = &sources;
        world.assert_exact(&[one, two, three]).await;
        assert_eq!(world.number("SELECT count() FROM ledger FINAL").await, 60);
    });
}

#[test]
fn batches_of_one_receipt_are_as_exact_as_large_ones() {
    run(async {
        let mut world = World::new().await;
        world.config.batch_receipts_max = 1;
        let mut source = Source::new(3, 0, 1);
        for number in 0..10 {
            world.append(source.singles([number, number / 2])).await;
        }
        world.run_until_caught_up().await;
        world.assert_exact(&[&source]).await;
    });
}

#[test]
fn idle_records_advance_progress_and_add_no_ledger_line() {
    run(async {
        let world = World::new().await;
        let mut sources = [Source::new(3, 0, 2), Source::new(3, 1, 2)];
        world.append(sources[0].idle()).await;
        world.run_until_caught_up().await;
        world.assert_progress(&[&sources[0]]).await;
        assert_eq!(
            world.progress().await.source_partitions,
            2,
            "one of them isn't known yet"
        );
        let before = world.progress().await.version;
        world.append(sources[1].singles(0..3)).await;
        world.append(sources[1].idle()).await;
        world.append(sources[0].idle()).await;
        world.run_until_caught_up().await;
        world.assert_progress(&[&sources[0], &sources[1]]).await;
        assert!(world.progress().await.version > before);
        assert_eq!(world.number("SELECT count() FROM ledger FINAL").await, 1);
        world.assert_exact(&[&sources[0], &sources[1]]).await;
    });
}

#[test]
fn an_instant_that_has_not_come_is_limited_by_the_append() {
    run(async {
        let world = World::new().await;
        let mut ahead = Source::new(3, 0, 1);
        // By a verifier whose clock is a day ahead, and then by one whose clock is right.
        let hour_ago_ms = ahead.complete_through_ms;
        ahead.complete_through_ms += 86_400_000;
        world.append(ahead.idle()).await;
        world.run_until_caught_up().await;
        let complete = |progress: ShardProgress| progress.partitions[0].complete_through_ms;
        let stated_ms = complete(world.progress().await);
        let now_ms = service::instant::now_ms();
        assert!((hour_ago_ms..=now_ms).contains(&stated_ms), "{stated_ms} at {now_ms}");
        ahead.complete_through_ms = service::instant::now_ms() - 1_000;
        world.append(ahead.idle()).await;
        world.run_until_caught_up().await;
        let later_ms = complete(world.progress().await);
        assert!(stated_ms <= later_ms && later_ms <= service::instant::now_ms());
    });
}

#[test]
fn a_recreated_log_of_receipts_replaces_the_progress_of_the_old_one() {
    run(async {
        let world = World::new().await;
        let (mut old, mut new) = (Source::new(9, 0, 1), Source::new(3, 0, 1));
        world.append(old.singles(0..5)).await;
        world.run_until_caught_up().await;
        world.append(new.idle()).await;
        world.run_until_caught_up().await;
        world.assert_progress(&[&new]).await;
        world.append(new.singles(5..9)).await;
        world.run_until_caught_up().await;
        world.assert_progress(&[&new]).await;
        assert_eq!(world.warehouse.totals().await.unwrap().occurrences, 9);
        assert!(world.warehouse.audit(&[]).await.unwrap().findings.is_empty());
    });
}

#[test]
fn a_group_without_a_position_continues_behind_the_ledger() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        for number in 0..4 {
            world.append(source.singles([number])).await;
        }
        world.run_until_caught_up().await;
        world.merges("STOP").await;
        let stored = world.number("SELECT count() FROM receipts").await;
        world.append(source.singles(10..12)).await;
        let writer = world.spawn_with(world.consumer("another"), world.warehouse.clone());
        world.caught_up("another").await;
        writer.stop().await;
        assert_eq!(
            world.number("SELECT count() FROM receipts").await,
            stored + 2,
            "nothing was inserted again"
        );
        world.merges("START").await;
        world.assert_exact(&[&source]).await;
    });
}

/// A consumer that delivers everything twice.
struct Redelivering {
    inner: Box<dyn LogConsumer>,
    again: VecDeque<Vec<LoggedRecord>>,
}

impl LogConsumer for Redelivering {
    fn poll(&mut self, limits: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>> {
        Box::pin(async move {
            if let Some(records) = self.again.pop_front() {
                return Ok(Polled {
                    records,
                    ..Polled::default()
                });
            }
            let polled = self.inner.poll(limits).await?;
            if !polled.records.is_empty() {
                self.again.push_back(polled.records.clone());
            }
            Ok(polled)
        })
    }

    fn seek(&mut self, partition: u32, offset: u64) -> BoxFuture<'_, Result<(), ConsumeError>> {
        self.inner.seek(partition, offset)
    }

    fn commit(&mut self, commits: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>> {
        self.inner.commit(commits)
    }
}

#[test]
fn redelivered_records_are_ignored() {
    run(async {
        let world = World::new().await;
        let mut source = Source::new(3, 0, 1);
        let consumer = Redelivering {
            inner: world.consumer(GROUP),
            again: VecDeque::new(),
        };
        let writer = world.spawn_with(Box::new(consumer), world.warehouse.clone());
        for number in 0..10 {
            world.append(source.singles([number, number + 100])).await;
            if number % 3 == 0 {
                world.caught_up(GROUP).await;
            }
        }
        world.caught_up(GROUP).await;
        writer.stop().await;
        world.assert_exact(&[&source]).await;
    });
}
