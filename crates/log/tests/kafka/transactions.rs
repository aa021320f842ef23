//! Processors that die, freeze and lose their brokers in the middle of a transaction.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
};
use receipt_log::{
    CommitError, ConsumeError, KafkaConfig, KafkaLog, KafkaProcessor, LogConsumer, LogInspector, LogProcessor,
    LogWriter, PollLimits, Topic,
};
use test_engines::Kafka;

use crate::{
    config,
    contract::{
        ALL, append_all,
        pipeline::{Run, assert_exactly_once, output, runs},
        record,
    },
};

/// Set for the process that is killed or frozen: the broker and the number in its topics' names.
const CHILD: &str = "RECEIPT_LOG_TRANSACTIONAL_CHILD";
const GROUP: &str = "processors";
const SHARDS: u32 = 2;
/// Of a block, so that a transaction takes a while.
const BLOCK_BYTES: usize = 400_000;

fn config_of(brokers: &str) -> KafkaConfig {
    KafkaConfig {
        topic: "receipts".to_owned(),
        verdicts_topic: "verdicts".to_owned(),
        verdicts_partitions: SHARDS,
        transaction_wait_ms_max: 4_000,
        poll_interval_ms_max: 600_000,
        ..config(brokers)
    }
}

/// A broker of the test's own that looks for transactions whose time is over twice a second.
fn broker() -> Kafka {
    let setting = ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500");
    Kafka::start_with(&[setting]).unwrap()
}

struct Logs {
    receipts: KafkaLog,
    verdicts: KafkaLog,
}

impl Logs {
    fn open(brokers: &str) -> Self {
        Self {
            receipts: KafkaLog::open(config_of(brokers)).unwrap(),
            verdicts: KafkaLog::open_topic(Topic::Verdicts, config_of(brokers)).unwrap(),
        }
    }

    fn processor(&self) -> KafkaProcessor {
        self.receipts.processor(GROUP, &self.verdicts).unwrap()
    }

    async fn append(&self, count: usize) {
        let appending = (0..count).map(|number| async move {
            while self.receipts.append(record(number)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        futures_util::stream::iter(appending)
            .buffer_unordered(50)
            .collect::<()>()
            .await;
    }

    /// Waits until the group has processed everything.
    async fn until_processed(&self) -> u64 {
        loop {
            if let Ok(states) = self.receipts.partitions(GROUP).await {
                let done = |state: &receipt_log::PartitionState| {
                    state.committed.as_ref().map_or(0, |made| made.next_offset) == state.end_offset
                };
                if states.iter().all(done) {
                    return states.iter().map(|state| state.end_offset).sum();
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Processes until `stop`, as a verifier does; answers how many calls were fenced.
async fn work(mut processor: KafkaProcessor, stop: Arc<AtomicBool>, bytes: usize, said: fn(&str)) -> usize {
    let mut fenced = 0;
    let limits = PollLimits {
        records_max: 20,
        wait_max: Duration::from_millis(100),
        ..ALL
    };
    while !stop.load(Ordering::Relaxed) {
        let polled = match processor.poll(limits).await {
            Ok(polled) => polled,
            Err(ConsumeError::Unavailable(_)) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
            Err(damaged) => panic!("{damaged}"),
        };
        let Some(first) = polled.records.first() else { continue };
        let (records, commits) = output(&runs(&polled.records), SHARDS, first.position.epoch, bytes);
        loop {
            match processor.append_and_commit(records.clone(), commits.clone()).await {
                Ok(()) => said("stored"),
                Err(CommitError::Fenced(_)) => {
                    fenced += 1;
                    said("fenced");
                }
                Err(CommitError::Unavailable(reason)) => {
                    eprintln!("again: {reason}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
                Err(invalid) => panic!("{invalid}"),
            }
            break;
        }
    }
    fenced
}

/// Not a test of its own: the process that is killed or frozen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(brokers) = std::env::var(CHILD) else { return };
    let logs = Logs::open(&brokers);
    let stop = Arc::new(AtomicBool::new(false));
    let said = |what: &str| writeln!(std::io::stdout(), "said: {what}").unwrap();
    let working = tokio::spawn(work(logs.processor(), Arc::clone(&stop), BLOCK_BYTES, said));
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()))
        .await
        .unwrap()
        .unwrap();
    stop.store(true, Ordering::Relaxed);
    working.await.unwrap();
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(brokers: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["transactions::child", "--exact", "--nocapture"])
            .env(CHILD, brokers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    /// Waits until the process says `what`.
    fn until(&mut self, what: &str) {
        let wanted = format!("said: {what}");
        assert!(
            self.lines.any(|line| line.unwrap().ends_with(&wanted)),
            "it ended without: {what}"
        );
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Freezes the process while a transaction of its own is open, and stays so.
    fn freeze_in_a_transaction(&self, brokers: &str) {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < Duration::from_secs(300), "no transaction was met");
            self.signal("-STOP");
            // One whose commit was requested ends by itself.
            std::thread::sleep(Duration::from_millis(300));
            if has_open_transaction(brokers) {
                return;
            }
            self.signal("-CONT");
            std::thread::sleep(Duration::from_millis(rand::random_range(1..60)));
        }
    }
}

/// Whether some partition of `verdicts` has records of a transaction that hasn't ended.
fn has_open_transaction(brokers: &str) -> bool {
    let ends = |isolation: &str| -> Vec<i64> {
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", brokers)
            .set("isolation.level", isolation);
        let client: BaseConsumer = settings.create().unwrap();
        let end = |partition| {
            client
                .fetch_watermarks("verdicts", partition, Duration::from_secs(300))
                .unwrap()
                .1
        };
        (0..SHARDS as i32).map(end).collect()
    };
    ends("read_committed") < ends("read_uncommitted")
}

/// Checks both shards by our own reader and one of them by another's.
async fn assert_all_once(kafka: &Kafka, logs: &Logs) {
    let total = logs.until_processed().await;
    let deadline = Instant::now() + Duration::from_secs(300);
    while has_open_transaction(kafka.bootstrap()) {
        assert!(Instant::now() < deadline, "a transaction was left open");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(assert_exactly_once(&logs.receipts, GROUP, &logs.verdicts).await, total);
    let read = [
        "-C",
        "-t",
        "verdicts",
        "-p",
        "0",
        "-o",
        "beginning",
        "-e",
        "-q",
        "-X",
        "isolation.level=read_committed",
        "-f",
        "%s",
    ];
    let mut next = std::collections::BTreeMap::new();
    let mut seen = 0;
    for line in kafka.kcat(&read).unwrap().lines() {
        let (run, _) = Run::parse(line.as_bytes());
        assert_eq!(next.insert(run.partition, run.next).unwrap_or(0), run.first, "{run:?}");
        seen += run.next - run.first;
    }
    assert_eq!(seen, total, "kcat sees the same");
}

fn quiet(_: &str) {}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_processor_killed_in_a_transaction_leaves_nothing_visible_and_the_next_one_continues() {
    let kafka = broker();
    let logs = Logs::open(kafka.bootstrap());
    for round in 0..3 {
        logs.append(1_500).await;
        let mut process = Process::start(kafka.bootstrap());
        process.until("stored");
        process.freeze_in_a_transaction(kafka.bootstrap());
        let of_group = logs.receipts.partitions(GROUP).await.unwrap();
        process.signal("-KILL");
        process.child.wait().unwrap();
        // What is visible is what is committed, with the transaction open and after its abort.
        for _ in 0..2 {
            assert_exactly_once(&logs.receipts, GROUP, &logs.verdicts).await;
            while has_open_transaction(kafka.bootstrap()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        assert_eq!(
            logs.receipts
                .partitions(GROUP)
                .await
                .unwrap()
                .into_iter()
                .map(|state| state.committed)
                .collect::<Vec<_>>(),
            of_group.into_iter().map(|state| state.committed).collect::<Vec<_>>(),
            "the open transaction moved no position"
        );
        eprintln!("round {round}");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let heir = tokio::spawn(work(logs.processor(), Arc::clone(&stop), 100, quiet));
    assert_all_once(&kafka, &logs).await;
    stop.store(true, Ordering::Relaxed);
    heir.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_processor_frozen_in_a_transaction_can_t_commit_what_is_anothers_by_then() {
    let kafka = broker();
    let logs = Logs::open(kafka.bootstrap());
    logs.append(1_500).await;
    let mut process = Process::start(kafka.bootstrap());
    process.until("stored");
    process.freeze_in_a_transaction(kafka.bootstrap());
    // Its session ends. Its partitions go to another, which waits for the abort and processes the
    // rest.
    let stop = Arc::new(AtomicBool::new(false));
    let heir = tokio::spawn(work(logs.processor(), Arc::clone(&stop), 100, quiet));
    let total = logs.until_processed().await;
    assert_eq!(assert_exactly_once(&logs.receipts, GROUP, &logs.verdicts).await, total);
    process.signal("-CONT");
    process.until("fenced");
    // Both share the work from now on.
    logs.append(500).await;
    assert_all_once(&kafka, &logs).await;
    writeln!(process.stdin, "stop").unwrap();
    assert!(process.child.wait().unwrap().success());
    stop.store(true, Ordering::Relaxed);
    heir.await.unwrap();
    assert_all_once(&kafka, &logs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_die_and_freeze_lose_nothing_and_store_nothing_twice() {
    let kafka = broker();
    let logs = Arc::new(Logs::open(kafka.bootstrap()));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(work(logs.processor(), Arc::clone(&stop), 20_000, quiet)))
        .collect();
    let appending = tokio::spawn({
        let logs = Arc::clone(&logs);
        async move { logs.append(12_000).await }
    });
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(rand::random_range(1_500..3_000))).await;
        kafka.kill().unwrap();
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..1_000))).await;
        tokio::task::block_in_place(|| kafka.restart()).unwrap();
        tokio::time::sleep(Duration::from_millis(rand::random_range(3_000..5_000))).await;
        // Longer than a transaction may take.
        kafka.freeze().unwrap();
        tokio::time::sleep(Duration::from_millis(9_000)).await;
        kafka.thaw().unwrap();
    }
    appending.await.unwrap();
    assert_all_once(&kafka, &logs).await;
    assert!(workers.iter().all(|worker| !worker.is_finished()));
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        eprintln!("fenced {} times", worker.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_without_a_partition_is_named_and_nothing_is_stored() {
    let kafka = Kafka::shared().unwrap();
    let config = KafkaConfig {
        transaction_wait_ms_max: 5_000,
        ..config(kafka.bootstrap())
    };
    let group = format!("{}-processors", config.topic);
    let receipts = KafkaLog::open(config.clone()).unwrap();
    let verdicts = KafkaLog::open_topic(Topic::Verdicts, config.clone()).unwrap();
    append_all(&receipts, 0..10).await;
    let mut processor = receipts.processor(&group, &verdicts).unwrap();
    let records = crate::contract::poll_records(&mut processor, 10).await;
    let (blocks, commits) = output(&runs(&records), 3, receipts.epoch(), 10);
    let Err(CommitError::Unavailable(reason)) = processor.append_and_commit(blocks.clone(), commits.clone()).await
    else {
        panic!("there are two partitions")
    };
    assert!(reason.to_lowercase().contains("partition"), "{reason}");
    let states = receipts.partitions(&group).await.unwrap();
    assert!(states.iter().all(|state| state.committed.is_none()));
    let two = blocks.into_iter().filter(|(shard, _)| *shard < 2).collect();
    processor.append_and_commit(two, commits).await.unwrap();
    assert_eq!(assert_exactly_once(&receipts, &group, &verdicts).await, 10);

    let wider = KafkaConfig {
        verdicts_partitions: 3,
        ..config
    };
    let reported = KafkaLog::open_topic(Topic::Verdicts, wider).unwrap_err().to_string();
    assert!(
        reported.contains("partitions is 2, must be 3")
            && reported.contains("kafka-topics.sh")
            && reported.contains("--alter"),
        "{reported}"
    );
    // Only a processor appends to it.
    assert!(verdicts.append(record(1)).await.is_err());
}
