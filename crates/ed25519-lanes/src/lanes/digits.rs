//! Scalars as digits, for table lookups.

/// N digits of eight scalars, lowest first, all lanes of a digit together.
pub(super) struct Digits<const N: usize>([[i64; 8]; N]);

impl<const N: usize> Digits<N> {
    pub(super) fn new() -> Self {
        Self([[0; 8]; N])
    }

    /// Writes one lane: digits of BITS bits, at most 8, from `1 - 2^(BITS - 1)` to `2^(BITS - 1)`.
    /// The digits must reach beyond the scalar, so that the last one needs no carry.
    pub(super) fn set<const BITS: usize>(&mut self, lane: usize, scalar: &[u8; 32]) {
        let mut carry = 0;
        for (index, digit) in self.0.iter_mut().enumerate() {
            // Two bytes hold any digit.
            let (byte, shift) = (index * BITS / 8, index * BITS % 8);
            let low = scalar.get(byte).copied().unwrap_or_default();
            let high = scalar.get(byte + 1).copied().unwrap_or_default();
            let bits = u16::from_le_bytes([low, high]) >> shift & ((1 << BITS) - 1);
            let value = i64::from(bits) + carry;
            carry = i64::from(value > 1 << (BITS - 1));
            digit[lane] = value - (carry << BITS);
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
