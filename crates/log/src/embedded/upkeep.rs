//! The thread for everything that must not delay a write: retention, free space, gauges, and
//! the space behind sealed segments.

use std::{io, sync::Arc, time::Duration};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::{catalog::Segment, config::EmbeddedConfig, disk::File, retention, shared::LogState};

/// Pause of upkeep when nothing happens.
const PAUSE: Duration = Duration::from_secs(1);

/// A segment that is full: its file may be cut to its frames.
#[derive(Debug)]
pub(super) struct SealedSegment {
    pub(super) segment: Arc<Segment>,
    pub(super) end_at: u64,
}

/// Works until the writer is gone.
pub(super) fn run(shared: &LogState, sealed: &Receiver<SealedSegment>) {
    loop {
        look_around(shared);
        match sealed.recv_timeout(PAUSE) {
            Ok(segment) => cut(&segment),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Frees the reserved space behind a sealed segment's frames.
pub(super) fn cut(sealed: &SealedSegment) {
    let path = &sealed.segment.path;
    match File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_len(sealed.end_at))
    {
        Ok(()) => sealed.segment.set_bytes(sealed.end_at),
        // Retention may have been faster.
        Err(error) => tracing::debug!(%error, segment = %path.display(), "can't cut a sealed segment"),
    }
}

/// Does a round of upkeep: also done once when the log is opened.
pub(super) fn look_around(shared: &LogState) {
    retention::enforce(shared);
    shared.queue.set_low_space(low_space(shared));
    let meters = &shared.meters;
    meters
        .writable
        .set(if shared.queue.refusal().is_none() { 1.0 } else { 0.0 });
    meters.queue_bytes.set(shared.queue.bytes() as f64);
    meters.disk_bytes.set(shared.catalog.bytes() as f64);
    meters.end_offset.set(shared.end_offset() as f64);
    if let Some(free) = free_bytes(shared) {
        meters.disk_free_bytes.set(free as f64);
    }
}

/// Why no records should be taken although the disk takes them still.
fn low_space(shared: &LogState) -> Option<Arc<str>> {
    lacking(shared, shared.config.min_free_bytes).map(Arc::from)
}

/// Whether a new segment leaves the space free that others on this disk are to have: it takes all
/// of its own at once.
pub(super) fn room_for_segment(shared: &LogState) -> io::Result<()> {
    let EmbeddedConfig {
        min_free_bytes,
        segment_bytes,
        ..
    } = shared.config;
    match lacking(shared, min_free_bytes.saturating_add(segment_bytes)) {
        Some(lacking) => Err(io::Error::new(io::ErrorKind::StorageFull, lacking)),
        None => Ok(()),
    }
}

fn lacking(shared: &LogState, wanted: u64) -> Option<String> {
    if shared.config.min_free_bytes == 0 {
        return None;
    }
    let free = free_bytes(shared)?;
    (free < wanted).then(|| format!("{free} bytes are free on the log's disk, {wanted} are wanted"))
}

/// Bytes that an ordinary user may still write on the log's disk.
fn free_bytes(shared: &LogState) -> Option<u64> {
    let found = rustix::fs::statvfs(&shared.dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
