//! Vectors of eight 64-bit lanes: what the compiler's intrinsics don't offer as safe functions.

use core::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_shuffle_i64x2, _mm512_storeu_si512, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi64,
};

/// A vector with its lanes in memory.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
#[expect(unsafe_code, reason = "an array of 64 bytes is read, without alignment")]
pub(super) fn load(lanes: &[u64; 8]) -> __m512i {
    // SAFETY: the reference is valid for 64 bytes, and the instruction needs no alignment.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

/// The lanes of a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
#[expect(unsafe_code, reason = "an array of 64 bytes is written, without alignment")]
pub(super) fn store(vector: __m512i) -> [u64; 8] {
    let mut lanes = [0; 8];
    // SAFETY: the array is valid for 64 bytes, and the instruction needs no alignment.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) };
    lanes
}

/// Turns eight rows into eight columns: lane l of vector n is number n of row l.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
pub(super) fn transpose(rows: [&[u64; 8]; 8]) -> [__m512i; 8] {
    let r = [
        load(rows[0]),
        load(rows[1]),
        load(rows[2]),
        load(rows[3]),
        load(rows[4]),
        load(rows[5]),
        load(rows[6]),
        load(rows[7]),
    ];
    // Pairs of rows: the numbers with even index, then those with odd index.
    let even = [
        _mm512_unpacklo_epi64(r[0], r[1]),
        _mm512_unpacklo_epi64(r[2], r[3]),
        _mm512_unpacklo_epi64(r[4], r[5]),
        _mm512_unpacklo_epi64(r[6], r[7]),
    ];
    let odd = [
        _mm512_unpackhi_epi64(r[0], r[1]),
        _mm512_unpackhi_epi64(r[2], r[3]),
        _mm512_unpackhi_epi64(r[4], r[5]),
        _mm512_unpackhi_epi64(r[6], r[7]),
    ];
    let [c0, c2, c4, c6] = transpose_pairs(even);
    let [c1, c3, c5, c7] = transpose_pairs(odd);
    [c0, c1, c2, c3, c4, c5, c6, c7]
}

/// Transposes a matrix of 4 by 4 pairs of numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn transpose_pairs(rows: [__m512i; 4]) -> [__m512i; 4] {
    // 0x88 takes the pairs 0 and 2 of both vectors, 0xdd the pairs 1 and 3.
    let (low_0_2, low_1_3) = (
        _mm512_shuffle_i64x2::<0x88>(rows[0], rows[1]),
        _mm512_shuffle_i64x2::<0xdd>(rows[0], rows[1]),
    );
    let (high_0_2, high_1_3) = (
        _mm512_shuffle_i64x2::<0x88>(rows[2], rows[3]),
        _mm512_shuffle_i64x2::<0xdd>(rows[2], rows[3]),
    );
    [
        _mm512_shuffle_i64x2::<0x88>(low_0_2, high_0_2),
        _mm512_shuffle_i64x2::<0x88>(low_1_3, high_1_3),
        _mm512_shuffle_i64x2::<0xdd>(low_0_2, high_0_2),
        _mm512_shuffle_i64x2::<0xdd>(low_1_3, high_1_3),
    ]
}
