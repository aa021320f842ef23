//! Deleting old segments, and never a record that some group still needs.

use std::sync::Arc;

use super::{
    catalog::Segment,
    config::EmbeddedConfig,
    disk::{self, sync_dir},
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
    let gone = shared.groups.while_none_joins(|committed_by_all| {
        // The newest record stays, whatever its age: `last` must find it.
        let deletable = committed_by_all.min(shared.end_offset().saturating_sub(1));
        let gone = expired(&shared.catalog.all(), deletable, now_ms, &shared.config);
        gone.iter()
            .for_each(|segment| shared.catalog.forget_oldest(segment.base));
        gone
    });
    for segment in &gone {
        tracing::info!(segment = %segment.path.display(), bytes = segment.bytes(), "deleting an old segment");
        if let Err(error) = disk::remove_file(&segment.path) {
            tracing::warn!(%error, segment = %segment.path.display(), "can't delete an old segment");
        }
    }
    if !gone.is_empty()
        && let Err(error) = sync_dir(&shared.dir)
    {
        tracing::warn!(%error, "can't sync the log's directory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
