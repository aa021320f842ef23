//! Multiples of a point, computed ahead, so that multiplying it by a scalar is a few dozen
//! additions and no doubling.

use super::point::{AffineNiels, Extended, invert_all_z};
use super::row::Row;

/// The multiples 1 to 2^(BITS - 1) of 2^(BITS w) times a point, for each window w of a scalar.
#[derive(Debug)]
pub(super) struct WindowTable<const BITS: usize>(Box<[Row]>);

impl<const BITS: usize> WindowTable<BITS> {
    /// A scalar is below 2^253. Where BITS divides 252 or 253 the last digit's carry needs a
    /// window, too: hence 254.
    pub(super) const WINDOWS: usize = 254_usize.div_ceil(BITS);
    const HALF: usize = 1 << (BITS - 1);

    /// The table of a point: eight windows at a time, one per lane.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn new(point: &Row) -> Self {
        let mut next = Extended::identity()
            .add_affine(&AffineNiels::load([point; 8]))
            .extended();
        let mut rows = vec![Row::IDENTITY; Self::WINDOWS * Self::HALF];
        for windows in rows.chunks_mut(8 * Self::HALF) {
            let mut base = next;
            for lane in 0..8 {
                base = base.replace_where(1 << lane, &next);
                for _ in 0..BITS {
                    next = next.point.double().extended();
                }
            }
            let summand = base.niels();
            let mut multiples = Vec::with_capacity(Self::HALF);
            for _ in 0..Self::HALF {
                multiples.push(base.point);
                base = base.add(&summand).extended();
            }
            let inverses = invert_all_z(&multiples);
            for (index, (multiple, inverse)) in multiples.iter().zip(&inverses).enumerate() {
                let affine = AffineNiels::new(&multiple.x.mul(inverse), &multiple.y.mul(inverse));
                for (window, row) in windows.chunks_mut(Self::HALF).zip(affine.rows()) {
                    window[index] = row;
                }
            }
        }
        Self(rows.into_boxed_slice())
    }

    /// The multiple for a digit of a window, without the digit's sign.
    #[inline]
    pub(super) fn row(&self, window: usize, digit: i64) -> &Row {
        match usize::try_from(digit.unsigned_abs()) {
            Ok(multiple @ 1..) => &self.0[window * Self::HALF + multiple - 1],
            _ => &Row::IDENTITY,
        }
    }
}
