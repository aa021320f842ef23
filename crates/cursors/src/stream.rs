//! Event IDs of live streams: a position in the log `verdicts` for each shard.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Form of the text. Other forms are answered with `reload`, so a new form breaks no stream.
const VERSION: u8 = 1;
/// The longest event ID, in bytes: a request's head has no room for more.
const TEXT_BYTES_MAX: usize = 12 << 10;
/// The greatest offset: positions have 48 bits for it.
pub const STREAM_OFFSET_MAX: u64 = 1 << 48;

/// Epoch and offset in `verdicts`, by shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamPositions(pub BTreeMap<u32, (u32, u64)>);

/// A client's `Last-Event-ID`.
#[derive(Debug, PartialEq, Eq)]
pub enum EventId {
    /// Positions of one or more shards.
    Positions(StreamPositions),
    /// From another version of this program.
    OtherVersion,
    /// Not an event ID.
    Invalid,
}

impl StreamPositions {
    /// Formats the positions: the version, then shard, epoch and offset of each shard as LEB128
    /// numbers.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut bytes = vec![VERSION];
        for (shard, (epoch, offset)) in &self.0 {
            for mut number in [u64::from(*shard), u64::from(*epoch), *offset] {
                while number >= 0x80 {
                    bytes.push(number.to_le_bytes()[0] | 0x80);
                    number >>= 7;
                }
                bytes.push(number.to_le_bytes()[0]);
            }
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

impl EventId {
    /// Parses an event ID.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let bytes = match text.len() {
            0..=TEXT_BYTES_MAX => URL_SAFE_NO_PAD.decode(text).unwrap_or_default(),
            _ => Vec::new(),
        };
        match bytes.split_first() {
            Some((&VERSION, rest)) => shards(rest).map_or(Self::Invalid, Self::Positions),
            Some((1.., _)) => Self::OtherVersion,
            Some((0, _)) | None => Self::Invalid,
        }
    }
}

fn shards(mut bytes: &[u8]) -> Option<StreamPositions> {
    let mut shards = BTreeMap::new();
    while !bytes.is_empty() {
        let mut next = || number(&mut bytes);
        let (shard, epoch, offset) = (next()?.try_into().ok()?, next()?.try_into().ok()?, next()?);
        if shards.insert(shard, (epoch, offset)).is_some() {
            return None;
        }
    }
    (!shards.is_empty()).then_some(StreamPositions(shards))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..=49).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (number <= STREAM_OFFSET_MAX).then_some(number);
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
            shards in prop::collection::btree_map(any::<u32>(), (any::<u32>(), 0..=STREAM_OFFSET_MAX), 1..40)
        ) {
            let positions = StreamPositions(shards);
            prop_assert_eq!(EventId::parse(&positions.to_text()), EventId::Positions(positions));
        }

        #[test]
        fn any_bytes_are_parsed_without_harm(bytes: Vec<u8>) {
            if let EventId::Positions(StreamPositions(shards)) = EventId::parse(&URL_SAFE_NO_PAD.encode(bytes)) {
                prop_assert!(shards.values().all(|(_, offset)| *offset <= STREAM_OFFSET_MAX));
            }
        }
    }

    #[test]
    fn other_texts_are_distinguished() {
        for text in ["", "AA", "AQ", "nonsense!", &"A".repeat(TEXT_BYTES_MAX + 1)] {
            assert_eq!(EventId::parse(text), EventId::Invalid, "{text}");
        }
        assert_eq!(
            EventId::parse(&URL_SAFE_NO_PAD.encode([2, 9, 9])),
            EventId::OtherVersion
        );
        for numbers in [
            // A shard without an offset, and one that occurs twice.
            vec![0, 7],
            vec![0, 7, 1, 0, 7, 2],
            // A number that is cut off, and one above 48 bits.
            vec![0, 7, 0x80],
            vec![0, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            let text = URL_SAFE_NO_PAD.encode([vec![VERSION], numbers.clone()].concat());
            assert_eq!(EventId::parse(&text), EventId::Invalid, "{numbers:?}");
        }
    }
}
