//! Signed digits of a scalar, for tables of multiples.

/// Returns digits of `W` bits, 4 to 8, of a little-endian number, least significant first and
/// without end: from -(2^(W-1) - 1) to 2^(W-1), so that a table has half as many multiples as there
/// are digits.
pub fn signed_digits<const W: usize>(number: &[u8; 32]) -> impl Iterator<Item = isize> {
    let mut carry = 0;
    (0..).map(move |window| {
        // Two bytes hold any window of up to eight bits.
        let (byte, shift) = (window * W / 8, window * W % 8);
        let low = number.get(byte).copied().map_or(0, isize::from);
        let high = number.get(byte + 1).copied().map_or(0, isize::from);
        let digit = ((low | high << 8) >> shift & ((1 << W) - 1)) + carry;
        // Digits above one half become negative and carry into the next window.
        carry = isize::from(digit > 1 << (W - 1));
        digit - (carry << W)
    })
}
