//! Encoding of a record as bytes in a segment, and decoding.
//!
//! All numbers are little-endian. A frame starts on a multiple of 8 bytes, so that a search for
//! frames after a damaged one looks at few places.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | length of everything from byte 8 to the end of the body; 0 is "no frame here" |
//! | 4 | 4 | CRC32C of those bytes |
//! | 8 | 4 | epoch |
//! | 12 | 1 | kind: 1 receipt, 2 batch, 3 verdicts; plus 64 if the body is compressed, plus 128 if
//! the append continues |
//! | 13 | 1 | length of the address: 0, 4 or 16 |
//! | 14 | 2 | length of the request id |
//! | 16 | 8 | offset |
//! | 24 | 8 | group base: the first offset written by the same write |
//! | 32 | 8 | appended at, ms |
//! | 40 | 8 | received at, ms |
//! | 48 | 4 | length of the request signature, `u32::MAX` for none |
//! | 52 | 4 | length of the stored body |
//! | 56 | 4 | length of the body: another one only if it is stored compressed |
//! | 60 | | address, request id, request signature, stored body; zeros up to a multiple of 8 |
//!
//! A body from [`COMPRESS_BYTES_MIN`] on is stored as a zstd frame where that is shorter. So a
//! sender that compresses its requests can't fill the disk with more than it sends.
//!
//! A record with a `traceparent` has it behind its request id, after a space, and counted in the
//! id's length: ids have no spaces. So programs of before read such a record whole, with a longer
//! id, and going back to one costs nothing; a bit of the head would have been damage to them.
//!
//! An append of several records continues until its last one. They are written by one write and are
//! found all or not at all: a tail that ends within them is torn.
//!
//! The group base is what tells a torn tail from damage: a group is written only after every
//! earlier one was synced, so a valid frame whose group base is above an offset proves that the
//! offset was durable.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use crate::record::{LoggedRecord, Position, Record, RecordKind, TRACE_BYTES, TraceText};

/// Bytes before the variable part.
pub(super) const HEAD: usize = 60;
/// Frames start on multiples of it.
pub(super) const FRAME_ALIGN: usize = 8;
/// The part of the head that the CRC doesn't cover: length and CRC.
const UNCOVERED: usize = 8;
/// No request signature.
const NO_SIGNATURE: u32 = u32::MAX;
/// Between request id and trace.
const TRACE_MARK: u8 = b' ';
/// Set in the kind's byte if the next record belongs to the same append.
const CONTINUES: u8 = 0x80;
/// Set in the kind's byte if the body is compressed.
const COMPRESSED: u8 = 0x40;
/// Shorter bodies, as single receipts are, gain too little for 10 us of the writing thread each.
pub(super) const COMPRESS_BYTES_MIN: usize = 2_048;
/// The fastest of zstd's ordinary levels.
const COMPRESSION_LEVEL: i32 = 1;
/// Offsets have 48 bits in a receipt's position.
const OFFSET_MAX: u64 = (1 << 48) - 1;
/// No frame is longer, whatever the settings were when it was written.
const FRAME_BYTES_MAX: usize = (1 << 30) + (1 << 20);

/// Fields that the log adds to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) epoch: u32,
    pub(super) offset: u64,
    pub(super) group_base: u64,
    pub(super) appended_at_ms: i64,
    /// Whether the next record belongs to the same append.
    pub(super) continues: bool,
}

/// Makes frames. Its memory is reused from record to record.
pub(super) struct Encoder {
    zstd: zstd::bulk::Compressor<'static>,
    compressed: Vec<u8>,
}

impl Encoder {
    /// An encoder without buffers.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            zstd: zstd::bulk::Compressor::new(COMPRESSION_LEVEL)?,
            compressed: Vec::new(),
        })
    }

    /// The body compressed, if that makes it shorter.
    fn compressed(&mut self, body: &[u8]) -> Option<&[u8]> {
        if body.len() < COMPRESS_BYTES_MIN {
            return None;
        }
        // One byte less than the body: a frame that doesn't fit isn't worth it, and is an error
        // here.
        let room = body.len() - 1;
        if self.compressed.len() < room {
            self.compressed.resize(room, 0);
        }
        let length = self.zstd.compress_to_buffer(body, &mut self.compressed[..room]).ok()?;
        Some(&self.compressed[..length])
    }
}

/// Bytes of a segment that the record takes at most, or `None` if a field is too long for its
/// length.
pub(super) fn encoded_len(record: &Record) -> Option<usize> {
    let signature = record.request_signature.as_ref().map_or(0, String::len);
    let id = id_len(record);
    let fits = u16::try_from(id).is_ok() && signature <= FRAME_BYTES_MAX;
    let bytes = HEAD + address_len(record.client_address) + id + signature + record.body.len();
    (fits && bytes <= FRAME_BYTES_MAX).then(|| bytes.next_multiple_of(FRAME_ALIGN))
}

/// Of the request id, with the trace behind it.
fn id_len(record: &Record) -> usize {
    record.request_id.len() + record.trace.map_or(0, |_| 1 + TRACE_BYTES)
}

fn address_len(address: Option<IpAddr>) -> usize {
    match address {
        None => 0,
        Some(IpAddr::V4(_)) => 4,
        Some(IpAddr::V6(_)) => 16,
    }
}

/// Appends the record's frame. The record was measured by [`encoded_len`].
#[allow(clippy::cast_possible_truncation)] // encoded_len has refused every length that doesn't fit
pub(super) fn encode(encoder: &mut Encoder, buffer: &mut Vec<u8>, record: &Record, stamp: Stamp) {
    let start = buffer.len();
    let compressed = encoder.compressed(&record.body);
    let stored = compressed.unwrap_or(&record.body);
    let mut head = [0_u8; HEAD];
    head[8..12].copy_from_slice(&stamp.epoch.to_le_bytes());
    head[12] = match record.kind {
        RecordKind::Receipt => 1,
        RecordKind::Batch => 2,
        RecordKind::Verdicts => 3,
    } | if compressed.is_some() { COMPRESSED } else { 0 }
        | if stamp.continues { CONTINUES } else { 0 };
    head[13] = address_len(record.client_address) as u8;
    head[14..16].copy_from_slice(&(id_len(record) as u16).to_le_bytes());
    head[16..24].copy_from_slice(&stamp.offset.to_le_bytes());
    head[24..32].copy_from_slice(&stamp.group_base.to_le_bytes());
    head[32..40].copy_from_slice(&stamp.appended_at_ms.to_le_bytes());
    head[40..48].copy_from_slice(&record.received_at_ms.to_le_bytes());
    let signature = record.request_signature.as_deref();
    let signature_len = signature.map_or(NO_SIGNATURE, |text| text.len() as u32);
    head[48..52].copy_from_slice(&signature_len.to_le_bytes());
    head[52..56].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    head[56..60].copy_from_slice(&(record.body.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&head);
    match record.client_address {
        None => {}
        Some(IpAddr::V4(address)) => buffer.extend_from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => buffer.extend_from_slice(&address.octets()),
    }
    buffer.extend_from_slice(record.request_id.as_bytes());
    if let Some(trace) = &record.trace {
        buffer.push(TRACE_MARK);
        buffer.extend_from_slice(trace.as_str().as_bytes());
    }
    buffer.extend_from_slice(signature.unwrap_or_default().as_bytes());
    buffer.extend_from_slice(stored);

    let frame = &mut buffer[start..];
    let length = (frame.len() - UNCOVERED) as u32;
    let crc = crc32c::crc32c(&frame[UNCOVERED..]);
    frame[0..4].copy_from_slice(&length.to_le_bytes());
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    buffer.resize(buffer.len().next_multiple_of(FRAME_ALIGN), 0);
}

/// A frame's fixed part, taken apart and consistent in itself. Whether it is true,
/// [`FrameHead::holds`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) stamp: Stamp,
    pub(super) kind: RecordKind,
    received_at_ms: i64,
    crc: u32,
    address_len: usize,
    request_id_len: usize,
    signature_len: Option<usize>,
    stored_len: usize,
    body_len: usize,
    is_compressed: bool,
}

impl FrameHead {
    /// Reads the first [`HEAD`] bytes of a frame.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return Err("the file ends within a record's head");
        };
        let length = u32_at(head, 0) as usize;
        if length == 0 {
            return Err("no record stands here");
        }
        let kind = match head[12] & !(CONTINUES | COMPRESSED) {
            1 => RecordKind::Receipt,
            2 => RecordKind::Batch,
            3 => RecordKind::Verdicts,
            _ => return Err("the record's kind is unknown"),
        };
        let signature_len = u32_at(head, 48);
        let parsed = Self {
            stamp: Stamp {
                epoch: u32_at(head, 8),
                offset: u64_at(head, 16),
                group_base: u64_at(head, 24),
                appended_at_ms: u64_at(head, 32).cast_signed(),
                continues: head[12] & CONTINUES != 0,
            },
            kind,
            received_at_ms: u64_at(head, 40).cast_signed(),
            crc: u32_at(head, 4),
            address_len: usize::from(head[13]),
            request_id_len: usize::from(u16::from_le_bytes([head[14], head[15]])),
            signature_len: (signature_len != NO_SIGNATURE).then_some(signature_len as usize),
            stored_len: u32_at(head, 52) as usize,
            body_len: u32_at(head, 56) as usize,
            is_compressed: head[12] & COMPRESSED != 0,
        };
        if !matches!(parsed.address_len, 0 | 4 | 16) {
            return Err("the record's address has an impossible length");
        }
        if parsed.end() != length + UNCOVERED || parsed.end() > FRAME_BYTES_MAX {
            return Err("the record's lengths contradict each other");
        }
        let is_shorter = parsed.stored_len < parsed.body_len;
        if parsed.body_len > FRAME_BYTES_MAX
            || is_shorter != parsed.is_compressed
            || parsed.stored_len > parsed.body_len
        {
            return Err("the record's lengths contradict each other");
        }
        if parsed.stamp.group_base > parsed.stamp.offset || parsed.stamp.offset > OFFSET_MAX {
            return Err("the record's offset is impossible");
        }
        Ok(parsed)
    }

    /// Bytes from the frame's start to the end of its body.
    pub(super) fn end(&self) -> usize {
        HEAD + self.address_len + self.request_id_len + self.signature_len.unwrap_or(0) + self.stored_len
    }

    /// Bytes from the frame's start to the next frame's.
    pub(super) fn frame_len(&self) -> usize {
        self.end().next_multiple_of(FRAME_ALIGN)
    }

    /// Bytes of the body, not compressed.
    pub(super) fn body_len(&self) -> usize {
        self.body_len
    }

    /// Whether the CRC agrees with the frame's bytes (at least [`FrameHead::end`] of them).
    pub(super) fn holds(&self, frame: &[u8]) -> bool {
        frame
            .get(UNCOVERED..self.end())
            .is_some_and(|covered| crc32c::crc32c(covered) == self.crc)
    }

    /// The record of a frame that [`FrameHead::holds`]; its body is a slice of `frame` unless it is
    /// compressed.
    pub(super) fn record(&self, frame: &Bytes) -> Result<LoggedRecord, &'static str> {
        let mut at = HEAD;
        let mut take = |length: usize| {
            let bytes = frame.slice(at..at + length);
            at += length;
            bytes
        };
        let address = take(self.address_len);
        let client_address = if let Ok(octets) = <[u8; 4]>::try_from(address.as_ref()) {
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        } else {
            <[u8; 16]>::try_from(address.as_ref())
                .ok()
                .map(|octets| IpAddr::V6(Ipv6Addr::from(octets)))
        };
        let id = take(self.request_id_len);
        let (id, trace) = id_and_trace(&id);
        let request_id = text(id)?;
        let request_signature = self.signature_len.map(|length| text(&take(length))).transpose()?;
        let mut body = take(self.stored_len);
        if self.is_compressed {
            let decompressed = zstd::bulk::decompress(&body, self.body_len).ok();
            body = decompressed
                .filter(|bytes| bytes.len() == self.body_len)
                .ok_or("the record's body can't be decompressed")?
                .into();
        }
        Ok(LoggedRecord {
            position: Position {
                epoch: self.stamp.epoch,
                partition: 0,
                offset: self.stamp.offset,
            },
            appended_at_ms: self.stamp.appended_at_ms,
            record: Record {
                kind: self.kind,
                body,
                request_signature,
                request_id,
                received_at_ms: self.received_at_ms,
                client_address,
                trace,
            },
        })
    }
}

fn id_and_trace(bytes: &[u8]) -> (&[u8], Option<TraceText>) {
    let traced = bytes.split_last_chunk::<TRACE_BYTES>().and_then(|(id, trace)| {
        let id = id.strip_suffix(&[TRACE_MARK])?;
        Some((id, TraceText::new(trace)?))
    });
    traced.map_or((bytes, None), |(id, trace)| (id, Some(trace)))
}

fn text(bytes: &[u8]) -> Result<String, &'static str> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| "the record's id or signature isn't text")
}

fn u32_at(head: &[u8; HEAD], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn u64_at(head: &[u8; HEAD], at: usize) -> u64 {
    u64::from(u32_at(head, at)) | (u64::from(u32_at(head, at + 4)) << 32)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let address = prop_oneof![
            Just(None),
            any::<u32>().prop_map(|bits| Some(IpAddr::V4(bits.into()))),
            any::<u128>().prop_map(|bits| Some(IpAddr::V6(bits.into()))),
        ];
        let body = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(any::<u8>(), 500..2_000),
            // Some of it repeats, so that it is stored compressed.
            (prop::collection::vec(any::<u8>(), 1..100), 10..40_usize).prop_map(|(part, times)| part.repeat(times)),
        ];
        let kind = prop::sample::select(vec![RecordKind::Receipt, RecordKind::Batch, RecordKind::Verdicts]);
        (
            kind,
            body,
            any::<Option<String>>(),
            "[a-z0-9-]{0,64}",
            any::<i64>(),
            address,
            prop::option::of("[!-~]{55}"),
        )
            .prop_map(
                |(kind, body, request_signature, request_id, received_at_ms, client_address, trace)| Record {
                    kind,
                    body: body.into(),
                    request_signature,
                    request_id,
                    received_at_ms,
                    client_address,
                    trace: trace.and_then(|text| TraceText::new(text.as_bytes())),
                },
            )
    }

    fn record(request_id: &str, trace: Option<TraceText>) -> Record {
        Record {
            kind: RecordKind::Receipt,
            body: Bytes::from_static(b"{}"),
            request_signature: Some("c2ln".to_owned()),
            request_id: request_id.to_owned(),
            received_at_ms: 4,
            client_address: Some([192, 0, 2, 1].into()),
            trace,
        }
    }

    fn encoded(record: &Record) -> Bytes {
        let stamp = Stamp {
            epoch: 7,
            offset: 2,
            group_base: 1,
            appended_at_ms: 3,
            continues: false,
        };
        let mut buffer = Vec::new();
        encode(&mut Encoder::new().unwrap(), &mut buffer, record, stamp);
        buffer.into()
    }

    /// A frame as it was written before records had traces, byte by byte.
    fn frame_of_before() -> Bytes {
        let mut covered = Vec::new();
        covered.extend(7_u32.to_le_bytes());
        covered.extend([1, 4]);
        covered.extend(4_u16.to_le_bytes());
        for number in [2_u64, 1, 3, 4] {
            covered.extend(number.to_le_bytes());
        }
        for length in [4_u32, 2, 2] {
            covered.extend(length.to_le_bytes());
        }
        covered.extend([192, 0, 2, 1]);
        covered.extend(b"id-1c2ln{}");
        let mut frame = u32::try_from(covered.len()).unwrap().to_le_bytes().to_vec();
        frame.extend(crc32c::crc32c(&covered).to_le_bytes());
        frame.extend(covered);
        frame.resize(frame.len().next_multiple_of(FRAME_ALIGN), 0);
        frame.into()
    }

    #[test]
    fn a_record_of_before_traces_is_read_and_one_without_is_written_as_then() {
        let (before, record) = (frame_of_before(), record("id-1", None));
        let head = FrameHead::parse(&before).unwrap();
        assert!(head.holds(&before));
        assert_eq!(head.record(&before).unwrap().record, record);
        assert_eq!(encoded(&record), before);
    }

    #[test]
    fn a_record_with_a_trace_is_one_with_a_longer_id_to_readers_of_before() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let traced = record("id-1", TraceText::new(trace.as_bytes()));
        assert_eq!(encoded(&traced), encoded(&record(&format!("id-1 {trace}"), None)));
        let frame = encoded(&traced);
        assert_eq!(FrameHead::parse(&frame).unwrap().record(&frame).unwrap().record, traced);
        // What only looks alike stays the id.
        for id in [
            trace,
            &format!("id-1-{trace}"),
            &format!("id-1 {} {}", &trace[..20], &trace[21..]),
        ] {
            let frame = encoded(&record(id, None));
            assert_eq!(
                FrameHead::parse(&frame)
                    .unwrap()
                    .record(&frame)
                    .unwrap()
                    .record
                    .request_id,
                id
            );
        }
    }

    #[test]
    fn a_body_is_compressed_if_that_makes_it_shorter() {
        let with_body = |body: Vec<u8>| Record {
            body: body.into(),
            ..record("id-1", None)
        };
        let noise: Vec<u8> = (0..2_000_u32)
            .flat_map(|number| crc32c::crc32c(&number.to_le_bytes()).to_le_bytes())
            .collect();
        for (body, is_compressed) in [
            (vec![b'x'; COMPRESS_BYTES_MIN - 1], false),
            (vec![b'x'; COMPRESS_BYTES_MIN], true),
            (vec![b'x'; 1 << 20], true),
            (noise, false),
        ] {
            let record = with_body(body);
            let frame = encoded(&record);
            let head = FrameHead::parse(&frame).unwrap();
            assert_eq!(
                (head.is_compressed, head.body_len()),
                (is_compressed, record.body.len())
            );
            assert_eq!(frame.len() < encoded_len(&record).unwrap(), is_compressed);
            assert!(head.holds(&frame));
            assert_eq!(head.record(&frame).unwrap().record, record);
        }
    }

    #[test]
    fn a_compressed_body_of_another_length_is_damage() {
        let record = Record {
            body: vec![b'x'; 4_096].into(),
            ..record("id-1", None)
        };
        for length in [4_095_u32, 4_097, u32::MAX] {
            let mut frame = encoded(&record).to_vec();
            frame[56..60].copy_from_slice(&length.to_le_bytes());
            let end = FrameHead::parse(&encoded(&record)).unwrap().end();
            let crc = crc32c::crc32c(&frame[UNCOVERED..end]);
            frame[4..8].copy_from_slice(&crc.to_le_bytes());
            let frame = Bytes::from(frame);
            let read = FrameHead::parse(&frame).and_then(|head| head.record(&frame));
            assert!(read.is_err(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_what_it_wrote_and_sees_any_changed_byte(
            record in any_record(), offset in 0..OFFSET_MAX, continues: bool, changed in any::<prop::sample::Index>(), bits in 1..=255_u8,
        ) {
            let stamp = Stamp { epoch: 7, offset, group_base: offset / 2, appended_at_ms: -5, continues };
            let mut buffer = Vec::new();
            encode(&mut Encoder::new().unwrap(), &mut buffer, &record, stamp);
            prop_assert!(buffer.len() <= encoded_len(&record).unwrap());
            prop_assert!(record.body.len() >= COMPRESS_BYTES_MIN || buffer.len() == encoded_len(&record).unwrap());
            let bytes = Bytes::from(buffer);
            let head = FrameHead::parse(&bytes).unwrap();
            prop_assert!(head.holds(&bytes));
            prop_assert_eq!(head.stamp, stamp);
            prop_assert_eq!(head.frame_len(), bytes.len());
            prop_assert_eq!(head.record(&bytes).unwrap().record, record);

            let mut torn = bytes.to_vec();
            torn[changed.index(head.end())] ^= bits;
            prop_assert!(!FrameHead::parse(&torn).is_ok_and(|head| head.holds(&torn)));
            prop_assert!(!head.holds(&bytes[..head.end() - 1]));
        }
    }
}
