//! Recovery of a log that is opened: segments that follow each other, and at most one torn tail.

use std::{
    io::{
        self,
        ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem},
    },
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use super::{
    catalog::{Catalog, Segment},
    config::EmbeddedConfig,
    disk::{self, reserve, sync_dir},
    error::OpenError,
    identity,
    positions::{self, POSITIONS},
    scan::{Scan, Span, Until, scan},
    segment_file::{SegmentHeader, SegmentReader, discard_unfinished, open_for_append, segment_bases, segment_path},
};
use crate::traits::Committed;

/// The unsealed segment, ready for the next frame.
pub(super) struct Tail {
    pub(super) segment: Arc<Segment>,
    /// Position of the next frame.
    pub(super) end_at: u64,
}

/// A recovered log.
pub(super) struct Recovered {
    pub(super) epoch: u32,
    pub(super) catalog: Catalog,
    /// `None` in a log that never held a segment.
    pub(super) tail: Option<Tail>,
    pub(super) end_offset: u64,
    /// Time of the newest stored record.
    pub(super) newest_ms: i64,
    pub(super) groups: Vec<(String, Option<Committed>)>,
}

/// Opens a segment's file and checks its header.
pub(super) fn open_segment(dir: &Path, epoch: u32, base: u64) -> Result<(SegmentReader, SegmentHeader), OpenError> {
    let path = segment_path(dir, base);
    let reader = SegmentReader::open(&path).map_err(OpenError::io(&path))?;
    let header = reader.header().map_err(OpenError::io(&path))?;
    let header = header.map_err(|fault| OpenError::damaged(&path, 0, fault))?;
    if header.epoch != epoch || header.base != base {
        let detail = format!("it is of epoch {} and starts at offset {}", header.epoch, header.base);
        return Err(OpenError::damaged(&path, 0, detail));
    }
    Ok((reader, header))
}

fn scan_segment(path: &Path, reader: &SegmentReader, span: Span) -> Result<Scan, OpenError> {
    let scanned = scan(reader, span).map_err(OpenError::io(path))?;
    scanned.map_err(|damage| {
        OpenError::damaged(
            path,
            damage.at,
            format!("{}, where offset {} should stand", damage.detail, damage.offset),
        )
    })
}

/// Finds out what the log holds and cuts a torn tail off. The caller holds the lock.
pub(super) fn recover(dir: &Path, config: &EmbeddedConfig) -> Result<Recovered, OpenError> {
    discard_unfinished(dir).map_err(OpenError::io(dir))?;
    let bases = segment_bases(dir).map_err(OpenError::io(dir))?;
    let epoch = match identity::read(dir)? {
        Some(epoch) => epoch,
        None if bases.is_empty() => identity::create(dir)?,
        None => return Err(OpenError::damaged(dir, 0, "there are segments but no log.json")),
    };
    let groups = positions::load(dir, epoch)?;
    let committed = groups
        .iter()
        .filter_map(|(_, made)| made.as_ref())
        .map(|made| made.next_offset)
        .max();
    let Some(&last_base) = bases.last() else {
        if committed.is_some() {
            return Err(OpenError::damaged(
                dir,
                0,
                "there are committed positions but no segments",
            ));
        }
        // Nothing was ever acknowledged from here, or someone took the segments away: begin a new
        // life, so that no position comes twice.
        let epoch = identity::create(dir)?;
        return Ok(Recovered {
            epoch,
            catalog: Catalog::default(),
            tail: None,
            end_offset: 0,
            newest_ms: 0,
            groups,
        });
    };

    let catalog = Catalog::default();
    let mut unchecked_bytes = config.open_check_bytes_max;
    let mut sealed = Vec::new();
    for pair in bases.windows(2).rev() {
        let (base, next_base) = (pair[0], pair[1]);
        let (reader, header) = open_segment(dir, epoch, base)?;
        let path = segment_path(dir, base);
        let bytes = reader.length().map_err(OpenError::io(&path))?;
        let index = if unchecked_bytes == 0 {
            None
        } else {
            Some(scan_segment(&path, &reader, Span::whole(epoch, base, Until::Offset(next_base)))?.index)
        };
        unchecked_bytes = unchecked_bytes.saturating_sub(bytes);
        sealed.push(Segment::new(base, header.created_at_ms, path, bytes, index));
    }
    sealed.into_iter().rev().for_each(|segment| catalog.push(segment));

    let (reader, header) = open_segment(dir, epoch, last_base)?;
    let path = segment_path(dir, last_base);
    let scanned = scan_segment(&path, &reader, Span::whole(epoch, last_base, Until::Tail))?;
    if let Some(committed) = committed.filter(|&committed| committed > scanned.end_offset) {
        let detail = format!(
            "the records end at offset {}, but a position was committed at {committed}: durable records are lost",
            scanned.end_offset
        );
        return Err(OpenError::damaged(&path, scanned.end_at, detail));
    }
    if scanned.torn_bytes > 0 {
        tracing::warn!(
            segment = %path.display(),
            offset = scanned.end_offset,
            at = scanned.end_at,
            bytes = scanned.torn_bytes,
            "cutting off the rest of a write that was never acknowledged"
        );
    }
    let bytes = cut_tail(&path, &reader, &scanned, config.segment_bytes)?;
    let segment = Segment::new(last_base, header.created_at_ms, path, bytes, Some(scanned.index));
    catalog.push(Arc::clone(&segment));
    Ok(Recovered {
        epoch,
        catalog,
        tail: Some(Tail {
            segment,
            end_at: scanned.end_at,
        }),
        end_offset: scanned.end_offset,
        newest_ms: scanned.last_appended_ms.unwrap_or(0).max(header.created_at_ms),
        groups,
    })
}

/// Frees what follows the last frame and reserves the space again: zeros, so that no stale
/// frame can ever be taken for a new one. Answers the file's length.
///
/// The last group is written again. Its sync may have failed in a process that was killed before
/// it could cut the group off. Then its pages look written to later syncs, and get lost with the
/// power.
fn cut_tail(path: &Path, reader: &SegmentReader, scanned: &Scan, segment_bytes: u64) -> Result<u64, OpenError> {
    let &Scan { group_at, end_at, .. } = scanned;
    let bytes = usize::try_from(end_at.saturating_sub(group_at)).unwrap_or(usize::MAX);
    let group = reader.read_at(group_at, bytes).map_err(OpenError::io(path))?;
    let file = open_for_append(path).map_err(OpenError::io(path))?;
    file.set_len(end_at).map_err(OpenError::io(path))?;
    file.write_all_at(&group, group_at).map_err(OpenError::io(path))?;
    if let Err(error) = reserve(&file, segment_bytes) {
        // The disk is full: opening is still right, for consumers and retention. Appends will find
        // out.
        tracing::warn!(%error, segment = %path.display(), "can't reserve space for the segment");
    }
    file.sync_all().map_err(OpenError::io(path))?;
    Ok(file.metadata().map_err(OpenError::io(path))?.len())
}

/// Makes the directories of a log, and makes them durable: what is acknowledged must not vanish
/// with a folder.
pub(super) fn create_dirs(dir: &Path) -> Result<(), OpenError> {
    let positions = dir.join(POSITIONS);
    let absolute = std::path::absolute(&positions).map_err(OpenError::io(dir))?;
    create_dir(&absolute).map_err(OpenError::io(&positions))?;
    // A process that was killed may have renamed files here without syncing: what is about to be
    // read must last. The log's own directory has just been synced.
    sync_dir(&positions).map_err(OpenError::io(&positions))
}

/// Makes a directory and those above it that are missing, each durable before the next one. So a
/// process that was killed can have left no more than one behind that isn't durable: the lowest.
/// The parent is synced in any case.
fn create_dir(dir: &Path) -> io::Result<()> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    if disk::exists(dir)? {
        return match sync_dir(parent) {
            // It was made by someone else: the file system is read-only or has no such sync, or
            // this process may not read there.
            Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem) => Ok(()),
            synced => synced,
        };
    }
    create_dir(parent)?;
    disk::create_dir(dir)?;
    sync_dir(parent)
}
