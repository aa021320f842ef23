//! The ids of events: a [`LogPlace`] as text.
//!
//! An id is opaque to clients and good for any scope: it says how far the log was stored, and what
//! may be seen since is decided by the key that brings it. So it needs no signature: a made-up one
//! asks for the key's own receipts since another moment, within the same bounds.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use warehouse::LogPlace;

/// The form of [`write`]; others are answered with `reload`, so that a new form breaks no stream.
const VERSION: u8 = 1;
/// A request's head has no room for more.
const TEXT_BYTES_MAX: usize = 12 << 10;
/// Positions have 48 bits for an offset.
const OFFSET_MAX: u64 = 1 << 48;

/// What a client's `Last-Event-ID` says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// A place.
    Place(LogPlace),
    /// Of another version of this program.
    OtherVersion,
    /// No id of ours.
    Not,
}

/// Version, epoch (big-endian), then each partition's offset as a base-128 number, lowest digits first.
pub(super) fn write(place: &LogPlace) -> String {
    let mut bytes = Vec::with_capacity(8 + place.next.len() * 5);
    bytes.push(VERSION);
    bytes.extend_from_slice(&place.epoch.to_be_bytes());
    for next in &place.next {
        let mut rest = *next;
        while rest >= 0x80 {
            bytes.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        bytes.push(rest.to_le_bytes()[0]);
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn read(text: &str) -> Known {
    if text.len() > TEXT_BYTES_MAX {
        return Known::Not;
    }
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(text) else {
        return Known::Not;
    };
    let [VERSION, a, b, c, d, numbers @ ..] = bytes.as_slice() else {
        return match bytes.first() {
            Some(0 | &VERSION) | None => Known::Not,
            Some(_) => Known::OtherVersion,
        };
    };
    let mut next = Vec::new();
    let (mut number, mut shift) = (0_u64, 0);
    for byte in numbers {
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 != 0 {
            shift += 7;
            if shift > 49 {
                return Known::Not;
            }
            continue;
        }
        if number > OFFSET_MAX {
            return Known::Not;
        }
        next.push(number);
        (number, shift) = (0, 0);
    }
    if shift != 0 {
        return Known::Not;
    }
    Known::Place(LogPlace {
        epoch: u32::from_be_bytes([*a, *b, *c, *d]),
        next,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_are_read_as_they_were_written(epoch: u32, next in prop::collection::vec(0..=OFFSET_MAX, 0..40)) {
            let place = LogPlace { epoch, next };
            prop_assert_eq!(read(&write(&place)), Known::Place(place));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            if let Known::Place(place) = read(&URL_SAFE_NO_PAD.encode(bytes)) {
                prop_assert!(place.next.iter().all(|next| *next <= OFFSET_MAX));
            }
        }
    }

    #[test]
    fn other_texts_are_told_apart() {
        for text in ["", "AA", "AQ", "nonsense!", "42", &"A".repeat(TEXT_BYTES_MAX + 1)] {
            let read = read(text);
            assert!(
                read == Known::Not || text == "42" && read == Known::OtherVersion,
                "{text}: {read:?}"
            );
        }
        assert_eq!(read(&URL_SAFE_NO_PAD.encode([2, 9, 9])), Known::OtherVersion);
        // A number cut off, and one over 48 bits.
        assert_eq!(read(&URL_SAFE_NO_PAD.encode([1, 0, 0, 0, 1, 0x80])), Known::Not);
        let long = [1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(read(&URL_SAFE_NO_PAD.encode(long)), Known::Not);
    }
}
