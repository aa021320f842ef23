//! The embedded log against the contract, and against what can happen to its files, its disk and
//! its process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::print_stderr
)]
#![allow(missing_docs, unreachable_pub, clippy::disallowed_methods)]

#[path = "../contract/mod.rs"]
mod contract;
mod full_disk;
mod kill;
mod life;
mod processing;
mod read_only;
mod torn_tail;

use contract::{Engine, Settings, pipeline::Pipeline};
use receipt_log::{DirectIo, EmbeddedConfig, EmbeddedConsumer, EmbeddedLog, EmbeddedProcessor, Topic};

/// Small segments, so that every test rolls.
fn small(direct_io: DirectIo) -> EmbeddedConfig {
    EmbeddedConfig {
        segment_bytes: 256 << 10,
        record_bytes_max: 128 << 10,
        min_free_bytes: 0,
        direct_io,
        ..EmbeddedConfig::default()
    }
}

/// The log under the contract, with or without the page cache.
struct Embedded<const DIRECT: bool> {
    log: EmbeddedLog,
    verdicts: EmbeddedLog,
    _dirs: [tempfile::TempDir; 2],
}

impl<const DIRECT: bool> Engine for Embedded<DIRECT> {
    type Log = EmbeddedLog;
    type Consumer = EmbeddedConsumer;

    fn start(settings: Settings) -> Self {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let config = EmbeddedConfig {
            queue_records_max: settings.queue_records_max,
            record_bytes_max: settings.record_bytes_max,
            segment_bytes: (settings.record_bytes_max as u64 + 8192).next_multiple_of(4096),
            tail_cache_bytes_max: 200_000,
            ..small(if DIRECT { DirectIo::Auto } else { DirectIo::Off })
        };
        let log = EmbeddedLog::open(dirs[0].path(), config.clone()).unwrap();
        let verdicts = EmbeddedLog::open_topic(Topic::Verdicts, dirs[1].path(), config).unwrap();
        if DIRECT && !log.writes_direct() {
            eprintln!("this file system takes no O_DIRECT: tested through the page cache only");
        }
        Self {
            log,
            verdicts,
            _dirs: dirs,
        }
    }

    fn log(&self) -> EmbeddedLog {
        self.log.clone()
    }

    fn consumer(&self, group: &str) -> EmbeddedConsumer {
        self.log.consumer(group).unwrap()
    }
}

impl<const DIRECT: bool> Pipeline for Embedded<DIRECT> {
    const SHARDS: u32 = 1;
    type Processor = EmbeddedProcessor;
    type Verdicts = EmbeddedLog;
    type Reader = EmbeddedConsumer;

    fn processor(&self, group: &str) -> EmbeddedProcessor {
        self.log.processor(group, &self.verdicts).unwrap()
    }

    fn verdicts(&self) -> EmbeddedLog {
        self.verdicts.clone()
    }

    fn reader(&self, group: &str) -> EmbeddedConsumer {
        self.verdicts.consumer(group).unwrap()
    }
}

mod direct {
    crate::run_contract!(crate::Embedded<true>);
    crate::run_pipeline_contract!(crate::Embedded<true>);
}

mod buffered {
    crate::run_contract!(crate::Embedded<false>);
    crate::run_pipeline_contract!(crate::Embedded<false>);
}
