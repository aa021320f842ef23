//! Field operations beside big integers, with limbs at their bounds in all lanes.

use num_bigint::BigUint;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::field::{D, Field, SQRT_MINUS_ONE, TWO_D, limbs};
use super::vector::{load, store};
use crate::Lanes;

const TIGHT_MAX: u64 = (1 << 51) + (1 << 17);
const FACTOR_MAX: u64 = (1 << 52) - 1;

type Elements = [[u64; 5]; 8];

fn p() -> BigUint {
    (BigUint::from(1_u8) << 255) - 19_u8
}

fn value(limbs: &[u64; 5]) -> BigUint {
    let sum: BigUint = limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 51) + limb);
    sum % p()
}

/// Elements with limbs up to a bound: many at 0, at the bound or near a carry, some all of them.
fn elements(random: &mut StdRng, bound: u64) -> Elements {
    let edges = [
        0,
        1,
        18,
        19,
        (1 << 51) - 20,
        (1 << 51) - 19,
        (1 << 51) - 1,
        1 << 51,
        bound,
    ];
    let mut elements = [[0; 5]; 8];
    for element in &mut elements {
        let kind = random.random_range(0..8);
        for limb in element {
            *limb = match kind {
                0 => 0,
                1 => bound,
                2 => random.random_range(0..=bound),
                _ => edges.choose(random).copied().unwrap(),
            };
        }
    }
    elements
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn pack(elements: &Elements) -> Field {
    let limb = |index: usize| load(&elements.map(|limbs| limbs[index]));
    Field([limb(0), limb(1), limb(2), limb(3), limb(4)])
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn unpack(field: &Field) -> Elements {
    let mut elements = [[0; 5]; 8];
    for (index, limb) in field.0.iter().enumerate() {
        for (element, limb) in elements.iter_mut().zip(store(*limb)) {
            element[index] = limb;
        }
    }
    elements
}

/// Compares eight results with eight expected values.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn check(what: &str, result: &Field, limb_max: u64, expected: impl Fn(usize) -> BigUint) {
    for (lane, limbs) in unpack(result).iter().enumerate() {
        assert_eq!(value(limbs), expected(lane) % p(), "{what}, lane {lane}");
        assert!(limbs.iter().all(|limb| *limb <= limb_max), "{what}: {limbs:x?}");
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn check_tight(random: &mut StdRng) {
    let (a, b) = (elements(random, TIGHT_MAX), elements(random, TIGHT_MAX));
    let (x, y) = (pack(&a), pack(&b));
    let (va, vb) = (|lane: usize| value(&a[lane]), |lane: usize| value(&b[lane]));
    check("add", &x.add(&y), TIGHT_MAX, |lane| va(lane) + vb(lane));
    check("sub", &x.sub(&y), TIGHT_MAX, |lane| va(lane) + p() - vb(lane));
    let lanes = random.random::<u8>();
    let in_mask = |lane: usize| lanes >> lane & 1 == 1;
    check("negate", &x.negate_where(lanes), FACTOR_MAX, |lane| {
        if in_mask(lane) { p() - va(lane) } else { va(lane) }
    });
    check("replace", &x.replace_where(lanes, &y), TIGHT_MAX, |lane| {
        if in_mask(lane) { vb(lane) } else { va(lane) }
    });

    let words = x.encode().map(|word| store(word));
    let (odds, zeros, differences) = (x.odds(), x.zeros(), x.sub(&x).zeros());
    for lane in 0..8 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word[lane].to_le_bytes()).collect();
        assert_eq!(BigUint::from_bytes_le(&bytes), va(lane));
        assert_eq!(value(&limbs(bytes.as_slice().try_into().unwrap())), va(lane));
        assert_eq!(odds >> lane & 1 == 1, va(lane).bit(0));
        assert_eq!(zeros >> lane & 1 == 1, va(lane) == BigUint::ZERO);
    }
    assert_eq!(differences, 0xff);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn check_products(random: &mut StdRng) {
    let (a, b) = (elements(random, FACTOR_MAX), elements(random, FACTOR_MAX));
    let (x, y) = (pack(&a), pack(&b));
    check("mul", &x.mul(&y), TIGHT_MAX, |lane| value(&a[lane]) * value(&b[lane]));
    // The largest sum, as in a doubling.
    let product = x.product(&y);
    let sum = product
        .add(&product)
        .add(&product)
        .sub(&x.product_with_itself())
        .carry();
    check("sum", &sum, TIGHT_MAX, |lane| {
        value(&a[lane]) * value(&b[lane]) * 3_u8 + p().pow(2) - value(&a[lane]).pow(2)
    });
    check("square", &x.square(), TIGHT_MAX, |lane| value(&a[lane]).pow(2));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma")]
fn check_powers(random: &mut StdRng) {
    let a = elements(random, FACTOR_MAX);
    let x = pack(&a);
    check("invert", &x.invert(), TIGHT_MAX, |lane| {
        value(&a[lane]).modpow(&(p() - 2_u8), &p())
    });
    let exponent = (p() - 5_u8) / 8_u8;
    check("power_p58", &x.power_p58(), TIGHT_MAX, |lane| {
        value(&a[lane]).modpow(&exponent, &p())
    });
    // Values that a canonical encoding wraps: 0 and p to p + 18, as limbs.
    for excess in 0..19 {
        let top = (1 << 51) - 1;
        let wrapped = pack(&[[top - 18 + excess, top, top, top, top]; 8]);
        check("canonical", &wrapped, TIGHT_MAX, |_| excess.into());
        assert_eq!(wrapped.zeros(), if excess == 0 { 0xff } else { 0 });
        assert_eq!(store(wrapped.encode()[0]), [excess; 8]);
    }
}

#[test]
#[expect(unsafe_code, reason = "functions with target features are called")]
fn field() {
    if Lanes::detect().is_none() {
        eprintln!("skipped: this CPU has no AVX-512 IFMA");
        return;
    }
    let random = &mut StdRng::seed_from_u64(1);
    for _ in 0..5_000 {
        // SAFETY: the CPU has the features, as `detect` found.
        unsafe {
            check_tight(random);
            check_products(random);
        }
    }
    for _ in 0..20 {
        // SAFETY: as above.
        unsafe { check_powers(random) };
    }
}

#[test]
fn constants() {
    let one = BigUint::from(1_u8);
    assert_eq!(value(&D) * 121_666_u32 % p(), p() - 121_665_u32);
    assert_eq!(value(&TWO_D), value(&D) * 2_u8 % p());
    assert_eq!(value(&SQRT_MINUS_ONE).pow(2) % p(), p() - one);
}
