//! List of the segments, and search of an offset in them.

use std::{collections::VecDeque, io, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, RwLock};

use super::{
    scan::{INDEX_STEP_BYTES, SegmentDamage, Span, Until, scan},
    segment_file::{FRAMES_START, SegmentReader},
};

/// A segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// The offset of its first record.
    pub(super) base: u64,
    /// No record of it is older, none of an earlier segment newer.
    pub(super) created_at_ms: i64,
    pub(super) path: PathBuf,
    index: Mutex<SegmentIndex>,
}

/// (offset, byte) of some frames, in order; `None` until a reader needs it, for sealed segments
/// that were not checked when the log was opened.
#[derive(Debug)]
struct SegmentIndex {
    entries: Option<Vec<(u64, u64)>>,
    bytes: u64,
}

impl Segment {
    /// A segment of `bytes` on disk; `index` is what a scan found.
    pub(super) fn new(
        base: u64,
        created_at_ms: i64,
        path: PathBuf,
        bytes: u64,
        index: Option<Vec<(u64, u64)>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            base,
            created_at_ms,
            path,
            index: Mutex::new(SegmentIndex { entries: index, bytes }),
        })
    }

    /// Notes that the frame of `offset` starts at byte `at`.
    pub(super) fn note(&self, offset: u64, at: u64) {
        if let Some(entries) = &mut self.index.lock().entries
            && entries
                .last()
                .is_none_or(|&(_, indexed)| at >= indexed + INDEX_STEP_BYTES as u64)
        {
            entries.push((offset, at));
        }
    }

    /// Bytes on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.index.lock().bytes
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.index.lock().bytes = bytes;
    }

    /// The nearest indexed frame at or before `offset`. Reads the whole segment once if nothing was
    /// indexed yet.
    pub(super) fn nearest(
        &self,
        reader: &SegmentReader,
        epoch: u32,
        offset: u64,
        end_offset: Option<u64>,
    ) -> io::Result<Result<(u64, u64), SegmentDamage>> {
        let existing = self
            .index
            .lock()
            .entries
            .as_ref()
            .map(|entries| self.nearest_of(entries, offset));
        if let Some(nearest) = existing {
            return Ok(Ok(nearest));
        }
        Ok(
            match scan(
                reader,
                Span::whole(epoch, self.base, end_offset.map_or(Until::Growing, Until::Offset)),
            )? {
                Ok(scanned) => {
                    let nearest = self.nearest_of(&scanned.index, offset);
                    self.index.lock().entries = Some(scanned.index);
                    Ok(nearest)
                }
                Err(damage) => Err(damage),
            },
        )
    }

    fn nearest_of(&self, entries: &[(u64, u64)], offset: u64) -> (u64, u64) {
        let behind = entries.partition_point(|&(indexed, _)| indexed <= offset);
        if behind == 0 {
            (self.base, FRAMES_START)
        } else {
            entries[behind - 1]
        }
    }
}

/// All segments, oldest first. The last one is being written.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    segments: RwLock<VecDeque<Arc<Segment>>>,
}

impl Catalog {
    /// Adds the newest segment. One of the same base held nothing durable: it was replaced.
    pub(super) fn push(&self, segment: Arc<Segment>) {
        let mut segments = self.segments.write();
        while segments.back().is_some_and(|last| last.base >= segment.base) {
            segments.pop_back();
        }
        segments.push_back(segment);
    }

    /// The segment that holds `offset` and the base of the one after it.
    pub(super) fn find(&self, offset: u64) -> Option<(Arc<Segment>, Option<u64>)> {
        let segments = self.segments.read();
        let behind = segments.partition_point(|segment| segment.base <= offset);
        let found = segments.get(behind.checked_sub(1)?)?;
        Some((Arc::clone(found), segments.get(behind).map(|next| next.base)))
    }

    /// The oldest stored offset.
    pub(super) fn begin(&self) -> u64 {
        self.segments.read().front().map_or(0, |first| first.base)
    }

    /// The newest segment.
    pub(super) fn last(&self) -> Option<Arc<Segment>> {
        self.segments.read().back().cloned()
    }

    /// All segments, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Segment>> {
        self.segments.read().iter().cloned().collect()
    }

    /// Bytes of all segments on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.read().iter().map(|segment| segment.bytes()).sum()
    }

    /// Forgets segments that begin before `begin`.
    pub(super) fn forget_before(&self, begin: u64) {
        let mut segments = self.segments.write();
        while segments.front().is_some_and(|first| first.base < begin) {
            segments.pop_front();
        }
    }

    /// Forgets the oldest segment if it is the one of `base`.
    pub(super) fn forget_oldest(&self, base: u64) {
        let mut segments = self.segments.write();
        if segments.front().is_some_and(|first| first.base == base) {
            segments.pop_front();
        }
    }
}
