//! How long a key lives: `30d`, `12h`, `8w`, `1y`.

use std::fmt;
use std::str::FromStr;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;
/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;
/// Milliseconds of a year: 365 days, so that a lifetime doesn't depend on when it begins.
pub(crate) const YEAR_MS: i64 = 365 * DAY_MS;
/// The longest lifetime.
const MAX_MS: i64 = 10 * YEAR_MS;

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

impl Lifetime {
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

impl FromStr for Lifetime {
    type Err = LifetimeError;

    fn from_str(text: &str) -> Result<Self, LifetimeError> {
        let shown = || text.chars().take(32).collect::<String>();
        let malformed = || LifetimeError::Malformed(shown());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit_ms = match unit {
            "h" => HOUR_MS,
            "d" => DAY_MS,
            "w" => 7 * DAY_MS,
            "y" => YEAR_MS,
            _ => return Err(malformed()),
        };
        if number.is_empty() {
            return Err(malformed());
        }
        // A number too large for 64 bits is out of range like any other too large one.
        let ms = number
            .parse::<i64>()
            .ok()
            .and_then(|number| number.checked_mul(unit_ms));
        match ms {
            Some(ms) if (HOUR_MS..=MAX_MS).contains(&ms) => Ok(Self { ms }),
            _ => Err(LifetimeError::OutOfRange(shown())),
        }
    }
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
}
