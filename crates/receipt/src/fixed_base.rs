//! Multiples of a point, computed ahead, so that multiplying it by a scalar is a few dozen
//! additions and no doubling.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity as _;
use ed25519_lanes::signed_digits;

use crate::table_points::table_points;

/// The table of a point for windows of `W` bits, 4 to 8: for window i the multiples 1 to 2^(W-1) of
/// 2^(W i) times the point. Takes 160 bytes times 2^(W-1) times 253/W.
///
/// Time depends on the scalar: only for scalars that anyone may know, as in verification.
#[derive(Debug)]
pub(crate) struct FixedBase<const W: usize> {
    multiples: Box<[EdwardsPoint]>,
}

impl<const W: usize> FixedBase<W> {
    /// A scalar is below 2^253. Where W divides 252 or 253 the last digit's carry needs a window,
    /// too: hence 254.
    const WINDOWS: usize = 254_usize.div_ceil(W);
    const HALF: usize = 1 << (W - 1);

    pub(crate) fn new(point: &EdwardsPoint) -> Self {
        let multiples = table_points(*point, Self::WINDOWS, Self::HALF);
        Self {
            multiples: multiples.into_boxed_slice(),
        }
    }

    /// The product of the point and a scalar.
    pub(crate) fn product(&self, scalar: &Scalar) -> EdwardsPoint {
        self.add_product(scalar, EdwardsPoint::identity())
    }

    /// Adds the product of the point and a scalar to a sum.
    pub(crate) fn add_product(&self, scalar: &Scalar, mut sum: EdwardsPoint) -> EdwardsPoint {
        let windows = self.multiples.chunks_exact(Self::HALF);
        for (multiples, digit) in windows.zip(signed_digits::<W>(scalar.as_bytes())) {
            match digit {
                1.. => sum += &multiples[digit.unsigned_abs() - 1],
                ..0 => sum -= &multiples[digit.unsigned_abs() - 1],
                0 => (),
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
    use proptest::prelude::*;

    fn agrees<const W: usize>(point: &EdwardsPoint, scalars: &[Scalar]) {
        let table = FixedBase::<W>::new(point);
        for scalar in scalars {
            assert_eq!(table.product(scalar), point * scalar);
            assert_eq!(table.add_product(scalar, *point), point * scalar + point);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn products_are_products(seeds in prop::collection::vec(any::<[u8; 32]>(), 8), torsion in 0_usize..8) {
            let mut scalars: Vec<Scalar> = seeds.into_iter().map(Scalar::from_bytes_mod_order).collect();
            let ones = Scalar::from_bytes_mod_order([0xff; 32]);
            scalars.extend([Scalar::ZERO, Scalar::ONE, -Scalar::ONE, -Scalar::from(2_u8), ones, -ones]);
            scalars.extend((0..253).step_by(7).map(|bit| (0..bit).fold(Scalar::ONE, |scalar, _| scalar + scalar)));
            let point = EdwardsPoint::mul_base(&scalars[0]) + EIGHT_TORSION[torsion];
            agrees::<4>(&point, &scalars);
            agrees::<5>(&point, &scalars);
            agrees::<6>(&point, &scalars);
            agrees::<7>(&point, &scalars);
            agrees::<8>(&ED25519_BASEPOINT_POINT, &scalars);
        }
    }
}
