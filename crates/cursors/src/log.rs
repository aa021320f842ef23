//! Positions in all partitions of the log `receipts`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The most partitions of a cursor.
pub const LOG_PARTITIONS_MAX: usize = 256;
/// The longest cursor, in bytes: of each partition three numbers of up to 16 hexadecimal digits.
pub const LOG_CURSOR_BYTES_MAX: usize = 8 << 10;

/// The next position of each partition, by epoch and partition: offset (48 bits) and index (16).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPositions(pub BTreeMap<(u32, u32), u64>);

impl LogPositions {
    /// Formats the positions.
    #[must_use]
    pub fn to_text(&self) -> String {
        let one = |((epoch, partition), low): (&(u32, u32), &u64)| format!("{epoch:x}.{partition:x}.{low:x}");
        URL_SAFE_NO_PAD.encode(self.0.iter().map(one).collect::<Vec<_>>().join(","))
    }

    /// Parses positions; `None` for any text that has none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LOG_CURSOR_BYTES_MAX {
            return None;
        }
        let decoded = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut positions = BTreeMap::new();
        for one in decoded.split(',') {
            let mut numbers = one.split('.');
            let mut next = || u64::from_str_radix(numbers.next()?, 16).ok();
            let (epoch, partition, low) = (next()?, next()?, next()?);
            let key = (u32::try_from(epoch).ok()?, u32::try_from(partition).ok()?);
            if numbers.next().is_some() || positions.insert(key, low).is_some() {
                return None;
            }
        }
        (positions.len() <= LOG_PARTITIONS_MAX).then_some(Self(positions))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_texts_are_no_positions() {
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let many = (0..=LOG_PARTITIONS_MAX)
            .map(|n| format!("1.{n:x}.0"))
            .collect::<Vec<_>>()
            .join(",");
        for text in [
            "%".to_owned(),
            encoded(""),
            encoded("1.2"),
            encoded("1.2.3.4"),
            encoded("1.2.3,1.2.4"),
            encoded("100000000.2.3"),
            encoded("-1.2.3"),
            encoded(&many),
            "A".repeat(LOG_CURSOR_BYTES_MAX + 1),
        ] {
            assert_eq!(LogPositions::parse(&text), None, "{text}");
        }
        let all = LogPositions::parse(&encoded("ffffffff.ffffffff.ffffffffffffffff")).unwrap();
        assert_eq!(LogPositions::parse(&all.to_text()), Some(all));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_harm(
            text in prop_oneof![
                "\\PC{0,60}".boxed(),
                "([0-9a-f]{1,9}\\.[0-9a-f]{1,9}\\.[0-9a-f]{1,17},?){0,4}"
                    .prop_map(|text| URL_SAFE_NO_PAD.encode(text))
                    .boxed(),
            ],
        ) {
            if let Some(positions) = LogPositions::parse(&text) {
                prop_assert_eq!(LogPositions::parse(&positions.to_text()), Some(positions));
            }
        }
    }
}
