//! ClickHouse's own compressed frames, as `compress=1` and `decompress=1` mean them.
//!
//! A frame is a CityHash128 (version 1.0.2, halves swapped) over what follows, a method byte (0x82
//! LZ4, 0x02 stored), the size of header and data, the size after decompression (both 32 bits,
//! little-endian), and the data.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

const CHECKSUM_BYTES: usize = 16;
const HEADER_BYTES: usize = 9;
const LZ4: u8 = 0x82;
const STORED: u8 = 0x02;
/// The largest frame we take; ClickHouse's own default block is 1 MiB, the crate's buffer 256 KiB.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Bytes of input in one frame that we write.
const BLOCK_BYTES: usize = 1 << 20;

/// Why a frame can't be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum FrameError {
    #[error("the checksum of a compressed block doesn't fit its bytes")]
    Checksum,
    #[error("compression method {0:#x} isn't supported here")]
    Method(u8),
    #[error("a compressed block has impossible sizes")]
    Sizes,
    #[error("a compressed block can't be decompressed")]
    Data,
    #[error("the body ends inside a compressed block")]
    Truncated,
}

fn checksum(bytes: &[u8]) -> u128 {
    cityhash_rs::cityhash_102_128(bytes).rotate_right(64)
}

/// Takes bytes as they come and gives decompressed blocks.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    buffer: BytesMut,
}

impl FrameReader {
    /// Adds bytes from the wire.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next block, `None` until more bytes come. `left_max` is how many decompressed bytes are
    /// still allowed; the size is checked before anything is decompressed.
    pub(crate) fn next_block(&mut self, left_max: usize) -> Result<Option<Result<Bytes, usize>>, FrameError> {
        if self.buffer.len() < CHECKSUM_BYTES + HEADER_BYTES {
            return Ok(None);
        }
        let mut head = &self.buffer[..CHECKSUM_BYTES + HEADER_BYTES];
        let expected = head.get_u128_le();
        let method = head.get_u8();
        let (whole, plain) = (head.get_u32_le() as usize, head.get_u32_le() as usize);
        if !(HEADER_BYTES..=FRAME_BYTES_MAX).contains(&whole) || plain > FRAME_BYTES_MAX {
            return Err(FrameError::Sizes);
        }
        if plain > left_max {
            return Ok(Some(Err(plain)));
        }
        if self.buffer.len() < CHECKSUM_BYTES + whole {
            return Ok(None);
        }
        let frame = self.buffer.split_to(CHECKSUM_BYTES + whole).freeze();
        if checksum(&frame[CHECKSUM_BYTES..]) != expected {
            return Err(FrameError::Checksum);
        }
        let data = frame.slice(CHECKSUM_BYTES + HEADER_BYTES..);
        match method {
            STORED if data.len() == plain => Ok(Some(Ok(data))),
            LZ4 => {
                let block = lz4_flex::block::decompress(&data, plain).map_err(|_| FrameError::Data)?;
                if block.len() == plain {
                    Ok(Some(Ok(block.into())))
                } else {
                    Err(FrameError::Data)
                }
            }
            STORED => Err(FrameError::Sizes),
            other => Err(FrameError::Method(other)),
        }
    }

    /// Checks that nothing is left over at the end of the body.
    pub(crate) fn finish(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() {
            Ok(())
        } else {
            Err(FrameError::Truncated)
        }
    }
}

/// Compresses a whole answer into frames.
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    for block in bytes.chunks(BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + CHECKSUM_BYTES + HEADER_BYTES, 0);
        out.extend_from_slice(&lz4_flex::block::compress(block));
        let whole = out.len() - start - CHECKSUM_BYTES;
        let header = &mut out[start + CHECKSUM_BYTES..];
        header[0] = LZ4;
        // Both fit: a block is at most 1 MiB, and LZ4 adds at most 1/255 to it.
        header[1..5].copy_from_slice(&u32::try_from(whole).unwrap_or(u32::MAX).to_le_bytes());
        header[5..9].copy_from_slice(&u32::try_from(block.len()).unwrap_or(u32::MAX).to_le_bytes());
        let sum = checksum(&out[start + CHECKSUM_BYTES..]);
        out[start..start + CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read_all(wire: &[u8], step: usize, max: usize) -> Result<Vec<u8>, FrameError> {
        let mut reader = FrameReader::default();
        let mut out = Vec::new();
        for chunk in wire.chunks(step) {
            reader.push(chunk);
            while let Some(block) = reader.next_block(max - out.len())? {
                out.extend_from_slice(&block.map_err(|_| FrameError::Sizes)?);
            }
        }
        reader.finish()?;
        Ok(out)
    }

    #[test]
    fn what_is_written_is_read_back_in_any_chunking() {
        let plain: Vec<u8> = (0..3_000_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let wire = compress(&plain);
        assert!(wire.len() < plain.len());
        for step in [1 << 20, 4097, wire.len()] {
            assert_eq!(read_all(&wire, step, plain.len()).unwrap(), plain);
        }
        assert_eq!(read_all(&compress(b""), 1, 0).unwrap(), b"");
    }

    #[test]
    fn the_official_crate_writes_frames_we_read() {
        let plain = b"some text, some text, some text, some more text".repeat(100);
        let wire = clickhouse::_priv::lz4_compress(&plain).unwrap();
        assert_eq!(read_all(&wire, 13, plain.len()).unwrap(), plain);
    }

    #[test]
    fn a_changed_byte_a_cut_and_a_bomb_are_refused() {
        let wire = compress(&[7_u8; 10_000]);
        for at in [0, 16, 25, wire.len() - 1] {
            let mut bad = wire.clone();
            bad[at] ^= 1;
            assert!(read_all(&bad, 10, 10_000).is_err(), "byte {at}");
        }
        assert_eq!(
            read_all(&wire[..wire.len() - 1], 10, 10_000),
            Err(FrameError::Truncated)
        );
        let mut reader = FrameReader::default();
        reader.push(&wire);
        assert_eq!(
            reader.next_block(9_999).unwrap(),
            Some(Err(10_000)),
            "refused by size, before decompressing"
        );
    }
}
