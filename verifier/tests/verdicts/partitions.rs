//! A group's member with two partitions, as on Kafka, over a log in memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use blocks::Block;
use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use receipt_log::{
    Assignment, Commit, CommitError, ConsumeError, InspectError, LogConsumer, LogInspector, LogProcessor, LoggedRecord,
    PartitionState, PollLimits, Polled, Position, Record,
};

use crate::receipts::{generate, record, single};
use crate::world::{World, wait_until};

const EPOCH: u32 = 7;

/// Two partitions with records, and what was appended.
#[derive(Default)]
struct State {
    polls: Vec<Polled>,
    fenced: HashSet<u32>,
    appended: Vec<Record>,
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<State>>);

impl LogConsumer for Memory {
    fn poll(&mut self, _: PollLimits) -> BoxFuture<'_, Result<Polled, ConsumeError>> {
        async {
            let next = { self.0.lock().polls.pop() };
            if next.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(next.unwrap_or_default())
        }
        .boxed()
    }

    fn seek(&mut self, _: u32, _: u64) -> BoxFuture<'_, Result<(), ConsumeError>> {
        ready(Ok(())).boxed()
    }

    fn commit(&mut self, _: Vec<Commit>) -> BoxFuture<'_, Result<(), CommitError>> {
        ready(Ok(())).boxed()
    }
}

impl LogProcessor for Memory {
    fn append_and_commit(
        &mut self,
        records: Vec<(u32, Record)>,
        commits: Vec<Commit>,
    ) -> BoxFuture<'_, Result<(), CommitError>> {
        let mut state = self.0.lock();
        let fenced = commits.iter().find(|commit| state.fenced.contains(&commit.partition));
        let answer = match fenced {
            Some(commit) => Err(CommitError::Fenced(commit.partition)),
            None => {
                state.appended.extend(records.into_iter().map(|(_, record)| record));
                Ok(())
            }
        };
        ready(answer).boxed()
    }
}

impl LogInspector for Memory {
    fn partitions(&self, _: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        ready(Ok(Vec::new())).boxed()
    }

    fn read(&self, _: u32, _: u64, _: usize) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        ready(Ok(Vec::new())).boxed()
    }

    fn last(&self, _: u32) -> BoxFuture<'_, Result<Option<LoggedRecord>, InspectError>> {
        ready(Ok(None)).boxed()
    }
}

fn assigned(partition: u32) -> Assignment {
    let committed = receipt_log::Committed {
        epoch: EPOCH,
        next_offset: 0,
        metadata: String::new(),
    };
    Assignment {
        partition,
        epoch: EPOCH,
        next_offset: 0,
        committed: Some(committed),
        begin_offset: 0,
    }
}

fn records(partition: u32, offsets: std::ops::Range<u64>) -> Vec<LoggedRecord> {
    let key = generate();
    let logged = |offset| LoggedRecord {
        position: Position {
            epoch: EPOCH,
            partition,
            offset,
        },
        appended_at_ms: 1_000,
        record: record(&single(&key, usize::try_from(offset).unwrap()), Some(&key)),
    };
    offsets.map(logged).collect()
}

fn ranges(memory: &Memory) -> Vec<(u32, u64, u64)> {
    let mut ranges: Vec<_> = { memory.0.lock().appended.clone() }
        .iter()
        .map(|record| Block::decode(&record.body).unwrap().header.source)
        .map(|source| (source.partition, source.first.offset, source.end.offset))
        .collect();
    ranges.sort_unstable();
    ranges
}

/// Runs a verifier over these polls until `verdicts` has the given ranges.
async fn run(polls: Vec<Polled>, fenced: &[u32], expected: &[(u32, u64, u64)]) {
    let memory = Memory::default();
    memory.0.lock().polls = polls.into_iter().rev().collect();
    memory.0.lock().fenced = fenced.iter().copied().collect();
    let world = World::new();
    let log: Arc<dyn LogInspector> = Arc::new(memory.clone());
    let verifier = world.spawn_over(Box::new(memory.clone()), Arc::clone(&log), log);
    wait_until("everything is appended", || ranges(&memory) == expected).await;
    verifier.stop().await;
    assert_eq!(ranges(&memory), expected, "nothing follows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_has_one_range_a_partition() {
    let poll = Polled {
        assigned: vec![assigned(0), assigned(1)],
        revoked: Vec::new(),
        records: [records(0, 0..3), records(1, 0..2)].concat(),
    };
    run(vec![poll], &[], &[(0, 0, 3), (1, 0, 2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_partition_is_dropped_and_the_others_are_appended() {
    let poll = Polled {
        assigned: vec![assigned(0), assigned(1)],
        revoked: Vec::new(),
        records: [records(0, 0..3), records(1, 0..2)].concat(),
    };
    run(vec![poll], &[1], &[(0, 0, 3)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gathered_records_of_a_revoked_partition_are_dropped() {
    let polls = vec![
        Polled {
            assigned: vec![assigned(0), assigned(1)],
            revoked: Vec::new(),
            records: [records(0, 0..3), records(1, 0..2)].concat(),
        },
        Polled {
            revoked: vec![1],
            ..Polled::default()
        },
        Polled {
            assigned: vec![assigned(1)],
            revoked: Vec::new(),
            records: records(1, 0..4),
        },
    ];
    let memory = Memory::default();
    memory.0.lock().polls = polls.into_iter().rev().collect();
    let mut world = World::new();
    // All polls come before the first block is closed.
    world.config.block_wait_ms_max = 1_000;
    let log: Arc<dyn LogInspector> = Arc::new(memory.clone());
    let verifier = world.spawn_over(Box::new(memory.clone()), Arc::clone(&log), log);
    wait_until("everything is appended", || ranges(&memory) == [(0, 0, 3), (1, 0, 4)]).await;
    verifier.stop().await;
    assert_eq!(ranges(&memory), [(0, 0, 3), (1, 0, 4)]);
}
