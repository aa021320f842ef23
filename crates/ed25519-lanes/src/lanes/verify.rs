//! Verification of any number of signatures, in groups of eight.

use core::arch::x86_64::{_mm512_cmpeq_epi64_mask, _mm512_mask_cmpeq_epi64_mask, _mm512_set1_epi64};
use std::array;
use std::sync::{LazyLock, OnceLock};

use curve25519_dalek::constants::{ED25519_BASEPOINT_COMPRESSED, EIGHT_TORSION};
use curve25519_dalek::scalar::Scalar;

use super::digits::Digits;
use super::field::Field;
use super::point::{AffineNiels, Extended, Niels, Projective, decode_minus, encode, invert_all_z};
use super::row::Row;
use super::sha512::{self, HashInput};
use super::table::WindowTable;
use super::vector::load;
use super::{KEY_TABLE_BITS, KeyMultiples};
use crate::Item;

/// Groups that share an inversion: it takes 7 % of a group's time.
const GROUPS: usize = 8;

type BaseWindows = WindowTable<8>;

/// The canonical encodings of the eight points of small order.
pub(super) static SMALL_ORDER: LazyLock<[[u8; 32]; 8]> =
    LazyLock::new(|| EIGHT_TORSION.map(|point| point.compress().to_bytes()));

/// The multiples of the base point.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn base_table() -> &'static BaseWindows {
    static TABLE: OnceLock<BaseWindows> = OnceLock::new();
    TABLE.get_or_init(|| {
        // The encoding of the negated base point: decoding changes its sign back.
        let mut encoding = ED25519_BASEPOINT_COMPRESSED.to_bytes();
        encoding[31] ^= 0x80;
        let rows = decode_minus(&encoding).map(|point| point.rows());
        BaseWindows::new(&rows.map_or(Row::IDENTITY, |rows| rows[0]))
    })
}

/// The negated point of a key that a strict verifier accepts.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
pub(super) fn decode_key(encoding: &[u8; 32]) -> Option<Row> {
    let point = decode_minus(encoding)?;
    (!SMALL_ORDER.contains(encoding)).then(|| point.rows()[0])
}

/// Verdicts by item. Items with tables come first, so that few groups have both kinds.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
pub(super) fn verify(items: &[Item<'_>]) -> Vec<bool> {
    let (mut order, without_table): (Vec<usize>, Vec<usize>) =
        (0..items.len()).partition(|index| items[*index].signer.multiples().is_some());
    order.extend(without_table);
    let mut verdicts = vec![false; items.len()];
    for batch in order.chunks(8 * GROUPS) {
        let groups: Vec<LaneGroup<'_>> = batch.chunks(8).map(|indices| LaneGroup::new(items, indices)).collect();
        let mut sums = Vec::with_capacity(GROUPS);
        for group in &groups {
            sums.push(group.sum());
        }
        let inverses = invert_all_z(&sums);
        for (lanes, ((group, sum), inverse)) in batch.chunks(8).zip(groups.iter().zip(&sums).zip(&inverses)) {
            let accepted = group.accepted(sum, inverse);
            for (lane, index) in lanes.iter().enumerate() {
                verdicts[*index] = accepted >> lane & 1 == 1;
            }
        }
    }
    verdicts
}

/// Eight items. Lanes without an item of their own repeat the group's last one.
struct LaneGroup<'a> {
    items: [&'a Item<'a>; 8],
    /// S, or 0 in lanes where S isn't below L.
    s: [Scalar; 8],
    /// Lanes that the equation decides.
    candidates: u8,
}

impl<'a> LaneGroup<'a> {
    fn new(items: &'a [Item<'a>], indices: &[usize]) -> Self {
        let items: [_; 8] = array::from_fn(|lane| &items[indices[lane.min(indices.len() - 1)]]);
        let mut s = [Scalar::ZERO; 8];
        let mut candidates = 0;
        for (lane, (item, s)) in items.iter().zip(&mut s).enumerate() {
            let canonical = Option::from(Scalar::from_canonical_bytes(half(item.signature, 1)));
            let strict = canonical.is_some() && !SMALL_ORDER.contains(&half(item.signature, 0));
            *s = canonical.unwrap_or_default();
            candidates |= u8::from(strict) << lane;
        }
        Self { items, s, candidates }
    }

    /// `S B - k A`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    fn sum(&self) -> Projective {
        let base = base_table();
        let mut s = Digits::new();
        for (lane, scalar) in self.s.iter().enumerate() {
            s.set::<8>(lane, scalar.as_bytes());
        }
        let k = self.challenges();
        match self.tables() {
            Some(tables) => sum_from_tables(base, &s, &tables, &k),
            None => sum_with_doublings(
                base,
                &s,
                &AffineNiels::load(self.items.map(|item| &item.signer.key().minus_a)),
                &k,
            ),
        }
    }

    /// The keys' tables, if all have one.
    fn tables(&self) -> Option<[&'a KeyMultiples; 8]> {
        let first = self.items[0].signer.multiples()?;
        let mut tables = [first; 8];
        for (table, item) in tables.iter_mut().zip(&self.items) {
            *table = item.signer.multiples()?;
        }
        Some(tables)
    }

    /// The hashes of R, A and the message, modulo L.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    fn challenges(&self) -> [[u8; 32]; 8] {
        let inputs = self.items.map(|item| {
            let mut head = *item.signature;
            head[32..].copy_from_slice(&item.signer.key().encoding);
            HashInput {
                head,
                message: item.message,
            }
        });
        sha512::hash(&inputs).map(|hash| Scalar::from_bytes_mod_order_wide(&hash).to_bytes())
    }

    /// The lanes whose sum is encoded as R.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
    fn accepted(&self, sum: &Projective, z_inverse: &Field) -> u8 {
        let mut accepted = self.candidates;
        for (index, word) in encode(sum, z_inverse).iter().enumerate() {
            let r = self.items.map(|item| word_of(item.signature, index));
            accepted = _mm512_mask_cmpeq_epi64_mask(accepted, *word, load(&r));
        }
        accepted
    }
}

/// The sum by Straus' method: both products share their doublings. The points' multiples are made
/// here. A digit of S has twice the bits of one of k.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn sum_with_doublings(base: &BaseWindows, s: &Digits<32>, minus_a: &AffineNiels, k: &[[u8; 32]; 8]) -> Projective {
    let mut digits = Digits::<64>::new();
    for (lane, scalar) in k.iter().enumerate() {
        digits.set::<4>(lane, scalar);
    }
    let point = Extended::identity().add_affine(minus_a).extended();
    let mut multiples = Vec::with_capacity(8);
    let mut multiple = point;
    multiples.push(multiple.niels());
    for _ in 1..8 {
        multiple = multiple.add_affine(minus_a).extended();
        multiples.push(multiple.niels());
    }
    let mut sum = Extended::identity().point;
    for index in (0..64).rev() {
        for _ in 0..3 {
            sum = sum.double().projective();
        }
        let (digit, negative) = digits.get(index);
        let summand = select(&multiples, digit).negate_where(negative);
        let added = sum.double().extended().add(&summand);
        sum = if index % 2 == 0 {
            let (digit, negative) = s.get(index / 2);
            let summand = AffineNiels::load(digit.map(|digit| base.row(0, digit))).negate_where(negative);
            added.extended().add_affine(&summand).projective()
        } else {
            added.projective()
        };
    }
    sum
}

/// The multiple for each lane's digit, without the digit's sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn select(multiples: &[Niels], digits: &[i64; 8]) -> Niels {
    let wanted = load(&digits.map(i64::unsigned_abs));
    let mut selected = Niels::identity();
    for (multiple, number) in multiples.iter().zip(1..) {
        let lanes = _mm512_cmpeq_epi64_mask(wanted, _mm512_set1_epi64(number));
        selected = selected.replace_where(lanes, multiple);
    }
    selected
}

/// The sum from tables of all points: additions alone.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn sum_from_tables(base: &BaseWindows, s: &Digits<32>, tables: &[&KeyMultiples; 8], k: &[[u8; 32]; 8]) -> Projective {
    let mut digits = Digits::<{ KeyMultiples::WINDOWS }>::new();
    for (lane, scalar) in k.iter().enumerate() {
        digits.set::<KEY_TABLE_BITS>(lane, scalar);
    }
    let summand = |index: usize| match index.checked_sub(KeyMultiples::WINDOWS) {
        None => {
            let (digit, negative) = digits.get(index);
            let rows = array::from_fn(|lane| tables[lane].row(index, digit[lane]));
            AffineNiels::load(rows).negate_where(negative)
        }
        Some(window) => {
            let (digit, negative) = s.get(window);
            AffineNiels::load(digit.map(|digit| base.row(window, digit))).negate_where(negative)
        }
    };
    let mut sum = Extended::identity();
    for index in 0..KeyMultiples::WINDOWS + BaseWindows::WINDOWS {
        sum = sum.add_affine(&summand(index)).extended();
    }
    sum.point
}

/// R or S.
fn half(signature: &[u8; 64], index: usize) -> [u8; 32] {
    signature.as_chunks().0[index]
}

/// A little-endian word of R.
fn word_of(signature: &[u8; 64], index: usize) -> u64 {
    u64::from_le_bytes(signature.as_chunks().0[index])
}
