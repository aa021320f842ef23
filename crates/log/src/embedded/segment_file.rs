//! Segment files on disk: names, the header block, and reading and writing with or without the page
//! cache.
//!
//! A file is called by the offset of its first record, twenty digits and `.segment`. Its first
//! block is the header, little-endian: magic (8 bytes), format version (4), epoch (4), base offset
//! (8), created at in ms (8), CRC32C of those (4), zeros. Frames follow without gaps; behind the
//! last one the preallocated space is zero.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, Mode, OFlags};

use super::aligned::{AlignedBuffer, BLOCK, aligned_memory, blocks_down, blocks_up};

/// Position of the first frame.
pub(super) const FRAMES_START: u64 = BLOCK as u64;
/// Extension of a segment's name.
const EXTENSION: &str = "segment";
const MAGIC: [u8; 8] = *b"RCPTLOG\0";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 36;

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) epoch: u32,
    pub(super) base: u64,
    /// No record of this segment is older, none of an earlier segment newer. Milliseconds since the
    /// Unix epoch.
    pub(super) created_at_ms: i64,
}

impl SegmentHeader {
    /// The header block.
    pub(super) fn encode(&self) -> AlignedBuffer {
        let mut block = AlignedBuffer::new(BLOCK);
        block.extend(&MAGIC);
        block.extend(&FORMAT_VERSION.to_le_bytes());
        block.extend(&self.epoch.to_le_bytes());
        block.extend(&self.base.to_le_bytes());
        block.extend(&self.created_at_ms.to_le_bytes());
        let crc = crc32c::crc32c(block.bytes());
        block.extend(&crc.to_le_bytes());
        block.pad(BLOCK);
        block
    }

    /// Reads a header block.
    pub(super) fn parse(block: &[u8]) -> Result<Self, String> {
        let Some(header) = block.first_chunk::<HEADER_BYTES>() else {
            return Err("the header is cut off".to_owned());
        };
        let number = |at: usize, bytes: usize| {
            header[at..at + bytes]
                .iter()
                .rev()
                .fold(0_u64, |number, &byte| (number << 8) | u64::from(byte))
        };
        if header[..8] != MAGIC {
            return Err("this is not a segment: its first bytes are wrong".to_owned());
        }
        if u64::from(crc32c::crc32c(&header[..32])) != number(32, 4) {
            return Err("the header's checksum is wrong".to_owned());
        }
        if number(8, 4) != u64::from(FORMAT_VERSION) {
            return Err(format!("format version {} is not known here", number(8, 4)));
        }
        Ok(Self {
            epoch: u32::try_from(number(12, 4)).unwrap_or(0),
            base: number(16, 8),
            created_at_ms: number(24, 8).cast_signed(),
        })
    }
}

/// The path of the segment whose first offset is `base`.
pub(super) fn segment_path(dir: &Path, base: u64) -> PathBuf {
    dir.join(format!("{base:020}.{EXTENSION}"))
}

/// The base offsets of all segments in `dir`, in order.
pub(super) fn segment_bases(dir: &Path) -> io::Result<Vec<u64>> {
    let mut bases = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && name.len() == 20
            && let Ok(base) = name.parse()
        {
            bases.push(base);
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Makes creations, renames and deletions in `dir` durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn open(path: &Path, flags: OFlags, direct: bool) -> io::Result<File> {
    let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let descriptor = rustix::fs::open(
        path,
        flags | direct | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR | Mode::RGRP,
    )?;
    Ok(File::from(descriptor))
}

/// Creates `path` again with `bytes` of space reserved, so that later writes neither fail for want
/// of space nor change the file's length.
pub(super) fn create_reserved(path: &Path, bytes: u64, direct: bool) -> io::Result<File> {
    let file = open(path, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC, direct)?;
    reserve(&file, bytes)?;
    file.sync_all()?;
    Ok(file)
}

/// Reserves space up to `bytes`; file systems that can't are left to allocate while writing.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens an existing segment for writing on.
pub(super) fn open_for_append(path: &Path, direct: bool) -> io::Result<File> {
    open(path, OFlags::RDWR, direct)
}

/// Whether files in `dir` can be written and read past the page cache: tried on a file of one
/// block.
pub(super) fn takes_direct_io(dir: &Path) -> io::Result<bool> {
    let path = dir.join("probe.tmp");
    let tried = try_direct_io(&path);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A full disk says nothing about O_DIRECT; whatever else goes wrong, the page cache may do
    // better.
    match tried {
        Ok(()) => Ok(true),
        Err(error) => Ok(error.kind() == io::ErrorKind::StorageFull),
    }
}

fn try_direct_io(path: &Path) -> io::Result<()> {
    let file = open(path, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC, true)?;
    let mut block = AlignedBuffer::new(BLOCK);
    block.extend(b"probe");
    block.pad(BLOCK);
    file.write_all_at(block.bytes(), 0)?;
    SegmentReader { file, direct: true }.read_at(0, BLOCK)?;
    Ok(())
}

/// A segment open for reading.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: File,
    direct: bool,
}

impl SegmentReader {
    pub(super) fn open(path: &Path, direct: bool) -> io::Result<Self> {
        Ok(Self {
            file: open(path, OFlags::RDONLY, direct)?,
            direct,
        })
    }

    /// Makes what was read from it durable, whoever wrote it.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// The file's length in bytes, preallocated space included.
    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The bytes from `at` on: `bytes`, or fewer where the file ends.
    pub(super) fn read_at(&self, at: u64, bytes: usize) -> io::Result<Bytes> {
        let from = if self.direct { blocks_down(at) } else { at };
        let skip = usize::try_from(at - from).unwrap_or(0);
        let span = if self.direct {
            (skip + bytes).next_multiple_of(BLOCK)
        } else {
            bytes
        };
        let (mut memory, start) = if self.direct {
            aligned_memory(span)
        } else {
            (vec![0; span], 0)
        };
        let mut filled = 0;
        while filled < span {
            match self
                .file
                .read_at(&mut memory[start + filled..start + span], from + filled as u64)
            {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.direct && filled % BLOCK != 0 {
                break; // only the end of the file cuts a direct read short
            }
        }
        let until = filled.min(skip + bytes);
        Ok(Bytes::from(memory).slice(start + skip.min(until)..start + until))
    }

    /// The header block, read and checked.
    pub(super) fn header(&self) -> io::Result<Result<SegmentHeader, String>> {
        Ok(SegmentHeader::parse(&self.read_at(0, BLOCK)?))
    }
}

/// The length a sealed segment is cut to when its frames end at `end`.
pub(super) fn sealed_length(end: u64) -> u64 {
    blocks_up(end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn header_reads_back_and_shows_any_changed_byte() {
        let header = SegmentHeader {
            epoch: 0xdead_beef,
            base: 1 << 40,
            created_at_ms: 1_700_000_000_123,
        };
        let block = header.encode();
        assert_eq!(block.len(), BLOCK);
        assert_eq!(SegmentHeader::parse(block.bytes()), Ok(header));
        for at in 0..HEADER_BYTES {
            let mut changed = block.bytes().to_vec();
            changed[at] ^= 1;
            assert!(SegmentHeader::parse(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn reads_any_range_the_same_with_and_without_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = segment_path(dir.path(), 42);
        let content: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).take(70_001).collect();
        fs::write(&path, &content).unwrap();
        assert_eq!(segment_bases(dir.path()).unwrap(), [42]);
        for direct in [false, takes_direct_io(dir.path()).unwrap()] {
            let reader = SegmentReader::open(&path, direct).unwrap();
            for (at, bytes) in [
                (0, 1),
                (1, 4096),
                (4095, 2),
                (8192, 8192),
                (69_999, 10),
                (70_001, 5),
                (90_000, 5),
            ] {
                let expected = content.get(at..).unwrap_or_default();
                let expected = &expected[..expected.len().min(bytes)];
                assert_eq!(
                    reader.read_at(at as u64, bytes).unwrap(),
                    expected,
                    "{bytes} at {at}, direct: {direct}"
                );
            }
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the probe is gone");
    }
}
