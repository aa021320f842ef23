//! Event IDs: a [`StreamPosition`] as text.
//!
//! An ID is opaque to clients and valid for any scope. The API key decides which receipts are sent
//! behind it, so an ID needs no signature: an invented one requests the key's own receipts since
//! another position, within the same limits.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use warehouse::{StreamPosition, VerdictsPosition};

/// Form of the text. Other forms are answered with `reload`, so a new form breaks no stream.
const VERSION: u8 = 1;
/// A request's head has no room for more.
const TEXT_BYTES_MAX: usize = 12 << 10;
const OFFSET_MAX: u64 = 1 << 48;

/// A client's `Last-Event-ID`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventId {
    /// A position.
    Position(StreamPosition),
    /// From another version of this program.
    OtherVersion,
    /// Not an event ID.
    Invalid,
}

/// Formats a position: the version, then shard, epoch and offset of each shard as LEB128 numbers.
pub(super) fn format(position: &StreamPosition) -> String {
    let mut bytes = vec![VERSION];
    for (shard, verdicts) in &position.0 {
        for mut number in [u64::from(*shard), u64::from(verdicts.epoch), verdicts.offset] {
            while number >= 0x80 {
                bytes.push(number.to_le_bytes()[0] | 0x80);
                number >>= 7;
            }
            bytes.push(number.to_le_bytes()[0]);
        }
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Parses an event ID.
pub(super) fn parse(text: &str) -> EventId {
    let bytes = match text.len() {
        0..=TEXT_BYTES_MAX => URL_SAFE_NO_PAD.decode(text).unwrap_or_default(),
        _ => Vec::new(),
    };
    match bytes.split_first() {
        Some((&VERSION, rest)) => shards(rest).map_or(EventId::Invalid, EventId::Position),
        Some((1.., _)) => EventId::OtherVersion,
        Some((0, _)) | None => EventId::Invalid,
    }
}

fn shards(mut bytes: &[u8]) -> Option<StreamPosition> {
    let mut shards = BTreeMap::new();
    while !bytes.is_empty() {
        let mut next = || number(&mut bytes);
        let (shard, epoch, offset) = (next()?.try_into().ok()?, next()?.try_into().ok()?, next()?);
        if shards.insert(shard, VerdictsPosition { epoch, offset }).is_some() {
            return None;
        }
    }
    (!shards.is_empty()).then_some(StreamPosition(shards))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..=49).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (number <= OFFSET_MAX).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_are_parsed_as_they_were_formatted(
            shards in prop::collection::btree_map(any::<u32>(), (any::<u32>(), 0..=OFFSET_MAX), 1..40)
        ) {
            let verdicts = |(shard, (epoch, offset))| (shard, VerdictsPosition { epoch, offset });
            let position = StreamPosition(shards.into_iter().map(verdicts).collect());
            prop_assert_eq!(parse(&format(&position)), EventId::Position(position));
        }

        #[test]
        fn any_bytes_are_parsed_without_harm(bytes: Vec<u8>) {
            if let EventId::Position(position) = parse(&URL_SAFE_NO_PAD.encode(bytes)) {
                prop_assert!(position.0.values().all(|verdicts| verdicts.offset <= OFFSET_MAX));
            }
        }
    }

    #[test]
    fn other_texts_are_distinguished() {
        for text in ["", "AA", "AQ", "nonsense!", &"A".repeat(TEXT_BYTES_MAX + 1)] {
            assert_eq!(parse(text), EventId::Invalid, "{text}");
        }
        assert_eq!(parse(&URL_SAFE_NO_PAD.encode([2, 9, 9])), EventId::OtherVersion);
        for numbers in [
            // A shard without an offset, and one that occurs twice.
            vec![0, 7],
            vec![0, 7, 1, 0, 7, 2],
            // A number that is cut off, and one above 48 bits.
            vec![0, 7, 0x80],
            vec![0, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            let text = URL_SAFE_NO_PAD.encode([vec![VERSION], numbers.clone()].concat());
            assert_eq!(parse(&text), EventId::Invalid, "{numbers:?}");
        }
    }
}
