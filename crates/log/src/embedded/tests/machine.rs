//! A machine with both logs, whose threads' work is done step by step on one thread: the same seed
//! makes the same operations of the disk.

use std::{
    ops::RangeFrom,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crossbeam_channel::Receiver;
use futures_util::future::FutureExt;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::runtime::Runtime;

use super::{
    disk::{Disk, PowerLoss},
    expected::{Expected, record},
};
use crate::{
    Topic,
    embedded::{
        EmbeddedConfig, EmbeddedConsumer, EmbeddedLog, EmbeddedProcessor, OpenError,
        upkeep::{self, SealedSegment},
        writer::SegmentWriter,
    },
    record::Record,
    traits::{AppendError, Commit, CommitError, LogConsumer, LogProcessor, LogWriter},
};

/// Directories of the logs.
const NAMES: [&str; 2] = ["log", "verdicts"];
const READERS: &str = "readers";
const PROCESSORS: &str = "processors";

/// Small segments and little retention: a life begins some and deletes some.
fn config() -> EmbeddedConfig {
    EmbeddedConfig {
        segment_bytes: 64 << 10,
        record_bytes_max: 16 << 10,
        group_bytes_max: 4 << 10,
        gather_us_max: 0,
        retention_bytes_max: 64 << 10,
        min_free_bytes: 0,
        ..EmbeddedConfig::default()
    }
}

/// An open log without threads.
struct OpenedLog {
    log: EmbeddedLog,
    writer: Option<SegmentWriter>,
    sealed: Receiver<SealedSegment>,
}

impl OpenedLog {
    /// Does the writing thread's work until `done`. After a failure it probes without pauses.
    fn write_until(&mut self, done: impl Fn() -> bool) {
        while !done() {
            let queue = &self.log.shared().queue;
            let Some(writer) = self.writer.as_mut().filter(|_| queue.bytes() > 0) else {
                thread::yield_now();
                continue;
            };
            let written = catch_unwind(AssertUnwindSafe(|| {
                writer.step();
                while !writer.is_writing() {
                    writer.probe();
                }
            }));
            if let Err(ended) = written {
                // Who waits for an answer is on another thread.
                self.writer = None;
                self.log.shared().queue.fail(&Arc::from("the process has ended"));
                resume_unwind(ended);
            }
        }
    }

    fn upkeep(&self) {
        while let Ok(sealed) = self.sealed.try_recv() {
            upkeep::cut(&sealed);
        }
        upkeep::look_around(self.log.shared());
    }

    fn close(mut self) {
        self.log.shared().queue.close();
        if let Some(writer) = self.writer.take() {
            writer.run();
        }
    }
}

/// Looks at a log as another process does.
fn look((dir, seen): (&PathBuf, &Arc<AtomicU64>)) {
    match EmbeddedLog::open_read_only(dir) {
        Ok(log) => drop(seen.fetch_max(log.stored().unwrap().end, Ordering::SeqCst)),
        Err(OpenError::Missing(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Records and commits of one call of a processor.
type Output = (Vec<(u32, Record)>, Vec<Commit>);

/// A process that has both logs open.
struct Process {
    receipts: OpenedLog,
    verdicts: OpenedLog,
    processor: EmbeddedProcessor,
    reader: EmbeddedConsumer,
    verdict_reader: EmbeddedConsumer,
}

/// The machine.
pub(super) struct Machine<'a> {
    pub(super) disk: Disk,
    runtime: &'a Runtime,
    random: StdRng,
    receipts: Expected,
    verdicts: Expected,
    /// Source offset up to which verdicts are stored or pending.
    processed: u64,
    numbers: RangeFrom<usize>,
    /// End of each log as another process saw it before the power was lost.
    seen: [Arc<AtomicU64>; 2],
}

impl<'a> Machine<'a> {
    pub(super) fn new(seed: u64, runtime: &'a Runtime) -> Self {
        Self {
            disk: Disk::new(seed),
            runtime,
            random: StdRng::seed_from_u64(seed),
            receipts: Expected::default(),
            verdicts: Expected::default(),
            processed: 0,
            numbers: 0..,
            seen: Default::default(),
        }
    }

    /// Runs a process for `actions` and closes it, or until the power is lost.
    pub(super) fn run(&mut self, actions: usize) {
        let life = AssertUnwindSafe(|| {
            let mut process = self.start();
            for _ in 0..actions {
                self.act(&mut process);
            }
            let Process { receipts, verdicts, .. } = process;
            receipts.close();
            verdicts.close();
        });
        if let Err(ended) = catch_unwind(life)
            && !ended.is::<PowerLoss>()
        {
            resume_unwind(ended);
        }
    }

    /// Loses the power at the operation of this number. If it is observed, another process looks at
    /// both logs just before: what it finds must be there afterwards.
    pub(super) fn lose_power_at(&mut self, operation: usize, is_observed: bool) {
        let seen: [Arc<AtomicU64>; 2] = Default::default();
        self.seen = seen.clone();
        let dirs = NAMES.map(|name| self.dir(name));
        self.disk.lose_power_at(operation, move || {
            dirs.iter().zip(&seen).filter(|_| is_observed).for_each(look);
        });
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.disk.home().join("data").join(name)
    }

    fn open(&self, topic: Topic, name: &str) -> OpenedLog {
        let dir = self.dir(name);
        loop {
            let failed = self.disk.failed();
            match EmbeddedLog::assemble(topic, &dir, config()) {
                Ok((log, writer, sealed)) => {
                    return OpenedLog {
                        log,
                        writer: Some(writer),
                        sealed,
                    };
                }
                Err(OpenError::Io { .. }) if self.disk.failed() > failed => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Opens both logs, checks them, and finds from the verdicts how far their processor was.
    fn start(&mut self) -> Process {
        if self.random.random_bool(0.2) {
            NAMES.map(|name| self.dir(name)).iter().zip(&self.seen).for_each(look);
        }
        let receipts = self.open(Topic::Receipts, NAMES[0]);
        self.receipts.check(&receipts.log, self.disk.failed() > 0);
        let verdicts = self.open(Topic::Verdicts, NAMES[1]);
        self.verdicts.check(&verdicts.log, self.disk.failed() > 0);
        for (expected, seen) in [&self.receipts, &self.verdicts].into_iter().zip(&self.seen) {
            let seen = seen.load(Ordering::SeqCst);
            // After a failed sync that process sees what its own sync can't make durable any more.
            assert!(
                seen <= expected.end() || self.disk.failed() > 0,
                "what another process saw is lost"
            );
        }
        let newest = self.verdicts.stored.last().map(|newest| newest.request_id.as_str());
        self.processed = newest.map_or(0, |name| name.split_once("..").unwrap().1.parse().unwrap());
        let group = receipts.log.shared().groups.get(PROCESSORS);
        let committed = group.and_then(|group| group.next_offset()).unwrap_or(0);
        assert!(committed <= self.processed, "a position without its output");
        assert!(self.processed <= self.receipts.end(), "an output without its source");
        loop {
            let joined = (
                receipts.log.processor(PROCESSORS, &verdicts.log),
                receipts.log.consumer(READERS),
                verdicts.log.consumer(READERS),
            );
            if let (Ok(processor), Ok(reader), Ok(verdict_reader)) = joined {
                self.receipts.join(PROCESSORS);
                self.receipts.join(READERS);
                self.verdicts.join(READERS);
                return Process {
                    receipts,
                    verdicts,
                    processor,
                    reader,
                    verdict_reader,
                };
            }
            assert!(self.disk.failed() > 0);
        }
    }

    fn act(&mut self, process: &mut Process) {
        let failed = self.disk.failed();
        match self.random.random_range(0..20) {
            0..8 => self.append(&mut process.receipts),
            8..13 => self.process(process),
            13 | 14 => self.commit(Topic::Receipts, &mut process.reader),
            15 => self.commit(Topic::Verdicts, &mut process.verdict_reader),
            16 => self.fence(process),
            17 | 18 => process.receipts.upkeep(),
            _ => process.verdicts.upkeep(),
        }
        if self.disk.failed() > failed {
            self.receipts.check_open(&process.receipts.log);
            self.verdicts.check_open(&process.verdicts.log);
        }
    }

    /// Several producers append at once.
    fn append(&mut self, receipts: &mut OpenedLog) {
        let log = receipts.log.clone();
        let mut answers = Vec::new();
        for number in self.numbers.by_ref().take(self.random.random_range(1..7)) {
            let record = record(number, number.to_string());
            self.receipts.append(vec![record.clone()]);
            answers.push(log.append(record));
        }
        let written = catch_unwind(AssertUnwindSafe(|| {
            receipts.write_until(|| log.shared().queue.bytes() == 0)
        }));
        let mut refused = false;
        for answer in answers {
            match answer.now_or_never() {
                Some(Ok(appended)) => {
                    assert_eq!(appended.position.offset, self.receipts.end());
                    self.receipts.acknowledge();
                }
                Some(Err(AppendError::Unavailable(_))) => refused = true,
                None => {}
                Some(Err(error)) => panic!("{error}"),
            }
        }
        written.unwrap_or_else(|ended| resume_unwind(ended));
        if refused {
            self.receipts.refuse();
        }
    }

    /// Output of the next source records, in one or several records.
    fn output(&mut self, epoch: u32) -> Output {
        let (first, end) = (self.processed, self.receipts.end());
        let next_offset = self.random.random_range(first + 1..=end.min(first + 6));
        let numbers = self.numbers.by_ref().take(self.random.random_range(1..4));
        let records = numbers
            .map(|number| (0, record(number, format!("{first}..{next_offset}"))))
            .collect();
        let metadata = format!("{first}..{next_offset}");
        (
            records,
            vec![Commit {
                partition: 0,
                epoch,
                next_offset,
                metadata,
            }],
        )
    }

    /// Calls a processor, on another thread, and writes what it appends. The second result has a
    /// panic that ended the writing.
    fn call(
        &self,
        processor: &mut EmbeddedProcessor,
        verdicts: &mut OpenedLog,
        (records, commits): Output,
    ) -> (Result<(), CommitError>, thread::Result<()>) {
        thread::scope(|scope| {
            let call = scope.spawn(|| self.runtime.block_on(processor.append_and_commit(records, commits)));
            let written = catch_unwind(AssertUnwindSafe(|| verdicts.write_until(|| call.is_finished())));
            (call.join().unwrap(), written)
        })
    }

    fn process(&mut self, process: &mut Process) {
        if self.processed == self.receipts.end() {
            return;
        }
        let (records, commits) = self.output(process.receipts.log.epoch());
        self.verdicts
            .append(records.iter().map(|(_, record)| record.clone()).collect());
        self.receipts.commit(PROCESSORS, &commits[0]);
        let (failed, next_offset) = (self.disk.failed(), commits[0].next_offset);
        let (call, written) = self.call(&mut process.processor, &mut process.verdicts, (records, commits));
        match call {
            Ok(()) => {
                self.verdicts.acknowledge();
                if self.disk.failed() == failed {
                    self.receipts.committed(PROCESSORS);
                }
                self.processed = next_offset;
            }
            Err(_) if written.is_err() || self.disk.is_off() => {}
            Err(error) => {
                assert!(self.disk.failed() > failed, "{error}");
                self.verdicts.refuse();
            }
        }
        written.unwrap_or_else(|ended| resume_unwind(ended));
        self.end_if_off();
    }

    /// Ends the process here, too, if it ended on another thread.
    fn end_if_off(&self) {
        if self.disk.is_off() {
            resume_unwind(Box::new(PowerLoss));
        }
    }

    fn commit(&mut self, topic: Topic, consumer: &mut EmbeddedConsumer) {
        let expected = match topic {
            Topic::Receipts => &mut self.receipts,
            Topic::Verdicts => &mut self.verdicts,
        };
        let made = Commit {
            partition: 0,
            epoch: expected.epoch.unwrap(),
            next_offset: self.random.random_range(expected.next_offset(READERS)..=expected.end()),
            metadata: "by readers".to_owned(),
        };
        expected.commit(READERS, &made);
        let failed = self.disk.failed();
        let call = self.runtime.block_on(consumer.commit(vec![made]));
        if self.disk.is_off() {
            resume_unwind(Box::new(PowerLoss));
        }
        match call {
            Ok(()) => expected.committed(READERS),
            Err(error) => assert!(self.disk.failed() > failed, "{error}"),
        }
    }

    /// A new processor takes the group over: the one before it can store nothing more.
    fn fence(&mut self, process: &mut Process) {
        let newer = process
            .receipts
            .log
            .processor(PROCESSORS, &process.verdicts.log)
            .unwrap();
        let mut older = std::mem::replace(&mut process.processor, newer);
        if self.processed < self.receipts.end() {
            let output = self.output(process.receipts.log.epoch());
            let (call, _) = self.call(&mut older, &mut process.verdicts, output);
            assert!(matches!(call, Err(CommitError::Fenced(0))), "{call:?}");
        }
    }
}
