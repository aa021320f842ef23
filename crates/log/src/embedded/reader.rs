//! Reading records from segment files. Blocks on the disk: never call it on a tokio worker.

use std::{io, sync::Arc};

use super::{
    catalog::{Catalog, Segment},
    frame::{FrameHead, HEAD},
    scan::{INDEX_STEP_BYTES, SegmentDamage, Walker},
    segment_file::SegmentReader,
};
use crate::record::LoggedRecord;

/// Bytes read at a time, at least and at most (a single record may take more).
const CHUNK_BYTES_MIN: usize = 64 << 10;
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Why stored records could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// Retention has deleted the offset.
    Gone { begin: u64 },
    /// The records are not what was written.
    Damaged(SegmentDamage),
    /// The disk failed.
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The durable part of a log, as a reader sees it at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct DurableExtent<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) epoch: u32,
    /// Offset behind the last durable record.
    pub(super) end_offset: u64,
}

/// End of the last read, so that the next one needs no search.
#[derive(Debug, Default)]
pub(super) struct ReadCursor {
    position: Option<FramePosition>,
}

#[derive(Debug)]
struct FramePosition {
    segment: Arc<Segment>,
    reader: SegmentReader,
    offset: u64,
    at: u64,
}

impl DurableExtent<'_> {
    /// Records from `offset` on: whole ones, at least one, at most `records_max` and `bytes_max`
    /// bytes of bodies; empty at the end. Their bodies share one allocation.
    pub(super) fn read(
        &self,
        cursor: &mut ReadCursor,
        offset: u64,
        records_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<LoggedRecord>, ReadError> {
        if offset >= self.end_offset {
            return Ok(Vec::new());
        }
        let Some((segment, next_base)) = self.catalog.find(offset) else {
            return Err(ReadError::Gone {
                begin: self.catalog.begin(),
            });
        };
        let mut position = self.position(cursor, segment, offset, next_base)?;
        let end = next_base.map_or(self.end_offset, |base| base.min(self.end_offset));
        let records = position.read(self.epoch, end, records_max.max(1), bytes_max)?;
        cursor.position = Some(position);
        Ok(records)
    }

    /// When the record at `offset` was appended.
    pub(super) fn appended_at_ms(&self, offset: u64) -> Result<i64, ReadError> {
        let found = self.read(&mut ReadCursor::default(), offset, 1, 1)?;
        found
            .first()
            .map(|record| record.appended_at_ms)
            .ok_or(ReadError::Gone {
                begin: self.catalog.begin(),
            })
    }

    fn position(
        &self,
        cursor: &mut ReadCursor,
        segment: Arc<Segment>,
        offset: u64,
        next_base: Option<u64>,
    ) -> Result<FramePosition, ReadError> {
        if let Some(position) = cursor.position.take()
            && position.offset == offset
            && Arc::ptr_eq(&position.segment, &segment)
        {
            return Ok(position);
        }
        let reader = match SegmentReader::open(&segment.path) {
            Ok(reader) => reader,
            // Retention was faster than this read.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.catalog.begin() > offset => {
                return Err(ReadError::Gone {
                    begin: self.catalog.begin(),
                });
            }
            Err(error) => return Err(error.into()),
        };
        let (mut indexed, at) = segment
            .nearest(&reader, self.epoch, offset, next_base)?
            .map_err(ReadError::Damaged)?;
        let mut walker = Walker::new(&reader, self.epoch, at).in_chunks_of(INDEX_STEP_BYTES);
        while indexed < offset {
            let at = walker.at();
            match walker.step(indexed)? {
                Ok(_) => indexed += 1,
                Err(fault) => return Err(damaged(&segment, at, indexed, fault)),
            }
        }
        let at = walker.at();
        Ok(FramePosition {
            segment,
            reader,
            offset,
            at,
        })
    }
}

fn damaged(segment: &Segment, at: u64, offset: u64, fault: &str) -> ReadError {
    let detail = format!("{fault}, at byte {at} of {}", segment.path.display());
    ReadError::Damaged(SegmentDamage { at, offset, detail })
}

impl FramePosition {
    fn read(
        &mut self,
        epoch: u32,
        end: u64,
        records_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<LoggedRecord>, ReadError> {
        let mut chunk = self
            .reader
            .read_at(self.at, bytes_max.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX))?;
        let mut records = Vec::new();
        let mut bytes = 0;
        while self.offset < end && records.len() < records_max {
            if chunk.len() < HEAD && !records.is_empty() {
                break;
            }
            let head = match FrameHead::parse(&chunk) {
                Ok(head) if head.stamp.epoch == epoch && head.stamp.offset == self.offset => head,
                Ok(_) => {
                    return Err(damaged(
                        &self.segment,
                        self.at,
                        self.offset,
                        "another record stands here",
                    ));
                }
                Err(fault) => return Err(damaged(&self.segment, self.at, self.offset, fault)),
            };
            if !records.is_empty() && (bytes + head.body_len() > bytes_max || chunk.len() < head.end()) {
                break;
            }
            if chunk.len() < head.end() {
                chunk = self.reader.read_at(self.at, head.frame_len())?;
            }
            if !head.holds(&chunk) {
                return Err(damaged(
                    &self.segment,
                    self.at,
                    self.offset,
                    "the record's checksum is wrong",
                ));
            }
            let record = head
                .record(&chunk)
                .map_err(|fault| damaged(&self.segment, self.at, self.offset, fault))?;
            bytes += head.body_len();
            records.push(record);
            self.offset += 1;
            self.at += head.frame_len() as u64;
            chunk = chunk.slice(head.frame_len().min(chunk.len())..);
        }
        Ok(records)
    }
}
