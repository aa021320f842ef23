//! Sums of points of P-256.

use super::field::FieldElement;
use super::inversion::invert_all;
use super::multiples::CurvePoint;

/// Pairs of points from which on one inversion for all of them pays.
const PAIRS_MIN: usize = 40;

/// The sum of each list's points. `None` where an addition fails: where a sum meets the next addend
/// or its opposite, for which signatures must be crafted. No list changes another one's sum.
pub(super) fn sums(lists: &mut [Vec<CurvePoint>]) -> impl Iterator<Item = Option<Sum>> {
    while lists.iter().map(|points| points.len() / 2).sum::<usize>() >= PAIRS_MIN {
        add_pairs(lists);
    }
    lists.iter().map(|points| Sum::of(points))
}

/// Halves the lists by adding points in pairs. A list in which that fails is emptied.
///
/// With an inversion that all additions share, one takes 6 multiplications instead of 10.
fn add_pairs(lists: &mut [Vec<CurvePoint>]) {
    for points in lists.iter_mut() {
        if points.as_chunks().0.iter().any(|[a, b]| a.x == b.x) {
            points.clear();
        }
    }
    let pairs = lists.iter().flat_map(|points| points.as_chunks().0);
    let mut inverses: Vec<_> = pairs.map(|[a, b]| b.x.subtract(&a.x)).collect();
    invert_all(
        &mut inverses,
        FieldElement::ONE,
        |a, b| a.multiply(b),
        FieldElement::invert,
    );
    let mut inverses = inverses.iter();
    for points in lists {
        let pairs = points.len() / 2;
        for (pair, inverse) in (0..pairs).zip(&mut inverses) {
            let (a, b) = (points[2 * pair], points[2 * pair + 1]);
            let slope = b.y.subtract(&a.y).multiply(inverse);
            let x = slope.square().subtract(&a.x).subtract(&b.x);
            let y = slope.multiply(&a.x.subtract(&x)).subtract(&a.y);
            points[pair] = CurvePoint { x, y };
        }
        // The last one of an odd number has no partner yet.
        points.drain(pairs..2 * pairs);
    }
}

/// A sum of points that isn't infinity: x = `x / zz`, y = `y / zzz` and zz^3 = zzz^2.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    x: FieldElement,
    y: FieldElement,
    zz: FieldElement,
    zzz: FieldElement,
}

impl Sum {
    /// The sum of points. `None` where [`add`](Self::add) fails, or there are none.
    fn of(points: &[CurvePoint]) -> Option<Self> {
        let (first, others) = points.split_first()?;
        let mut sum = Self {
            x: first.x,
            y: first.y,
            zz: FieldElement::ONE,
            zzz: FieldElement::ONE,
        };
        for point in others {
            sum.add(point)?;
        }
        Some(sum)
    }

    /// Adds a point ("madd-2008-s" of the Explicit-Formulas Database). `None` where the formula
    /// fails: the sum is that point or its opposite. Signatures must be crafted for that.
    fn add(&mut self, point: &CurvePoint) -> Option<()> {
        let p = point.x.multiply(&self.zz).subtract(&self.x);
        if p == FieldElement::ZERO {
            return None;
        }
        let r = point.y.multiply(&self.zzz).subtract(&self.y);
        let pp = p.square();
        let ppp = p.multiply(&pp);
        let q = self.x.multiply(&pp);
        self.x = r.square().subtract(&ppp).subtract(&q).subtract(&q);
        self.y = r.multiply(&q.subtract(&self.x)).subtract(&self.y.multiply(&ppp));
        self.zz = self.zz.multiply(&pp);
        self.zzz = self.zzz.multiply(&ppp);
        Some(())
    }

    /// Whether the sum has this x-coordinate.
    pub(super) fn has_x(&self, x: &FieldElement) -> bool {
        x.multiply(&self.zz) == self.x
    }

    /// Whether the sum is this point.
    #[cfg(test)]
    pub(super) fn is(&self, point: &CurvePoint) -> bool {
        self.has_x(&point.x) && point.y.multiply(&self.zzz) == self.y
    }
}
