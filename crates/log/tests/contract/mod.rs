//! Contract of every log, whatever engine implements the traits. An engine runs all of it with
//! [`run_contract!`].

pub mod pipeline;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use rand::SeedableRng;
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::StdRng;
use receipt_log::{
    AppendError, Assignment, Commit, CommitError, ConsumeError, InspectError, LogConsumer, LogInspector, LogWriter,
    LoggedRecord, PollLimits, Position, Record, RecordKind, TraceText,
};

/// Settings that some of the tests need.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Most records in the queue before the log.
    pub queue_records_max: usize,
    /// The largest encoded record in bytes.
    pub record_bytes_max: usize,
    /// A consumer that doesn't poll for so long is taken for stuck, on Kafka.
    #[allow(dead_code)] // the embedded log has no such limit
    pub poll_interval_ms_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queue_records_max: 10_000,
            record_bytes_max: 1 << 20,
            poll_interval_ms_max: 6_000,
        }
    }
}

/// An engine with a new, empty log.
pub trait Engine: Sized {
    type Log: LogWriter + LogInspector + Clone;
    type Consumer: LogConsumer;

    fn start(settings: Settings) -> Self;
    fn log(&self) -> Self::Log;
    fn consumer(&self, group: &str) -> Self::Consumer;
}

/// Makes one test of each rule, for one engine.
#[macro_export]
macro_rules! run_contract {
    ($engine:ty) => {
        $crate::run_contract!($engine:
            reads_every_record_once_in_order_as_it_was_appended, limits_what_one_poll_brings,
            wakes_a_waiting_poll, resumes_behind_the_commit, reads_on_from_a_given_offset, carries_metadata_with_the_commit,
            never_moves_a_commit_back, fences_the_older_consumer, keeps_groups_apart,
            completes_through_the_first_uncommitted_record, refuses_when_the_queue_is_full,
            refuses_a_record_that_is_too_large, inspects_without_consuming);
    };
    ($engine:ty: $($rule:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                $crate::contract::$rule::<$engine>().await;
            }
        )+
    };
}

/// A record that says which one it is; every kind of field occurs.
pub fn trace(number: usize) -> TraceText {
    TraceText::new(format!("00-{:032x}-00f067aa0ba902b7-01", number + 1).as_bytes()).unwrap()
}

pub fn record(number: usize) -> Record {
    let address = match number % 3 {
        0 => None,
        1 => Some([10, 0, 0, (number % 250) as u8].into()),
        _ => Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, number as u16].into()),
    };
    Record {
        kind: if number.is_multiple_of(5) {
            RecordKind::Batch
        } else {
            RecordKind::Receipt
        },
        body: format!(
            "{{\"number\":{number},\"pad\":\"{}\"}}",
            noise(number, number * 37 % 1500)
        )
        .into(),
        request_signature: (number % 2 == 1).then(|| format!("signature-{number}")),
        request_id: format!("request-{number}"),
        received_at_ms: number as i64 - 3,
        client_address: address,
        trace: (number % 3 == 1).then(|| trace(number)),
    }
}

/// Text that can hardly be compressed, so that segments fill up.
pub fn noise(number: usize, bytes: usize) -> String {
    Alphanumeric.sample_string(&mut StdRng::seed_from_u64(number as u64), bytes)
}

pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

pub const ALL: PollLimits = PollLimits {
    records_max: usize::MAX,
    bytes_max: 1 << 20,
    wait_max: Duration::from_millis(200),
};

/// Appends `numbers`, all at the same time.
pub async fn append_all(log: &impl LogWriter, numbers: std::ops::Range<usize>) -> BTreeMap<Position, usize> {
    let appended = join_all(numbers.clone().map(|number| log.append(record(number)))).await;
    let appended = appended.into_iter().map(|outcome| outcome.unwrap().position);
    let positions: BTreeMap<_, _> = appended.zip(numbers.clone()).collect();
    assert_eq!(positions.len(), numbers.len(), "no two records have the same position");
    positions
}

/// Polls until `count` records came, and checks that each partition's are in order without a gap.
pub async fn poll_records(consumer: &mut impl LogConsumer, count: usize) -> Vec<LoggedRecord> {
    let mut records: Vec<LoggedRecord> = Vec::new();
    while records.len() < count {
        let polled = consumer.poll(ALL).await.unwrap();
        assert_eq!(polled.revoked, [] as [u32; 0]);
        records.extend(polled.records);
    }
    assert_eq!(records.len(), count);
    assert_in_order(&records);
    records
}

fn assert_in_order(records: &[LoggedRecord]) {
    let mut latest: BTreeMap<u32, &LoggedRecord> = BTreeMap::new();
    for record in records {
        if let Some(before) = latest.insert(record.position.partition, record) {
            assert_eq!(record.position.offset, before.position.offset + 1, "no gap");
            assert!(
                record.appended_at_ms >= before.appended_at_ms,
                "append times never fall"
            );
        }
    }
}

/// Commits everything polled so far.
pub fn commits(records: &[LoggedRecord], metadata: &str) -> Vec<Commit> {
    let ends: BTreeMap<u32, Position> = records
        .iter()
        .map(|record| (record.position.partition, record.position))
        .collect();
    ends.into_values()
        .map(|position| Commit {
            partition: position.partition,
            epoch: position.epoch,
            next_offset: position.offset + 1,
            metadata: metadata.to_owned(),
        })
        .collect()
}

pub async fn assignments(consumer: &mut impl LogConsumer) -> Vec<Assignment> {
    loop {
        let polled = consumer.poll(PollLimits { records_max: 1, ..ALL }).await.unwrap();
        if !polled.assigned.is_empty() {
            return polled.assigned;
        }
    }
}

pub async fn reads_every_record_once_in_order_as_it_was_appended<E: Engine>() {
    let engine = E::start(Settings::default());
    let log = engine.log();
    let mut consumer = engine.consumer("readers");
    let before_ms = now_ms();
    let mut expected = append_all(&log, 0..100).await;
    let mut records = poll_records(&mut consumer, 100).await;
    for start in (100..2000).step_by(100) {
        expected.extend(append_all(&log, start..start + 100).await);
    }
    let after_ms = now_ms();
    records.extend(poll_records(&mut consumer, 1900).await);
    assert_in_order(&records);
    for logged in &records {
        let number = expected.remove(&logged.position).unwrap();
        assert_eq!(logged.record, record(number));
        assert!((before_ms..=after_ms).contains(&logged.appended_at_ms));
    }
    assert!(expected.is_empty());
    assert!(consumer.poll(ALL).await.unwrap().records.is_empty());

    // A consumer that comes later finds the same.
    let mut late = engine.consumer("late");
    let again = poll_records(&mut late, 2000).await;
    let sorted = |mut records: Vec<LoggedRecord>| {
        records.sort_by_key(|record| record.position);
        records
    };
    assert!(sorted(again) == sorted(records));
}

pub async fn limits_what_one_poll_brings<E: Engine>() {
    let engine = E::start(Settings::default());
    let mut consumer = engine.consumer("readers");
    append_all(&engine.log(), 0..300).await;
    for limits in [
        PollLimits { records_max: 7, ..ALL },
        PollLimits { bytes_max: 3000, ..ALL },
        PollLimits { bytes_max: 1, ..ALL },
    ] {
        let mut polls = 0;
        while polls < 5 {
            let records = consumer.poll(limits).await.unwrap().records;
            let bytes: usize = records.iter().map(|record| record.record.body.len()).sum();
            assert!(records.len() <= limits.records_max);
            assert!(
                bytes <= limits.bytes_max || records.len() == 1,
                "{bytes} bytes, {limits:?}"
            );
            polls += usize::from(!records.is_empty());
        }
    }
}

pub async fn wakes_a_waiting_poll<E: Engine>() {
    let engine = E::start(Settings::default());
    let mut consumer = engine.consumer("readers");
    assignments(&mut consumer).await;
    let polling = tokio::spawn(async move {
        let limits = PollLimits {
            wait_max: Duration::from_secs(3600),
            ..ALL
        };
        consumer.poll(limits).await.unwrap().records.len()
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    engine.log().append(record(1)).await.unwrap();
    assert_eq!(polling.await.unwrap(), 1);
}

pub async fn resumes_behind_the_commit<E: Engine>() {
    let engine = E::start(Settings::default());
    append_all(&engine.log(), 0..50).await;
    let mut consumer = engine.consumer("readers");
    let first = poll_records(&mut consumer, 50).await;
    consumer.commit(commits(&first, "")).await.unwrap();
    let uncommitted = append_all(&engine.log(), 50..80).await;
    poll_records(&mut consumer, 30).await;
    drop(consumer);

    let mut next = engine.consumer("readers");
    let records = poll_records(&mut next, 30).await;
    assert!(records.iter().all(|record| uncommitted.contains_key(&record.position)));
}

pub async fn reads_on_from_a_given_offset<E: Engine>() {
    let engine = E::start(Settings::default());
    append_all(&engine.log(), 0..60).await;
    let mut consumer = engine.consumer("readers");
    let mut ends = BTreeMap::new();
    for logged in poll_records(&mut consumer, 60).await {
        ends.insert(logged.position.partition, logged.position.offset + 1);
    }
    // Backwards past what was polled, then forwards over what a poll would fetch next.
    for (&partition, &end) in &ends {
        consumer.seek(partition, end / 2).await.unwrap();
    }
    let wanted: u64 = ends.values().map(|end| end - end / 2).sum();
    let again = poll_records(&mut consumer, wanted.try_into().unwrap()).await;
    assert!(
        again
            .iter()
            .all(|logged| logged.position.offset >= ends[&logged.position.partition] / 2)
    );
    for &partition in ends.keys() {
        consumer.seek(partition, 0).await.unwrap();
    }
    let limits = PollLimits { records_max: 1, ..ALL };
    assert_eq!(consumer.poll(limits).await.unwrap().records[0].position.offset, 0);
    for (&partition, &end) in &ends {
        consumer.seek(partition, end).await.unwrap();
        let past = consumer.seek(partition, end + 1).await;
        assert!(matches!(past, Err(ConsumeError::Damaged { .. })), "{past:?}");
    }
    assert!(consumer.poll(ALL).await.unwrap().records.is_empty());
    assert_eq!(engine.log().partitions("readers").await.unwrap()[0].committed, None);
}

pub async fn carries_metadata_with_the_commit<E: Engine>() {
    let engine = E::start(Settings::default());
    append_all(&engine.log(), 0..3).await;
    let mut consumer = engine.consumer("readers");
    for assigned in assignments(&mut consumer).await {
        assert_eq!((assigned.next_offset, assigned.committed), (0, None));
    }
    drop(consumer);
    let mut consumer = engine.consumer("readers");
    let records = poll_records(&mut consumer, 3).await;
    let line = format!("{{\"line\":\"{}\"}}", "ö".repeat(1500));
    let made = commits(&records, &line);
    consumer.commit(made.clone()).await.unwrap();
    consumer.commit(made.clone()).await.unwrap(); // the same again is fine: a retry after a lost answer
    drop(consumer);

    let mut next = engine.consumer("readers");
    let assigned = assignments(&mut next).await;
    for commit in made {
        let assigned = assigned
            .iter()
            .find(|assigned| assigned.partition == commit.partition)
            .unwrap();
        let committed = assigned.committed.clone().unwrap();
        assert_eq!(assigned.next_offset, commit.next_offset);
        assert_eq!(
            (committed.epoch, committed.next_offset, committed.metadata),
            (commit.epoch, commit.next_offset, commit.metadata)
        );
    }
}

pub async fn never_moves_a_commit_back<E: Engine>() {
    let engine = E::start(Settings::default());
    append_all(&engine.log(), 0..20).await;
    let mut consumer = engine.consumer("readers");
    let records = poll_records(&mut consumer, 20).await;
    let made = commits(&records, "last");
    consumer.commit(made.clone()).await.unwrap();
    let mut back = made.clone();
    back[0].next_offset -= 1;
    assert!(matches!(consumer.commit(back).await, Err(CommitError::Fenced(_))));
    let mut other_life = made.clone();
    other_life[0].epoch ^= 1;
    assert!(matches!(consumer.commit(other_life).await, Err(CommitError::Fenced(_))));
    for state in engine.log().partitions("readers").await.unwrap() {
        if let Some(commit) = made.iter().find(|commit| commit.partition == state.partition) {
            let committed = state.committed.unwrap();
            assert_eq!(
                (committed.next_offset, committed.metadata.as_str()),
                (commit.next_offset, "last")
            );
        }
    }
}

pub async fn fences_the_older_consumer<E: Engine>() {
    let engine = E::start(Settings::default());
    append_all(&engine.log(), 0..20).await;
    let mut older = engine.consumer("readers");
    let records = poll_records(&mut older, 20).await;
    let mut newer = engine.consumer("readers");
    assert_eq!(poll_records(&mut newer, 20).await.len(), 20);
    assert!(matches!(
        older.commit(commits(&records, "zombie")).await,
        Err(CommitError::Fenced(_))
    ));
    let polled = older.poll(ALL).await.unwrap();
    assert!(!polled.revoked.is_empty() && polled.records.is_empty());
    append_all(&engine.log(), 20..30).await;
    assert!(older.poll(ALL).await.unwrap().records.is_empty());
    poll_records(&mut newer, 10).await;
    newer.commit(commits(&records, "mine")).await.unwrap();
    for state in engine.log().partitions("readers").await.unwrap() {
        assert!(state.committed.is_none_or(|committed| committed.metadata == "mine"));
    }
}

pub async fn keeps_groups_apart<E: Engine>() {
    let engine = E::start(Settings::default());
    append_all(&engine.log(), 0..20).await;
    let (mut one, mut two) = (engine.consumer("one"), engine.consumer("two"));
    let records = poll_records(&mut one, 20).await;
    one.commit(commits(&records, "")).await.unwrap();
    assert!(
        engine
            .log()
            .partitions("two")
            .await
            .unwrap()
            .iter()
            .all(|state| state.committed.is_none())
    );
    assert!(
        engine
            .log()
            .partitions("nobody")
            .await
            .unwrap()
            .iter()
            .all(|state| state.committed.is_none())
    );
    poll_records(&mut two, 20).await;
}

async fn complete_through_ms<E: Engine>(engine: &E) -> i64 {
    let states = engine.log().partitions("readers").await.unwrap();
    states.iter().map(|state| state.complete_through_ms).min().unwrap()
}

pub async fn completes_through_the_first_uncommitted_record<E: Engine>() {
    let engine = E::start(Settings::default());
    let log = engine.log();
    let before_ms = now_ms();
    assert!(
        complete_through_ms(&engine).await >= before_ms,
        "an empty log is complete up to now"
    );
    let mut consumer = engine.consumer("readers");
    log.append(record(1)).await.unwrap();
    let acknowledged_ms = now_ms();
    tokio::time::sleep(Duration::from_millis(5)).await;
    log.append(record(2)).await.unwrap();
    let records = poll_records(&mut consumer, 2).await;
    let first_ms = records.iter().map(|record| record.appended_at_ms).min().unwrap();
    assert_eq!(complete_through_ms(&engine).await, first_ms);
    assert!(first_ms <= acknowledged_ms);

    consumer.commit(commits(&records[..1], "")).await.unwrap();
    assert_eq!(complete_through_ms(&engine).await, records[1].appended_at_ms);
    let before_ms = now_ms();
    consumer.commit(commits(&records, "")).await.unwrap();
    let through_ms = complete_through_ms(&engine).await;
    assert!(through_ms >= before_ms);
    // What is acknowledged from now on was not in that answer.
    let appended = log.append(record(3)).await.unwrap();
    let later = poll_records(&mut consumer, 1).await;
    assert!(later[0].appended_at_ms >= through_ms);
    assert_eq!(
        (appended.position, appended.appended_at_ms),
        (later[0].position, later[0].appended_at_ms)
    );
    assert_eq!(complete_through_ms(&engine).await, later[0].appended_at_ms);
}

pub async fn refuses_when_the_queue_is_full<E: Engine>() {
    let engine = E::start(Settings {
        queue_records_max: 10,
        ..Settings::default()
    });
    let log = engine.log();
    let outcomes = join_all((0..2000).map(|number| log.append(record(number)))).await;
    let mut taken = BTreeMap::new();
    let mut busy = 0;
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(appended) => assert!(taken.insert(appended.position, number).is_none()),
            Err(AppendError::Busy) => busy += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(busy > 0 && taken.len() >= 10, "{busy} busy, {} taken", taken.len());
    let mut consumer = engine.consumer("readers");
    for logged in poll_records(&mut consumer, taken.len()).await {
        assert_eq!(logged.record, record(taken.remove(&logged.position).unwrap()));
    }
    assert!(
        consumer.poll(ALL).await.unwrap().records.is_empty(),
        "nothing refused was written"
    );
    log.append(record(1)).await.unwrap();
}

pub async fn refuses_a_record_that_is_too_large<E: Engine>() {
    let engine = E::start(Settings {
        record_bytes_max: 100_000,
        ..Settings::default()
    });
    let log = engine.log();
    let sized = |bytes: usize| Record {
        body: vec![b'x'; bytes].into(),
        ..record(1)
    };
    assert!(
        matches!(log.append(sized(100_001)).await, Err(AppendError::TooLarge { max: 100_000, size }) if size > 100_000)
    );
    log.append(sized(99_000)).await.unwrap();
    let mut consumer = engine.consumer("readers");
    assert_eq!(poll_records(&mut consumer, 1).await[0].record, sized(99_000));
}

pub async fn inspects_without_consuming<E: Engine>() {
    let engine = E::start(Settings::default());
    let log = engine.log();
    let appended = append_all(&log, 0..500).await;
    let mut read = Vec::new();
    for state in log.partitions("readers").await.unwrap() {
        let mut offset = state.begin_offset;
        while offset < state.end_offset {
            let records = log.read(state.partition, offset, 10_000).await.unwrap();
            let bytes: usize = records.iter().map(|record| record.record.body.len()).sum();
            assert!(!records.is_empty() && (bytes <= 10_000 || records.len() == 1));
            offset += records.len() as u64;
            read.extend(records);
        }
        assert!(
            log.read(state.partition, state.end_offset, 10_000)
                .await
                .unwrap()
                .is_empty()
        );
    }
    assert_in_order(&read);
    assert_eq!(read.len(), 500);
    assert!(
        read.iter()
            .all(|logged| logged.record == record(appended[&logged.position]))
    );
    assert!(matches!(log.read(9_999, 0, 1).await, Err(InspectError::Unavailable(_))));
    poll_records(&mut engine.consumer("readers"), 500).await;
}
