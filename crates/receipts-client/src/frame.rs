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

/// Returns the frames, and the runs of bytes that are none. After damage, reading continues at the
/// next frame whose length and checksum fit, wherever it begins.
pub(crate) fn read_frames(file: &Bytes) -> (Vec<Bytes>, Vec<Bytes>) {
    let (mut frames, mut damaged) = (Vec::new(), Vec::new());
    let mut position = 0;
    while position < file.len() {
        let end = if let Some(frame) = frame_at(file, position) {
            let end = position + HEAD_BYTES + frame.len();
            frames.push(frame);
            end
        } else {
            let end = next_frame(file, position + 1);
            damaged.push(file.slice(position..end));
            end
        };
        position = end;
    }
    (frames, damaged)
}

fn frame_at(file: &Bytes, position: usize) -> Option<Bytes> {
    let start = position + HEAD_BYTES;
    let head = file.get(position..start)?;
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let end = start.checked_add(number(0) as usize)?;
    let data = file.get(start..end)?;
    // A file system may fill a file with zeros that a crash cut off: that is no empty frame.
    (!data.is_empty() && checksum(data) == number(4)).then(|| file.slice(start..end))
}

/// Returns where the next frame begins, at `position` or later: before a JSON object whose length
/// and checksum fit.
fn next_frame(file: &Bytes, position: usize) -> usize {
    let objects = (position + HEAD_BYTES..file.len()).filter(|&at| file[at] == b'{');
    let mut starts = objects.map(|at| at - HEAD_BYTES);
    starts
        .find(|&start| frame_at(file, start).is_some())
        .unwrap_or(file.len())
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
    fn damage_costs_one_frame() {
        let texts = [r#"{"a":"one"}"#, r#"{"a":"two {"}"#, r#"{"a":"three"}"#];
        let mut file = Vec::new();
        write_frame(&mut file, b"one");
        // As Python's zlib.crc32(b"one").
        assert_eq!(file[..], *b"\0\0\0\x03\x7a\x6c\x86\xf1one");
        file.clear();
        let mut starts = Vec::new();
        for text in texts {
            starts.push(file.len());
            write_frame(&mut file, text.as_bytes());
        }
        let whole = Bytes::from(file);
        assert_eq!(read_frames(&whole), (texts.map(Bytes::from).to_vec(), vec![]));
        // One bit of each byte: of a length, a checksum or the data.
        for at in 0..whole.len() {
            let mut changed = whole.to_vec();
            changed[at] ^= 1;
            let damaged = starts.iter().rposition(|&start| start <= at).unwrap();
            let (frames, runs) = read_frames(&changed.into());
            let others = (0..texts.len()).filter(|&index| index != damaged);
            assert_eq!(
                frames,
                others.map(|index| texts[index]).collect::<Vec<_>>(),
                "byte {at}"
            );
            assert_eq!(runs.len(), 1, "byte {at}");
        }
        for end in 1..whole.len() {
            let (frames, runs) = read_frames(&whole.slice(..end));
            let is_cut = !starts.contains(&end);
            assert_eq!(runs.len(), usize::from(is_cut), "{end}");
            let before = starts.iter().filter(|&&start| start < end).count();
            assert_eq!(frames.len(), before - usize::from(is_cut), "{end}");
        }
        let zeros = [&whole[..starts[1]], &[0; 64], &whole[starts[1]..]].concat();
        let (frames, runs) = read_frames(&zeros.into());
        assert_eq!((frames.len(), runs), (3, vec![Bytes::from_static(&[0; 64])]));
    }
}
