//! Deleting old segments, and never a record that some group still needs.

use std::{io, path::Path, sync::Arc};

use super::{
    catalog::Segment,
    config::EmbeddedConfig,
    disk::{self, sync_dir},
    segment_file::{segment_bases, segment_path},
    shared::LogState,
};

/// The oldest segments that may and should go, in order: those whose records are all before
/// `deletable`.
fn expired(segments: &[Arc<Segment>], deletable: u64, now_ms: i64, config: &EmbeddedConfig) -> Vec<Arc<Segment>> {
    let oldest_ms = now_ms.saturating_sub(i64::try_from(config.retention_ms_max).unwrap_or(i64::MAX));
    let mut bytes: u64 = segments.iter().map(|segment| segment.bytes()).sum();
    let mut expired = Vec::new();
    for pair in segments.windows(2) {
        let (segment, next) = (&pair[0], &pair[1]);
        // All records of a segment are older than the next segment.
        let is_old = next.created_at_ms < oldest_ms;
        if next.base > deletable || !(is_old || bytes > config.retention_bytes_max) {
            break;
        }
        bytes -= segment.bytes();
        expired.push(Arc::clone(segment));
    }
    expired
}

/// Deletes what the settings don't keep.
pub(super) fn enforce(shared: &LogState) {
    let now_ms = shared.clock.now_ms();
    // Chosen while no group can join: a new group starts at the oldest segment that is left.
    let is_any_gone = shared.groups.while_none_joins(|committed_by_all| {
        // The newest record stays, whatever its age: `last` must find it.
        let deletable = committed_by_all.min(shared.end_offset().saturating_sub(1));
        let gone = expired(&shared.catalog.all(), deletable, now_ms, &shared.config);
        gone.iter()
            .for_each(|segment| shared.catalog.forget_oldest(segment.base));
        !gone.is_empty()
    });
    if is_any_gone && let Err(error) = delete_before(&shared.dir, shared.catalog.begin()) {
        tracing::warn!(%error, path = %shared.dir.display(), "can't delete old segments");
    }
}

/// Deletes the segments before `begin`, oldest first and each durably: a gap between segments would
/// be damage at the next start. What a failure leaves is deleted with the next ones.
fn delete_before(dir: &Path, begin: u64) -> io::Result<()> {
    for base in segment_bases(dir)?.into_iter().filter(|&base| base < begin) {
        let path = segment_path(dir, base);
        tracing::info!(segment = %path.display(), "deleting an old segment");
        disk::remove_file(&path)?;
        sync_dir(dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{
        Topic,
        embedded::{
            EmbeddedLog,
            tests::{disk::Disk, expected::record},
        },
        traits::{Commit, LogConsumer, LogWriter},
    };

    fn segments(created_at_ms: &[i64]) -> Vec<Arc<Segment>> {
        (0_u64..)
            .zip(created_at_ms)
            .map(|(index, &created)| Segment::new(index * 10, created, "unused".into(), 100, None))
            .collect()
    }

    fn bases(expired: &[Arc<Segment>]) -> Vec<u64> {
        expired.iter().map(|segment| segment.base).collect()
    }

    #[test]
    fn deletes_the_old_and_the_too_many_but_only_what_all_have_committed() {
        let config = EmbeddedConfig {
            retention_bytes_max: 1000,
            retention_ms_max: 50,
            ..EmbeddedConfig::default()
        };
        let four = segments(&[0, 100, 200, 300]);
        assert_eq!(
            bases(&expired(&four, 40, 251, &config)),
            [0, 10],
            "the next segment was begun over 50 ms ago"
        );
        assert_eq!(bases(&expired(&four, 19, 251, &config)), [0]);
        assert_eq!(bases(&expired(&four, 9, 251, &config)), [] as [u64; 0]);
        let config = EmbeddedConfig {
            retention_bytes_max: 250,
            ..config
        };
        assert_eq!(
            bases(&expired(&four, 40, 0, &config)),
            [0, 10],
            "400 bytes, 250 allowed"
        );
        assert_eq!(bases(&expired(&four, 10, 0, &config)), [0]);
        let config = EmbeddedConfig {
            retention_bytes_max: 0,
            ..config
        };
        assert_eq!(
            bases(&expired(&four, 40, 0, &config)),
            [0, 10, 20],
            "never the one being written"
        );
    }

    /// A gap between segments is damage, so none may be made by a deletion that fails or is lost.
    #[test]
    fn deletes_in_order_whatever_fails() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let config = EmbeddedConfig {
            segment_bytes: 64 << 10,
            record_bytes_max: 16 << 10,
            min_free_bytes: 0,
            retention_bytes_max: 0,
            ..EmbeddedConfig::default()
        };
        for (seed, at) in (0..16).flat_map(|seed| (0..6).map(move |at| (seed, at))) {
            let disk = Disk::new(seed);
            let dir = disk.home().join("log");
            let open = || EmbeddedLog::assemble(Topic::Receipts, &dir, config.clone()).unwrap();
            let (log, mut writer, sealed) = open();
            for round in 1..=2 {
                for number in 0..130 {
                    drop(log.append(record(number, String::new())));
                    while log.shared().queue.bytes() > 0 {
                        writer.step();
                    }
                }
                let commit = Commit {
                    partition: 0,
                    epoch: log.epoch(),
                    next_offset: round * 130,
                    metadata: String::new(),
                };
                let mut reader = log.consumer("readers").unwrap();
                runtime.block_on(reader.commit(vec![commit])).unwrap();
                let now = disk.operations() + at;
                if round == 1 && seed % 2 == 0 {
                    disk.lose_power_at(now, || {});
                } else if round == 1 {
                    disk.fail(now..now + 1);
                }
                if catch_unwind(AssertUnwindSafe(|| enforce(log.shared()))).is_err() {
                    break;
                }
                disk.fail(0..0);
            }
            drop((log, writer, sealed));
            disk.lose_power();
            open();
        }
    }
}
