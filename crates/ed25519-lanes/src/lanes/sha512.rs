//! SHA-512 (FIPS 180-4) of eight messages of different lengths, one per lane.

use core::arch::x86_64::{
    __m512i, __mmask8, _mm512_add_epi64, _mm512_mask_add_epi64, _mm512_ror_epi64, _mm512_set1_epi64, _mm512_set4_epi32,
    _mm512_shuffle_epi8, _mm512_srli_epi64, _mm512_ternarylogic_epi64,
};

use super::vector::{store, transpose};

const INITIAL: [u64; 8] = [
    0x6a09e667f3bcc908,
    0xbb67ae8584caa73b,
    0x3c6ef372fe94f82b,
    0xa54ff53a5f1d36f1,
    0x510e527fade682d1,
    0x9b05688c2b3e6c1f,
    0x1f83d9abfb41bd6b,
    0x5be0cd19137e2179,
];
const ROUND_CONSTANTS: [[u64; 16]; 5] = [
    [
        0x428a2f98d728ae22,
        0x7137449123ef65cd,
        0xb5c0fbcfec4d3b2f,
        0xe9b5dba58189dbbc,
        0x3956c25bf348b538,
        0x59f111f1b605d019,
        0x923f82a4af194f9b,
        0xab1c5ed5da6d8118,
        0xd807aa98a3030242,
        0x12835b0145706fbe,
        0x243185be4ee4b28c,
        0x550c7dc3d5ffb4e2,
        0x72be5d74f27b896f,
        0x80deb1fe3b1696b1,
        0x9bdc06a725c71235,
        0xc19bf174cf692694,
    ],
    [
        0xe49b69c19ef14ad2,
        0xefbe4786384f25e3,
        0x0fc19dc68b8cd5b5,
        0x240ca1cc77ac9c65,
        0x2de92c6f592b0275,
        0x4a7484aa6ea6e483,
        0x5cb0a9dcbd41fbd4,
        0x76f988da831153b5,
        0x983e5152ee66dfab,
        0xa831c66d2db43210,
        0xb00327c898fb213f,
        0xbf597fc7beef0ee4,
        0xc6e00bf33da88fc2,
        0xd5a79147930aa725,
        0x06ca6351e003826f,
        0x142929670a0e6e70,
    ],
    [
        0x27b70a8546d22ffc,
        0x2e1b21385c26c926,
        0x4d2c6dfc5ac42aed,
        0x53380d139d95b3df,
        0x650a73548baf63de,
        0x766a0abb3c77b2a8,
        0x81c2c92e47edaee6,
        0x92722c851482353b,
        0xa2bfe8a14cf10364,
        0xa81a664bbc423001,
        0xc24b8b70d0f89791,
        0xc76c51a30654be30,
        0xd192e819d6ef5218,
        0xd69906245565a910,
        0xf40e35855771202a,
        0x106aa07032bbd1b8,
    ],
    [
        0x19a4c116b8d2d0c8,
        0x1e376c085141ab53,
        0x2748774cdf8eeb99,
        0x34b0bcb5e19b48a8,
        0x391c0cb3c5c95a63,
        0x4ed8aa4ae3418acb,
        0x5b9cca4f7763e373,
        0x682e6ff3d6b2b8a3,
        0x748f82ee5defb2fc,
        0x78a5636f43172f60,
        0x84c87814a1f0ab72,
        0x8cc702081a6439ec,
        0x90befffa23631e28,
        0xa4506cebde82bde9,
        0xbef9a3f7b2c67915,
        0xc67178f2e372532b,
    ],
    [
        0xca273eceea26619c,
        0xd186b8c721c0c207,
        0xeada7dd6cde0eb1e,
        0xf57d4f7fee6ed178,
        0x06f067aa72176fba,
        0x0a637dc5a2c898a6,
        0x113f9804bef90dae,
        0x1b710b35131c471b,
        0x28db77f523047d84,
        0x32caab7b40c72493,
        0x3c9ebe0a15c9bebc,
        0x431d67c49c100d4c,
        0x4cc5d4becb3e42b6,
        0x597f299cfc657e2a,
        0x5fcb6fab3ad6faec,
        0x6c44198c4a475817,
    ],
];

/// A lane's input: R and A, then the message.
#[derive(Clone, Copy)]
pub(super) struct HashInput<'a> {
    pub(super) head: [u8; 64],
    pub(super) message: &'a [u8],
}

impl HashInput<'_> {
    /// The number of blocks, padding included: a byte 0x80 and the length in 16 bytes.
    fn blocks(&self) -> usize {
        (64 + self.message.len() + 17).div_ceil(128)
    }

    /// A block, or anything if there are fewer.
    fn block(&self, index: usize) -> [[u64; 8]; 2] {
        let mut block = [0; 128];
        let (room, message) = match index {
            0 => {
                block[..64].copy_from_slice(&self.head);
                (&mut block[64..], self.message)
            }
            _ => (&mut block[..], self.message.get(index * 128 - 64..).unwrap_or_default()),
        };
        let length = message.len().min(room.len());
        room[..length].copy_from_slice(&message[..length]);
        let total = 64 + self.message.len();
        if total / 128 == index {
            block[total % 128] = 0x80;
        }
        if index + 1 == self.blocks() {
            block[112..].copy_from_slice(&(total as u128 * 8).to_be_bytes());
        }
        let mut words = [[0; 8]; 2];
        for (word, bytes) in words.as_flattened_mut().iter_mut().zip(block.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        words
    }
}

/// The hashes of all lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
pub(super) fn hash(inputs: &[HashInput<'_>; 8]) -> [[u8; 64]; 8] {
    let lengths = inputs.map(|input| input.blocks());
    let mut state = [_mm512_set1_epi64(0); 8];
    for (word, initial) in state.iter_mut().zip(INITIAL) {
        *word = _mm512_set1_epi64(initial.cast_signed());
    }
    for index in 0..lengths.into_iter().max().unwrap_or_default() {
        let blocks = inputs.map(|input| input.block(index));
        let mut active = 0;
        for (lane, length) in lengths.iter().enumerate() {
            active |= u8::from(index < *length) << lane;
        }
        compress(&mut state, &blocks, active);
    }
    let mut hashes = [[0; 64]; 8];
    for (word, vector) in state.iter().enumerate() {
        for (hash, value) in hashes.iter_mut().zip(store(*vector)) {
            hash[8 * word..][..8].copy_from_slice(&value.to_be_bytes());
        }
    }
    hashes
}

/// Hashes one block in the lanes of a mask.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn compress(state: &mut [__m512i; 8], blocks: &[[[u64; 8]; 2]; 8], active: __mmask8) {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = blocks;
    let low = transpose([&b0[0], &b1[0], &b2[0], &b3[0], &b4[0], &b5[0], &b6[0], &b7[0]]);
    let high = transpose([&b0[1], &b1[1], &b2[1], &b3[1], &b4[1], &b5[1], &b6[1], &b7[1]]);
    let swap_bytes = _mm512_set4_epi32(0x0809_0a0b, 0x0c0d_0e0f, 0x0001_0203, 0x0405_0607);
    let mut words = [swap_bytes; 16];
    for (word, block) in words.iter_mut().zip(low.iter().chain(&high)) {
        *word = _mm512_shuffle_epi8(*block, swap_bytes);
    }
    let mut working = *state;
    for (part, constants) in ROUND_CONSTANTS.iter().enumerate() {
        if part > 0 {
            extend(&mut words);
        }
        for (word, constant) in words.iter().zip(constants) {
            let addend = _mm512_add_epi64(*word, _mm512_set1_epi64(constant.cast_signed()));
            working = round(working, addend);
        }
    }
    for (word, working) in state.iter_mut().zip(&working) {
        *word = _mm512_mask_add_epi64(*word, active, *word, *working);
    }
}

/// The next sixteen words of the message schedule.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn extend(words: &mut [__m512i; 16]) {
    for index in 0..16 {
        let (w1, w14) = (words[(index + 1) % 16], words[(index + 14) % 16]);
        let sigma_0 = xor(
            _mm512_ror_epi64::<1>(w1),
            _mm512_ror_epi64::<8>(w1),
            _mm512_srli_epi64::<7>(w1),
        );
        let sigma_1 = xor(
            _mm512_ror_epi64::<19>(w14),
            _mm512_ror_epi64::<61>(w14),
            _mm512_srli_epi64::<6>(w14),
        );
        let sum = _mm512_add_epi64(words[index], words[(index + 9) % 16]);
        words[index] = _mm512_add_epi64(_mm512_add_epi64(sum, sigma_0), sigma_1);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn round([a, b, c, d, e, f, g, h]: [__m512i; 8], addend: __m512i) -> [__m512i; 8] {
    let sigma_1 = xor(
        _mm512_ror_epi64::<14>(e),
        _mm512_ror_epi64::<18>(e),
        _mm512_ror_epi64::<41>(e),
    );
    let choice = _mm512_ternarylogic_epi64::<0xca>(e, f, g);
    let sum = _mm512_add_epi64(_mm512_add_epi64(h, addend), _mm512_add_epi64(sigma_1, choice));
    let sigma_0 = xor(
        _mm512_ror_epi64::<28>(a),
        _mm512_ror_epi64::<34>(a),
        _mm512_ror_epi64::<39>(a),
    );
    let majority = _mm512_ternarylogic_epi64::<0xe8>(a, b, c);
    let next = _mm512_add_epi64(sum, _mm512_add_epi64(sigma_0, majority));
    [next, a, b, c, _mm512_add_epi64(d, sum), e, f, g]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn xor(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}
