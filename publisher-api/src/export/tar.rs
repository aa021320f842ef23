//! Files in a tar archive (POSIX.1-1988 `ustar`), one after the other: each page is a file, so that
//! the length that precedes it is known.

/// A record of the archive.
const RECORD: usize = 512;

/// A file with its header and padding. Names are ASCII of at most 100 bytes, sizes below 8 GiB:
/// both are ours.
pub(crate) fn file(name: &str, content: &[u8], modified_s: i64) -> Vec<u8> {
    let mut header = [0; RECORD];
    let mut put = |at: usize, bytes: &[u8]| {
        for (place, byte) in header.iter_mut().skip(at).zip(bytes) {
            *place = *byte;
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{:011o}\0", content.len()).as_bytes());
    put(
        136,
        format!("{:011o}\0", modified_s.clamp(0, 0o77_777_777_777)).as_bytes(),
    );
    // The sum is over the header with blanks in its own place.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    for (place, byte) in header.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *place = byte;
    }
    let mut out = Vec::with_capacity(2 * RECORD + content.len());
    out.extend_from_slice(&header);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(RECORD), 0);
    out
}

/// End of an archive.
pub(crate) fn end() -> Vec<u8> {
    vec![0; 2 * RECORD]
}
