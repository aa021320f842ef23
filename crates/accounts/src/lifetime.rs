//! Life of a key, `30d`, `12h`, `8w`, `1y`, and time that a replaced one continues.
//!
//! The API allows one number and one of four units. `humantime` and `jiff` read much more (`1year
//! 2min`); to `humantime` a year is 365.25 days, and `jiff` needs a date to give it a length.

use std::fmt;
use std::str::FromStr;

/// Milliseconds of an hour.
pub(crate) const HOUR_MS: i64 = 3_600_000;
/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;
/// Between two checks of a proof that is found, in milliseconds.
pub(crate) const WEEK_MS: i64 = 7 * DAY_MS;
/// Time between the urgent warning and the end, in milliseconds.
pub const URGENT_MS: i64 = 30 * DAY_MS;
/// Age of an event, in milliseconds, up to which a mail about it is still worth sending.
pub(crate) const OLD_NEWS_MS: i64 = 30 * DAY_MS;
/// Milliseconds of a year: 365 days, so that a lifetime doesn't depend on when it begins.
pub(crate) const YEAR_MS: i64 = 365 * DAY_MS;
/// The longest lifetime.
const MAX_MS: i64 = 10 * YEAR_MS;
/// The longest overlap.
const OVERLAP_MAX_MS: i64 = 30 * DAY_MS;

/// A key's lifetime: an hour to 10 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime {
    ms: i64,
}

/// Text that is no lifetime, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LifetimeError {
    /// Not a number and a unit.
    #[error("`{0}` is no duration: write a number and a unit, as in 12h, 30d, 8w or 1y")]
    Malformed(String),
    /// Shorter or longer than allowed.
    #[error("`{0}` is out of range: 1h to 10y are allowed")]
    OutOfRange(String),
}

/// Time that a key continues beside its replacement: 0 to 30 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overlap {
    ms: i64,
}

/// Text that is no overlap, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverlapError {
    /// Not a number and a unit.
    #[error("`{0}` is no duration: write a number and a unit, as in 0h, 12h, 7d or 2w")]
    Malformed(String),
    /// Longer than allowed.
    #[error("`{0}` is out of range: 0h to 30d are allowed")]
    OutOfRange(String),
}

/// A number and a unit that aren't one, or are none of 64 bits' milliseconds.
enum DurationError {
    Malformed,
    TooLong,
}

impl Lifetime {
    /// A lifetime of `ms` milliseconds, if that is between the shortest and the longest.
    #[must_use]
    pub fn from_ms(ms: i64) -> Option<Self> {
        (HOUR_MS..=MAX_MS).contains(&ms).then_some(Self { ms })
    }

    /// In milliseconds.
    #[must_use]
    pub fn as_ms(self) -> i64 {
        self.ms
    }

    /// When it ends if it begins at `now_ms`.
    #[must_use]
    pub fn end_ms(self, now_ms: i64) -> i64 {
        now_ms.saturating_add(self.ms)
    }
}

impl Overlap {
    /// A day: long enough to bring a new key to every machine.
    pub const DAY: Self = Self { ms: DAY_MS };

    /// In milliseconds.
    #[must_use]
    pub fn as_ms(self) -> i64 {
        self.ms
    }
}

impl FromStr for Lifetime {
    type Err = LifetimeError;

    fn from_str(text: &str) -> Result<Self, LifetimeError> {
        match duration_ms(text) {
            Err(DurationError::Malformed) => Err(LifetimeError::Malformed(shown(text))),
            Ok(ms) if (HOUR_MS..=MAX_MS).contains(&ms) => Ok(Self { ms }),
            Ok(_) | Err(DurationError::TooLong) => Err(LifetimeError::OutOfRange(shown(text))),
        }
    }
}

impl FromStr for Overlap {
    type Err = OverlapError;

    fn from_str(text: &str) -> Result<Self, OverlapError> {
        match duration_ms(text) {
            Err(DurationError::Malformed) => Err(OverlapError::Malformed(shown(text))),
            Ok(ms) if ms <= OVERLAP_MAX_MS => Ok(Self { ms }),
            Ok(_) | Err(DurationError::TooLong) => Err(OverlapError::OutOfRange(shown(text))),
        }
    }
}

/// A number and a unit letter in milliseconds, 0 or more.
fn duration_ms(text: &str) -> Result<i64, DurationError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "h" => HOUR_MS,
        "d" => DAY_MS,
        "w" => 7 * DAY_MS,
        "y" => YEAR_MS,
        _ => return Err(DurationError::Malformed),
    };
    if number.is_empty() {
        return Err(DurationError::Malformed);
    }
    // A number of more than 64 bits is too long like any other.
    let ms = number
        .parse::<i64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_ms));
    ms.ok_or(DurationError::TooLong)
}

/// Texts of others are quoted in answers: bounded.
fn shown(text: &str) -> String {
    text.chars().take(32).collect()
}

impl fmt::Display for Lifetime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("y", YEAR_MS), ("w", 7 * DAY_MS), ("d", DAY_MS)];
        let (unit, ms) = units
            .into_iter()
            .find(|(_, ms)| self.ms % ms == 0)
            .unwrap_or(("h", HOUR_MS));
        write!(out, "{}{unit}", self.ms / ms)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_and_units() {
        for (text, ms) in [
            ("1h", HOUR_MS),
            ("36h", 36 * HOUR_MS),
            ("30d", 30 * DAY_MS),
            ("2w", 14 * DAY_MS),
            ("1y", YEAR_MS),
            ("010y", MAX_MS),
            ("87600h", MAX_MS),
        ] {
            let lifetime: Lifetime = text.parse().unwrap();
            assert_eq!(lifetime.as_ms(), ms, "{text}");
            assert_eq!(lifetime.to_string().parse(), Ok(lifetime));
        }
        assert_eq!("1y".parse::<Lifetime>().unwrap().end_ms(5), YEAR_MS + 5);
    }

    #[test]
    fn anything_else_says_what_is_allowed() {
        for text in [
            "", "1", "y", "1m", "1Y", "1 y", " 1y", "1y ", "-1y", "+1y", "1.5y", "1y2d", "one year", "\u{661}y",
        ] {
            assert_eq!(text.parse::<Lifetime>(), Err(LifetimeError::Malformed(text.to_owned())));
        }
        for text in [
            "0h",
            "0y",
            "11y",
            "3651d",
            "99999999999999999999y",
            "9223372036854775807h",
        ] {
            assert_eq!(
                text.parse::<Lifetime>(),
                Err(LifetimeError::OutOfRange(text.to_owned()))
            );
        }
    }

    #[test]
    fn an_overlap_may_be_none_and_is_bounded() {
        for (text, ms) in [
            ("0h", 0),
            ("0y", 0),
            ("12h", 12 * HOUR_MS),
            ("30d", OVERLAP_MAX_MS),
            ("720h", OVERLAP_MAX_MS),
        ] {
            assert_eq!(text.parse::<Overlap>().unwrap().as_ms(), ms, "{text}");
        }
        for text in ["31d", "721h", "1y", "99999999999999999999h"] {
            assert_eq!(text.parse::<Overlap>(), Err(OverlapError::OutOfRange(text.to_owned())));
        }
        for text in ["", "0", "h", "-1h", "1m"] {
            assert_eq!(text.parse::<Overlap>(), Err(OverlapError::Malformed(text.to_owned())));
        }
    }

    proptest! {
        /// An accepted text is within the limits and equal to its own text; an error says
        /// what is allowed, in bounded words.
        #[test]
        fn any_text_is_a_lifetime_or_a_clear_error(text in "[0-9]{0,12}[hdwyHm ]{0,2}|\\PC{0,40}") {
            match text.parse::<Lifetime>() {
                Ok(lifetime) => {
                    prop_assert!((HOUR_MS..=MAX_MS).contains(&lifetime.as_ms()));
                    prop_assert_eq!(lifetime.to_string().parse::<Lifetime>(), Ok(lifetime));
                    prop_assert_eq!(Lifetime::from_ms(lifetime.as_ms()), Some(lifetime));
                }
                Err(error) => {
                    let words = error.to_string();
                    prop_assert!(words.contains("30d") || words.contains("1h to 10y"), "{}", words);
                    prop_assert!(words.chars().count() < 120, "{}", words);
                }
            }
        }

        /// An independent reading of the same text: number times unit, in 128 bits.
        #[test]
        fn a_number_and_a_unit_are_their_product(number in prop_oneof![0_u64..100_000, any::<u64>()], unit in 0_usize..4) {
            let (letter, hours) = [("h", 1), ("d", 24), ("w", 24 * 7), ("y", 24 * 365)][unit];
            let ms = i128::from(number) * hours * 3_600_000;
            let expected = (3_600_000..=10 * 365 * 24 * 3_600_000).contains(&ms).then_some(ms);
            let read = format!("{number}{letter}").parse::<Lifetime>().ok();
            prop_assert_eq!(read.map(|lifetime| i128::from(lifetime.as_ms())), expected);
        }
    }
}
