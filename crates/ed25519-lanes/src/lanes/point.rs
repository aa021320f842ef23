//! Eight points of edwards25519, one per lane, in the coordinates of Hisil, Wong, Carter and Dawson
//! ("Twisted Edwards curves revisited"). The formulas are complete: they hold for all pairs of
//! points of the curve, small order included.

use core::arch::x86_64::{__m512i, __mmask8, _mm512_mask_or_epi64, _mm512_set1_epi64};

use super::field::{D, Field, ONE, SQRT_MINUS_ONE, TWO_D, Wide, ZERO, limbs};

/// The point (x / z, y / z).
#[derive(Clone, Copy)]
pub(super) struct Projective {
    pub(super) x: Field,
    pub(super) y: Field,
    pub(super) z: Field,
}

/// A projective point with t = x y / z, which an addition reads.
#[derive(Clone, Copy)]
pub(super) struct Extended {
    pub(super) point: Projective,
    t: Field,
}

/// The factors that a doubling or an addition ends with: the point (e / g, h / f).
pub(super) struct Completed {
    e: Field,
    f: Field,
    g: Field,
    h: Field,
}

/// A summand with z = 1.
pub(super) struct AffineNiels {
    pub(super) y_plus_x: Field,
    pub(super) y_minus_x: Field,
    /// 2 d x y.
    pub(super) product: Field,
}

/// A summand.
pub(super) struct Niels {
    /// y + x, y - x and 2 d t.
    affine: AffineNiels,
    double_z: Field,
}

impl Projective {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn double(&self) -> Completed {
        let xx = self.x.product_with_itself();
        let yy = self.y.product_with_itself();
        let zz = self.z.product_with_itself();
        let xy = self.x.product(&self.y);
        Completed {
            e: xy.add(&xy).carry(),
            f: zz.add(&zz).add(&xx).sub(&yy).carry(),
            g: yy.sub(&xx).carry(),
            h: yy.add(&xx).carry(),
        }
    }
}

impl Extended {
    /// The neutral element, (0, 1).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn identity() -> Self {
        let (zero, one) = (Field::splat(&ZERO), Field::splat(&ONE));
        Self {
            point: Projective {
                x: zero,
                y: one,
                z: one,
            },
            t: zero,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn add_affine(&self, summand: &AffineNiels) -> Completed {
        let double_z = self.point.z.wide().add(&self.point.z.wide());
        self.add_with(summand, &double_z)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn add(&self, summand: &Niels) -> Completed {
        let double_z = self.point.z.product(&summand.double_z);
        self.add_with(&summand.affine, &double_z)
    }

    /// The sum, given twice the product of both z.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    fn add_with(&self, summand: &AffineNiels, double_z: &Wide) -> Completed {
        let Projective { x, y, .. } = &self.point;
        let plus = y.add(x).product(&summand.y_plus_x);
        let minus = y.sub(x).product(&summand.y_minus_x);
        let product = self.t.product(&summand.product);
        Completed {
            e: plus.sub(&minus).carry(),
            f: double_z.sub(&product).carry(),
            g: double_z.add(&product).carry(),
            h: plus.add(&minus).carry(),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn niels(&self) -> Niels {
        let Projective { x, y, z } = &self.point;
        Niels {
            affine: AffineNiels {
                y_plus_x: y.add(x),
                y_minus_x: y.sub(x),
                product: self.t.mul(&Field::splat(&TWO_D)),
            },
            double_z: z.add(z),
        }
    }

    /// Another point in the lanes of a mask.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn replace_where(&self, lanes: __mmask8, other: &Self) -> Self {
        Self {
            point: Projective {
                x: self.point.x.replace_where(lanes, &other.point.x),
                y: self.point.y.replace_where(lanes, &other.point.y),
                z: self.point.z.replace_where(lanes, &other.point.z),
            },
            t: self.t.replace_where(lanes, &other.t),
        }
    }
}

impl Completed {
    /// The point without t, for a doubling: one product less.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn projective(&self) -> Projective {
        Projective {
            x: self.e.mul(&self.f),
            y: self.g.mul(&self.h),
            z: self.f.mul(&self.g),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn extended(&self) -> Extended {
        Extended {
            point: self.projective(),
            t: self.e.mul(&self.h),
        }
    }
}

impl AffineNiels {
    /// The points (x, y).
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn new(x: &Field, y: &Field) -> Self {
        Self {
            y_plus_x: y.add(x),
            y_minus_x: y.sub(x),
            product: x.mul(y).mul(&Field::splat(&TWO_D)),
        }
    }

    /// The point with its sign changed in the lanes of a mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn negate_where(&self, lanes: __mmask8) -> Self {
        Self {
            y_plus_x: self.y_plus_x.replace_where(lanes, &self.y_minus_x),
            y_minus_x: self.y_minus_x.replace_where(lanes, &self.y_plus_x),
            product: self.product.negate_where(lanes),
        }
    }
}

impl Niels {
    /// The neutral element.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn identity() -> Self {
        let one = Field::splat(&ONE);
        Self {
            affine: AffineNiels {
                y_plus_x: one,
                y_minus_x: one,
                product: Field::splat(&ZERO),
            },
            double_z: Field::splat(&[2, 0, 0, 0, 0]),
        }
    }

    /// Another point in the lanes of a mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn replace_where(&self, lanes: __mmask8, other: &Self) -> Self {
        let (mine, others) = (&self.affine, &other.affine);
        Self {
            affine: AffineNiels {
                y_plus_x: mine.y_plus_x.replace_where(lanes, &others.y_plus_x),
                y_minus_x: mine.y_minus_x.replace_where(lanes, &others.y_minus_x),
                product: mine.product.replace_where(lanes, &others.product),
            },
            double_z: self.double_z.replace_where(lanes, &other.double_z),
        }
    }

    /// The point with its sign changed in the lanes of a mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn negate_where(&self, lanes: __mmask8) -> Self {
        Self {
            affine: self.affine.negate_where(lanes),
            double_z: self.double_z,
        }
    }
}

/// The inverses of all z, from one inversion and three products each (Montgomery's trick).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
pub(super) fn invert_all_z(points: &[Projective]) -> Vec<Field> {
    let mut product = Field::splat(&ONE);
    // First the product of the z before each point.
    let mut inverses = Vec::with_capacity(points.len());
    for point in points {
        inverses.push(product);
        product = product.mul(&point.z);
    }
    let mut inverse = product.invert();
    for (point, entry) in points.iter().zip(&mut inverses).rev() {
        *entry = entry.mul(&inverse);
        inverse = inverse.mul(&point.z);
    }
    inverses
}

/// The encodings of points, given the inverses of their z, as four little-endian words.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
pub(super) fn encode(point: &Projective, z_inverse: &Field) -> [__m512i; 4] {
    let [w0, w1, w2, w3] = point.y.mul(z_inverse).encode();
    let negative = point.x.mul(z_inverse).odds();
    [
        w0,
        w1,
        w2,
        _mm512_mask_or_epi64(w3, negative, w3, _mm512_set1_epi64(i64::MIN)),
    ]
}

/// Decodes a point and changes its sign. `None` if the encoding isn't canonical or not of a point.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
pub(super) fn decode_minus(encoding: &[u8; 32]) -> Option<AffineNiels> {
    let limbs = limbs(encoding);
    if limbs[0] >= (1 << 51) - 19 && limbs[1..] == [(1 << 51) - 1; 4] {
        return None;
    }
    let y = Field::splat(&limbs);
    let one = Field::splat(&ONE);
    let yy = y.square();
    // x^2 = u / v. If that is a square, u v^3 (u v^7)^((p - 5) / 8) is a root of it or of -u / v.
    let u = yy.sub(&one);
    let v = yy.mul(&Field::splat(&D)).add(&one);
    let uv3 = v.square().mul(&v).mul(&u);
    let v4 = v.square().square();
    let mut x = uv3.mul(&v4).power_p58().mul(&uv3);
    let vxx = x.square().mul(&v);
    if vxx.sub(&u).zeros() == 0 {
        if vxx.add(&u).zeros() == 0 {
            return None;
        }
        x = x.mul(&Field::splat(&SQRT_MINUS_ONE));
    }
    let (odd, sign) = (x.odds() != 0, encoding[31] >> 7 == 1);
    if sign && x.zeros() != 0 {
        return None;
    }
    if odd == sign {
        x = Field::splat(&ZERO).sub(&x);
    }
    Some(AffineNiels::new(&x, &y))
}
