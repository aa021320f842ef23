//! Affine points in memory.

use super::field::Field;
use super::point::AffineNiels;
use super::vector::{store, transpose};

/// A point in the form of a summand: five limbs each of y + x, y - x and 2 d x y, and an unused
/// number, so that a row is two lines of the CPU's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Row([[u64; 8]; 2]);

impl Row {
    /// The neutral element.
    pub(super) const IDENTITY: Self = Self([[1, 0, 0, 0, 0, 1, 0, 0], [0; 8]]);
}

impl AffineNiels {
    /// A point per lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn load(rows: [&Row; 8]) -> Self {
        let [p0, p1, p2, p3, p4, m0, m1, m2] = transpose(rows.map(|row| &row.0[0]));
        let [m3, m4, d0, d1, d2, d3, d4, _] = transpose(rows.map(|row| &row.0[1]));
        Self {
            y_plus_x: Field([p0, p1, p2, p3, p4]),
            y_minus_x: Field([m0, m1, m2, m3, m4]),
            product: Field([d0, d1, d2, d3, d4]),
        }
    }

    /// The points of all lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn rows(&self) -> [Row; 8] {
        let mut rows = [Row([[0; 8]; 2]); 8];
        let limbs = self.y_plus_x.0.iter().chain(&self.y_minus_x.0).chain(&self.product.0);
        for (index, limb) in limbs.enumerate() {
            for (row, number) in rows.iter_mut().zip(store(*limb)) {
                row.0[index / 8][index % 8] = number;
            }
        }
        rows
    }
}
