//! Points of a table of multiples, on either curve.

use std::ops::{Add, AddAssign};

/// Returns the multiples 1 to `half` of `base`, then of each window's base: that of the next window
/// is twice the last multiple of a window.
pub(crate) fn table_points<P>(mut base: P, windows: usize, half: usize) -> Vec<P>
where
    P: Copy + Add<Output = P> + AddAssign,
{
    let mut multiples = Vec::with_capacity(windows * half);
    for _ in 0..windows {
        let mut multiple = base;
        multiples.push(multiple);
        for _ in 1..half {
            multiple += base;
            multiples.push(multiple);
        }
        base = multiple + multiple;
    }
    multiples
}
