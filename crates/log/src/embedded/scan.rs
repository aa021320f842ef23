//! Walking a segment frame by frame, and telling a torn tail from damage.

use std::{io, ops::ControlFlow};

use bytes::Bytes;

use super::{
    frame::{FRAME_ALIGN, FrameHead, HEAD},
    segment_file::{FRAMES_START, SegmentReader},
};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// A page of preallocated space; a whole chunk of them would be a megabyte of every program.
static ZEROS: [u8; 4 << 10] = [0; 4 << 10];
/// The index has one entry for so many bytes of frames (or one frame, if that is larger).
pub(super) const INDEX_STEP_BYTES: usize = 256 << 10;

/// Reads frames one after the other.
pub(super) struct Walker<'a> {
    reader: &'a SegmentReader,
    epoch: u32,
    at: u64,
    chunk: Bytes,
    chunk_at: u64,
    chunk_bytes: usize,
}

impl<'a> Walker<'a> {
    /// A walk that starts with the frame at `at`.
    pub(super) fn new(reader: &'a SegmentReader, epoch: u32, at: u64) -> Self {
        Self {
            reader,
            epoch,
            at,
            chunk: Bytes::new(),
            chunk_at: at,
            chunk_bytes: CHUNK_BYTES,
        }
    }

    /// Reads so many bytes at a time.
    pub(super) fn in_chunks_of(self, chunk_bytes: usize) -> Self {
        Self { chunk_bytes, ..self }
    }

    /// Position of the next frame's start.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The bytes from `at` on, `bytes` of them unless the file ends.
    fn window(&mut self, at: u64, bytes: usize) -> io::Result<Bytes> {
        let held = self.chunk_at + self.chunk.len() as u64;
        if at < self.chunk_at || at + bytes as u64 > held {
            self.chunk = self.reader.read_at(at, bytes.max(self.chunk_bytes))?;
            self.chunk_at = at;
        }
        let skip = usize::try_from(at - self.chunk_at)
            .unwrap_or(usize::MAX)
            .min(self.chunk.len());
        Ok(self.chunk.slice(skip..self.chunk.len().min(skip + bytes)))
    }

    /// The frame at `at` if it is whole, true and of this log, whatever its offset.
    fn frame_at(&mut self, at: u64) -> io::Result<Result<(FrameHead, Bytes), &'static str>> {
        let head = match FrameHead::parse(&self.window(at, HEAD)?) {
            Ok(head) => head,
            Err(fault) => return Ok(Err(fault)),
        };
        if head.stamp.epoch != self.epoch {
            return Ok(Err("the record belongs to another log"));
        }
        let frame = self.window(at, head.end())?;
        Ok(if head.holds(&frame) {
            Ok((head, frame))
        } else {
            Err("the record's checksum is wrong")
        })
    }

    /// Steps over the next frame, which must carry `offset`.
    pub(super) fn step(&mut self, offset: u64) -> io::Result<Result<(FrameHead, Bytes), &'static str>> {
        Ok(match self.frame_at(self.at)? {
            Ok((head, _)) if head.stamp.offset != offset => Err("the record carries another offset"),
            Ok((head, frame)) => {
                self.at += head.frame_len() as u64;
                Ok((head, frame))
            }
            Err(fault) => Err(fault),
        })
    }

    /// Looks behind a frame that isn't there for proof that offset `missing` was durable once.
    fn proof_of(&mut self, missing: u64) -> io::Result<Behind> {
        let length = self.reader.length()?;
        let mut behind = Behind {
            remains_end: self.at,
            proof_at: None,
        };
        let mut at = self.at;
        while at < length {
            let window = self.window(at, CHUNK_BYTES)?;
            if window.is_empty() {
                break;
            }
            // Comparing first: most of what follows a tail is preallocated zeros.
            if window.chunks(ZEROS.len()).any(|page| page != &ZEROS[..page.len()])
                && let Some(last) = window.iter().rposition(|&byte| byte != 0)
            {
                behind.remains_end = at + last as u64 + 1;
                if let ControlFlow::Break(proof_at) = self.proof_within(&window, at, missing)? {
                    behind.proof_at = Some(proof_at);
                    return Ok(behind);
                }
            }
            // Heads that cross the window's end are seen whole in the next one.
            let step = if window.len() > HEAD {
                window.len() - HEAD
            } else {
                window.len()
            };
            at += (step - step % FRAME_ALIGN).max(FRAME_ALIGN) as u64;
        }
        Ok(behind)
    }

    fn proof_within(&mut self, window: &Bytes, at: u64, missing: u64) -> io::Result<ControlFlow<u64>> {
        let epoch = self.epoch.to_le_bytes();
        for start in (0..window.len().saturating_sub(HEAD - 1)).step_by(FRAME_ALIGN) {
            if window[start + 8..start + 12] != epoch {
                continue;
            }
            let likely = FrameHead::parse(&window[start..]).is_ok_and(|head| head.stamp.group_base > missing);
            if likely && self.frame_at(at + start as u64)?.is_ok() {
                return Ok(ControlFlow::Break(at + start as u64));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Bytes behind the last whole frame.
struct Behind {
    /// End of the last byte that isn't zero.
    remains_end: u64,
    /// A frame that was written when the missing one was already durable.
    proof_at: Option<u64>,
}

/// Content of a segment.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Offset behind its last record.
    pub(super) end_offset: u64,
    /// Start of its last group, in bytes.
    pub(super) group_at: u64,
    /// End of its frames, in bytes.
    pub(super) end_at: u64,
    /// When its last record was appended.
    pub(super) last_appended_ms: Option<i64>,
    /// (offset, byte) of some frames.
    pub(super) index: Vec<(u64, u64)>,
    /// Bytes behind the last frame of an unsealed segment: the rest of a write that
    /// never finished.
    pub(super) torn_bytes: u64,
}

/// A fault that no crash explains.
#[derive(Debug)]
pub(super) struct SegmentDamage {
    pub(super) at: u64,
    pub(super) offset: u64,
    pub(super) detail: String,
}

/// Begin of a scan, and its requirements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) epoch: u32,
    /// The first offset, and where its frame starts.
    pub(super) from: (u64, u64),
    pub(super) until: Until,
}

/// End of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Before this offset, because a later segment begins with it. What follows was never
    /// acknowledged.
    Offset(u64),
    /// With the last whole frame. Proof that more was durable is damage.
    Tail,
    /// With the last whole frame, whatever follows: someone may be writing there.
    Growing,
}

impl Span {
    /// All of the segment that starts with offset `base`.
    pub(super) fn whole(epoch: u32, base: u64, until: Until) -> Self {
        Self {
            epoch,
            from: (base, FRAMES_START),
            until,
        }
    }
}

/// An append of several records, of which the last one hasn't been found yet: its start.
struct Unfinished {
    offset: u64,
    at: u64,
    last_appended_ms: Option<i64>,
}

impl Scan {
    /// Leaves out the records of an append that isn't whole: it was never acknowledged.
    fn without(mut self, unfinished: Option<Unfinished>) -> Self {
        if let Some(Unfinished {
            offset,
            at,
            last_appended_ms,
        }) = unfinished
        {
            self.end_offset = offset;
            self.end_at = at;
            self.last_appended_ms = last_appended_ms;
            self.index.retain(|&(indexed, _)| indexed < offset);
        }
        self
    }
}

/// Checks a segment record by record.
pub(super) fn scan(reader: &SegmentReader, span: Span) -> io::Result<Result<Scan, SegmentDamage>> {
    let (mut offset, start) = span.from;
    let mut walker = Walker::new(reader, span.epoch, start);
    let mut scan = Scan {
        end_offset: offset,
        group_at: start,
        end_at: start,
        ..Scan::default()
    };
    let mut unfinished = None;
    loop {
        if span.until == Until::Offset(offset) {
            return Ok(match unfinished {
                None => Ok(scan),
                Some(Unfinished { offset, at, .. }) => {
                    let detail = "the append that starts here has no end, but later segments follow".to_owned();
                    Err(SegmentDamage { at, offset, detail })
                }
            });
        }
        let at = walker.at();
        let damage = |detail| SegmentDamage { at, offset, detail };
        match walker.step(offset)? {
            Ok((head, _)) => {
                if !head.stamp.continues {
                    unfinished = None;
                } else if unfinished.is_none() {
                    let last_appended_ms = scan.last_appended_ms;
                    unfinished = Some(Unfinished {
                        offset,
                        at,
                        last_appended_ms,
                    });
                }
                if scan
                    .index
                    .last()
                    .is_none_or(|&(_, indexed)| at >= indexed + INDEX_STEP_BYTES as u64)
                {
                    scan.index.push((offset, at));
                }
                if head.stamp.group_base == offset {
                    scan.group_at = at;
                }
                offset += 1;
                scan.end_offset = offset;
                scan.end_at = walker.at();
                scan.last_appended_ms = Some(head.stamp.appended_at_ms);
            }
            Err(fault) => match span.until {
                Until::Offset(_) => return Ok(Err(damage(format!("{fault}, but later segments follow")))),
                Until::Growing => return Ok(Ok(scan.without(unfinished))),
                Until::Tail => {
                    let behind = walker.proof_of(offset)?;
                    if let Some(proof_at) = behind.proof_at {
                        let proof = format!("but the record at byte {proof_at} was written after it was durable");
                        return Ok(Err(damage(format!("{fault}, {proof}"))));
                    }
                    let mut scan = scan.without(unfinished);
                    scan.torn_bytes = behind.remains_end.max(at) - scan.end_at;
                    return Ok(Ok(scan));
                }
            },
        }
    }
}
