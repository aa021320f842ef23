//! Eight elements of the field of 2^255 - 19 elements, one per lane.
//!
//! An element is five limbs of 51 bits. A limb is *tight* if it is at most 2^51 + 2^17. The limbs
//! of a [`Field`] are tight where nothing else is said. The multiplier reads 52 bits of a limb: a
//! sum of two tight limbs can have 53, so it is carried before it is multiplied. Products are
//! carried only after they were added to each other: [`Wide`].

use core::arch::x86_64::{
    __m512i, __mmask8, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_mask_sub_epi64, _mm512_or_si512, _mm512_rol_epi64,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_sub_epi64,
    _mm512_test_epi64_mask,
};

const LIMB_MASK: i64 = (1 << 51) - 1;
/// The limbs of 2 p.
const TWO_P: [i64; 5] = [
    2 * (LIMB_MASK - 18),
    2 * LIMB_MASK,
    2 * LIMB_MASK,
    2 * LIMB_MASK,
    2 * LIMB_MASK,
];

pub(super) const ZERO: [u64; 5] = [0; 5];
pub(super) const ONE: [u64; 5] = [1, 0, 0, 0, 0];
/// The curve's d.
pub(super) const D: [u64; 5] = [
    0x34dca135978a3,
    0x1a8283b156ebd,
    0x5e7a26001c029,
    0x739c663a03cbb,
    0x52036cee2b6ff,
];
/// Twice the curve's d.
pub(super) const TWO_D: [u64; 5] = [
    0x69b9426b2f159,
    0x35050762add7a,
    0x3cf44c0038052,
    0x6738cc7407977,
    0x2406d9dc56dff,
];
/// A square root of -1.
pub(super) const SQRT_MINUS_ONE: [u64; 5] = [
    0x61b274a0ea0b0,
    0x0d5a5fc8f189d,
    0x7ef5e9cbd0c60,
    0x78595a6804c9e,
    0x2b8324804fc1d,
];

/// Eight elements: limb n of all lanes in vector n.
#[derive(Clone, Copy)]
pub(super) struct Field(pub(super) [__m512i; 5]);

/// Sums of products and elements, not carried. A limb of a product is at most 267 times 2^52, and a
/// difference adds 2^61: the largest sum, of three products and a difference, is below 2^63.
#[derive(Clone, Copy)]
pub(super) struct Wide([__m512i; 5]);

impl Field {
    /// An element, in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn splat(limbs: &[u64; 5]) -> Self {
        Self([
            _mm512_set1_epi64(limbs[0].cast_signed()),
            _mm512_set1_epi64(limbs[1].cast_signed()),
            _mm512_set1_epi64(limbs[2].cast_signed()),
            _mm512_set1_epi64(limbs[3].cast_signed()),
            _mm512_set1_epi64(limbs[4].cast_signed()),
        ])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn add(&self, other: &Self) -> Self {
        self.wide().add(&other.wide()).carry()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn sub(&self, other: &Self) -> Self {
        self.wide().sub(&other.wide()).carry()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn wide(&self) -> Wide {
        Wide(self.0)
    }

    /// The element with its sign changed in the lanes of a mask. Its limbs aren't tight there, but
    /// below 2^52: they may be multiplied, and nothing else.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn negate_where(&self, lanes: __mmask8) -> Self {
        let mut result = self.0;
        for (limb, two_p) in result.iter_mut().zip(TWO_P) {
            *limb = _mm512_mask_sub_epi64(*limb, lanes, _mm512_set1_epi64(two_p), *limb);
        }
        Self(result)
    }

    /// Another element in the lanes of a mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn replace_where(&self, lanes: __mmask8, other: &Self) -> Self {
        let mut result = self.0;
        for (limb, other) in result.iter_mut().zip(&other.0) {
            *limb = _mm512_mask_blend_epi64(lanes, *limb, *other);
        }
        Self(result)
    }

    /// The product. Limbs of both factors may have 52 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn mul(&self, other: &Self) -> Self {
        self.product(other).carry()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn square(&self) -> Self {
        self.product_with_itself().carry()
    }

    /// The product, not carried. Limbs of both factors may have 52 bits.
    ///
    /// The product of two limbs has 104 bits: the lower 52 belong to the column at the sum of the
    /// limbs' indices. The upper 52 belong to the next column, twice, since a column has 51 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn product(&self, other: &Self) -> Wide {
        let (a, b) = (&self.0, &other.0);
        let mut columns = [_mm512_setzero_si512(); 10];
        add_upper_halves(&mut columns, 1, a[0], b);
        add_upper_halves(&mut columns, 2, a[1], b);
        add_upper_halves(&mut columns, 3, a[2], b);
        add_upper_halves(&mut columns, 4, a[3], b);
        add_upper_halves(&mut columns, 5, a[4], b);
        double(&mut columns);
        add_lower_halves(&mut columns, 0, a[0], b);
        add_lower_halves(&mut columns, 1, a[1], b);
        add_lower_halves(&mut columns, 2, a[2], b);
        add_lower_halves(&mut columns, 3, a[3], b);
        add_lower_halves(&mut columns, 4, a[4], b);
        fold(&columns)
    }

    /// The square, not carried: as the product, with the products of different limbs made once.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn product_with_itself(&self) -> Wide {
        let a = &self.0;
        let mut columns = [_mm512_setzero_si512(); 10];
        add_upper_halves(&mut columns, 2, a[0], &a[1..]);
        add_upper_halves(&mut columns, 4, a[1], &a[2..]);
        add_upper_halves(&mut columns, 6, a[2], &a[3..]);
        add_upper_halves(&mut columns, 8, a[3], &a[4..]);
        double(&mut columns);
        add_upper_halves(&mut columns, 1, a[0], &a[..1]);
        add_upper_halves(&mut columns, 3, a[1], &a[1..2]);
        add_upper_halves(&mut columns, 5, a[2], &a[2..3]);
        add_upper_halves(&mut columns, 7, a[3], &a[3..4]);
        add_upper_halves(&mut columns, 9, a[4], &a[4..]);
        add_lower_halves(&mut columns, 1, a[0], &a[1..]);
        add_lower_halves(&mut columns, 3, a[1], &a[2..]);
        add_lower_halves(&mut columns, 5, a[2], &a[3..]);
        add_lower_halves(&mut columns, 7, a[3], &a[4..]);
        double(&mut columns);
        add_lower_halves(&mut columns, 0, a[0], &a[..1]);
        add_lower_halves(&mut columns, 2, a[1], &a[1..2]);
        add_lower_halves(&mut columns, 4, a[2], &a[2..3]);
        add_lower_halves(&mut columns, 6, a[3], &a[3..4]);
        add_lower_halves(&mut columns, 8, a[4], &a[4..]);
        fold(&columns)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    fn square_times(&self, times: usize) -> Self {
        let mut result = *self;
        for _ in 0..times {
            result = result.square();
        }
        result
    }

    /// The powers 2^250 - 1 and 11.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    fn power_2_250_1(&self) -> (Self, Self) {
        let power_2 = self.square();
        let power_9 = power_2.square_times(2).mul(self);
        let power_11 = power_9.mul(&power_2);
        let ones_5 = power_11.square().mul(&power_9);
        let ones_10 = ones_5.square_times(5).mul(&ones_5);
        let ones_20 = ones_10.square_times(10).mul(&ones_10);
        let ones_40 = ones_20.square_times(20).mul(&ones_20);
        let ones_50 = ones_40.square_times(10).mul(&ones_10);
        let ones_100 = ones_50.square_times(50).mul(&ones_50);
        let ones_200 = ones_100.square_times(100).mul(&ones_100);
        let ones_250 = ones_200.square_times(50).mul(&ones_50);
        (ones_250, power_11)
    }

    /// The inverse, as the power p - 2 = 2^255 - 21. The inverse of 0 is 0.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn invert(&self) -> Self {
        let (power, power_11) = self.power_2_250_1();
        power.square_times(5).mul(&power_11)
    }

    /// The power (p - 5) / 8 = 2^252 - 3.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn power_p58(&self) -> Self {
        self.power_2_250_1().0.square_times(2).mul(self)
    }

    /// The elements with limbs of 51 bits, below p.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    fn canonical(&self) -> Self {
        let mask = _mm512_set1_epi64(LIMB_MASK);
        let nineteen = _mm512_set1_epi64(19);
        // The element is below 2 p. It is at least p exactly if adding 19 reaches 2^255.
        let mut over = nineteen;
        for limb in &self.0 {
            over = _mm512_srli_epi64::<51>(_mm512_add_epi64(*limb, over));
        }
        let mut result = self.0;
        let mut carried = _mm512_madd52lo_epu64(_mm512_setzero_si512(), over, nineteen);
        for limb in &mut result {
            let sum = _mm512_add_epi64(*limb, carried);
            *limb = _mm512_and_si512(sum, mask);
            carried = _mm512_srli_epi64::<51>(sum);
        }
        Self(result)
    }

    /// The lanes whose element is 0.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn zeros(&self) -> __mmask8 {
        let [l0, l1, l2, l3, l4] = self.canonical().0;
        let any = _mm512_or_si512(_mm512_or_si512(_mm512_or_si512(l0, l1), _mm512_or_si512(l2, l3)), l4);
        _mm512_cmpeq_epi64_mask(any, _mm512_setzero_si512())
    }

    /// The lanes whose element is odd, which RFC 8032 calls negative.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn odds(&self) -> __mmask8 {
        _mm512_test_epi64_mask(self.canonical().0[0], _mm512_set1_epi64(1))
    }

    /// The elements' canonical encodings, as four little-endian words.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn encode(&self) -> [__m512i; 4] {
        let [l0, l1, l2, l3, l4] = self.canonical().0;
        [
            _mm512_or_si512(l0, _mm512_slli_epi64::<51>(l1)),
            _mm512_or_si512(_mm512_srli_epi64::<13>(l1), _mm512_slli_epi64::<38>(l2)),
            _mm512_or_si512(_mm512_srli_epi64::<26>(l2), _mm512_slli_epi64::<25>(l3)),
            _mm512_or_si512(_mm512_srli_epi64::<39>(l3), _mm512_slli_epi64::<12>(l4)),
        ]
    }
}

impl Wide {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn add(&self, other: &Self) -> Self {
        let mut sum = self.0;
        for (limb, other) in sum.iter_mut().zip(&other.0) {
            *limb = _mm512_add_epi64(*limb, *other);
        }
        Self(sum)
    }

    /// The difference. The subtrahend is a product or an element.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn sub(&self, other: &Self) -> Self {
        let mut difference = self.0;
        for ((limb, other), two_p) in difference.iter_mut().zip(&other.0).zip(TWO_P) {
            let raised = _mm512_add_epi64(*limb, _mm512_set1_epi64(two_p << 9));
            *limb = _mm512_sub_epi64(raised, *other);
        }
        Self(difference)
    }

    /// Makes limbs tight: a carry has 12 bits, 19 times a carry 17.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    pub(super) fn carry(&self) -> Field {
        let mask = _mm512_set1_epi64(LIMB_MASK);
        let [l0, l1, l2, l3, l4] = self.0;
        Field([
            _mm512_madd52lo_epu64(
                _mm512_and_si512(l0, mask),
                _mm512_srli_epi64::<51>(l4),
                _mm512_set1_epi64(19),
            ),
            _mm512_add_epi64(_mm512_and_si512(l1, mask), _mm512_srli_epi64::<51>(l0)),
            _mm512_add_epi64(_mm512_and_si512(l2, mask), _mm512_srli_epi64::<51>(l1)),
            _mm512_add_epi64(_mm512_and_si512(l3, mask), _mm512_srli_epi64::<51>(l2)),
            _mm512_add_epi64(_mm512_and_si512(l4, mask), _mm512_srli_epi64::<51>(l3)),
        ])
    }
}

/// The limbs of an encoding. Its highest bit is ignored.
pub(super) fn limbs(encoding: &[u8; 32]) -> [u64; 5] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(encoding.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    [
        words[0],
        words[0] >> 51 | words[1] << 13,
        words[1] >> 38 | words[2] << 26,
        words[2] >> 25 | words[3] << 39,
        words[3] >> 12,
    ]
    .map(|limb| limb & LIMB_MASK.cast_unsigned())
}

/// Adds the upper halves of a limb's products to the columns from one on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn add_upper_halves(columns: &mut [__m512i; 10], first: usize, a: __m512i, b: &[__m512i]) {
    for (column, b) in columns[first..].iter_mut().zip(b) {
        *column = _mm512_madd52hi_epu64(*column, a, *b);
    }
}

/// Adds the lower halves of a limb's products to the columns from one on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn add_lower_halves(columns: &mut [__m512i; 10], first: usize, a: __m512i, b: &[__m512i]) {
    for (column, b) in columns[first..].iter_mut().zip(b) {
        *column = _mm512_madd52lo_epu64(*column, a, *b);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn double(columns: &mut [__m512i; 10]) {
    for column in columns {
        *column = _mm512_add_epi64(*column, *column);
    }
}

/// Adds each column from 5 on, 19 times, to the column five below.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn fold(columns: &[__m512i; 10]) -> Wide {
    let mut result = [columns[0]; 5];
    for (index, limb) in result.iter_mut().enumerate() {
        let (low, high) = (columns[index], columns[index + 5]);
        let three_times = _mm512_add_epi64(high, _mm512_add_epi64(high, high));
        // A rotation, since the compiler turns a shift into a product, which is slower.
        let sixteen_times = _mm512_rol_epi64::<4>(high);
        *limb = _mm512_add_epi64(low, _mm512_add_epi64(sixteen_times, three_times));
    }
    Wide(result)
}
