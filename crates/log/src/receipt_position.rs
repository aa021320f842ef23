//! Position of a receipt, as people and other programs write it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::record::Position;

/// Position of a receipt in the log: its record's and its index in the batch (0 for a single
/// receipt). Written `epoch:partition:offset:index`, all decimal. Stored as one integer: see
/// [`Position::receipt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiptPosition {
    /// The record.
    pub record: Position,
    /// The receipt's index in it.
    pub index: u16,
}

/// The text is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a position is epoch:partition:offset:index, like 2863311530:0:41:0")]
pub struct NoPosition;

impl From<u128> for ReceiptPosition {
    #[allow(clippy::cast_possible_truncation)] // Each field is cut out of its bits.
    fn from(packed: u128) -> Self {
        Self {
            record: Position {
                epoch: (packed >> 96) as u32,
                partition: (packed >> 64) as u32,
                offset: (packed >> 16) as u64 & ((1 << 48) - 1),
            },
            index: packed as u16,
        }
    }
}

impl From<ReceiptPosition> for u128 {
    fn from(position: ReceiptPosition) -> Self {
        position.record.receipt(position.index)
    }
}

impl fmt::Display for ReceiptPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position {
            epoch,
            partition,
            offset,
        } = self.record;
        write!(f, "{epoch}:{partition}:{offset}:{}", self.index)
    }
}

impl FromStr for ReceiptPosition {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        fn number<T: FromStr>(text: Option<&str>) -> Result<T, NoPosition> {
            text.and_then(|text| text.parse().ok()).ok_or(NoPosition)
        }
        let mut parts = text.split(':');
        let position = Self {
            record: Position {
                epoch: number(parts.next())?,
                partition: number(parts.next())?,
                offset: number(parts.next())?,
            },
            index: number(parts.next())?,
        };
        if parts.next().is_some() || position.record.offset >= 1 << 48 {
            return Err(NoPosition);
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_and_integer_say_the_same(packed: u128) {
            let position = ReceiptPosition::from(packed);
            prop_assert_eq!(u128::from(position), packed);
            prop_assert_eq!(position.to_string().parse(), Ok(position));
        }
    }

    #[test]
    fn other_texts_are_no_position() {
        for text in [
            "",
            "1:2:3",
            "1:2:3:4:5",
            "1:2:3:65536",
            "4294967296:0:0:0",
            "1:2:281474976710656:0",
            "a:0:0:0",
        ] {
            assert_eq!(text.parse::<ReceiptPosition>(), Err(NoPosition), "{text}");
        }
    }
}
