//! Arithmetic modulo the prime of P-256, 2^256 - 2^224 + 2^192 + 2^96 - 1.

use p256::elliptic_curve::bigint::modular::{ConstMontyForm, ConstMontyParams as _};
use p256::elliptic_curve::bigint::{U256, const_monty_params};

const_monty_params!(
    Prime,
    U256,
    "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
    "Prime of P-256."
);

const PRIME: [u64; 4] = Prime::PARAMS.modulus().as_ref().to_words();
/// 2^512 modulo the prime.
const R_SQUARED: FieldElement = FieldElement([3, 0xffff_fffb_ffff_ffff, 0xffff_ffff_ffff_fffe, 0x4_ffff_fffd]);

/// A number below the prime, times 2^256 (Montgomery's form), least significant limb first.
///
/// Time depends on the numbers: only for numbers that anyone may know, as in verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldElement([u64; 4]);

impl FieldElement {
    pub(super) const ZERO: Self = Self([0; 4]);
    pub(super) const ONE: Self = Self([1, 0xffff_ffff_0000_0000, u64::MAX, 0xffff_fffe]);

    /// A number, modulo the prime.
    pub(super) fn from_be_bytes(bytes: &[u8; 32]) -> Self {
        let mut limbs = [0; 4];
        for (limb, bytes) in limbs.iter_mut().rev().zip(bytes.as_chunks().0) {
            *limb = u64::from_be_bytes(*bytes);
        }
        Self(limbs).multiply(&R_SQUARED)
    }

    /// The product, by Montgomery's method: after each limb of `other`, a multiple of the prime is
    /// added that makes the lowest limb zero, and that limb is dropped.
    #[inline(always)]
    pub(super) fn multiply(&self, other: &Self) -> Self {
        let mut sum = [0; 5];
        for factor in other.0 {
            let (lowest, carry) = multiply_add(self.0[0], factor, sum[0], 0);
            let (limb1, carry) = multiply_add(self.0[1], factor, sum[1], carry);
            let (limb2, carry) = multiply_add(self.0[2], factor, sum[2], carry);
            let (limb3, carry) = multiply_add(self.0[3], factor, sum[3], carry);
            let (limb4, limb5) = add(sum[4], carry, 0);
            // Adds `lowest` times the prime, which is PRIME[3] 2^192 + 2^96 - 1: the -1 makes the
            // lowest limb zero.
            let (limb1, carry) = add(limb1, lowest << 32, 0);
            let (limb2, carry) = add(limb2, lowest >> 32, carry);
            let (limb3, carry) = multiply_add(lowest, PRIME[3], limb3, carry);
            let (limb4, carry) = add(limb4, carry, 0);
            sum = [limb1, limb2, limb3, limb4, limb5 + carry];
        }
        let [limb0, limb1, limb2, limb3, overflow] = sum;
        Self([limb0, limb1, limb2, limb3]).reduce_once(overflow)
    }

    #[inline(always)]
    pub(super) fn square(&self) -> Self {
        self.multiply(self)
    }

    /// The inverse of a number other than zero.
    pub(super) fn invert(&self) -> Self {
        let number = ConstMontyForm::<Prime, { U256::LIMBS }>::from_montgomery(U256::from_words(self.0));
        Self(
            number
                .invert_vartime()
                .map_or(self.0, |inverse| inverse.to_montgomery().to_words()),
        )
    }

    #[inline(always)]
    pub(super) fn subtract(&self, other: &Self) -> Self {
        let (difference, borrow) = subtract(self.0, other.0);
        // Where the difference is negative, adding the prime once makes it positive.
        let mask = borrow.wrapping_neg();
        let (limb0, carry) = add(difference[0], PRIME[0] & mask, 0);
        let (limb1, carry) = add(difference[1], PRIME[1] & mask, carry);
        let (limb2, carry) = add(difference[2], PRIME[2] & mask, carry);
        let (limb3, _) = add(difference[3], PRIME[3] & mask, carry);
        Self([limb0, limb1, limb2, limb3])
    }

    #[inline(always)]
    pub(super) fn negate(&self) -> Self {
        Self::ZERO.subtract(self)
    }

    /// Subtracts the prime once from a number below its double, of which `overflow` is the fifth
    /// limb, if it isn't below the prime.
    #[inline(always)]
    fn reduce_once(self, overflow: u64) -> Self {
        let (difference, borrow) = subtract(self.0, PRIME);
        // A mask, since a branch would be mispredicted half of the time.
        let mask = u64::from(overflow < borrow).wrapping_neg();
        let choose = |original: u64, reduced: u64| original & mask | reduced & !mask;
        Self([
            choose(self.0[0], difference[0]),
            choose(self.0[1], difference[1]),
            choose(self.0[2], difference[2]),
            choose(self.0[3], difference[3]),
        ])
    }
}

/// `a + b + carry`: the sum's low limb and its carry.
#[inline(always)]
fn add(a: u64, b: u64, carry: u64) -> (u64, u64) {
    split(u128::from(a) + u128::from(b) + u128::from(carry))
}

/// `a * b + c + carry`, which can't overflow: low and high limb.
#[inline(always)]
fn multiply_add(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    split(u128::from(a) * u128::from(b) + u128::from(c) + u128::from(carry))
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
fn split(wide: u128) -> (u64, u64) {
    (wide as u64, (wide >> 64) as u64)
}

/// The difference modulo 2^256, and 1 if it is negative.
#[inline(always)]
fn subtract(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], u64) {
    let mut borrow = false;
    let mut difference = [0; 4];
    for i in 0..4 {
        let (limb, below) = a[i].overflowing_sub(b[i]);
        let (limb, below_again) = limb.overflowing_sub(u64::from(borrow));
        difference[i] = limb;
        borrow = below || below_again;
    }
    (difference, u64::from(borrow))
}
