//! A log read beside the process that writes it: no lock, no change.

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;

use super::{
    catalog::{Catalog, Segment},
    clock::LogClock,
    error::OpenError,
    identity,
    inspect::{at_offset, last, look, only_partition},
    positions,
    reader::{DurableExtent, ReadCursor, ReadError},
    recovery::open_segment,
    scan::{Span, Until, scan},
    segment_file::{FRAMES_START, SegmentReader, segment_bases, segment_path},
};
use crate::{
    record::LoggedRecord,
    traits::{InspectError, LogInspector, PartitionState},
};

/// Times that a file is read again, because apparent damage may be a write in progress.
const LOOKS_MAX: u32 = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// A log opened for looking only. Sees every acknowledged record and every commit, also while
/// another process writes. Clones are the same.
#[derive(Clone, Debug)]
pub struct ReadOnlyLog {
    view: Arc<SegmentView>,
}

#[derive(Debug)]
struct SegmentView {
    dir: PathBuf,
    epoch: u32,
    clock: LogClock,
    catalog: Catalog,
    progress: Mutex<ReadProgress>,
}

/// Progress of reading the newest segment.
#[derive(Debug, Clone, Copy, Default)]
struct ReadProgress {
    base: Option<u64>,
    end_offset: u64,
    end_at: u64,
}

impl ReadOnlyLog {
    #[allow(clippy::disallowed_methods)] // opening blocks on the disk anyway
    pub(super) fn open(dir: &Path) -> Result<Self, OpenError> {
        let epoch = identity::read(dir)?.ok_or_else(|| OpenError::Missing(dir.to_owned()))?;
        let view = SegmentView {
            dir: dir.to_owned(),
            epoch,
            clock: LogClock::new(0),
            catalog: Catalog::default(),
            progress: Mutex::default(),
        };
        let mut looks = 1;
        loop {
            match view.look(Until::Tail) {
                Ok(_) => return Ok(Self { view: Arc::new(view) }),
                Err(error) if looks == LOOKS_MAX => return Err(error),
                Err(_) => {
                    looks += 1;
                    std::thread::sleep(LOOK_PAUSE);
                }
            }
        }
    }

    /// The epoch of the log.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.view.epoch
    }

    /// The offsets that are stored.
    pub(super) fn stored(&self) -> Result<Range<u64>, OpenError> {
        let end = self.view.look(Until::Tail)?;
        Ok(self.view.catalog.begin()..end)
    }
}

impl SegmentView {
    /// Brings the catalog up to date and answers the end of what is durable.
    fn look(&self, until: Until) -> Result<u64, OpenError> {
        let mut progress = self.progress.lock();
        let bases = segment_bases(&self.dir).map_err(OpenError::io(&self.dir))?;
        let Some((&first, &last)) = bases.first().zip(bases.last()) else {
            return Ok(0);
        };
        self.catalog.forget_before(first);
        let newest = self.catalog.last().map(|segment| segment.base);
        for &base in bases.iter().filter(|&&base| newest.is_none_or(|newest| base > newest)) {
            let (_, header) = match open_segment(&self.dir, self.epoch, base) {
                // Deleted by retention since it was listed.
                Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let path = segment_path(&self.dir, base);
            self.catalog
                .push(Segment::new(base, header.created_at_ms, path, 0, None));
        }
        if progress.base != Some(last) {
            *progress = ReadProgress {
                base: Some(last),
                end_offset: last,
                end_at: FRAMES_START,
            };
        }
        let path = segment_path(&self.dir, last);
        let reader = SegmentReader::open(&path).map_err(OpenError::io(&path))?;
        let span = Span {
            epoch: self.epoch,
            from: (progress.end_offset, progress.end_at),
            until,
        };
        let found = scan(&reader, span).map_err(OpenError::io(&path))?;
        let found = found.map_err(|damage| OpenError::damaged(&path, damage.at, damage.detail))?;
        if found.end_offset > progress.end_offset {
            // The newest write may not be synced yet: what is reported must survive a power loss.
            reader.sync().map_err(OpenError::io(&path))?;
            if let Some((segment, _)) = self.catalog.find(progress.end_offset) {
                found.index.iter().for_each(|&(offset, at)| segment.note(offset, at));
            }
            progress.end_offset = found.end_offset;
            progress.end_at = found.end_at;
        }
        Ok(progress.end_offset)
    }

    fn extent(&self, end_offset: u64) -> DurableExtent<'_> {
        DurableExtent {
            catalog: &self.catalog,
            epoch: self.epoch,
            end_offset,
        }
    }

    fn partition_state(&self, group: &str) -> Result<PartitionState, InspectError> {
        let now_ms = self.clock.now_ms();
        let committed = if positions::is_group_name(group) {
            positions::load_one(&self.dir, group, self.epoch)
                .map_err(unavailable)?
                .flatten()
        } else {
            None
        };
        let end_offset = self.look(Until::Growing).map_err(unavailable)?;
        let begin_offset = self.catalog.begin();
        let next_offset = committed.as_ref().map_or(0, |made| made.next_offset).max(begin_offset);
        if next_offset > end_offset {
            let detail = format!("damaged: offset {next_offset} was committed, but records end at {end_offset}");
            return Err(InspectError::Unavailable(detail));
        }
        let complete_through_ms = if next_offset == end_offset {
            now_ms
        } else {
            self.read_despite_retention(|| self.extent(end_offset).appended_at_ms(next_offset))?
        };
        Ok(PartitionState {
            partition: 0,
            epoch: self.epoch,
            begin_offset,
            end_offset,
            committed,
            complete_through_ms,
        })
    }

    fn read(&self, offset: u64, bytes_max: usize) -> Result<Vec<LoggedRecord>, InspectError> {
        let mut end_offset = self.progress.lock().end_offset;
        if offset >= end_offset {
            end_offset = self.look(Until::Growing).map_err(unavailable)?;
        }
        let read = || {
            let extent = self.extent(end_offset);
            extent.read(&mut ReadCursor::default(), offset, usize::MAX, bytes_max)
        };
        self.read_despite_retention(read)
            .map_err(|error| at_offset(error, offset))
    }

    /// Reads, and again where the writer's retention has deleted a segment since it was listed.
    fn read_despite_retention<T>(&self, read: impl Fn() -> Result<T, ReadError>) -> Result<T, ReadError> {
        let mut looks = 1;
        loop {
            match read() {
                Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound && looks < LOOKS_MAX => {
                    looks += 1;
                    self.look(Until::Growing).map_err(io::Error::other)?;
                }
                found => return found,
            }
        }
    }
}

fn unavailable(error: OpenError) -> InspectError {
    InspectError::Unavailable(error.to_string())
}

impl LogInspector for ReadOnlyLog {
    fn partitions(&self, group: &str) -> BoxFuture<'_, Result<Vec<PartitionState>, InspectError>> {
        let (view, group) = (Arc::clone(&self.view), group.to_owned());
        look(move || Ok(vec![view.partition_state(&group)?])).boxed()
    }

    fn read(
        &self,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Vec<LoggedRecord>, InspectError>> {
        let view = Arc::clone(&self.view);
        look(move || {
            only_partition(partition)?;
            view.read(offset, bytes_max)
        })
        .boxed()
    }

    fn last(&self, partition: u32) -> BoxFuture<'_, Result<Option<LoggedRecord>, InspectError>> {
        let view = Arc::clone(&self.view);
        look(move || {
            only_partition(partition)?;
            let end_offset = view.look(Until::Growing).map_err(unavailable)?;
            last(view.extent(end_offset))
        })
        .boxed()
    }
}
