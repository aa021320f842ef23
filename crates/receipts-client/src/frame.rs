//! Frames of the spool's files: a length and a CRC-32, both of four bytes and big-endian, and the
//! data.

use bytes::Bytes;
use flate2::Crc;

const HEAD_BYTES: usize = 8;

/// Appends a frame.
pub(crate) fn write_frame(out: &mut Vec<u8>, data: &[u8]) {
    // Receipts and batches are limited to 8 MiB.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&checksum(data).to_be_bytes());
    out.extend_from_slice(data);
}

/// Returns the frames up to the first that is cut off or damaged, and whether all bytes were read.
pub(crate) fn read_frames(file: &Bytes) -> (Vec<Bytes>, bool) {
    let mut frames = Vec::new();
    let mut position = 0;
    while let Some(head) = file.get(position..position + HEAD_BYTES) {
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = number(0) as usize;
        let start = position + HEAD_BYTES;
        let Some(data) = file.get(start..start.saturating_add(length)) else {
            break;
        };
        // A file system may fill a file with zeros that a crash cut off: that is no empty frame.
        if data.is_empty() || checksum(data) != number(4) {
            break;
        }
        position = start + length;
        frames.push(file.slice(start..position));
    }
    (frames, position == file.len())
}

fn checksum(data: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(data);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_at_damage() {
        let mut file = Vec::new();
        for data in ["one", "two", "three"] {
            write_frame(&mut file, data.as_bytes());
        }
        // As Python's zlib.crc32(b"one").
        assert_eq!(file[..11], *b"\0\0\0\x03\x7a\x6c\x86\xf1one");
        let whole = Bytes::from(file);
        assert_eq!(
            read_frames(&whole),
            (vec!["one".into(), "two".into(), "three".into()], true)
        );
        for (end, count) in [(1, 0), (8, 0), (10, 0), (12, 1), (21, 1), (whole.len() - 1, 2)] {
            let (frames, is_whole) = read_frames(&whole.slice(..end));
            assert!(!is_whole && frames.len() == count, "{end}: {frames:?}");
        }
        let zeros = [&whole[..], &[0; 64]].concat();
        assert_eq!(read_frames(&zeros.into()).0.len(), 3);
        let mut changed = whole.to_vec();
        changed[10] ^= 1;
        assert_eq!(read_frames(&changed.into()), (vec![], false));
    }
}
