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
use receipt_log::{EmbeddedConfig, EmbeddedConsumer, EmbeddedLog, EmbeddedProcessor, Topic};

/// Small segments, so that every test rolls.
fn small() -> EmbeddedConfig {
    EmbeddedConfig {
        segment_bytes: 256 << 10,
        record_bytes_max: 128 << 10,
        min_free_bytes: 0,
        ..EmbeddedConfig::default()
    }
}

/// The log under the contract.
struct Embedded {
    log: EmbeddedLog,
    verdicts: EmbeddedLog,
    _dirs: [tempfile::TempDir; 2],
}

impl Engine for Embedded {
    type Log = EmbeddedLog;
    type Consumer = EmbeddedConsumer;

    fn start(settings: Settings) -> Self {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let config = EmbeddedConfig {
            queue_records_max: settings.queue_records_max,
            record_bytes_max: settings.record_bytes_max,
            segment_bytes: (settings.record_bytes_max as u64 + 8192).next_multiple_of(4096),
            tail_cache_bytes_max: 200_000,
            ..small()
        };
        let log = EmbeddedLog::open(dirs[0].path(), config.clone()).unwrap();
        let verdicts = EmbeddedLog::open_topic(Topic::Verdicts, dirs[1].path(), config).unwrap();
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

impl Pipeline for Embedded {
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

mod contracts {
    crate::run_contract!(crate::Embedded);
    crate::run_pipeline_contract!(crate::Embedded);
}
