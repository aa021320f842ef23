//! The writing thread: gathers what is queued, writes it with one write and one sync, then answers
//! everyone.

use std::{
    io,
    os::unix::fs::FileExt,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use crossbeam_channel::Sender;

use super::{
    catalog::Segment,
    disk::File,
    frame::{self, Encoder, Stamp},
    queue::{AppendGroup, Grouped, Took},
    recovery::Tail,
    scan::INDEX_STEP_BYTES,
    segment_file::{self, FRAMES_START, SegmentHeader, open_for_append, segment_path},
    shared::LogState,
    upkeep::{SealedSegment, room_for_segment},
};
use crate::{
    record::{Appended, LoggedRecord, Position},
    traits::AppendError,
};

/// After a failure the log tries to write again after so long, doubling up to the second.
const PROBE_PAUSE_MIN: Duration = Duration::from_millis(100);
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The segment being written.
struct ActiveSegment {
    file: File,
    segment: Arc<Segment>,
    /// End of the durable frames.
    end_at: u64,
    /// Start of the last indexed frame.
    indexed_at: u64,
}

/// State of the writing thread.
pub(super) struct SegmentWriter {
    shared: Arc<LogState>,
    sealed: Sender<SealedSegment>,
    /// `None` before the first segment, and after a failure: what was being written can't be
    /// trusted any more (a failed sync drops dirty pages, and the next one would succeed), so
    /// writing continues in a new segment.
    active: Option<ActiveSegment>,
    /// Frames of the group that is being written.
    buffer: Vec<u8>,
    encoder: Encoder,
    group: AppendGroup,
    probe_pause: Duration,
}

impl SegmentWriter {
    /// A writer that continues where recovery found the end, or begins a log's first segment.
    pub(super) fn begin(shared: Arc<LogState>, sealed: Sender<SealedSegment>, tail: Option<Tail>) -> io::Result<Self> {
        let active = match tail {
            None => None,
            Some(Tail { segment, end_at }) => Some(ActiveSegment {
                file: open_for_append(&segment.path)?,
                segment,
                end_at,
                indexed_at: 0,
            }),
        };
        let mut writer = Self {
            shared,
            sealed,
            active,
            buffer: Vec::new(),
            encoder: Encoder::new()?,
            group: AppendGroup::default(),
            probe_pause: PROBE_PAUSE_MIN,
        };
        if writer.active.is_none() {
            writer.roll()?;
        }
        Ok(writer)
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let _guard = PanicGuard(Arc::clone(&self.shared));
        while self.step() {
            while !self.is_writing() && !self.shared.queue.closes_within(self.probe_pause) {
                self.probe_pause = (self.probe_pause * 2).min(PROBE_PAUSE_MAX);
                self.probe();
            }
        }
        self.cut_active();
    }

    /// Writes the next group or begins the next segment; answers whether more may come. Blocks
    /// until there is something to do. After a failure the log refuses records.
    pub(super) fn step(&mut self) -> bool {
        let (limit, room) = (self.shared.config.group_bytes_max, self.room());
        let done = match self.shared.queue.take(&mut self.group, limit, room) {
            Took::Group => self.write_group().map_err(|error| format!("writing failed: {error}")),
            Took::NoRoom => self
                .roll_on()
                .map_err(|error| format!("no new segment can be made: {error}")),
            Took::Closed => return false,
        };
        if let Err(reason) = done {
            self.refuse(&Arc::from(reason));
        }
        true
    }

    /// Whether records are taken: no write has failed since the last successful probe.
    pub(super) fn is_writing(&self) -> bool {
        self.active.is_some()
    }

    /// Bytes that still fit into the segment.
    fn room(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| {
            self.shared.config.segment_bytes.saturating_sub(active.end_at)
        })
    }

    fn write_group(&mut self) -> io::Result<()> {
        let Some(active) = &mut self.active else {
            return Err(io::Error::other("there is no segment"));
        };
        let first = self.shared.end_offset();
        let appended_at_ms = self.shared.clock.now_ms();
        self.buffer.clear();
        self.buffer.reserve(self.group.bytes);
        for (offset, grouped) in (first..).zip(&self.group.records) {
            let at = active.end_at + self.buffer.len() as u64;
            if at >= active.indexed_at + INDEX_STEP_BYTES as u64 {
                active.segment.note(offset, at);
                active.indexed_at = at;
            }
            let stamp = Stamp {
                epoch: self.shared.epoch,
                offset,
                group_base: first,
                appended_at_ms,
                continues: grouped.continues,
            };
            frame::encode(&mut self.encoder, &mut self.buffer, &grouped.record, stamp);
        }
        let started = Instant::now();
        active.file.write_all_at(&self.buffer, active.end_at)?;
        active.file.sync_data()?;
        self.shared.meters.sync_seconds.record(started.elapsed().as_secs_f64());
        active.end_at += self.buffer.len() as u64;
        self.probe_pause = PROBE_PAUSE_MIN;
        self.publish(first, appended_at_ms);
        Ok(())
    }

    /// The group is durable: consumers may see it and producers hear of it, in this order, so that
    /// whoever requests the end after an acknowledgement finds the record before it.
    fn publish(&mut self, first: u64, appended_at_ms: i64) {
        let shared = &self.shared;
        let (records, bytes) = (self.group.records.len(), self.group.bytes);
        let end_offset = first + records as u64;
        shared.times.lock().push(first, end_offset, appended_at_ms);
        {
            let mut cache = shared.cache.lock();
            if cache.is_read() {
                for (offset, Grouped { record, .. }) in (first..).zip(self.group.records.drain(..)) {
                    let position = Position {
                        epoch: shared.epoch,
                        partition: 0,
                        offset,
                    };
                    cache.push(LoggedRecord {
                        position,
                        appended_at_ms,
                        record,
                    });
                }
            }
        }
        shared.end_offset.store(end_offset, Ordering::Release);
        shared.queue.release(records, bytes);
        let epoch = shared.epoch;
        self.group.answer(|index| {
            Ok(Appended {
                position: Position {
                    epoch,
                    partition: 0,
                    offset: first + index,
                },
                appended_at_ms,
            })
        });
        shared.news.notify_waiters();
        let meters = &shared.meters;
        meters.group_records.record(records as f64);
        meters.appends.increment(records as u64);
        meters.append_bytes.increment(bytes as u64);
    }

    /// Continues in a new segment, if that leaves the wanted space free.
    fn roll_on(&mut self) -> io::Result<()> {
        room_for_segment(&self.shared)?;
        self.roll()
    }

    /// Continues in a new segment.
    fn roll(&mut self) -> io::Result<()> {
        let shared = &self.shared;
        let base = shared.end_offset();
        let header = SegmentHeader {
            epoch: shared.epoch,
            base,
            created_at_ms: shared.clock.now_ms(),
        };
        let bytes = shared.config.segment_bytes;
        let file = segment_file::create(&shared.dir, &header, bytes)?;
        let path = segment_path(&shared.dir, base);
        let segment = Segment::new(base, header.created_at_ms, path, bytes, Some(Vec::new()));
        shared.catalog.push(Arc::clone(&segment));
        let before = self.active.replace(ActiveSegment {
            file,
            segment,
            end_at: FRAMES_START,
            indexed_at: 0,
        });
        if let Some(ActiveSegment { segment, end_at, .. }) = before {
            // If upkeep is that far behind, the segment merely keeps its reserved space.
            let _ = self.sealed.try_send(SealedSegment { segment, end_at });
        }
        Ok(())
    }

    /// Answers everyone that the log can't store now.
    fn refuse(&mut self, reason: &Arc<str>) {
        tracing::error!(%reason, end_offset = self.shared.end_offset(), "the log refuses records");
        self.shared.queue.fail(reason);
        self.shared.queue.release(self.group.records.len(), self.group.bytes);
        self.group.answer(|_| Err(AppendError::Unavailable(reason.to_string())));
        self.shared.meters.writable.set(0.0);
        self.cut_active();
        self.active = None;
    }

    /// Tries to write again, in a new segment.
    pub(super) fn probe(&mut self) {
        if let Err(error) = self.roll_on() {
            tracing::debug!(%error, "the log still can't write");
            return;
        }
        self.shared.queue.recover();
        self.shared.meters.writable.set(1.0);
        tracing::info!(end_offset = self.shared.end_offset(), "the log takes records again");
    }

    /// Brings the file back to its durable length.
    fn cut_active(&self) {
        let Some(ActiveSegment {
            file, segment, end_at, ..
        }) = &self.active
        else {
            return;
        };
        match file.set_len(*end_at).and_then(|()| file.sync_all()) {
            Ok(()) => segment.set_bytes(*end_at),
            Err(error) => tracing::warn!(%error, segment = %segment.path.display(), "can't cut the segment"),
        }
    }
}

/// A writer that dies by a bug must not leave producers waiting for ever.
struct PanicGuard(Arc<LogState>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.fail(&Arc::from("the writing thread stopped"));
            self.0.meters.writable.set(0.0);
        }
    }
}
