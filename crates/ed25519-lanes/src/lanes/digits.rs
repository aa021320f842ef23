//! Scalars as digits, for table lookups.

use crate::signed_digits;

/// N digits of eight scalars, lowest first, all lanes of a digit together.
pub(super) struct Digits<const N: usize>([[i64; 8]; N]);

impl<const N: usize> Digits<N> {
    pub(super) fn new() -> Self {
        Self([[0; 8]; N])
    }

    /// Writes one lane. The digits must reach beyond the scalar, so that the last one needs no
    /// carry.
    pub(super) fn set<const BITS: usize>(&mut self, lane: usize, scalar: &[u8; 32]) {
        for (digit, value) in self.0.iter_mut().zip(signed_digits::<BITS>(scalar)) {
            digit[lane] = value as i64;
        }
    }

    /// A digit of all scalars, and the lanes where it is negative.
    #[inline]
    pub(super) fn get(&self, index: usize) -> (&[i64; 8], u8) {
        let digits = &self.0[index];
        let mut negative = 0;
        for (lane, digit) in digits.iter().enumerate() {
            negative |= u8::from(*digit < 0) << lane;
        }
        (digits, negative)
    }
}
