//! Signatures against other implementations, and signatures crafted by a hostile key holder.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use curve25519_dalek::constants::{ED25519_BASEPOINT_TABLE, EIGHT_TORSION};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use p256::ecdsa::signature::{Signer as _, Verifier as _};
use proptest::prelude::*;
use receipt::{Algorithm, KeyCache, PublicKey, RejectReason, SignatureCheck, SigningKey, verify_block};
use rsa::pkcs8::DecodePrivateKey as _;
use rsa::signature::SignatureEncoding as _;
use sha2::{Digest as _, Sha256, Sha512};

/// The group order L, little-endian.
const L: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];
/// The field's prime, little-endian.
const P: [u8; 32] = [
    0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
];

fn add(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    let mut carry = 0;
    std::array::from_fn(|i| {
        let sum = u16::from(a[i]) + u16::from(b[i]) + carry;
        carry = sum >> 8;
        sum as u8
    })
}

fn pem(key: [u8; 32]) -> String {
    let head = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode([&head[..], &key].concat())
    )
}

/// A key, message and signature in their wire forms.
#[derive(Clone, Debug)]
struct Crafted {
    key: [u8; 32],
    message: Vec<u8>,
    signature: [u8; 64],
}

impl Crafted {
    /// ed25519-dalek's verify_strict, and canonical keys only.
    fn reference(&self) -> Result<(), RejectReason> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(&self.key).map_err(|_| RejectReason::BadPublicKey)?;
        let point = CompressedEdwardsY(self.key).decompress().unwrap();
        if point.compress().0 != self.key || point.is_small_order() {
            return Err(RejectReason::BadPublicKey);
        }
        key.verify_strict(&self.message, &ed25519_dalek::Signature::from_bytes(&self.signature))
            .map_err(|_| RejectReason::BadSignature)
    }
}

fn challenge(r: &[u8; 32], key: &[u8; 32], message: &[u8]) -> Scalar {
    let hash = Sha512::new()
        .chain_update(r)
        .chain_update(key)
        .chain_update(message)
        .finalize();
    Scalar::from_bytes_mod_order_wide(&hash.into())
}

/// Signatures that a key holder can craft: torsion in A and R, other encodings, other scalars.
fn craft(kind: u8, seed: u64, torsion_a: usize, torsion_r: usize) -> Crafted {
    let scalar = |label: &str| Scalar::from_bytes_mod_order_wide(&Sha512::digest(format!("{label}{seed}")).into());
    let secret = scalar("a");
    let message = format!("message {seed}").into_bytes();
    let honest = EdwardsPoint::mul_base(&secret);
    let sign = |key: [u8; 32], nonce: Scalar, r: [u8; 32]| {
        let s = nonce + challenge(&r, &key, &message) * secret;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&r);
        signature[32..].copy_from_slice(s.as_bytes());
        Crafted {
            key,
            message: message.clone(),
            signature,
        }
    };
    let base = |nonce: Scalar| &nonce * ED25519_BASEPOINT_TABLE;
    let nonce = scalar("r");
    let key = honest.compress().0;
    let good = sign(key, nonce, base(nonce).compress().0);
    match kind {
        // As it should be.
        0..=2 => good,
        // Another message.
        3 => Crafted {
            message: [&message[..], b"!"].concat(),
            ..good
        },
        // Torsion in A: verifies where the challenge is a multiple of its order.
        4 => sign(
            (honest + EIGHT_TORSION[torsion_a]).compress().0,
            nonce,
            base(nonce).compress().0,
        ),
        // Torsion in R.
        5 => sign(key, nonce, (base(nonce) + EIGHT_TORSION[torsion_r]).compress().0),
        // Torsion in A, and in R what cancels it: the strict equation holds.
        6 => {
            let key = (honest + EIGHT_TORSION[torsion_a]).compress().0;
            (0..64_u64)
                .map(|i| nonce + Scalar::from(i))
                .find_map(|nonce| {
                    let r = (base(nonce) + EIGHT_TORSION[torsion_r]).compress().0;
                    let crafted = sign(key, nonce, r);
                    crafted.reference().is_ok().then_some(crafted)
                })
                .unwrap_or(good)
        }
        // S + L: the same scalar, not canonical.
        7 => {
            let mut crafted = good;
            let s = add(crafted.signature[32..].try_into().unwrap(), L);
            crafted.signature[32..].copy_from_slice(&s);
            crafted
        }
        // The top bits of S.
        8 => {
            let mut crafted = good;
            crafted.signature[63] |= 0x20 << (seed % 3);
            crafted
        }
        // R of small order, with a nonce of zero: the equation holds where the rest cancels.
        9 => sign(key, Scalar::ZERO, EIGHT_TORSION[torsion_r].compress().0),
        // R of small order in an encoding that isn't canonical.
        10 => sign(key, Scalar::ZERO, non_canonical(seed)),
        // A of small order.
        11 => {
            let mut crafted = sign(EIGHT_TORSION[torsion_a].compress().0, nonce, base(nonce).compress().0);
            crafted.signature[32..].copy_from_slice(nonce.as_bytes());
            crafted
        }
        // A in an encoding that isn't canonical.
        12 => {
            let mut crafted = sign(non_canonical(seed), nonce, base(nonce).compress().0);
            crafted.signature[32..].copy_from_slice(nonce.as_bytes());
            crafted
        }
        // A that isn't a point.
        13 => Crafted {
            key: Sha256::digest(seed.to_le_bytes()).into(),
            ..good
        },
        // R that isn't a point.
        14 => {
            let mut crafted = good;
            crafted.signature[..32].copy_from_slice(&Sha256::digest(seed.to_le_bytes()));
            crafted
        }
        // One bit anywhere.
        _ => {
            let mut crafted = good;
            crafted.signature[(seed % 64) as usize] ^= 1 << (seed / 64 % 8);
            crafted
        }
    }
}

/// y + p for a y below 19, with either sign.
fn non_canonical(seed: u64) -> [u8; 32] {
    let mut y = [0; 32];
    y[0] = (seed % 19) as u8;
    let mut encoding = add(y, P);
    encoding[31] |= (seed / 19 % 2 * 0x80) as u8;
    encoding
}

/// The verdict of a block, whatever its order, is that of each alone and of the reference.
fn check_block(block: &[Crafted], keys: &KeyCache) -> Vec<Result<(), RejectReason>> {
    let pems: Vec<String> = block.iter().map(|crafted| pem(crafted.key)).collect();
    let checks: Vec<SignatureCheck<'_>> = block
        .iter()
        .zip(&pems)
        .map(|(crafted, pem)| SignatureCheck {
            algorithm: Algorithm::Ed25519,
            public_key_pem: pem,
            message: &crafted.message,
            signature: &crafted.signature,
        })
        .collect();
    let together = verify_block(&checks, keys);
    let alone: Vec<_> = checks
        .iter()
        .map(|check| verify_block(&[*check], &KeyCache::new(1))[0])
        .collect();
    assert_eq!(together, alone);
    together
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn crafted_signatures_get_the_strict_verdict_in_any_block(
        block in prop::collection::vec((0_u8..17, any::<u64>(), 0_usize..8, 0_usize..8), 1..96),
        order in prop::collection::vec(any::<u64>(), 96),
    ) {
        let mut block: Vec<Crafted> = block.into_iter().map(|(kind, seed, a, r)| craft(kind, seed, a, r)).collect();
        let keys = KeyCache::new(50);
        let wanted: Vec<_> = block.iter().map(Crafted::reference).collect();
        prop_assert_eq!(check_block(&block, &keys), wanted);
        let mut shuffled: Vec<usize> = (0..block.len()).collect();
        shuffled.sort_by_key(|&i| order[i]);
        block = shuffled.iter().map(|&i| block[i].clone()).collect();
        let wanted: Vec<_> = block.iter().map(Crafted::reference).collect();
        prop_assert_eq!(check_block(&block, &keys), wanted);
    }
}

/// A key that is used a lot gets a table of multiples, which must not change a verdict.
fn check_much_used_key(crafted: &Crafted) {
    let Ok(key) = PublicKey::from_pem(&pem(crafted.key)) else {
        return;
    };
    for _ in 0..70 {
        assert!(!key.verify(b"not signed", &[0x11; 64]));
    }
    assert_eq!(
        key.verify(&crafted.message, &crafted.signature),
        crafted.reference().is_ok()
    );
}

/// All small cases there are, so that no rule is left to luck.
#[test]
fn every_crafted_kind_is_met() {
    let keys = KeyCache::new(1_000);
    let mut verdicts = std::collections::HashMap::<u8, Vec<Result<(), RejectReason>>>::new();
    for kind in 0..16 {
        for a in 0..8 {
            for r in 0..8 {
                let block: Vec<_> = (0..6)
                    .map(|i| craft(kind, 38 * (a + 8 * r) as u64 + 7 * i, a, r))
                    .collect();
                let verdict = check_block(&block, &keys);
                assert_eq!(
                    verdict,
                    block.iter().map(Crafted::reference).collect::<Vec<_>>(),
                    "kind {kind}"
                );
                verdicts.entry(kind).or_default().extend(verdict);
                check_much_used_key(&block[0]);
            }
        }
    }
    let has = |kind: u8, verdict| verdicts[&kind].contains(&verdict);
    assert!(has(0, Ok(())) && !has(3, Ok(())));
    // Mixed order is no fault in itself: strict verification lets it pass where the equation holds.
    assert!(has(4, Ok(())) && has(4, Err(RejectReason::BadSignature)) && has(6, Ok(())));
    for kind in [7, 8, 9, 10, 14, 15] {
        assert!(!has(kind, Ok(())), "kind {kind}");
    }
    for kind in [11, 12] {
        assert_eq!(
            verdicts[&kind]
                .iter()
                .filter(|verdict| **verdict != Err(RejectReason::BadPublicKey))
                .count(),
            0
        );
    }
}

/// RFC 8032 section 7.1, tests 1 to 3.
#[test]
fn vectors_of_rfc_8032() {
    for (key, message, signature) in [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
    ] {
        let key: [u8; 32] = hex::decode(key).unwrap().try_into().unwrap();
        let key = PublicKey::from_pem(&pem(key)).unwrap();
        let (mut message, signature) = (hex::decode(message).unwrap(), hex::decode(signature).unwrap());
        assert!(key.verify(&message, &signature));
        message.push(0);
        assert!(!key.verify(&message, &signature));
    }
}

#[test]
fn blocks_tell_their_reasons() {
    let keys = KeyCache::new(10);
    let (ed25519, rsa) = (
        crate::fixtures::key(Algorithm::Ed25519),
        crate::fixtures::key(Algorithm::Rsa2048),
    );
    let signature = ed25519.sign(b"m").unwrap();
    let long = "x".repeat(9_000);
    let check = |algorithm, public_key_pem, signature| {
        let check = SignatureCheck {
            algorithm,
            public_key_pem,
            message: b"m",
            signature,
        };
        verify_block(&[check], &keys)[0]
    };
    assert_eq!(check(Algorithm::Ed25519, ed25519.public_key_pem(), &signature), Ok(()));
    assert_eq!(
        check(Algorithm::Rsa2048, ed25519.public_key_pem(), &signature),
        Err(RejectReason::KeyAlgorithmMismatch)
    );
    assert_eq!(
        check(Algorithm::Ed25519, rsa.public_key_pem(), &signature),
        Err(RejectReason::KeyAlgorithmMismatch)
    );
    assert_eq!(
        check(Algorithm::Ed25519, "", &signature),
        Err(RejectReason::BadPublicKey)
    );
    assert_eq!(
        check(Algorithm::Ed25519, &long, &signature),
        Err(RejectReason::BadPublicKey)
    );
    assert_eq!(
        check(Algorithm::Ed25519, ed25519.public_key_pem(), &signature[1..]),
        Err(RejectReason::BadSignature)
    );
    assert_eq!(
        check(Algorithm::Rsa2048, rsa.public_key_pem(), &[]),
        Err(RejectReason::BadSignature)
    );
}

/// Signatures of all algorithms in one block, good and bad, by keys that are used so much that they
/// have tables: each has the verdict that it has alone.
#[test]
fn blocks_of_all_algorithms_have_the_verdicts_of_their_signatures() {
    let keys = KeyCache::new(10);
    let messages: Vec<Vec<u8>> = (0..120_usize).map(|i| format!("message {i}").into_bytes()).collect();
    let key = |i: usize| crate::fixtures::key(Algorithm::ALL[i * 7 % 5 % 3]);
    let signatures: Vec<Vec<u8>> = messages
        .iter()
        .enumerate()
        .map(|(i, message)| key(i).sign(message).unwrap())
        .collect();
    let is_good = |i: usize| i % 11 != 3;
    let checks = messages
        .iter()
        .zip(&signatures)
        .enumerate()
        .map(|(i, (message, signature))| SignatureCheck {
            algorithm: key(i).algorithm(),
            public_key_pem: if i % 29 == 5 { "no key" } else { key(i).public_key_pem() },
            message: if is_good(i) { message } else { b"another" },
            signature,
        });
    let checks: Vec<_> = checks.collect();
    let wanted = (0..checks.len()).map(|i| match (i % 29 == 5, is_good(i)) {
        (true, _) => Err(RejectReason::BadPublicKey),
        (false, true) => Ok(()),
        (false, false) => Err(RejectReason::BadSignature),
    });
    let wanted: Vec<_> = wanted.collect();
    for _ in 0..12 {
        assert_eq!(verify_block(&checks, &keys), wanted);
    }
    for size in [1, 2, 3, 7, 16, 50] {
        let verdicts = checks.chunks(size).flat_map(|block| verify_block(block, &keys));
        assert_eq!(verdicts.collect::<Vec<_>>(), wanted, "{size} together");
    }
}

/// Both ways between aws-lc-rs and the `rsa` crate, with broken signatures in between.
#[test]
fn rsa_agrees_with_the_rsa_crate() {
    let ours = crate::fixtures::key(Algorithm::Rsa2048);
    let private = rsa::RsaPrivateKey::from_pkcs8_pem(&ours.to_pkcs8_pem().unwrap()).unwrap();
    let reference = rsa::pkcs1v15::VerifyingKey::<Sha256>::new(private.to_public_key());
    let signer = rsa::pkcs1v15::SigningKey::<Sha256>::new(private.clone());
    let key = PublicKey::from_pem(ours.public_key_pem()).unwrap();
    let agree = |message: &[u8], signature: &[u8]| {
        let theirs = rsa::pkcs1v15::Signature::try_from(signature)
            .is_ok_and(|signature| reference.verify(message, &signature).is_ok());
        assert_eq!(key.verify(message, signature), theirs, "{}", hex::encode(signature));
        theirs
    };
    let good = signer.sign(b"message").to_vec();
    assert_eq!(good, ours.sign(b"message").unwrap(), "PKCS#1 v1.5 is deterministic");
    assert!(agree(b"message", &good));
    for at in 0..good.len() {
        let mut broken = good.clone();
        broken[at] ^= 1 << (at % 8);
        assert!(!agree(b"message", &broken));
    }
    assert!(!agree(b"Message", &good));
    for broken in [
        &good[1..],
        &good[..255],
        &[&[0], &good[..]].concat(),
        &[&good[..], &[0]].concat(),
        &[0; 256],
        &[0xff; 256],
    ] {
        assert!(!agree(b"message", broken));
    }
    // Signed with another hash, and with PSS: other schemes.
    let sha512 = rsa::pkcs1v15::SigningKey::<Sha512>::new(private.clone())
        .sign(b"message")
        .to_vec();
    assert!(!agree(b"message", &sha512));
    let pss = rsa::pss::SigningKey::<Sha256>::new(private);
    let pss = rsa::signature::RandomizedSigner::sign_with_rng(&pss, &mut rand::rng(), b"message").to_vec();
    assert!(!agree(b"message", &pss));
}

/// Both ways between aws-lc-rs and the `p256` crate, in both encodings.
#[test]
fn ecdsa_agrees_with_the_p256_crate() {
    let ours = crate::fixtures::key(Algorithm::EcdsaP256);
    let signer = p256::ecdsa::SigningKey::from_pkcs8_pem(&ours.to_pkcs8_pem().unwrap()).unwrap();
    let reference = p256::ecdsa::VerifyingKey::from(&signer);
    let key = PublicKey::from_pem(ours.public_key_pem()).unwrap();
    let agree = |signature: &[u8]| {
        let raw = p256::ecdsa::Signature::from_slice(signature).ok();
        let theirs = raw
            .into_iter()
            .chain(p256::ecdsa::Signature::from_der(signature).ok())
            .any(|signature| reference.verify(b"message", &signature).is_ok());
        assert_eq!(key.verify(b"message", signature), theirs, "{}", hex::encode(signature));
        theirs
    };
    assert!(agree(&ours.sign(b"message").unwrap()));
    let signature: p256::ecdsa::Signature = signer.sign(b"message");
    let (raw, der) = (signature.to_bytes().to_vec(), signature.to_der().as_bytes().to_vec());
    assert!(agree(&raw) && agree(&der));
    for good in [&raw, &der] {
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut broken = good.clone();
                broken[at] ^= 1 << bit;
                assert!(!agree(&broken));
            }
        }
        assert!(!agree(&good[1..]) && !agree(&good[..good.len() - 1]) && !agree(&[&good[..], &[0]].concat()));
    }
    // The other root: (r, n - s) is as good a signature, in either encoding, for either crate.
    let other = p256::ecdsa::Signature::from_scalars(signature.r().to_bytes(), (-*signature.s()).to_bytes()).unwrap();
    assert!(agree(&other.to_bytes()) && agree(other.to_der().as_bytes()));
    // Zero, the order, and numbers in DER that aren't minimal or have a sign.
    let order = hex::decode("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551").unwrap();
    for half in [vec![0; 32], order, vec![0xff; 32]] {
        assert!(!agree(&[&half[..], &raw[32..]].concat()) && !agree(&[&raw[..32], &half[..]].concat()));
    }
    let element = |number: &[u8]| [&[2, number.len() as u8], number].concat();
    let sequence = |r: &[u8], s: &[u8]| [&[0x30, (r.len() + s.len() + 4) as u8], &element(r)[..], &element(s)].concat();
    let padded = |half: &[u8], zeros: usize| [vec![0; zeros], half.to_vec()].concat();
    for zeros in [0, 1, 2] {
        let _ = agree(&sequence(&padded(&raw[..32], zeros), &padded(&raw[32..], zeros)));
    }
    assert!(!agree(&sequence(&[], &[])) && !agree(&[]) && !agree(&[0x30, 0]) && !agree(&[0; 64]));
    // A compressed key is the same key, in other words.
    let compressed = reference.to_sec1_point(true);
    let head = [
        0x30, 0x39, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7,
        3, 0x22, 0,
    ];
    let der = STANDARD.encode([&head[..], compressed.as_bytes()].concat());
    let compressed = format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----");
    assert!(PublicKey::from_pem(&compressed).unwrap().verify(b"message", &raw));
}

#[test]
fn keys_go_through_pem_and_back() {
    for algorithm in Algorithm::ALL {
        let key = crate::fixtures::key(algorithm);
        let pem = key.to_pkcs8_pem().unwrap();
        let again = SigningKey::from_pkcs8_pem(&pem).unwrap();
        assert_eq!(again.algorithm(), algorithm);
        assert_eq!(again.public_key_pem(), key.public_key_pem());
        assert_eq!(again.to_pkcs8_pem().unwrap(), pem);
        assert_eq!(
            PublicKey::from_pem(key.public_key_pem()).unwrap().algorithm(),
            algorithm
        );
        assert!(!format!("{key:?}").contains(&pem[40..60]));
    }
    for bad in [
        "",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        crate::fixtures::key(Algorithm::Ed25519).public_key_pem(),
    ] {
        assert!(SigningKey::from_pkcs8_pem(bad).is_err());
    }
}

/// A cache of one key gives the same answers as a large one, for bad keys too.
#[test]
fn a_full_cache_forgets_and_stays_right() {
    let keys = KeyCache::new(1);
    for _ in 0..3 {
        for algorithm in Algorithm::ALL {
            let key = crate::fixtures::key(algorithm);
            assert_eq!(keys.get(key.public_key_pem()).unwrap().algorithm(), algorithm);
            assert!(keys.get(&key.public_key_pem()[1..]).is_err());
        }
    }
}
