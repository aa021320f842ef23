//! The double that a JSON number represents, in time that any number of digits can't stretch.
//!
//! The standard library reads most numbers in tens of nanoseconds, but one of some hundred digits
//! that lies next to the middle between two doubles takes it 30 microseconds: a batch of 8 MiB of
//! them nearly a second. What takes it long is the choice between two neighbours, and that is made
//! here by comparing integers.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// So many digits fit a `u64`, and the standard library is quick with them.
const QUICK_DIGITS: usize = 19;
/// More than the middle between any two doubles has (767): digits beyond only say whether anything
/// is left.
const DIGITS_MAX: usize = 800;
/// Bytes of digits that most numbers keep on the stack.
const DIGITS_USUAL: usize = 128;
/// Beyond this an exponent's value doesn't matter: no text is long enough to make up for it.
const EXPONENT_MAX: i64 = 1 << 40;

/// The double nearest to an RFC 8259 number, ties to even; infinite beyond their range.
pub(crate) fn parse(text: &str) -> f64 {
    if text.len() <= QUICK_DIGITS {
        return quick(text);
    }
    let (sign, magnitude) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    sign * Decimal::read(magnitude.as_bytes()).nearest()
}

fn quick(text: &str) -> f64 {
    // The scanner's grammar is within the standard library's.
    text.parse().unwrap_or(f64::INFINITY)
}

/// `digits` * 10^`exponent`, with neither leading nor trailing zeros.
struct Decimal {
    digits: SmallVec<[u8; DIGITS_USUAL]>,
    exponent: i64,
}

impl Decimal {
    /// Reads a number without its sign.
    fn read(text: &[u8]) -> Self {
        let (mantissa, exponent) = match memchr::memchr2(b'e', b'E', text) {
            Some(at) => (&text[..at], read_exponent(&text[at + 1..])),
            None => (text, 0),
        };
        let (whole, fraction) = match memchr::memchr(b'.', mantissa) {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        let whole = without_leading_zeros(whole);
        let significant = if whole.is_empty() {
            without_leading_zeros(fraction)
        } else {
            fraction
        };
        // The exponent of the last digit that is used, before any is cut off.
        let mut exponent = exponent - length(fraction);
        let mut digits = SmallVec::<[u8; DIGITS_USUAL]>::new();
        let mut rest = false;
        for part in [whole, significant] {
            let (head, cut) = part.split_at(part.len().min(DIGITS_MAX - digits.len()));
            digits.extend_from_slice(head);
            exponent += length(cut);
            rest |= cut.iter().any(|&digit| digit != b'0');
        }
        if rest {
            // More than the digits used, and less than one more in the last of them: all there
            // is to know.
            digits.push(b'1');
            exponent -= 1;
        }
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent += 1;
        }
        Self { digits, exponent }
    }

    fn nearest(&self) -> f64 {
        let Some((head, rest)) = self
            .digits
            .split_at_checked(QUICK_DIGITS)
            .filter(|(_, rest)| !rest.is_empty())
        else {
            return quick_scaled(value(&self.digits), self.exponent);
        };
        // It lies between two numbers of few digits, and so between what they are rounded to: the
        // same or neighbours.
        let (head, exponent) = (value(head), self.exponent + length(rest));
        let (below, above) = (quick_scaled(head, exponent), quick_scaled(head + 1, exponent));
        if below == above {
            return below;
        }
        match self.compare_to_middle_above(below) {
            Ordering::Less => below,
            Ordering::Greater => above,
            Ordering::Equal if below.to_bits() & 1 == 0 => below,
            Ordering::Equal => above,
        }
    }

    /// Compares with the middle between a finite double and the next one.
    fn compare_to_middle_above(&self, double: f64) -> Ordering {
        let (fraction, biased) = (double.to_bits() & ((1 << 52) - 1), double.to_bits() >> 52);
        let (mantissa, power) = match biased {
            0 => (fraction, -1_074),
            biased => (fraction | 1 << 52, i64::try_from(biased).unwrap_or_default() - 1_075),
        };
        // digits * 5^e * 2^e against (2 * mantissa + 1) * 2^(power - 1), each side scaled up to an
        // integer.
        let (mut ours, mut middle) = (Integer::of_digits(&self.digits), Integer::of(2 * mantissa + 1));
        let fives = u32::try_from(self.exponent.unsigned_abs()).unwrap_or(u32::MAX);
        let twos = self.exponent - (power - 1);
        let shift = usize::try_from(twos.unsigned_abs()).unwrap_or(usize::MAX);
        if self.exponent >= 0 { &mut ours } else { &mut middle }.times_power_of_five(fives);
        if twos >= 0 { &mut ours } else { &mut middle }.shift_left(shift);
        ours.compare(&middle)
    }
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    &digits[zeros..]
}

fn read_exponent(text: &[u8]) -> i64 {
    let (sign, digits) = match text.split_first() {
        Some((b'-', digits)) => (-1, digits),
        Some((b'+', digits)) => (1, digits),
        _ => (1, text),
    };
    let value = digits.iter().fold(0, |value: i64, digit| {
        (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX)
    });
    sign * value
}

/// The value of at most 19 digits.
fn value(digits: &[u8]) -> u64 {
    digits
        .iter()
        .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

fn quick_scaled(value: u64, exponent: i64) -> f64 {
    quick(&format!("{value}e{exponent}"))
}

/// A whole number, its lowest limb first, without zero limbs at the top.
struct Integer(SmallVec<[u64; 64]>);

impl Integer {
    fn of(value: u64) -> Self {
        Self(SmallVec::from_slice(&[value]))
    }

    fn of_digits(digits: &[u8]) -> Self {
        let mut integer = Self(SmallVec::new());
        for chunk in digits.chunks(QUICK_DIGITS) {
            let power = u32::try_from(chunk.len()).unwrap_or_default();
            integer.times_and_add(10_u64.pow(power), value(chunk));
        }
        integer
    }

    #[allow(clippy::cast_possible_truncation)]
    fn times_and_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
        if carry > 0 {
            self.0.push(carry as u64);
        }
    }

    fn times_power_of_five(&mut self, mut power: u32) {
        /// The largest power of five in a limb.
        const POWER_MAX: u32 = 27;
        while power > 0 {
            let step = power.min(POWER_MAX);
            self.times_and_add(5_u64.pow(step), 0);
            power -= step;
        }
    }

    fn shift_left(&mut self, bits: usize) {
        let shift = u32::try_from(bits % 64).unwrap_or_default();
        self.times_and_add(1 << shift, 0);
        self.0.insert_many(0, std::iter::repeat_n(0, bits / 64));
    }

    fn compare(&self, other: &Self) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::parse;

    fn agree(text: &str) {
        let theirs: f64 = text.parse().unwrap();
        assert_eq!(parse(text).to_bits(), theirs.to_bits(), "{text}");
    }

    /// `digits * factor`, in decimal.
    fn times(digits: &mut Vec<u8>, factor: u32) {
        let mut carry = 0;
        for digit in digits.iter_mut().rev() {
            carry += u32::from(*digit - b'0') * factor;
            *digit = b'0' + u8::try_from(carry % 10).unwrap();
            carry /= 10;
        }
        while carry > 0 {
            digits.insert(0, b'0' + u8::try_from(carry % 10).unwrap());
            carry /= 10;
        }
    }

    /// The middle between a positive finite double and the next one, exactly: its digits, and the
    /// power of ten they stand at.
    fn middle(double: f64) -> (String, i64) {
        let (fraction, biased) = (double.to_bits() & ((1 << 52) - 1), double.to_bits() >> 52);
        let (mantissa, power) = match biased {
            0 => (fraction, -1_075),
            biased => (fraction | 1 << 52, i64::try_from(biased).unwrap() - 1_076),
        };
        let mut digits = (2 * mantissa + 1).to_string().into_bytes();
        for _ in 0..power.unsigned_abs() {
            times(&mut digits, if power > 0 { 2 } else { 5 });
        }
        (String::from_utf8(digits).unwrap(), power.min(0))
    }

    /// The middle, and what lies next to it on either side, written in several ways.
    fn around_the_middle(double: f64) {
        let (digits, exponent) = middle(double);
        let below = {
            let mut digits = digits.clone().into_bytes();
            // The last digit of an odd number, or of one times a power of five, isn't 0; of one
            // times a power of two it may be.
            let at = digits.iter().rposition(|&digit| digit != b'0').unwrap();
            digits[at] -= 1;
            digits[at + 1..].fill(b'9');
            String::from_utf8(digits).unwrap()
        };
        for text in [
            format!("{digits}e{exponent}"),
            format!("-{below}e{exponent}"),
            format!("{below}.{}e{exponent}", "9".repeat(900)),
            format!("{digits}.{}1e{exponent}", "0".repeat(900)),
            format!("{digits}.000e{exponent}"),
            format!("0.000{digits}e{}", exponent + 3 + i64::try_from(digits.len()).unwrap()),
            format!("{digits}{}E{}", "0".repeat(100), exponent - 100),
            format!(
                "{}e{}",
                &digits[..20.min(digits.len())],
                exponent + i64::try_from(digits.len() - 20.min(digits.len())).unwrap()
            ),
        ] {
            agree(&text);
        }
    }

    #[test]
    fn edges() {
        for double in [
            0.0,
            f64::from_bits(1),
            f64::from_bits((1 << 52) - 1),
            f64::MIN_POSITIVE,
            1.0,
            1.0 - f64::EPSILON / 2.0,
            9_007_199_254_740_992.0,
            1e23,
            f64::MAX,
        ] {
            around_the_middle(double);
        }
        for text in [
            "0.00000000000000000000",
            "-0.0000000000000000000000e99",
            "100000000000000000000000000000000",
            "0.1000000000000000000000000000000",
            "1e00000000000000000000000000000000001",
            "1e99999999999999999999999999999",
            "1e-99999999999999999999999999999",
            "0e99999999999999999999999999999",
            "1234567890123456789.0123456789",
        ] {
            agree(text);
        }
        let (zeros, nines) = ("0".repeat(70_000), "9".repeat(70_000));
        agree(&format!("0.{zeros}1e70001"));
        agree(&format!("1{zeros}e-70000"));
        agree(&format!("1{zeros}1e-70001"));
        agree(&format!("{nines}e-70000"));
        agree(&format!("0.{nines}"));
        agree(&nines);
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(text in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?") {
            agree(&text);
        }

        #[test]
        fn agrees_on_long_ones(whole in "[1-9][0-9]{18,900}", fraction in "[0-9]{1,900}", exponent in -1_500_i32..400) {
            agree(&format!("{whole}.{fraction}e{exponent}"));
        }

        #[test]
        fn agrees_around_the_middle(bits in 0..f64::MAX.to_bits()) {
            around_the_middle(f64::from_bits(bits));
        }
    }
}
