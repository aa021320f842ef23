//! Rules for every processor: its output and its positions are stored together, or neither is. An
//! engine runs all of them with [`run_pipeline_contract!`].

use std::{collections::BTreeMap, time::Duration};

use receipt_log::{
    Commit, CommitError, InspectError, LogConsumer, LogInspector, LogProcessor, LoggedRecord, PollLimits, Position,
    Record, RecordKind,
};

use super::{ALL, Engine, Settings, append_all, now_ms};

/// An engine with a new, empty log of verdicts beside the log of receipts.
pub trait Pipeline: Engine {
    /// Partitions of `verdicts`.
    const SHARDS: u32;
    type Processor: LogProcessor;
    type Verdicts: LogInspector;
    type Reader: LogConsumer;

    fn processor(&self, group: &str) -> Self::Processor;
    fn verdicts(&self) -> Self::Verdicts;
    fn reader(&self, group: &str) -> Self::Reader;
}

/// Makes one test of each rule, for one engine.
#[macro_export]
macro_rules! run_pipeline_contract {
    ($engine:ty) => {
        $crate::run_pipeline_contract!($engine:
            stores_output_and_positions_together, shows_all_records_of_a_call_or_none, moves_positions_without_output,
            appends_output_at_the_same_position, stores_nothing_of_a_call_that_is_refused,
            a_fenced_processor_appends_nothing, shows_the_newest_verdicts, a_reader_resumes_behind_its_commit);
    };
    ($engine:ty: $($rule:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                $crate::contract::pipeline::$rule::<$engine>().await;
            }
        )+
    };
}

/// A run of records of one partition of `receipts`, and where a block of verdicts says that it is
/// about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub partition: u32,
    pub first: u64,
    pub next: u64,
}

impl Run {
    /// The run as a block for `shard`, with a body of about `bytes`.
    pub fn block(self, shard: u32, bytes: usize) -> Record {
        let Self { partition, first, next } = self;
        let text = format!("{partition} {first} {next} {shard} {}\n", "x".repeat(bytes));
        Record::verdicts(text.into(), 7)
    }

    /// A block's run and its shard.
    pub fn parse(body: &[u8]) -> (Self, u32) {
        let text = std::str::from_utf8(body).unwrap();
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u64>());
        let mut number = || numbers.next().unwrap().unwrap();
        let (partition, first, next, shard) = (number() as u32, number(), number(), number() as u32);
        (Self { partition, first, next }, shard)
    }

    pub fn commit(self, epoch: u32) -> Commit {
        Commit {
            partition: self.partition,
            epoch,
            next_offset: self.next,
            metadata: format!("to {}", self.next),
        }
    }
}

/// The run of each partition in what one poll brought.
pub fn runs(records: &[LoggedRecord]) -> Vec<Run> {
    let mut runs: BTreeMap<u32, Run> = BTreeMap::new();
    for logged in records {
        let Position { partition, offset, .. } = logged.position;
        let first = offset;
        let run = runs.entry(partition).or_insert(Run {
            partition,
            first,
            next: first,
        });
        assert_eq!(run.next, offset, "no gap in receipts");
        run.next = offset + 1;
    }
    runs.into_values().collect()
}

/// A block of each run for each shard, and the commits that belong to them.
pub fn output(runs: &[Run], shards: u32, epoch: u32, bytes: usize) -> (Vec<(u32, Record)>, Vec<Commit>) {
    let blocks = |run: &Run| {
        let run = *run;
        (0..shards).map(move |shard| (shard, run.block(shard, bytes)))
    };
    let commits = runs.iter().map(|run| run.commit(epoch));
    (runs.iter().flat_map(blocks).collect(), commits.collect())
}

/// Every record that is visible in a partition of `verdicts`, in order.
pub async fn read_all(verdicts: &impl LogInspector, partition: u32) -> Vec<LoggedRecord> {
    let state = verdicts.partitions("nobody").await.unwrap().remove(partition as usize);
    let (mut records, mut offset) = (Vec::<LoggedRecord>::new(), state.begin_offset);
    loop {
        let more = verdicts.read(partition, offset, 100_000).await.unwrap();
        let Some(last) = more.last() else { return records };
        offset = last.position.offset + 1;
        records.extend(more);
    }
}

/// Settings under which nobody is fenced, however slow the machine is.
fn patient() -> Settings {
    Settings {
        poll_interval_ms_max: 600_000,
        ..Settings::default()
    }
}

/// Waits until everything whose call was answered is visible: on Kafka a moment after the answer.
async fn until_visible<E: Pipeline>(engine: &E, group: &str) {
    let receipts = engine.log().partitions(group).await.unwrap();
    let done = |runs: &BTreeMap<u32, u64>| {
        receipts.iter().all(|state| {
            let committed = state.committed.as_ref().map_or(0, |made| made.next_offset);
            runs.get(&state.partition).copied().unwrap_or(0) >= committed
        })
    };
    for shard in 0..E::SHARDS {
        loop {
            let all = read_all(&engine.verdicts(), shard).await;
            let runs = all.iter().map(|logged| Run::parse(&logged.record.body).0);
            if done(&runs.map(|run| (run.partition, run.next)).collect()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Checks that each shard has every record of `receipts` up to its group's position exactly once,
/// in order, and that all shards have the same blocks. Answers how many records that were.
pub async fn assert_exactly_once(receipts: &impl LogInspector, group: &str, verdicts: &impl LogInspector) -> u64 {
    let mut of_first: Option<Vec<Run>> = None;
    let shards = verdicts.partitions("nobody").await.unwrap().len() as u32;
    for shard in 0..shards {
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        let mut all = Vec::new();
        for logged in read_all(verdicts, shard).await {
            let (run, of) = Run::parse(&logged.record.body);
            assert_eq!((of, logged.record.kind), (shard, RecordKind::Verdicts));
            let expected = next.insert(run.partition, run.next).unwrap_or(0);
            assert_eq!(run.first, expected, "a gap or an overlap: {run:?}");
            all.push(run);
        }
        for state in receipts.partitions(group).await.unwrap() {
            let committed = state.committed.map_or(0, |made| made.next_offset);
            assert_eq!(next.get(&state.partition).copied().unwrap_or(0), committed);
        }
        all.sort();
        let first = of_first.get_or_insert_with(|| all.clone());
        assert_eq!(*first, all, "all shards have the same blocks");
    }
    of_first.unwrap().iter().map(|run| run.next - run.first).sum()
}

/// Processes `count` records in blocks of at most `block`; answers the processor.
async fn process<E: Pipeline>(engine: &E, group: &str, count: u64, block: usize) -> E::Processor {
    let mut processor = engine.processor(group);
    let mut done = 0;
    while done < count {
        let limits = PollLimits {
            records_max: block,
            ..ALL
        };
        let polled = processor.poll(limits).await.unwrap();
        let Some(first) = polled.records.first() else { continue };
        let (records, commits) = output(&runs(&polled.records), E::SHARDS, first.position.epoch, 50);
        processor.append_and_commit(records, commits).await.unwrap();
        done += polled.records.len() as u64;
    }
    assert_eq!(done, count);
    processor
}

pub async fn stores_output_and_positions_together<E: Pipeline>() {
    let engine = E::start(patient());
    append_all(&engine.log(), 0..100).await;
    drop(process(&engine, "processors", 100, 7).await);
    until_visible(&engine, "processors").await;
    assert_eq!(
        assert_exactly_once(&engine.log(), "processors", &engine.verdicts()).await,
        100
    );
    for state in engine.log().partitions("processors").await.unwrap() {
        if let Some(committed) = state.committed {
            assert_eq!(committed.metadata, format!("to {}", committed.next_offset));
        }
    }
    // The next one starts behind.
    append_all(&engine.log(), 100..140).await;
    drop(process(&engine, "processors", 40, 11).await);
    until_visible(&engine, "processors").await;
    assert_eq!(
        assert_exactly_once(&engine.log(), "processors", &engine.verdicts()).await,
        140
    );
}

pub async fn shows_all_records_of_a_call_or_none<E: Pipeline>() {
    let engine = E::start(patient());
    let numbers = append_all(&engine.log(), 0..30).await;
    let epoch = numbers.keys().next().unwrap().epoch;
    let mut reader = engine.reader("readers");
    let seeing = tokio::spawn(async move {
        let mut seen: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        while seen.values().sum::<usize>() < 20 * 3 * E::SHARDS as usize {
            for logged in reader.poll(ALL).await.unwrap().records {
                let (run, shard) = Run::parse(&logged.record.body);
                *seen.entry((shard, run.first)).or_default() += 1;
            }
        }
        seen
    });
    let mut processor = engine.processor("processors");
    let assigned = super::assignments(&mut processor).await;
    for call in 0..20_u64 {
        let run = |part| Run {
            partition: 0,
            first: call,
            next: part,
        };
        let blocks = (0..E::SHARDS).flat_map(|shard| (0..3).map(move |part| (shard, run(part).block(shard, 2_000))));
        // An idle position: this is about the output.
        let commit = Commit {
            partition: assigned[0].partition,
            epoch,
            next_offset: assigned[0].next_offset,
            metadata: String::new(),
        };
        let call_is_over = processor.append_and_commit(blocks.collect(), vec![commit]);
        let (stored, inspected) = tokio::join!(call_is_over, async {
            let mut counts = Vec::new();
            for _ in 0..5 {
                counts.push(read_all(&engine.verdicts(), 0).await.len());
            }
            counts
        });
        stored.unwrap();
        assert!(inspected.iter().all(|count| count % 3 == 0), "{inspected:?}");
    }
    let seen = seeing.await.unwrap();
    assert_eq!(seen.len(), 20 * E::SHARDS as usize);
    assert!(seen.values().all(|count| *count == 3));
    for shard in 0..E::SHARDS {
        while read_all(&engine.verdicts(), shard).await.len() < 60 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let order: Vec<(u64, u64)> = read_all(&engine.verdicts(), shard)
            .await
            .iter()
            .map(|logged| {
                let (run, _) = Run::parse(&logged.record.body);
                (run.first, run.next)
            })
            .collect();
        assert!(
            order.is_sorted(),
            "in the order of the calls and of the records in each"
        );
        assert_eq!(order.len(), 60);
    }
}

pub async fn moves_positions_without_output<E: Pipeline>() {
    let engine = E::start(patient());
    append_all(&engine.log(), 0..20).await;
    let mut processor = engine.processor("processors");
    let records = super::poll_records(&mut processor, 20).await;
    let commits = super::commits(&records, "moved");
    processor.append_and_commit(Vec::new(), Vec::new()).await.unwrap();
    processor.append_and_commit(Vec::new(), commits.clone()).await.unwrap();
    for state in engine.log().partitions("processors").await.unwrap() {
        let made = commits.iter().find(|commit| commit.partition == state.partition);
        assert_eq!(
            state.committed.map(|made| (made.next_offset, made.metadata)),
            made.map(|made| (made.next_offset, "moved".to_owned()))
        );
    }
    assert!(read_all(&engine.verdicts(), 0).await.is_empty());
}

/// An idle partition's block moves nothing and is stored all the same.
pub async fn appends_output_at_the_same_position<E: Pipeline>() {
    let engine = E::start(patient());
    append_all(&engine.log(), 0..5).await;
    let mut processor = process(&engine, "processors", 5, 5).await;
    until_visible(&engine, "processors").await;
    let state = engine.log().partitions("processors").await.unwrap();
    let state = state.into_iter().find(|state| state.committed.is_some()).unwrap();
    let next = state.committed.unwrap().next_offset;
    let before = read_all(&engine.verdicts(), 0).await.len();
    let idle = Run {
        partition: state.partition,
        first: next,
        next,
    };
    for _ in 0..2 {
        let (records, commits) = output(&[idle], E::SHARDS, state.epoch, 0);
        processor.append_and_commit(records, commits).await.unwrap();
    }
    while read_all(&engine.verdicts(), E::SHARDS - 1).await.len() < before + 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(read_all(&engine.verdicts(), E::SHARDS - 1).await.len(), before + 2);
    until_visible(&engine, "processors").await;
    assert_eq!(
        assert_exactly_once(&engine.log(), "processors", &engine.verdicts()).await,
        5
    );
}

pub async fn stores_nothing_of_a_call_that_is_refused<E: Pipeline>() {
    let engine = E::start(patient());
    append_all(&engine.log(), 0..20).await;
    let mut processor = process(&engine, "processors", 20, 20).await;
    until_visible(&engine, "processors").await;
    let ends = |states: Vec<receipt_log::PartitionState>| -> Vec<u64> {
        states.into_iter().map(|state| state.end_offset).collect()
    };
    let before = ends(engine.verdicts().partitions("nobody").await.unwrap());
    let states = engine.log().partitions("processors").await.unwrap();
    let state = states.iter().find(|state| state.committed.is_some()).unwrap();
    let next = state.committed.as_ref().unwrap().next_offset;
    let run = |next| Run {
        partition: state.partition,
        first: next,
        next,
    };
    // An older position, another epoch, a partition that isn't there.
    let older = output(&[run(next - 1)], E::SHARDS, state.epoch, 10);
    let other_life = output(&[run(next)], E::SHARDS, state.epoch ^ 1, 10);
    let mut nowhere = output(&[run(next)], E::SHARDS, state.epoch, 10);
    nowhere.1[0].partition = 99;
    for (records, commits) in [older, other_life, nowhere] {
        let refused = processor.append_and_commit(records, commits).await;
        assert!(matches!(refused, Err(CommitError::Fenced(_))), "{refused:?}");
    }
    // No commit that would fence it, a record that is too large, metadata that is.
    let (records, commits) = output(&[run(next)], E::SHARDS, state.epoch, 10);
    let large = output(&[run(next)], E::SHARDS, state.epoch, 9 << 20);
    let mut long = commits.clone();
    long[0].metadata = "x".repeat(20_000);
    for (records, commits) in [(records.clone(), Vec::new()), large, (records.clone(), long)] {
        let refused = processor.append_and_commit(records, commits).await;
        assert!(matches!(refused, Err(CommitError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(ends(engine.verdicts().partitions("nobody").await.unwrap()), before);
    let committed = |states: Vec<receipt_log::PartitionState>| -> Vec<_> {
        states.into_iter().map(|state| state.committed).collect()
    };
    let after = engine.log().partitions("processors").await.unwrap();
    assert_eq!(committed(after), committed(states.clone()));
    // It is a processor still.
    processor.append_and_commit(records, commits).await.unwrap();
    while ends(engine.verdicts().partitions("nobody").await.unwrap()) == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        assert_exactly_once(&engine.log(), "processors", &engine.verdicts()).await,
        20
    );
}

pub async fn a_fenced_processor_appends_nothing<E: Pipeline>() {
    let engine = E::start(Settings::default());
    append_all(&engine.log(), 0..20).await;
    let mut older = engine.processor("processors");
    let records = super::poll_records(&mut older, 20).await;
    let (blocks, commits) = output(&runs(&records), E::SHARDS, records[0].position.epoch, 10);
    let mut newer = engine.processor("processors");
    assert_eq!(super::poll_records(&mut newer, 20).await.len(), 20);
    let fenced = older.append_and_commit(blocks.clone(), commits.clone()).await;
    assert!(matches!(fenced, Err(CommitError::Fenced(_))), "{fenced:?}");
    assert!(read_all(&engine.verdicts(), 0).await.is_empty());
    newer.append_and_commit(blocks, commits).await.unwrap();
    until_visible(&engine, "processors").await;
    let polled = older.poll(ALL).await.unwrap();
    assert!(!polled.revoked.is_empty() && polled.records.is_empty());
    assert_eq!(
        assert_exactly_once(&engine.log(), "processors", &engine.verdicts()).await,
        20
    );
}

pub async fn shows_the_newest_verdicts<E: Pipeline>() {
    let engine = E::start(patient());
    let verdicts = engine.verdicts();
    let before_ms = now_ms();
    let empty = verdicts.partitions("nobody").await.unwrap();
    assert_eq!(empty.len(), E::SHARDS as usize);
    assert!(
        empty
            .iter()
            .all(|state| state.end_offset == 0 && state.complete_through_ms >= before_ms)
    );
    for shard in 0..E::SHARDS {
        assert_eq!(verdicts.last(shard).await.unwrap(), None);
        assert!(verdicts.read(shard, 0, 1000).await.unwrap().is_empty());
    }
    assert!(matches!(verdicts.last(99).await, Err(InspectError::Unavailable(_))));

    append_all(&engine.log(), 0..30).await;
    assert!(engine.log().last(0).await.unwrap().is_some(), "of receipts too");
    let mut processor = engine.processor("processors");
    let mut done = 0;
    while done < 30 {
        let limits = PollLimits { records_max: 6, ..ALL };
        let polled = processor.poll(limits).await.unwrap();
        let Some(first) = polled.records.first() else { continue };
        let runs = runs(&polled.records);
        let (records, commits) = output(&runs, E::SHARDS, first.position.epoch, 100);
        processor.append_and_commit(records, commits).await.unwrap();
        done += polled.records.len();
        for shard in 0..E::SHARDS {
            // A commit is acknowledged a moment before everyone may read what it is about.
            let newest = loop {
                let newest = verdicts.last(shard).await.unwrap();
                let newest = newest.map(|newest| Run::parse(&newest.record.body));
                if newest.is_some_and(|(run, _)| runs.contains(&run)) {
                    break newest.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            let all = read_all(&verdicts, shard).await;
            let all: Vec<_> = all
                .iter()
                .map(|logged| (logged.position.offset, Run::parse(&logged.record.body).0))
                .collect();
            assert_eq!(newest, (*runs.last().unwrap(), shard), "{runs:?} {all:?}");
        }
    }
    // Nothing is uncommitted by a reader that has read everything.
    until_visible(&engine, "processors").await;
    let mut reader = engine.reader("readers");
    let mut read = Vec::new();
    let blocks = read_all(&verdicts, 0).await.len() * E::SHARDS as usize;
    while read.len() < blocks {
        read.extend(reader.poll(ALL).await.unwrap().records);
    }
    let waiting = verdicts.partitions("readers").await.unwrap();
    for state in &waiting {
        let first = verdicts.read(state.partition, state.begin_offset, 1).await.unwrap();
        assert_eq!(state.complete_through_ms, first[0].appended_at_ms);
    }
    reader.commit(super::commits(&read, "all")).await.unwrap();
    for _ in 0..2 {
        let before_ms = now_ms();
        for state in verdicts.partitions("readers").await.unwrap() {
            assert!(state.complete_through_ms >= before_ms);
            let next = state.committed.unwrap().next_offset;
            assert!(verdicts.read(state.partition, next, 1).await.unwrap().is_empty());
        }
    }
}

pub async fn a_reader_resumes_behind_its_commit<E: Pipeline>() {
    let engine = E::start(patient());
    append_all(&engine.log(), 0..40).await;
    let processor = process(&engine, "processors", 40, 1).await;
    let mut reader = engine.reader("readers");
    let mut read = Vec::new();
    while read.len() < 20 {
        let limits = PollLimits { records_max: 5, ..ALL };
        read.extend(reader.poll(limits).await.unwrap().records);
    }
    reader.commit(super::commits(&read, "half")).await.unwrap();
    drop((reader, processor));
    let mut next = engine.reader("readers");
    let total = 40 * E::SHARDS as usize;
    while read.len() < total {
        read.extend(next.poll(ALL).await.unwrap().records);
    }
    let mut seen: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for logged in &read {
        seen.entry(logged.position.partition)
            .or_default()
            .push(logged.position.offset);
    }
    for offsets in seen.values() {
        assert_eq!(offsets.len(), 40);
        assert!(offsets.is_sorted_by(|a, b| a < b), "in order, none twice: {offsets:?}");
    }
    // Back to a position, as a writer that resumes from its ledger.
    let third = seen[&0][2];
    next.seek(0, third).await.unwrap();
    let again = loop {
        let records = next.poll(ALL).await.unwrap().records;
        if let Some(first) = records.into_iter().find(|logged| logged.position.partition == 0) {
            break first;
        }
    };
    assert_eq!(again.position.offset, third);
}
