//! Segment files on disk: names, the header block, making and reading them.
//!
//! A file is called by the offset of its first record, twenty digits and `.segment`. Its first
//! block is the header, little-endian: magic (8 bytes), format version (4), epoch (4), base offset
//! (8), created at in ms (8), CRC32C of those (4), zeros. Frames follow without gaps; behind the
//! last one the preallocated space is zero.

use std::{
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::disk::{self, File, reserve, sync_dir};

/// Size of the header block in bytes.
const HEADER_BLOCK: usize = 4096;
/// Position of the first frame.
pub(super) const FRAMES_START: u64 = HEADER_BLOCK as u64;
/// Name of a segment that isn't complete yet.
const UNFINISHED: &str = "next.unfinished";
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
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(HEADER_BLOCK);
        block.extend(MAGIC);
        block.extend(FORMAT_VERSION.to_le_bytes());
        block.extend(self.epoch.to_le_bytes());
        block.extend(self.base.to_le_bytes());
        block.extend(self.created_at_ms.to_le_bytes());
        let crc = crc32c::crc32c(&block);
        block.extend(crc.to_le_bytes());
        block.resize(HEADER_BLOCK, 0);
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
    for entry in disk::read_dir(dir)? {
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

/// Removes a segment that an earlier process left incomplete.
pub(super) fn discard_unfinished(dir: &Path) -> io::Result<()> {
    match disk::remove_file(dir.join(UNFINISHED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the segment of this header durable, with `bytes` of space reserved. Later writes neither
/// fail for want of space nor change the file's length.
pub(super) fn create(dir: &Path, header: &SegmentHeader, bytes: u64) -> io::Result<File> {
    let unfinished = dir.join(UNFINISHED);
    let created = create_at(&unfinished, header, bytes).and_then(|file| {
        disk::rename(&unfinished, segment_path(dir, header.base))?;
        sync_dir(dir)?;
        Ok(file)
    });
    if created.is_err() {
        // Half a reservation would keep space from everyone.
        let _ = disk::remove_file(&unfinished);
    }
    created
}

fn create_at(path: &Path, header: &SegmentHeader, bytes: u64) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o640)
        .open(path)?;
    reserve(&file, bytes)?;
    file.write_all_at(&header.encode(), 0)?;
    file.sync_all()?;
    Ok(file)
}

/// Opens an existing segment for writing on.
pub(super) fn open_for_append(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// A segment open for reading.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: File,
}

impl SegmentReader {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
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
        let mut memory = vec![0; bytes];
        let mut filled = 0;
        while filled < bytes {
            match self.file.read_at(&mut memory[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        memory.truncate(filled);
        Ok(memory.into())
    }

    /// The header block, read and checked.
    pub(super) fn header(&self) -> io::Result<Result<SegmentHeader, String>> {
        Ok(SegmentHeader::parse(&self.read_at(0, HEADER_BLOCK)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::embedded::tests::disk::Disk;

    #[test]
    fn header_reads_back_and_shows_any_changed_byte() {
        let header = SegmentHeader {
            epoch: 0xdead_beef,
            base: 1 << 40,
            created_at_ms: 1_700_000_000_123,
        };
        let block = header.encode();
        assert_eq!(block.len(), HEADER_BLOCK);
        assert_eq!(SegmentHeader::parse(&block), Ok(header));
        for at in 0..HEADER_BYTES {
            let mut changed = block.clone();
            changed[at] ^= 1;
            assert!(SegmentHeader::parse(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn reads_any_range_up_to_the_end() {
        let disk = Disk::new(0);
        let path = segment_path(&disk.home(), 42);
        let content: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).take(70_001).collect();
        File::create(&path).unwrap().write_all_at(&content, 0).unwrap();
        assert_eq!(segment_bases(&disk.home()).unwrap(), [42]);
        let reader = SegmentReader::open(&path).unwrap();
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
            assert_eq!(reader.read_at(at as u64, bytes).unwrap(), expected, "{bytes} at {at}");
        }
    }

    #[test]
    fn a_segment_is_made_whole_or_not_at_all() {
        let disk = Disk::new(0);
        let header = SegmentHeader {
            epoch: 7,
            base: 3,
            created_at_ms: 1,
        };
        let left_by_a_crash = File::create(&disk.home().join(UNFINISHED)).unwrap();
        left_by_a_crash.write_all_at(b"half a header", 0).unwrap();
        let file = create(&disk.home(), &header, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        assert_eq!(segment_bases(&disk.home()).unwrap(), [3]);
        // No file system has so much space.
        assert!(create(&disk.home(), &SegmentHeader { base: 4, ..header }, 1 << 62).is_err());
        assert_eq!(segment_bases(&disk.home()).unwrap(), [3]);
        assert_eq!(
            disk::read_dir(&disk.home()).unwrap().count(),
            1,
            "nothing unfinished is left"
        );
    }
}
