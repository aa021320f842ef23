//! Multiples of a point of P-256, computed ahead, so that multiplying it by a scalar is a few dozen
//! additions and no doubling.

use ed25519_lanes::signed_digits;
use p256::elliptic_curve::BatchNormalize as _;
use p256::elliptic_curve::point::AffineCoordinates as _;
use p256::{AffinePoint, ProjectivePoint};

use super::field::FieldElement;
use crate::table_points::table_points;

/// A point other than infinity, in one line of a CPU's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct CurvePoint {
    pub(super) x: FieldElement,
    pub(super) y: FieldElement,
}

impl From<&AffinePoint> for CurvePoint {
    fn from(point: &AffinePoint) -> Self {
        Self {
            x: FieldElement::from_be_bytes(&point.x().into()),
            y: FieldElement::from_be_bytes(&point.y().into()),
        }
    }
}

/// The table of a point for windows of `W` bits, 4 to 8: for window i the multiples 1 to 2^(W-1) of
/// 2^(W i) times the point. Takes 64 bytes times 2^(W-1) times 257/W.
#[derive(Debug)]
pub(super) struct Multiples<const W: usize> {
    points: Box<[CurvePoint]>,
}

impl<const W: usize> Multiples<W> {
    /// A scalar is below 2^256, and the last digit may carry.
    pub(super) const WINDOWS: usize = 257_usize.div_ceil(W);
    const HALF: usize = 1 << (W - 1);

    /// The table of a point other than infinity.
    pub(super) fn new(point: &AffinePoint) -> Self {
        let multiples = table_points(ProjectivePoint::from(point), Self::WINDOWS, Self::HALF);
        let points = ProjectivePoint::batch_normalize(multiples.as_slice());
        Self {
            points: points.iter().map(CurvePoint::from).collect(),
        }
    }

    /// Appends the points whose sum is the product of the point and a little-endian scalar.
    pub(super) fn append_addends(&self, scalar: &[u8; 32], addends: &mut Vec<CurvePoint>) {
        let windows = self.points.chunks_exact(Self::HALF);
        for (multiples, digit) in windows.zip(signed_digits::<W>(scalar)) {
            if digit != 0 {
                let CurvePoint { x, y } = multiples[digit.unsigned_abs() - 1];
                let y = if digit > 0 { y } else { y.negate() };
                addends.push(CurvePoint { x, y });
            }
        }
    }
}
